#!/usr/bin/env bash
# check_header.sh: the public headers compile alone, without a warning, in C and C++.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
strict=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror -Iinclude
    -Iadapters/svd/include -fsyntax-only)
failed=0

try() {
    "$@" || {
        printf 'failed: %s\n' "$*"
        failed=1
    }
}

for cc in ${CC:-cc clang}; do
    command -v "$cc" >/dev/null || continue
    for std in c99 c11 gnu17; do
        try "$cc" -std=$std -Wstrict-prototypes "${strict[@]}" tests/form/header_test.c
        for header in {,adapters/svd/}include/pith/*.h; do
            try "$cc" -std=$std "${strict[@]}" -x c - <<<"#include \"${header#*include/}\"
int used;"
        done
    done
done
for cxx in ${CXX:-c++ clang++}; do
    command -v "$cxx" >/dev/null || continue
    try "$cxx" -std=c++17 "${strict[@]}" tests/form/header_test.cc
    try "$cxx" -std=c++17 "${strict[@]}" -x c++ - <<<'#include "pith/pith_svd.h"'
done

# Readers of headers that are no compilers (bindgen, cffi) see types, functions and enumerators.
macros=$(grep -nE '^ *# *define' include/pith/*.h adapters/svd/include/pith/*.h |
    grep -vE 'define PITH_([A-Z_]*_H|API|NODISCARD|VERSION_(MAJOR|MINOR|PATCH))\b') || true
[ -z "$macros" ] || {
    printf 'a constant is an enumerator, not a macro:\n%s\n' "$macros"
    failed=1
}
exit $failed
