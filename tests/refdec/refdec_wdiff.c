/* refdec_wdiff.c - codec 3: blocks of codes and the update of a base.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

void ref_update(uint8_t *new_base, size_t i, unsigned dtype, uint32_t b, uint32_t x) {
    if (ref_is_nan(x)) {
        ref_store(new_base, i, dtype, ref_canonical_nan());
        return;
    }
    const float y = ref_as_float(ref_finite(b) ? b : 0) + ref_as_float(x);
    ref_store(new_base, i, dtype, ref_as_bits(y));
    if (!ref_finite(ref_load(new_base, i, dtype)))
        ref_store(new_base, i, dtype, ref_saturated(ref_as_bits(y) | 0x7F800000u, dtype));
}

/* The codes, one byte each. */
static enum ref_status read_codes(const struct ref_block *b, const uint8_t *bytes, size_t length,
                                  uint8_t *codes) {
    const unsigned w = b->frame->parameter[0];
    const bool zstd = b->frame->parameter[4] == 1 && !b->plain;
    if (b->frame->parameter[4] == 2 && !b->plain) {
        struct ref_reader r = {bytes, length, REF_RANS};
        const bool good = ref_coded_codes(&r, b->count, 1, w, codes) && r.left == 0;
        return good ? REF_OK : REF_CORRUPT;
    }
    const bool one_byte_each = zstd && (w == 3 || w == 6);
    const size_t string = (b->count * w + 7) / 8;
    uint8_t *symbols = malloc(b->count);
    if (!symbols) return REF_MEMORY;
    enum ref_status status = REF_OK;
    if (zstd) {
        const size_t n = one_byte_each ? b->count : string;
        if (!ref_unzstd(bytes, length, symbols, n)) status = REF_CORRUPT;
        bytes = symbols;
    } else if (b->plain && length != string) {
        status = REF_CORRUPT;
    }
    for (size_t i = 0; status == REF_OK && i < b->count; i++) {
        codes[i] = one_byte_each ? bytes[i] : (uint8_t)ref_code_at(bytes, i, w);
        if (codes[i] >> w) status = REF_CORRUPT;
    }
    free(symbols);
    return status;
}

/* The difference that element i of a block stands for. */
static uint32_t difference(const struct ref_frame *f, const uint8_t *codes, size_t i,
                           uint32_t scale) {
    const size_t group = (size_t)1 << f->parameter[1], at = i % group % 256;
    unsigned code[4] = {0};
    if (!f->parameter[6]) return ref_decoded(ref_sign_extended(codes[i], f->parameter[0]), scale);
    for (size_t k = 0; k < 4 && k <= at; k++) code[k] = codes[i - k];
    return ref_trellis(f->parameter[0], code, scale);
}

static void apply(const struct ref_block *b, const uint8_t *codes) {
    const struct ref_frame *f = b->frame;
    const unsigned scale_dtype = f->parameter[3] ? BF16 : F32;
    for (size_t i = 0; i < b->count; i++) {
        const uint32_t scale = ref_load(b->bytes, i >> f->parameter[1], scale_dtype);
        uint32_t x = difference(f, codes, i, scale);
        if (f->base_dtype) {
            ref_update(b->new_base, i, f->base_dtype, ref_load(b->base, i, f->base_dtype), x);
            x = ref_load(b->new_base, i, f->base_dtype);
        }
        ref_store(b->out, i, f->dtype, x);
    }
}

enum ref_status ref_key_frame(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    memcpy(b->new_base, b->bytes, b->length);
    if (f->dtype == f->base_dtype)
        memcpy(b->out, b->bytes, b->length);
    else
        for (size_t i = 0; i < b->count; i++)
            ref_store(b->out, i, f->dtype, ref_load(b->new_base, i, f->base_dtype));
    return REF_OK;
}

unsigned ref_scale_bytes(unsigned how) {
    static const uint8_t bytes[3] = {4, 2, 1};
    return bytes[how];
}

static uint64_t scales_bytes(const struct ref_frame *f, unsigned scale, uint64_t count) {
    const uint64_t group = UINT64_C(1) << f->parameter[1];
    return ref_pad16((count + group - 1) / group * ref_scale_bytes(scale));
}

uint64_t ref_group_bytes(const struct ref_frame *f, unsigned scale, uint64_t count) {
    return scales_bytes(f, scale, count) + ref_pad16((count * f->parameter[0] + 7) / 8);
}

static enum ref_status decode(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    if (f->key) return ref_key_frame(b);
    const uint64_t scales = scales_bytes(f, f->parameter[3], b->count);
    if (b->length < scales) return REF_CORRUPT;
    uint8_t *codes = malloc(b->count);
    if (!codes) return REF_MEMORY;
    const enum ref_status status = read_codes(b, b->bytes + scales, b->length - scales, codes);
    if (status == REF_OK) apply(b, codes);
    free(codes);
    return status;
}

/* ---- The codec -------------------------------------------------------------------------------*/

static enum ref_status check(const struct ref_frame *f) {
    const uint8_t *p = f->parameter, w = p[0];
    REJECT_IF(w != 2 && w != 3 && w != 4 && w != 6 && w != 8);
    REJECT_IF(p[1] < 4 || p[1] > 14);
    REJECT_IF(p[2] > 1 || p[3] > 1 || p[4] > 2 || p[5] > 1);
    REJECT_IF(p[6] > 1 || (p[6] && (w > 4 || p[2])));
    REJECT_IF(!ref_zeros(p, 7, 16) || f->block < UINT64_C(1) << p[1]);
    return REF_OK;
}

static unsigned only_revision(const struct ref_frame *f) {
    return f->parameter[6] || f->parameter[4] == 2 ? 2 : 1;
}

static bool fixed(const struct ref_frame *f) { return f->key || f->parameter[4] == 0; }

static bool base_hash(const struct ref_frame *f) { return !f->parameter[5]; }

static uint64_t block_bytes(const struct ref_frame *f, uint64_t count) {
    if (f->key) return count * ref_dtype_bytes(f->base_dtype);
    return ref_group_bytes(f, f->parameter[3], count);
}

static void note(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    if (p[6])
        REF_CASE("wdiff bits of trellis", 0x1C, p[0]);
    else
        REF_CASE(p[4] == 2   ? "wdiff bits with rans"
                 : p[4] == 1 ? "wdiff bits with entropy"
                             : "wdiff bits",
                 0x15C, p[0]);
    REF_CASE("wdiff scale", 3, p[3]);
    if (f->key) REF_CASE("wdiff base of a key frame", 0xE, f->base_dtype);
}

const struct ref_codec ref_codec_wdiff = {
    .name = "wdiff",
    .revision = 2,
    .only_revision = only_revision,
    .dtypes = 0xE,
    .bases = 0xF,
    .check = check,
    .fixed = fixed,
    .base_hash = base_hash,
    .block_bytes = block_bytes,
    .decode = decode,
    .note = note,
};
