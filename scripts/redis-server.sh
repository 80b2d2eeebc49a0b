# Sourced by test.sh, demo.sh and examples.sh: makes sure that there is a Redis server to start.
# With `faketime=wanted`, also makes sure that its clock can be set, if that is possible without asking the user.

server="${QUORLOCK_REDIS_SERVER:-redis-server}"
if ! command -v "$server" >/dev/null; then
    if [ -n "${QUORLOCK_REDIS_SERVER:-}" ]; then
        echo "QUORLOCK_REDIS_SERVER names $server, which is no program." >&2
        exit 1
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "There is no redis-server; installing it."
        # RUNLEVEL=1: the package's own service is not wanted, only the program.
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive sh -c \
            'apt-get update -qq && apt-get install -qq -y --no-install-recommends redis-server' \
            >/dev/null
    else
        echo "There is no redis-server. Install it, for example with" >&2
        echo "    sudo apt-get install -y redis-server" >&2
        echo "or name a program in QUORLOCK_REDIS_SERVER." >&2
        exit 1
    fi
fi

if [ "${faketime:-}" = wanted ] && ! ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && {
        echo "There is no libfaketime; installing it."
        DEBIAN_FRONTEND=noninteractive sh -c \
            'apt-get update -qq && apt-get install -qq -y --no-install-recommends faketime' >/dev/null
    }; then
        :
    else
        echo "There is no libfaketime, so the tests of clocks that are set are left out." >&2
    fi
fi
