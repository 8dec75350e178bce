#!/usr/bin/env bash
# results.sh - print doc/RESULTS.md: tools/results.sh BUILD, a release build; for ./dev results.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)

# A table of the rows "index" of kernelcheck, without how many times scalar C each speed is.
index_speeds() {
    printf '| share of the values | indices | `small`, encode | decode |'
    printf ' `fast`, encode | decode |\n|---|---|---|---|---|---|\n'
    awk '/^index / {
        gsub(/ x *[0-9.]+/, "")
        printf "| %g | %d | %s | %s | %s | %s |\n", 1 / $5, $6, $27, $13, $30, $24
    }'
}

block() { printf '```\n'; "$@"; printf '```\n'; }

# Goals stay in sight where nothing could be measured.
cuda_table() {
    local bench out rc=0
    for bench in "$build/bench/gpu" "$root/build-gpu/bench/gpu"; do
        [ -x "$bench" ] || continue
        out=$("$bench") || rc=$?
        if [ $rc != 77 ]; then
            printf '%s\n' "$out"
            return $rc
        fi
        printf 'No GPU was at hand when this page was made, so the cells are empty. '
        printf 'Speeds of an H200 are in [CUDA.md](CUDA.md).\n\n'
        "$bench" --empty
        return
    done
    cat <<'TABLE'
No GPU was at hand when this page was made, and no build for one (`./dev gpu --build`), so the
cells are empty. Speeds of an H200 are in [CUDA.md](CUDA.md).

| what | tensor | GB/s moved | copy, GB/s | ratio | goal |
|---|---|---|---|---|---|
| `wdiff` encode with base update, decode_add | 256 MiB | | | | 0.85 |
| `grad` rotated 4-bit encode | 256 MiB | | | | 0.80 |
| `grad` 8-bit encode, decode; reduce of 8 frames | 256 MiB | | | | 0.85 |
| reduce_encode of 8 frames | 256 MiB | | | | 0.75 |
| each of these, one launch per call | 8 MiB | | | | 0.50 |
TABLE
}

for python in python3 /usr/bin/python3; do
    ! "$python" -c 'import numpy' 2>/dev/null || break
done
"$python" "$root/tools/bench_arrays.py" "$build/arrays"

# Before the page begins: a value beyond its bound ends the script here.
values=$("$build/bench/bounded" values "$build/arrays" "$root/tests/data")
embeddings=$("$build/bench/bounded" embeddings "$build/arrays" "$root/tests/data")
keys=$("$python" "$root/tools/kv_quality.py" "$build/codec/libpith.so" "$root/tests/data")
trellis=$("$python" "$root/tools/trellis_quality.py" "$build/codec/libpith.so" "$root/tests/data")
limit=$("$python" "$root/tools/quantizers_picture.py" "$build/codec/libpith.so")
entropy=$("$python" "$root/tools/entropy_quality.py" "$build/codec/libpith.so" "$root/tests/data")

instructions=$("$python" "$root/tools/instructions.py" "$build")

isa=$("$build/cli/pith" bench --quick --json -C raw |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["results"][0]["isa"])')
kernels=$("$build/tests/kernelcheck" --bench --isa "$isa" | grep -v '^seed')

cat <<END
# Results

