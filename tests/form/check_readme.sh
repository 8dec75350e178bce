#!/usr/bin/env bash
# check_readme.sh LIBRARY COLLECTIVE: the C and C++ examples of README.md and doc/ compile, link and
# run, with libpith and libpith_collective.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
library=$(realpath "$1") collective=$(realpath "$2")
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

awk -v place="$place" '/^```(c|cpp)$/ { on = substr($0, 4); n++; next } /^```/ { on = "" }
    on { print > (place "/example" n "." on) }' \
    README.md doc/{STREAMS,SPARSE,BOUNDS,CACHES,COLLECTIVES}.md
[ "$(ls "$place" | wc -l)" -gt 7 ] || { echo 'there are fewer than eight examples'; exit 1; }
build=$(dirname "$(dirname "$library")")
strict=(-Wall -Wextra -Wconversion -Werror -Iinclude -Iadapters/collective/include)
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
    libraries=("$library" "-Wl,-rpath,$(dirname "$library")")
    if grep -q pith_collective "$source"; then
        libraries+=("$collective" "-Wl,-rpath,$(dirname "$collective")")
        compiler+=(-std=gnu11) # sockets and processes
    fi
    "${compiler[@]}" "${strict[@]}" "$source" "${libraries[@]}" -o "$place/run"
    "$place/run"
    echo "the example of $(wc -l <"$source") lines works"
done

# README.md says how to compile its example with a build, in the folder that the build is in.
line=$(sed -n '/^    cc example\.c .*meson-uninstalled/,/[^\\]$/p' README.md)
[ -n "$line" ] || { echo 'README.md does not say how to compile its example'; exit 1; }
mkdir "$place/checkout"
cd "$place/checkout"
cp ../example1.c example.c
ln -s "$build" build
case " ${strict[*]}" in *' -fsanitize'*) line+=' -fsanitize=address,undefined' ;; esac
eval "${line/cc/${CC:-cc}}"
./example | grep -E '^[0-9]+ bytes carry 16384, off by [0-9.e-]+ at most$'
