/* refdec_grad.c - codec 4: scales of one byte, the inverse rotation, values outside the groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

/* ---- Signs: Philox4x32-10 --------------------------------------------------------------------*/

static void philox(const uint32_t key[2], const uint32_t counter[4], uint32_t word[4]) {
    uint32_t k0 = key[0], k1 = key[1];
    memcpy(word, counter, 4 * sizeof *word);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)word[0] * 0xD2511F53u, b = (uint64_t)word[2] * 0xCD9E8D57u;
        word[0] = (uint32_t)(b >> 32) ^ word[1] ^ k0;
        word[1] = (uint32_t)b;
        word[2] = (uint32_t)(a >> 32) ^ word[3] ^ k1;
        word[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static bool flipped(uint32_t signs, uint64_t e) {
    const uint32_t key[2] = {signs, 0x5349474Eu};
    const uint32_t counter[4] = {(uint32_t)(e / 128), (uint32_t)(e / 128 >> 32), 0, 0};
    uint32_t word[4];
    philox(key, counter, word);
    return word[e / 32 % 4] >> (e % 32) & 1;
}

/* ---- Rotation --------------------------------------------------------------------------------*/

static void transform(float *x, size_t order) {
    for (size_t h = 1; h < order; h *= 2)
        for (size_t j = 0; j < order; j++) {
            if (j % (2 * h) >= h) continue;
            const float a = x[j], b = x[j + h];
            x[j] = a + b;
            x[j + h] = a - b;
        }
}

void ref_transform_back(float *x, size_t order) {
    for (size_t i = 0; i < order; i++) x[i] *= 1 / (float)order;
    transform(x, order);
}

/* A block begins at a multiple of the order, so its runs are those of the slot. */
static void rotate_back(const struct ref_frame *f, uint64_t first, float *x, size_t count) {
    const uint32_t signs = (uint32_t)ref_le(f->parameter + 8, 4);
    if (f->parameter[2] == 0) return;
    size_t order = (size_t)1 << f->parameter[2];
    for (size_t at = 0; at < count; at += order) {
        while (order > count - at) order /= 2;
        ref_transform_back(x + at, order);
    }
    for (size_t i = 0; signs && i < count; i++)
        if (flipped(signs, first + i)) x[i] = -x[i];
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

static uint32_t scale_at(const uint8_t *bytes, size_t group, unsigned how) {
    if (how != 2) return ref_load(bytes, group, how ? BF16 : F32);
    if (bytes[group] == 255) return ref_canonical_nan();
    return bytes[group] ? (uint32_t)bytes[group] << 23 : 0x00400000u; /* 2^-127 */
}

/* What element i of a block stands for, before the inverse rotation. */
static uint32_t value_at(const struct ref_frame *f, const uint8_t *codes, size_t i,
                         uint32_t scale) {
    const size_t group = (size_t)1 << f->parameter[1], at = i % group % 256;
    const unsigned w = f->parameter[0];
    unsigned code[4] = {0};
    for (size_t k = 0; k < 4 && k <= at; k++) code[k] = ref_code_at(codes, i - k, w);
    if (f->parameter[6]) return ref_trellis(w, code, scale);
    return ref_decoded(ref_sign_extended(code[0], w), scale);
}

static enum ref_status decode(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    const uint64_t groups = (b->count - 1) / (UINT64_C(1) << f->parameter[1]) + 1;
    const uint8_t *const codes = b->bytes + ref_pad16(groups * ref_scale_bytes(f->parameter[4]));
    float *x = malloc(b->count * sizeof *x);
    if (!x) return REF_MEMORY;
    for (size_t i = 0; i < b->count; i++) {
        const uint32_t scale = scale_at(b->bytes, i >> f->parameter[1], f->parameter[4]);
        x[i] = ref_as_float(value_at(f, codes, i, scale));
    }
    rotate_back(f, b->first, x, b->count);
    for (size_t i = 0; i < b->count; i++) ref_store(b->out, i, f->dtype, ref_as_bits(x[i]));
    free(x);
    return REF_OK;
}

/* ---- Exempt values ---------------------------------------------------------------------------*/

struct range {
    uint64_t first, count;
    unsigned how;
};

static struct range range_at(const uint8_t *body, uint64_t i) {
    const uint64_t word = ref_le(body + 16 * i + 8, 8);
    return (struct range){ref_le(body + 16 * i, 8), word & ((UINT64_C(1) << 60) - 1),
                          (unsigned)(word >> 60)};
}

static unsigned stored_dtype(const struct ref_frame *f, const struct range *r) {
    if (r->how == 2) return f->dtype;
    return f->dtype == F16 ? F16 : BF16;
}

enum ref_status ref_read_exempt(const uint8_t *body, uint64_t length, struct ref_frame *f) {
    uint64_t end = 0;
    if (length == 0 || length % 16 || length > 1048576) return REF_CORRUPT;
    f->exempt = body;
    f->exempt_ranges = length / 16;
    for (uint64_t i = 0; i < f->exempt_ranges; i++) {
        const struct range r = range_at(body, i);
        if (r.how < 1 || r.how > 2 || r.count == 0 || r.first < end) return REF_CORRUPT;
        if (r.first > f->n || r.count > f->n - r.first) return REF_CORRUPT;
        end = r.first + r.count;
        f->exempt_bytes += r.count * ref_dtype_bytes(stored_dtype(f, &r));
    }
    return REF_OK;
}

void ref_put_exempt(const struct ref_frame *f, const uint8_t *bytes, uint8_t *out) {
    const unsigned size = ref_dtype_bytes(f->dtype);
    for (uint64_t i = 0; i < f->exempt_ranges; i++) {
        const struct range r = range_at(f->exempt, i);
        const unsigned stored = stored_dtype(f, &r);
        REF_CASE(r.how == 1 ? "dtype of values at 16 bits" : "dtype of exact values", 0xE,
                 f->dtype);
        if (stored == f->dtype)
            memcpy(out + r.first * size, bytes, r.count * size);
        else
            for (size_t k = 0; k < r.count; k++)
                ref_store(out + r.first * size, k, f->dtype, ref_load(bytes, k, stored));
        bytes += r.count * ref_dtype_bytes(stored);
    }
}

/* ---- The codec -------------------------------------------------------------------------------*/

static enum ref_status check(const struct ref_frame *f) {
    const uint8_t *p = f->parameter, w = p[0];
    REJECT_IF(w < 2 || w == 7 || w > 8 || p[1] < 5 || p[1] > 12);
    REJECT_IF(p[2] && (p[2] < 5 || p[2] > 8 || p[2] > p[1]));
    for (int i = 3; i < 5; i++) REJECT_IF(p[i] > 2);
    REJECT_IF(p[5] > 1 || (p[5] && p[3]) || p[6] > 1 || p[7]);
    REJECT_IF(p[6] && (w > 4 || p[3] || p[4] == 2 || p[5]));
    REJECT_IF(ref_le(p + 8, 4) && !p[2]);
    REJECT_IF(!ref_zeros(p, 12, 16) || f->block < UINT64_C(1) << p[1]);
    return REF_OK;
}

static unsigned only_revision(const struct ref_frame *f) { return f->parameter[6] ? 2 : 1; }

static bool fixed(const struct ref_frame *f) {
    (void)f;
    return true;
}

static uint64_t block_bytes(const struct ref_frame *f, uint64_t count) {
    return ref_group_bytes(f, f->parameter[4], count);
}

static void note(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    if (p[6])
        REF_CASE("grad bits of trellis", 0x1C, p[0]);
    else
        REF_CASE("grad bits", 0x17C, p[0]);
    REF_CASE("grad rotation", 0x1E1, p[2]);
    REF_CASE("grad scale", 7, p[4]);
    REF_CASE("grad signs", 3, ref_le(p + 8, 4) != 0);
}

const struct ref_codec ref_codec_grad = {
    .name = "grad",
    .revision = 2,
    .only_revision = only_revision,
    .dtypes = 0xE,
    .bases = 1,
    .exempt = true,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .decode = decode,
    .note = note,
};
