#!/usr/bin/env bash
# results.sh - print doc/RESULTS.md: tools/results.sh BUILD, a release build; for ./dev results.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

block() { printf '```\n'; "$@"; printf '```\n'; }

# A tensor that stays in cache, for the question what a second thread brings.
python3 - "$work/cached.npy" <<'END'
import random, struct, sys
random.seed(1)
values = [random.gauss(0, 0.02) for _ in range(1 << 20)]
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
head += ' ' * (117 - len(head)) + '\n'
with open(sys.argv[1], 'wb') as f:
    f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode())
    f.write(struct.pack('<%df' % len(values), *values))
END

scaling() {
    for spec in wdiff wdiff:group=128; do
        for threads in 1 2; do
            "$build/cli/pith" bench --json -C "$spec" -T "$threads" "$work/cached.npy"
        done
    done | python3 -c '
import json, sys
text, rows, reader = sys.stdin.read(), [], json.JSONDecoder()
while text.strip():
    document, end = reader.raw_decode(text.lstrip())
    text = text.lstrip()[end:]
    rows += document["results"]
one = {(r["spec"], r["base"]): r["encode_gbps"] for r in rows if r["threads"] == 1}
print("spec               base   1 thread  2 threads  ratio   (encode, GB/s of f32 values)")
for r in rows:
    if r["threads"] == 2:
        before = one[r["spec"], r["base"]]
        print("%-18s %-5s %9.2f %10.2f %6.2f" % (r["spec"], r["base"] or "-", before,
              r["encode_gbps"], r["encode_gbps"] / before))'
}

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

## Speed of the library, out of cache, one thread

\`pith bench\`; GB/s of uncompressed values. \`/read\`, \`/fill\`, \`/move\` are shares of the
read-only sum, the best fill and a mover of exactly the same bytes.

$(block "$build/cli/pith" bench)

## Two threads, a 4 MiB tensor

$(block scaling)

## Speed of the kernels

\`kernelcheck --bench\`: scalar text, kernel and ceiling (encode: read-only sum; decode: best fill;
wdiff: a mover of the same bytes, the hash of the new base included), GB/s of values.

$(block "$build/tests/kernelcheck" --bench | grep -E '^(avx512|neon|```)')

## CUDA

No CUDA backend yet.
END
