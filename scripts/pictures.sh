#!/usr/bin/env bash
# Prints the pictures of the README as link targets that need no file beside the page; they go into
# docs/pictures.md.
set -eu
cd "$(dirname "$0")/../docs"
for picture in *.svg; do
    printf '[%s]: data:image/svg+xml;base64,%s\n' "${picture%.svg}" "$(base64 <"$picture" | tr -d '\n')"
done
