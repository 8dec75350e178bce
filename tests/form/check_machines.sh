#!/usr/bin/env bash
# check_machines.sh: where floats would be rounded otherwise, the library does not compile.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0 checked=0

said() { # said COMPILER FLAG...: what a compiler without a C library says of codec/cpu.h
    "$@" -std=c11 -ffreestanding -fsyntax-only -Icodec -x c - <<<'#include "cpu.h"' 2>&1 || true
}
refused() { # refused TEXT COMPILER FLAG...
    local text=$1
    shift
    checked=$((checked + 1))
    said "$@" | grep -qF -- "$text" || { printf 'compiled: %s\n' "$*"; failed=1; }
}
taken() { # taken COMPILER FLAG...
    checked=$((checked + 1))
    [ -z "$(said "$@")" ] || { printf 'refused: %s\n' "$*"; said "$@"; failed=1; }
}

ccs=(cc clang)
[ -z "${CC:-}" ] || ccs=("$CC")
for words in "${ccs[@]}"; do
    read -ra cc <<<"$words"
    command -v "${cc[0]}" >/dev/null || continue
    taken "${cc[@]}" -O2
    refused '-ffast-math' "${cc[@]}" -O2 -ffast-math
    # Compilers of other machines have no -m32.
    "${cc[@]}" -m32 -march=i686 -E -x c - </dev/null >/dev/null 2>&1 || continue
    refused '-mfpmath=sse' "${cc[@]}" -m32 -march=i686 -mno-sse
    taken "${cc[@]}" -m32 -msse2 -mfpmath=sse
    # Only gcc takes both units at once.
    "${cc[@]}" -m32 -msse2 -mfpmath=both -E -x c - </dev/null >/dev/null 2>&1 || continue
    refused '-mfpmath=sse' "${cc[@]}" -m32 -msse2 -mfpmath=both
done
[ $checked -gt 0 ] || { echo 'not checked: no compiler'; exit 77; }
exit $failed
