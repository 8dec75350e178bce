#!/usr/bin/env bash
# check_readme.sh LIBRARY: the C example of README.md compiles, links and runs.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
library=$(realpath "$1")
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' README.md >"$place/example.c"
lines=$(wc -l <"$place/example.c")
[ "$lines" -ge 10 ] || { echo 'README.md has no C example'; exit 1; }
flags=()
nm -D "$library" | grep __asan_ >/dev/null && flags+=(-fsanitize=address,undefined)
${CC:-cc} -std=c11 -Wall -Wextra -Wconversion -Werror "${flags[@]}" -Iinclude \
    "$place/example.c" "$library" -Wl,-rpath,"$(dirname "$library")" -o "$place/example"
"$place/example"
echo "the README's example of $lines lines works"
