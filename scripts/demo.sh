#!/usr/bin/env bash
# Sells an inventory without a lock, and then with one while masters are killed. Arguments go to `quorlock demo`.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${QUORLOCK_NODES:-}" ] && ! (. scripts/redis-server.sh); then
    echo "It runs without, on masters that are embedded in the program."
fi
exec cargo run --locked --quiet --package quorlock-cli --bin quorlock -- demo "$@"
