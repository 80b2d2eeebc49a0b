#!/usr/bin/env bash
# Runs the Docker harness: workers contend for locks over five masters, each of them its own host. Meanwhile masters
# and workers are killed, paused, wiped and cut off. The run ends with a verdict, and removes all that it has started.
#
#     scripts/docker.sh [--seconds N] [--seed N] [--max-ttl-ms N] [--client NAME] [--own FILE] [--faults-only]
#     scripts/docker.sh --remove
#
# examples/docker/README.md explains the options. `--remove` removes the remains of runs that were ended by SIGKILL.
set -eu
cd "$(dirname "$0")/.."

# Everything that a run makes carries this label, with the run's number as its value.
label=quorlock.harness
run=$(date +%s)-$$

remove() { # =RUN, or nothing for all runs
    local filter="label=$label$1"
    docker ps --all --quiet --filter "$filter" | xargs -r docker rm --force --volumes
    docker network ls --quiet --filter "$filter" | xargs -r docker network rm
    docker volume ls --quiet --filter "$filter" | xargs -r docker volume rm
    docker images --quiet --filter "$filter" | sort -u | xargs -r docker rmi --force
}

if ! timeout 30 docker info >/dev/null 2>&1; then
    echo "\`docker info\` fails: there is no Docker engine here, or this user may not use it." >&2
    exit 2
fi
if docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
elif command -v docker-compose >/dev/null; then
    compose=(docker-compose)
else
    echo "There is neither \`docker compose\` nor \`docker-compose\`; install one of them." >&2
    exit 2
fi

# --- arguments ---------------------------------------------------------------------------------------------

files=(--file examples/docker/compose.yml)
client=right
seed=$(date +%s)
max_ttl_ms=3000
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --remove)
        remove ""
        exit
        ;;
    --faults-only)
        arguments+=("$1")
        shift
        ;;
    --own | --client | --seed | --seconds | --max-ttl-ms)
        if [ $# -lt 2 ]; then
            echo "$1 needs a value." >&2
            exit 2
        fi
        case $1 in
        --own) files+=(--file "$2") ;;
        --client) client=$2 ;;
        --seed) seed=$2 ;;
        --max-ttl-ms) max_ttl_ms=$2 ;;
        *) arguments+=("$1" "$2") ;;
        esac
        shift 2
        ;;
    *)
        sed -n '/^#  /s/^# */    /p' "$0" >&2
        exit 2
        ;;
    esac
done

# --- what is removed in the end, however it ends -----------------------------------------------------------

export HARNESS_RUN=$run HARNESS_CLIENT=$client HARNESS_SEED=$seed HARNESS_MAX_TTL_MS=$max_ttl_ms
export HARNESS_IMAGE=quorlock-harness:$run
compose+=(--project-name "quorlock-harness-$run" "${files[@]}")
folder=${CARGO_TARGET_DIR:-target}/docker-harness/$run
work=$(mktemp -d)
nemesis=
up=

finish() {
    local status=$?
    trap '' INT TERM
    trap - EXIT
    if [ -n "$nemesis" ]; then
        kill "$nemesis" 2>/dev/null || true
    fi
    if [ -n "$up" ]; then
        if [ "$status" != 0 ]; then
            "${compose[@]}" logs --no-color >"$folder/containers.log" 2>&1 || true
            echo "What the containers said is in $folder/containers.log" >&2
        fi
        "${compose[@]}" down --volumes --timeout 0 --remove-orphans >/dev/null 2>&1 || true
    fi
    remove "=$run" >/dev/null || status=1
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- images ------------------------------------------------------------------------------------------------

# An image that holds a program, as NAME, and the libraries that it loads; `image` makes it of what was added.
add() { # PROGRAM NAME
    install -D "$(readlink -f "$1")" "$work/image/usr/bin/$2"
    ldd "$1" | grep -o '/[^ ]*' | while read -r library; do
        install -D "$library" "$work/image$library"
    done
}
image() { # TAG
    if ! docker build --quiet --label "$label=$run" --tag "$1" \
        --file examples/docker/Dockerfile "$work/image" >"$work/log" 2>&1; then
        cat "$work/log" >&2
        exit 1
    fi
    rm -r "$work/image"
}

mkdir -p "$folder"
engine=$(docker version --format '{{.Server.Os}}')
if [ "$(uname -s)" != Linux ] || [ "$engine" != linux ]; then
    echo "The images are made of this machine's own programs, so it has to run Linux, as the engine does." >&2
    exit 2
fi

echo "Building the workers' program .."
# With all features, as the tests have it: then they have built most of it.
cargo build --locked --quiet --all-features --example docker
program=${CARGO_TARGET_DIR:-target}/debug/examples/docker
add "$program" quorlock-harness
image "$HARNESS_IMAGE"

official=redis:7-alpine
if [ -n "${QUORLOCK_DOCKER_MASTER:-}" ]; then
    HARNESS_MASTER_IMAGE=$QUORLOCK_DOCKER_MASTER
    echo "The masters are $HARNESS_MASTER_IMAGE, as QUORLOCK_DOCKER_MASTER says."
elif docker image inspect "$official" >/dev/null 2>&1 ||
    timeout 120 docker pull --quiet "$official" >/dev/null 2>&1; then
    HARNESS_MASTER_IMAGE=$official
    echo "The masters are $official."
else
    HARNESS_MASTER_IMAGE=quorlock-harness-master:$run
    . scripts/redis-server.sh
    add "$(command -v "$server")" redis-server
    if ! cli=$(command -v redis-cli); then
        echo "There is no redis-cli, which the masters' image needs: install redis-tools." >&2
        exit 2
    fi
    add "$cli" redis-cli
    image "$HARNESS_MASTER_IMAGE"
    echo "$official cannot be pulled. The masters are an image FROM scratch with this machine's $server."
fi
export HARNESS_MASTER_IMAGE

# --- the run -----------------------------------------------------------------------------------------------

up=yes
"${compose[@]}" up --detach >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

# In the background, for bash runs no trap before what is in front has ended.
"$program" nemesis --run "$run" --seed "$seed" --max-ttl-ms "$max_ttl_ms" --client "$client" \
    --folder "$folder" "${arguments[@]}" &
nemesis=$!
status=0
wait "$nemesis" || status=$?
nemesis=
exit "$status"
