#!/usr/bin/env bash
# check_arm32.sh BUILD: on a 32-bit ARM, under qemu-user, calls write the bytes that they do here.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
cross=arm-linux-gnueabihf-gcc
for tool in $cross qemu-arm pkg-config ninja; do
    command -v $tool >/dev/null || { echo "not checked: no $tool"; exit 77; }
done
cache=$(command -v ccache || true)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Headers of packages that are here for this machine alone; the program does without zstd itself.
mkdir "$place/headers"
ln -s "$(pkg-config --variable=includedir libzstd)"/zstd{,_errors}.h "$place/headers"
ln -s "$(pkg-config --variable=includedir libxxhash)"/xx{hash,h3}.h "$place/headers"
mapfile -t sources < <(find codec -name '*.c' | grep -vE '_(avx[0-9]+|neon)\.c$'
    printf 'bench/%s.c\n' instructions end no_zstd)
# What is computed does not depend on -O.
flags=(-std=c11 -O1 -D_POSIX_C_SOURCE=200809L -DPITH_BUILD -ffp-contract=off
    -Wall -Wextra -Wshadow -Werror -Iinclude -Icodec "-I$place/headers")
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} sh -c \
    "$cache $cross ${flags[*]} -c {} -o $place/\$(echo {} | tr / _).o"
$cross -static "$place"/*.o -lm -o "$place/instructions"

# Of these rows zstd has coded a part.
without_zstd() { awk -F '\t' '$2 != "lossless" || $4 == "-"'; }
scalar=0x40000000
ninja -C "$1" bench/instructions >/dev/null
"$1/bench/instructions" $scalar | without_zstd >"$place/wanted" &
qemu-arm "$place/instructions" $scalar | without_zstd >"$place/found"
wait $!
diff "$place/wanted" "$place/found"
printf '%d calls wrote the same bytes\n' "$(wc -l <"$place/found")"
