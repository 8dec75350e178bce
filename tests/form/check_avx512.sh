#!/usr/bin/env bash
# check_avx512.sh BUILD [ARG...]: kernelcheck with the AVX-512 kernels, whose instructions are plain
# C (tests/emulated), so that it does not take a processor that has them. BUILD is one by gcc with
# tests, of which all else is; ARGs go to kernelcheck.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
grep -qw avx2 /proc/cpuinfo || { echo 'not checked: a processor without AVX2'; exit 77; }
[ "$(gcc -dumpversion | cut -d. -f1)" -ge 11 ] || { echo 'not checked: gcc before 11'; exit 77; }
cache=$(command -v ccache || true)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# What is computed does not depend on -O; with 2 compilation takes three times as long.
flags=(-std=c11 -O1 -D_POSIX_C_SOURCE=200809L -DPITH_BUILD -ffp-contract=off -fvisibility=hidden
    -Wno-psabi -Iinclude -Icodec)
isa=(-mavx2 -mbmi -mbmi2 -mf16c -isystem tests/emulated)
printf '%s\n' codec/*/*_avx512.c | xargs -P "$(nproc)" -I{} sh -c \
    "$cache gcc ${flags[*]} ${isa[*]} -c {} -o $place/\$(echo {} | tr / _).o"
# The processor is said to have all that is asked for.
gcc "${flags[@]}" -D'__builtin_cpu_supports(x)=1' -c codec/cpu.c -o "$place/cpu.o"
# What is defined in these is not taken from the archive.
mapfile -t objects < <(find "$build/tests/kernelcheck.p" -name '*.o')
gcc "$place"/*.o "${objects[@]}" "$build/codec/libpith.a" -fopenmp -lzstd -lxxhash -lm \
    -o "$place/kernelcheck"
"$place/kernelcheck" --isa avx512 "$@" | tee "$place/log"
grep -qE '^[1-9][0-9]* passed, 0 failed$' "$place/log"
