#!/usr/bin/env bash
# check_aarch64.sh: kernelcheck with the NEON kernels, cross-compiled and run under qemu-user.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
cc=aarch64-linux-gnu-gcc
for tool in $cc qemu-aarch64; do
    command -v $tool >/dev/null || { echo "not checked: no $tool"; exit 77; }
done
cache=$(command -v ccache || true)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# The kernels' world only: the rest of the library needs zstd for the other machine.
mapfile -t sources < <(ls tests/kernel/*.c cli/roofline.c \
    codec/{cpu,kernels,status,tile,tile_layout}.c codec/{common,group,predict,sparse,bytes}/*.c |
    grep -vE '_avx[0-9]+\.c$|bytes/entropy\.c|predict/(adaptive_bounds|row_statistics)\.c')
# What is computed does not depend on -O; with 2 compilation takes three times as long.
flags=(-std=c11 -O1 -D_POSIX_C_SOURCE=200809L -ffp-contract=off
    -ffunction-sections -fdata-sections -Wall -Wextra -Wconversion -Wshadow -Werror
    -Iinclude -Icodec -Icli)
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} sh -c \
    "$cache $cc ${flags[*]} -c {} -o $place/\$(echo {} | tr / _).o"
$cc -static -Wl,--gc-sections "$place"/*.o -lm -o "$place/kernelcheck"
qemu-aarch64 "$place/kernelcheck" "$@" | tee "$place/log"
grep -qE '^[1-9][0-9]* passed, 0 failed$' "$place/log"
