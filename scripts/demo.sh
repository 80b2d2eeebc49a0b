#!/usr/bin/env bash
# Sells a stock without a lock, and then with one while masters die. Arguments go to the example.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${QUORLOCK_NODES:-}" ]; then
    . scripts/redis-server.sh
fi
exec cargo run --locked --quiet --release --example oversell -- "$@"
