#!/usr/bin/env bash
# Runs each small example once. Each ends by itself, and its exit status reports success or failure. Arguments go to
# cargo.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${QUORLOCK_NODES:-}" ]; then
    . scripts/redis-server.sh
fi
cargo build --locked --quiet --examples "$@"
for example in http_orders worker_pool lost_lock fencing nightly_job scheduler sign_up transfer nested_call shared_configuration fair_printer partner_api async_neighbour; do
    echo; echo "-- $example"
    timeout 60 cargo run --locked --quiet --example "$example" "$@"
done
# It turns on a feature of the library, which cargo would turn on for the others as well.
echo; echo "-- figures"
cargo build --locked --quiet --package examples-metrics --example figures "$@"
timeout 60 cargo run --locked --quiet --package examples-metrics --example figures "$@"