Made by \`./dev results\` on $(date -u +%Y-%m-%d): $(${CC:-cc} --version | head -n 1), x86-64 with
$isa kernels, $(nproc) cores of a shared virtual machine. Absolute speeds of such a machine vary
from minute to minute; ratios were measured side by side in one run. Beside other programs, exactly
and within a bound, with pictures of ratio against speed: [PEERS.md](PEERS.md), by its own command.

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
columns are the rounding of both levels, \`mse\` is searched scales across nodes and nearest inside,
\`trellis\` \`codebook=trellis\` there.

$("$build/bench/gradients" "$root/tests/data")

The second table: the sum of 16 steps, with error feedback on both levels, 4 and 2 bits across
nodes. The third: one frame, one rank.

## Activations

Compression ratios of activations (f32) and their gradients (bf16) of a small convolutional network
(tests/data), frames with their headers; zeros stay exact in \`act\`.

$("$build/bench/activations" "$root/tests/data")

The second and third table: a 3 x 3 convolution is given activations that went through \`act\`; how
far that moves the gradient of its weights. A weight's gradient sums arriving gradient times
activation over samples and positions, and what is not 0 errs evenly within +-bound, so the error is
near normal with sigma = bound / sqrt(3) * sqrt(sum of squared gradients where the activation is not
0). "Of its own terms": measured error over this, weight by weight, root mean square; kurtosis: of
these quotients, 3 for a normal one. "Of the budget's": sigma over bound * sqrt(positions / 3) * rms
gradient * sqrt(samples * share of activations that are not 0), which is what a budget
(\`pith_budget\`) counts with. a: the same as a constant of COMET's form, sigma = a * mean
|gradient| * sqrt(samples * share) * bound. It is sqrt(positions / 3) times rms over mean of the
gradient, so it belongs to a layer and not to all: 15 to 34 here, and 0.32 as published for other
networks. The last table: the bound that a budget gives when sigma shall be a share of the mean
|gradient of a weight|, and the sigma measured there.

## Error-bounded values

Codec \`eb\` on one thread: 2^24 normal values (\`weights\`) and a smooth field of 256^3
(\`tools/bench_arrays.py\`). GB/s of values; medians of 15 (fast) or 5 (ratio) round trips, each
from another of so many copies that caches hold less than half. "Of the sum", "of the fill": beside
a read-only sum and the better of two fills of as many bytes in the same run; goals of \`mode=fast\`
are 0.2 and 0.4, of \`mode=ratio\` 2 GB/s of encoding and 5 GB/s of decoding, which fields do not
reach. Ratios include the frame's header. "Zero-order limit": the ratio that a coder of the rounded
values, one by one, cannot pass; \`mode=ratio\` shall reach 0.98 of it on the weights.
"Largest error": over the bound, of every round trip, in double precision; "beyond": values whose
error is larger than the bound, and non-finite ones whose bits changed. Others, in brackets: GB/s of
encoding and decoding, and values beyond the bound if any. They were measured on the same arrays,
but once and on another machine, so that their ratios can be compared and their speeds cannot; each
is the best of its settings.

$values

The third table: bits per value, frames with their headers, and the peak signal-to-noise ratio, of
all tensors of a file in tests/data, each with its own range. The last: other bounds that can be
requested, and what the worst tensor of a file came to.

## Embeddings

Codec \`embed\` on one thread, as above: one batch of 2048 look-ups in each of 26 tables, Zipf's law
of exponent 1.1, 16 or 64 columns. Goals: encode 2 GB/s, decode 6 GB/s: 16 columns miss both.

$embeddings

The other two tables: ratios of the looked-up rows of a real model and of their gradients
(tests/data), every tensor a frame.

## Keys, values and layer inputs

Codec \`kv\` and a small language model (tests/data: 4 layers, 4 heads of 32, width 192) that reads
8192 tokens it was not trained on (\`tools/kv_quality.py\`). "Loss": nats a token; "change": of that
with nothing replaced. Everything is coded, no window of new tokens is left out. SNR: of the tensors
that were replaced, over all tokens, layer by layer, while the layers before were coded too. Bits
per value: frames with scales and headers. A layer input is 192 values in place of 256 of keys and
values. Keys are replaced after the rotary embedding, by \`kvquant-lite\` and latents before it.

$keys

XQuant-CL runs sender and receiver, an accumulator on each side, of which the tool checks that they
hold the same bits. "Latents": X U of thin decompositions of the layer's weights (XQuant, section
3.3.1), keys per channel. FP8: rounded by the tool, to nearest even with saturation. The limit of
entropy: by how often a code comes within its head, or its channel, of the whole tensor; the tables
themselves are not counted there.

Speed, one thread: 2^24 values in rows of 8 heads of 128; medians of 15 runs (3 where one takes half
a second), each from another of so many copies that caches hold less than half, every result
compared with the first. Rooflines of the same run: of f32 a read-only sum and the best fill, of 16
bits the best copy baseline of values and frame.

$("$build/bench/kv" codec)

Encoding 256 tokens of 8 heads of 128 for each of 32 layers, a frame for each, and appending them:
all of a layer in a call; one token of one layer in a call (\`pith_kv_append\`); one token of all
layers in a call (\`pith_kv_append_batch\`), which the row of the goal is about. Round by round,
medians of up to 101; the bytes are the same each way. Of 256 tokens at once \`kivi4\` only copies
the last 128, its window.

$("$build/bench/kv" append)

Reading anywhere in a cache, decoded to f32; medians of 2001 reads. What is read costs, not what is
held.

$("$build/bench/kv" read)

## Trellis

Codes along paths through a trellis (\`codebook=trellis\`; [\`CODECS.md\`](CODECS.md), \`kv\`)
against the levels and steps of the same width, SNR in dB (\`tools/trellis_quality.py\`): keys
and values as above, gradients of eight ranks and eight steps of a layer's weights (tests/data),
all through codec \`kv\` in groups of 128; then through the codecs that are made for them.
Frames have equal bytes.

$trellis

How far quantizers are from the limit of a normal distribution, 6.02 dB for each bit, with all
bytes of a frame counted (\`tools/quantizers_picture.py\`): those of \`kv\` in groups of 128, steps
of \`wdiff\` in its default groups, and \`eb\` with entropy coding under a bound on every value.

![rate and distortion of quantizers](quantizers.svg)

$limit

## Entropy of codes

Bits a value of frames of whole tensors (\`tools/entropy_quality.py\`): codes packed, through zstd
(level 3 in \`wdiff\`, 1 in \`kv\`; these bytes depend on its version) and through the library's
own rANS (\`entropy=rans\`; [\`CODECS.md\`](CODECS.md), \`wdiff\`), beside the order-0 entropy of
the codes, of each block of \`wdiff\` and of each head of \`kv\` by itself. Frames hold scales
too: of f32 in \`wdiff\`, where they are never coded, and scales and zero points of f16 in \`kv\`.
Steps of weights are differences from the step before; keys, values and layer inputs are those of
above. zstd finds what repeats, as the same tokens in a text do, and rANS does not.

$entropy

The second table: codecs that choose between zstd and rANS, string by string; all tensors of files
in tests/data, each a frame. Revision 1 has zstd alone, rANS comes with revision 2. Later ones
also have offsets of rows and columns (\`lossless\`), weighted interpolation (\`eb\`) and zero maps
in lanes (\`act\`). zstd stays where it is expected to take a 64th less, as where rows repeat; where
it takes less than that it is left out for its time, so that the default may take a little more
than revision 1 does.

## Speed of the library, out of cache, one thread

\`pith bench\`; GB/s of uncompressed values. \`/read\`, \`/fill\`, \`/move\` are shares of the
read-only sum, the best fill and a copy baseline of exactly the same bytes.

$(block "$build/cli/pith" bench)

### With AVX2 only

The same in turn with AVX-512 and without, as a machine of AVX2 would take it: shares of the
read-only sum and of the best fill, and how much of AVX-512's share AVX2 reaches. It should be 0.8.
Coders of symbols look tables up by permutations that AVX2 does not have: half is what they reach.

$("$python" "$root/tools/levels.py" "$build/cli/pith")

## Instructions

Instructions for a value of each call, counted and not timed, so that a busy machine does not change
them: what does is the code, the compiler or the data (\`tools/instructions.py\`). x86-64: under
callgrind, which knows no AVX-512. aarch64: the same program, compiled with
\`aarch64-linux-gnu-gcc\`, under qemu-user with a plugin that counts. One thread; 2^18 near normal
values (2^15 where a call takes long, and of sums, whose values are those of the result), each call
the second of its kind, with what it costs beside its values. zstd's own instructions are left out,
and on aarch64 there is no zstd: cells are empty where it has a part in the frame. An instruction is
not a time: a division of a vector is one, and so is a load that waits for memory.

$instructions

## Speed of sums, out of cache, one thread

Tensors of twice the last-level cache, sums of eight frames that are as large together. Encoding
beside a read-only sum, in GB/s of values; sums beside the fastest of four copy baselines of exactly
the same bytes (ordinary and non-temporal stores, short and long batches), in GB/s moved. Medians
and, in brackets, the best of 15; "separate": decoding all frames, adding and encoding by calls of
their own takes so many times as long.

$("$build/bench/sums")

## Sparse frames

Codec \`topk\` on one thread, out of cache, on normal deviates, another tensor in every round. With
error feedback beside the fastest copy that reads 8 bytes a value and writes 4, without it beside a
read-only sum, decoding with \`PITH_ADD\` beside a loop that adds the same values at indices that
it has. With \`values=none\` nothing is
sent but the set of the chosen; the other rows also find and code their values. Bits: whole frames,
for each value that is sent; published reducers take 96. The second table: bits of an index, headers
and all, beside the entropy of the set and the size that Roaring's format gives it; goals are the
entropy and 0.6 bits, 1.0 at 0.0001, and 1.6 with \`fast\`.

$("$build/bench/sparse")

Indices a second, in G, of one thread that has them as a list in cache, in lists as long as blocks
of 2048 and 65536 chosen values are, or of what 2^24 elements have: choosing the form and making its
bytes, and reading them (\`kernelcheck --bench\`). Goals: 1, and 3 with \`fast\`.

$(printf '%s\n' "$kernels" | index_speeds)

Beside \`torch.topk\`, and how well \`control=prop\` keeps k: [SPARSE.md](SPARSE.md), Controllers.

## Looking at external bases

Encode against an external base looks whether others have changed it: at a sample of every block by
default, at every byte with \`PITH_LAYOUT_CHECK_BASE\`, not at all with
\`PITH_LAYOUT_TRUST_BASE\`. What that adds to the time
of a call on tensors larger than the last-level cache; every round measures the three variants;
means of the median shares of 15 rounds with either order of their memory. A negative share is
noise.

$("$build/bench/base_check")

## Small calls

Nanoseconds of one encode with a warm stream, medians of 151 batches of 64 calls, and of these the
median of nine streams, tensors and frames, each in memory of its own; the fixed cost is where
the line of the least squares of relative errors meets zero elements.

$("$build/bench/latency")

## Two threads, encode from cache-sized blocks

A tensor of 1 MiB, encoded again and again, by one thread and by two in rounds of 20 calls; medians
of 8020. Four calls before each round, which wait for what the other one left in the other core's
cache, are not measured.

$("$build/bench/threads")

## Speed of the kernels

\`kernelcheck --bench\`: scalar C, kernel and roofline (encode: read-only sum; decode: best fill;
wdiff: a copy baseline of the same bytes, the hash of the new base included), GB/s of values.

$(block printf '%s\n' "$kernels")

## CUDA

\`bench/gpu\`: medians of 31 replays of a graph of calls, and, in the same rounds, of a graph of
copies on the device that move as many bytes (a copy of n bytes moves 2n). "Moved": what a call must
read and write, base and frames included; a base that comes without its stream (decode_add with
base_hash=on) is read twice. Several sets of data are taken in turn, so that the cache of the device
does not hold them. "One call": between events around one call on an idle device; "host": what
making the call takes the calling thread. The last column: frames, values and base after the last
replay were those of the CPU.

$(cuda_table)
END
