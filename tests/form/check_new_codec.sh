#!/usr/bin/env bash
# check_new_codec.sh: the list "Add a codec" of CONTRIBUTING.md is all that a codec takes. In a copy
# of the tree it adds one by that list, shows that check_registry.sh misses each part when it alone
# is left out, builds and tests the codec, and compares the files it touched with the list.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in git meson ninja gcc gcov python3; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
place=$(mktemp -d)
before=$place/before tree=$place/tree parts=$place/parts made=$place/made build=$place/build
jobs=()
clean_up() {
    [ ${#jobs[@]} = 0 ] || { kill "${jobs[@]}" 2>/dev/null || true; wait; }
    rm -rf "$place"
}
trap clean_up EXIT
unset PITH_TEST_CPU_MASK MALLOC_PERTURB_

die() {
    printf 'check_new_codec: %s\n' "$*" >&2
    exit 1
}

mkdir "$before" "$made"
git ls-files -co --exclude-standard -- . ':!fuzz/corpus' ':!tests/data' |
    while read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done |
    tar -cf - -T - | tar -xf - -C "$before" || { echo 'skipped: not a checkout'; exit 77; }
[ -f "$before/meson.build" ] || { echo 'skipped: not a checkout'; exit 77; }
cp -a "$before" "$tree"
cd "$tree"

behind() { # behind FILE PATTERN: the text on stdin goes behind the last line that matches
    local line
    cat >"$place/text"
    line=$(grep -nE "$2" "$1" | tail -n 1 | cut -d: -f1)
    [ -n "$line" ] || die "$1 has no line '$2'"
    sed -i "${line}r $place/text" "$1"
}
above() { # above FILE PATTERN: above the first line that matches
    local line
    cat >"$place/text"
    line=$(grep -nE "$2" "$1" | head -n 1 | cut -d: -f1)
    [ -n "$line" ] || die "$1 has no line '$2'"
    sed -i "$((line - 1))r $place/text" "$1"
}

# ---- The codec: the upper bits of f32, and how much the others were ------------------------------
id=$((1 + $(sed -nE 's/^PITH_CODEC\(([0-9]+),.*/\1/p' codec/registry.def | sort -n | tail -n 1)))
part_section() {
    above doc/FORMAT.md '^## 7\. Streams$' <<END
### 6.$((1 + $(grep -c '^### 6\.' doc/FORMAT.md))) Codec $id \`trunc\`

| | |
|---|---|
| blocks | K = ceil(n / B) runs of B elements |
| block length | 4 + c * w / 8 |
| index | no |
| base | none |

| parameter byte | meaning | values |
|---|---|---|
| 0 | bits w | 16, 24 |

A block is an f32, the largest abs(x - x') of its values (NaN when one is not finite; for
information), and the w / 8 upper bytes of each value's f32, the least significant first. x' has
these bits, and below them 0; when that is not finite, x' is the canonical NaN.

END
}
part_contents() { sed -i 's/^6\. Codecs: .*/&, `trunc`/' doc/FORMAT.md; }
part_table() {
    behind doc/FORMAT.md '^\| 8 \| `kv` ' <<END
| $id | \`trunc\` | 1 | f32, bf16, f16 | none | fixed |
END
}
part_blocks() {
    behind doc/FORMAT.md '^\| `kv` with entropy ' <<'END'
| `trunc` | runs | ceil(n / B) | elements [bB, min(n, (b+1)B)) | by arithmetic (section 6) | no |
END
}
part_sizes() { behind doc/FORMAT.md '^\| `kv` \| page_bytes' <<<'| `trunc` | 4 + c * w / 8 |'; }
part_refused() {
    behind doc/FORMAT.md '^\| `kv`, entropy zstd ' <<'END'
| `trunc` | a largest difference that is negative, infinite or a NaN other than the canonical one |
END
}
# The bytes are those of the golden file: this part comes when it is made.
part_example() {
    above doc/FORMAT.md '^## Appendix A' <<END
### example-trunc

Three f32 values 1, -1.5 and 1 + 2^-7 + 2^-8, w = 16, B = 2^16. At 0x40 the f32 2^-8, then their
upper halves.

\`\`\`
$(cat "$made/example")
\`\`\`

END
}
part_codec() {
    cat >codec/codecs/trunc.c <<END
/* trunc.c - codec trunc: the upper bits of f32.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "common/numeric.h"

enum { KEEP, BLOCK };

static const struct pithi_key keys[] = {
    [KEEP] = {"keep", PITHI_KEY_NUMBER, 16, 16, 24, 1u << 16 | 1u << 24, 0, "16,24",
              "bits that are kept", false},
    [BLOCK] = {"block", PITHI_KEY_POW2, 65536, 16, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK,
               "16..16777216, a power of two", "elements per block", false},
};

static bool fixed(const struct pithi_params *p) {
    (void)p;
    return true;
}

static uint64_t block_bytes(const struct pithi_params *p, uint64_t count) {
    return 4 + count * (p->value[KEEP] / 8);
}

static size_t scratch_bytes(const struct pithi_params *p) {
    (void)p;
    return 0;
}

/* Differences grow as their bits do, and the canonical NaN is above all of them. */
static pith_status encode(struct pithi_block *b) {
    const uint32_t keep = b->params->value[KEEP];
    uint8_t *to = b->bytes + 4;
    uint32_t largest = 0;
    for (size_t i = 0; i < b->count; i++) {
        const uint32_t u = pithi_load(b->value, b->params->dtype, i);
        const uint32_t kept = pithi_nonfinite(u) ? PITHI_F32_NAN : u & UINT32_MAX << (32 - keep);
        uint32_t lost = pithi_bits(pithi_float(u) - pithi_float(kept)) & 0x7FFFFFFFu;
        if (pithi_nonfinite(u)) lost = PITHI_F32_NAN;
        if (lost > largest) largest = lost;
        b->poisoned += pithi_nonfinite(u);
        for (uint32_t at = 32 - keep; at < 32; at += 8) *to++ = (uint8_t)(kept >> at);
    }
    pithi_put32(b->bytes, largest);
    b->length = (size_t)block_bytes(b->params, b->count);
    return PITH_OK;
}

static bool legal(uint32_t largest) { return largest <= PITHI_F32_MAX || largest == PITHI_F32_NAN; }

static pith_status decode(struct pithi_block *b) {
    const uint8_t *from = b->bytes + 4;
    b->detail = "an impossible difference";
    if (!legal(pithi_get32(b->bytes))) return PITH_ERR_CORRUPT;
    for (size_t i = 0; b->out && i < b->count; i++) {
        uint32_t u = 0;
        for (uint32_t at = 32 - b->params->value[KEEP]; at < 32; at += 8)
            u |= (uint32_t)*from++ << at;
        pithi_store(b->out, b->out_dtype, i, pithi_nonfinite(u) ? PITHI_F32_NAN : u);
    }
    return PITH_OK;
}

static double bound(const struct pithi_block *b) {
    const uint32_t largest = pithi_get32(b->bytes);
    return legal(largest) ? (double)pithi_float(largest) : -1;
}

const struct pithi_codec pithi_codec_trunc = {
    .id = $id,
    .revision = 1,
    .name = "trunc",
    .summary = "the upper bits of f32",
    .traits = PITH_TRAIT_FIXED_RATE,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .fixed = fixed,
    .block_bytes = block_bytes,
    .scratch_bytes = scratch_bytes,
    .encode = encode,
    .decode = decode,
    .bound = bound,
};
END
}
part_row() { behind codec/registry.def '^PITH_CODEC' <<<"PITH_CODEC($id, trunc)"; }
part_page() {
    cat >>doc/CODECS.md <<'END'

## `trunc`

For values whose lower bits are noise.

Dtypes: f32, bf16, f16.

| key | values | default | |
|---|---|---|---|
| `keep` | 16,24 | 16 | bits that are kept |
| `block` | 16..16777216, a power of two | 65536 | elements per block |
END
}
part_tests() {
    cat >>tests/codecs.def <<'END'
PITH_TEST(trunc, "trunc", REALS, NONE, DIFFERENCE)
PITH_TEST(trunc, "trunc:keep=24,block=32", REALS, NONE, DIFFERENCE)
PITH_KEY(keep, NUMBER, "")
END
}
part_decoder() {
    cat >tests/refdec/refdec_trunc.c <<END
/* refdec_trunc.c - codec $id: the upper bits of f32.
 * SPDX-License-Identifier: Apache-2.0 */
#include "refdec.h"

static enum ref_status check(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    REJECT_IF((p[0] != 16 && p[0] != 24) || !ref_zeros(p, 1, 16));
    return REF_OK;
}

static bool fixed(const struct ref_frame *f) {
    (void)f;
    return true;
}

static uint64_t block_bytes(const struct ref_frame *f, uint64_t count) {
    return 4 + count * f->parameter[0] / 8;
}

static enum ref_status decode(const struct ref_block *b) {
    const unsigned bytes = b->frame->parameter[0] / 8;
    const uint64_t largest = ref_le(b->bytes, 4);
    REJECT_IF(largest >= 0x7F800000 && largest != ref_canonical_nan());
    for (size_t i = 0; i < b->count; i++) {
        const uint32_t u = (uint32_t)ref_le(b->bytes + 4 + i * bytes, bytes) << (32 - 8 * bytes);
        ref_store(b->out, i, b->frame->dtype, ref_finite(u) ? u : ref_canonical_nan());
    }
    return REF_OK;
}

static void note(const struct ref_frame *f) {
    REF_CASE("trunc bits", REF_BIT(16) | REF_BIT(24), f->parameter[0]);
}

const struct ref_codec ref_codec_trunc = {
    .name = "trunc",
    .revision = 1,
    .dtypes = 0xE,
    .bases = 1,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .decode = decode,
    .note = note,
};
END
}
part_golden() {
    cat >>tests/golden/golden.def <<'END'
    {.name = "example-trunc",
     .spec = "trunc",
     .dtype = PITH_F32,
     ONE(3),
     .value = (const float[3]){1, -1.5f, 1 + 0x1p-7f + 0x1p-8f}},
    {.name = "trunc-24", .spec = "trunc:keep=24", .dtype = PITH_F32, ONE(75), .kind = GEN_NOISE},
    {.name = "trunc-bf16", .spec = "trunc", .dtype = PITH_BF16, ONE(75), .kind = GEN_NOISE},
    {.name = "trunc-f16",
     .spec = "trunc:block=16",
     .dtype = PITH_F16,
     ONE(75),
     .kind = GEN_NOISE,
     .flags = PITH_LAYOUT_CHECKSUMS},
    {.name = "trunc-holes", .spec = "trunc", .dtype = PITH_F32, ONE(300), .kind = GEN_HOLES},
    {.name = "trunc-empty", .spec = "trunc", .dtype = PITH_F32, ONE(0)},
END
}
# What make_golden and check_golden_coverage.py made is kept, and put where it belongs.
part_frames() { cp "$made"/v1/* tests/golden/v1/; }
part_hashes() { cp "$made/HASHES" tests/golden/; }
part_coverage() { cp "$made/COVERAGE.txt" tests/golden/; }
by_hand=(section contents table blocks sizes refused example codec row page tests decoder golden)
by_tools=(frames hashes coverage)

# ---- Added, built, and its golden files made -----------------------------------------------------
since() { printf '%3d s  %s\n' $SECONDS "$1"; }
for part in "${by_hand[@]}"; do [ "$part" = example ] || "part_$part"; done
programs=(test_{bound,corrupt,golden,range,roundtrip,spec,state,stream})
# In the folder and with the flags for which ccache has what a release build of the checkout made.
meson setup build --buildtype=release -Dcuda=disabled -Dmpi=disabled -Dlapack=disabled \
    -Dcli=disabled -Dbench=false -Dfuzz=none \
    >"$place/log" 2>&1 || { cat "$place/log"; die 'meson setup failed'; }
ninja -C build tests/make_golden tests/test_refdec "${programs[@]/#/tests/}" \
    >"$place/log" 2>&1 || { tail -n 40 "$place/log"; die 'it does not build'; }
mv build "$build"
since 'built'
"$build/tests/make_golden" tests/golden
[ -f tests/golden/v1/example-trunc.pith ] || die 'make_golden made no example-trunc.pith'
od -An -v -tx1 -w16 tests/golden/v1/example-trunc.pith |
    awk '{ printf "%04x %s\n", 16 * (NR - 1), $0 }' >"$made/example"
part_example
mkdir "$made/v1"
cp tests/golden/v1/*trunc* "$made/v1"
cp tests/golden/HASHES "$made"
tests/form/check_golden_coverage.py --write >"$place/log" || { cat "$place/log"; die 'coverage'; }
cp tests/golden/COVERAGE.txt "$made"
since 'golden frames reach every branch of its decoder'

# Paths of the files that differ from the tree as it was.
touched() {
    { git diff --no-index --name-only "$before" "$tree" || true; } |
        sed -E "s#^.*/(before|tree)/##" | sort -u
}
touched >"$place/touched"

# ---- Its tests -----------------------------------------------------------------------------------
run() { # run PROGRAM ARGUMENT...
    local log=$place/log.${1##*/}
    "$build/tests/$@" >"$log" 2>&1 || { cat "$log"; die "$1 failed"; }
}
export PITH_TEST_STEP=400
(for name in bound golden range spec roundtrip; do run test_$name tests; done) &
jobs+=($!)
(
    run test_refdec tests/golden/v1 3000
    for name in state stream corrupt; do run test_$name tests; done
) &
jobs+=($!)

# ---- Each part alone left out --------------------------------------------------------------------
cp -a "$tree" "$parts"
cd "$parts"
add_but() { # add_but PART: the tree as it was, and then every part but this one
    local part file
    while read -r file; do
        if [ -f "$before/$file" ]; then cp "$before/$file" "$file"; else rm -f "$file"; fi
    done <"$place/touched"
    for part in "${by_hand[@]}" "${by_tools[@]}"; do
        [ "$part" = "$1" ] || "part_$part"
    done
}
misses() { # misses PART WORDS: check_registry.sh fails without the part, and says so
    add_but "$1"
    if tests/form/check_registry.sh >"$place/log" 2>&1; then
        die "check_registry.sh passes without part $1"
    fi
    grep -qF "$2" "$place/log" || { cat "$place/log"; die "nothing is said of part $1"; }
    left_out=$((left_out + 1))
}
left_out=0
misses section "doc/FORMAT.md has no heading '### 6.N Codec $id \`trunc\`'"
misses contents 'doc/FORMAT.md does not name it in its list of sections'
misses table 'doc/FORMAT.md has no row for it in the table of section 6'
misses blocks 'doc/FORMAT.md has no row for its blocks in section 3.3'
misses sizes 'doc/FORMAT.md has no row for its sizes in section 3.4'
misses refused 'doc/FORMAT.md does not say in section 11 what of it must be rejected'
misses example 'doc/FORMAT.md has no example-trunc in section 12'
misses codec 'there is no codec/codecs/trunc.c'
misses row 'codec/registry.def has no row for codec trunc'
misses page 'doc/CODECS.md has no section on it'
misses tests 'tests/codecs.def has no row for it'
misses decoder 'there is no tests/refdec/refdec_trunc.c'
misses golden 'tests/golden/golden.def has no row example-trunc'
misses frames 'there is no tests/golden/v1/example-trunc.pith'
misses hashes 'tests/golden/HASHES does not list v1/example-trunc.pith'
misses coverage 'tests/golden/COVERAGE.txt does not say which golden frames reach its decoder'
[ $left_out = $((${#by_hand[@]} + ${#by_tools[@]})) ] || die 'a part was never left out'
add_but nothing
tests/form/check_registry.sh || die 'check_registry.sh fails with all parts'
tests/form/check_examples.sh
[ -z "$(diff -rq "$tree" "$parts")" ] || die 'the parts do not make the tree that is tested'
since "check_registry.sh missed each of $left_out parts"

cd "$tree"
for job in "${jobs[@]}"; do wait "$job" || exit 1; done
jobs=()
grep -q ' 0 failures$' "$place/log.test_refdec"
since 'tested'

# ---- What was touched, against the list ----------------------------------------------------------
touched >"$place/touched"
(cd "$place" && { git --no-pager diff --no-index --stat=100 before tree || true; }) |
    sed -E 's#(\{before => tree\}|/dev/null => tree|tree)/##; s#^ \{?(before|/dev/null) => # #'
listed=$(sed -n '/^## Add a codec$/,/^## Add a call$/p' CONTRIBUTING.md |
    sed -nE 's/^[0-9]+\. ([^:]*):.*/\1/p' | grep -oE '`[^`]+`' | tr -d '`' |
    sed 's/<name>/trunc/' | sort -u)
found=$(sed -E 's|^(tests/golden/v1/).*trunc.*|\1|' "$place/touched" | sort -u)
[ "$listed" = "$found" ] || {
    diff <(printf '%s\n' "$listed") <(printf '%s\n' "$found") || true
    die 'CONTRIBUTING.md, Add a codec (<), does not list what was touched (>)'
}
since "the list is what was touched: $(wc -l <"$place/touched") files"
