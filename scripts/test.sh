#!/usr/bin/env bash
# Runs all tests, against real Redis servers that they start and stop.
#
#     scripts/test.sh [--busy] [ARGUMENTS OF CARGO TEST] [-- NAMES OF TESTS]
#
# `--busy` keeps two processors busy meanwhile. A test is stable only if it passes then as well.
# tests/runner starts the test programs. Most of them wait, so many can run side by side.
set -eu
cd "$(dirname "$0")/.."
faketime=wanted
. scripts/redis-server.sh
# A shell that starts this in the background has it ignore Ctrl-C. The tests of interrupts need it to be as usual.
usual=()
if env --default-signal=INT,QUIT true 2>/dev/null; then
    usual=(env --default-signal=INT,QUIT)
fi
exec ${usual[@]+"${usual[@]}"} cargo run --locked --quiet --package runner -- \
    --locked --all-features --package quorlock --package quorlock-cli --package examples --package runner "$@"
