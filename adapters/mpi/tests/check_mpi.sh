#!/usr/bin/env bash
# check_mpi.sh SHARED MPICC: the header stands alone in C and C++, the library exports what it says.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
shared=$(realpath "$1")
cd "$(dirname "$0")/../../.."
header=adapters/mpi/include/pith/pith_mpi.h
flags=(-Wall -Wextra -Werror -Iinclude -Iadapters/collective/include -Iadapters/mpi/include
    -fsyntax-only)
mapfile -t mpi < <("$2" --showme:compile | tr ' ' '\n' | sed 's/^-I/-isystem/')
failed=0

try() { # COMPILER LANGUAGE STANDARD
    command -v "$1" >/dev/null || return 0
    "$1" -std="$3" "${flags[@]}" "${mpi[@]}" -x "$2" - <<<'#include "pith/pith_mpi.h"' || failed=1
}
for std in c99 c11 gnu17; do try "${CC:-cc}" c $std; done
try "${CXX:-c++}" c++ c++17

declared=$(tr '\n' ' ' <"$header" | grep -oE 'PITH_API [a-z0-9_ *]*[ *]pith_mpi_[a-z0-9_]+\(' |
    grep -oE 'pith_[a-z0-9_]+\($' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$shared" | awk '{ print $NF }' | grep -vE '^(_|asan|ubsan)' |
    sort -u)
[ "$(wc -l <<<"$declared")" = 2 ] || { echo 'pith_mpi.h was not understood'; exit 1; }
diff <(printf '%s\n' "$declared") <(printf '%s\n' "$exported") ||
    { echo 'declared (<) is not what is exported (>)'; failed=1; }
exit $failed
