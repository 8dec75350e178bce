#!/usr/bin/env bash
# check_readme.sh LIBRARY: the C and C++ examples of README.md and doc/ compile, link and run.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
library=$(realpath "$1")
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

awk -v place="$place" '/^```(c|cpp)$/ { on = substr($0, 4); n++; next } /^```/ { on = "" }
    on { print > (place "/example" n "." on) }' README.md doc/{STREAMS,BOUNDS,CACHES}.md
[ "$(ls "$place" | wc -l)" -gt 5 ] || { echo 'there are fewer than six examples'; exit 1; }
strict=(-Wall -Wextra -Wconversion -Werror -Iinclude)
nm -D "$library" | grep __asan_ >/dev/null && strict+=(-fsanitize=address,undefined)
# Of the compiler that the library was made with, whose sanitizers it may have.
case ${CC:-cc} in *clang*) cxx=clang++ ;; *) cxx=c++ ;; esac
for source in "$place"/example*; do
    compiler=(${CC:-cc} -std=c11)
    if [ "${source##*.}" = cpp ]; then
        compiler=(${CXX:-$cxx} -std=c++17)
        command -v "${compiler[0]}" >/dev/null || {
            echo "not compiled: an example in C++, without ${compiler[0]}"
            continue
        }
    fi
    "${compiler[@]}" "${strict[@]}" "$source" "$library" -Wl,-rpath,"$(dirname "$library")" \
        -o "$place/run"
    "$place/run"
    echo "the example of $(wc -l <"$source") lines works"
done
