#!/usr/bin/env bash
# Sells a stock without a lock, and then with one while masters die. Arguments go to the example.
set -eu
cd "$(dirname "$0")/.."
features=()
if [ -z "${QUORLOCK_NODES:-}" ] && ! (. scripts/redis-server.sh); then
    echo "It runs without, on nodes that are embedded in the program."
    features=(--features embedded)
fi
exec cargo run --locked --quiet --release "${features[@]}" --example oversell -- "$@"
