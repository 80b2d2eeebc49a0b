#!/usr/bin/env bash
# Prints a script of lua/ in the form that servers get: with the texts of lua/shared/ that it includes.
#
#     scripts/lua.sh mutex/acquire
set -eu
cd "$(dirname "$0")/../lua"
[ $# -eq 1 ] || { echo "usage: scripts/lua.sh NAME, such as mutex/acquire" >&2; exit 2; }
print() {
    local line
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
            *'-- include '*) printf '%s' "${line%%-- include *}"; print "shared/${line##*-- include }" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done < "$1"
}
print "$1.lua"
