#!/usr/bin/env bash
# results.sh - print doc/RESULTS.md: tools/results.sh BUILD, a release build; for ./dev results.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)

block() { printf '```\n'; "$@"; printf '```\n'; }

isa=$("$build/cli/pith" bench --quick --json -C raw |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["results"][0]["isa"])')

cat <<END
# Results

Made by \`./dev results\` on $(date -u +%Y-%m-%d): $(${CC:-cc} --version | head -n 1), x86-64 with
$isa kernels, $(nproc) cores of a shared virtual machine. Absolute speeds of such a machine vary
from minute to minute; ratios were measured side by side in one run.

## Quality

$("$build/bench/quality" "$root/tests/data")

NMSE of the update: error of the step that the receivers see against the step the weights made.
"Of a plain cast's": NMSE of the weights divided by that of rounding the weights to bf16 without any
codec. With a bf16 base nearly all of the error is the cast's own, and the update's NMSE is large
because one step is smaller than bf16 can express.

## Gradients

Sums of gradients through codec \`grad\`, NMSE of the sum. Simulation: Student-t3 noise of each rank
plus one shared Student-t3 signal of the same size, group 128; early and late: eight real ranks
(tests/data). "8 x 4": eight ranks in each of four nodes. Inside nodes 8 bits, across them 4; the
columns are the rounding of both levels, \`mse\` is searched scales across nodes and nearest inside.

$("$build/bench/gradients" "$root/tests/data")

The second table: the sum of 16 steps, with error feedback on both levels, 4 and 2 bits across
nodes. The third: one frame, one rank.

## Speed of the library, out of cache, one thread

\`pith bench\`; GB/s of uncompressed values. \`/read\`, \`/fill\`, \`/move\` are shares of the
read-only sum, the best fill and a mover of exactly the same bytes.

$(block "$build/cli/pith" bench)

## Speed of sums, out of cache, one thread

Eight frames of 2^24 elements. Encoding beside a read-only sum, in GB/s of values; sums beside the
fastest of four movers of exactly the same bytes (ordinary and non-temporal stores, short and long
turns), in GB/s moved. Medians and, in brackets, the best of 15; "separate": decoding all frames,
adding and encoding by calls of their own takes so many times as long.

$("$build/bench/sums")

## Two threads, encode from cache-sized blocks

A tensor of 1 MiB, encoded again and again; medians of 8001.

$("$build/bench/threads")

## Speed of the kernels

\`kernelcheck --bench\`: scalar text, kernel and ceiling (encode: read-only sum; decode: best fill;
wdiff: a mover of the same bytes, the hash of the new base included), GB/s of values.

$(block "$build/tests/kernelcheck" --bench | grep -E '^(avx512|neon|```)')

## CUDA

No CUDA backend yet.
END
