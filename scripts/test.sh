#!/usr/bin/env bash
# Runs all tests, against real Redis servers that they start and stop. Arguments go to `cargo test`.
set -eu
cd "$(dirname "$0")/.."
faketime=wanted
. scripts/redis-server.sh
# Two at a time: most tests run several servers, and measure how the library behaves, not how busy
# the machine is.
exec cargo test --locked --all-features "$@" -- --test-threads=2
