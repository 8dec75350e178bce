#!/usr/bin/env bash
# check_readme.sh LIBRARY: the C examples of README.md and doc/ compile, link and run.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
library=$(realpath "$1")
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

awk -v place="$place" '/^```c$/ { on = 1; n++; next } /^```/ { on = 0 }
    on { print > (place "/example" n ".c") }' README.md doc/BOUNDS.md doc/CACHES.md
[ -f "$place/example4.c" ] || { echo 'there are fewer than four C examples'; exit 1; }
flags=()
nm -D "$library" | grep __asan_ >/dev/null && flags+=(-fsanitize=address,undefined)
for source in "$place"/example*.c; do
    ${CC:-cc} -std=c11 -Wall -Wextra -Wconversion -Werror "${flags[@]}" -Iinclude \
        "$source" "$library" -Wl,-rpath,"$(dirname "$library")" -o "$place/example"
    "$place/example"
    echo "the example of $(wc -l <"$source") lines works"
done
