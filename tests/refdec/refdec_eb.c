/* refdec_eb.c - codec 5: differences of codes, and interpolation of values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

enum { CONSTANT, PACKED, CODED, INTERPOLATED };

/* ---- Differences -----------------------------------------------------------------------------*/

static uint64_t stride(const struct ref_tile *t, int d) {
    uint64_t n = 1;
    for (int k = d + 1; k < 4; k++) n *= t->extent[k];
    return n;
}

static uint64_t place(const struct ref_tile *t, uint64_t i, int d) {
    return i / stride(t, d) % t->extent[d];
}

static void sum_up(const struct ref_tile *t, unsigned order, int32_t *codes) {
    for (int d = 4 - (int)order; d < 4; d++)
        for (uint64_t i = 0; i < t->count; i++)
            if (place(t, i, d))
                codes[i] = (int32_t)((uint32_t)codes[i] + (uint32_t)codes[i - stride(t, d)]);
}

/* Of a tile with more than one element. */
static unsigned dimensions(const struct ref_tile *t) {
    unsigned d = 0;
    while (t->extent[d] == 1) d++;
    return 4 - d;
}

/* ---- Interpolation ---------------------------------------------------------------------------
 * In double, rounded to f32 after every operation where the tile asks for it: a double holds twice
 * the bits of a float and more, so that rounding twice is rounding once. */
struct tile {
    const struct ref_block *b;
    const struct ref_tile *t;
    unsigned row;
    uint32_t *words;
    double *y;
};

static double rn(const struct tile *x, double value) {
    return x->b->frame->dtype == F64 ? value : (double)(float)value;
}

static double step_of(const struct tile *x, unsigned level) {
    static const uint32_t table[4][5] = {
        {0x3F800000, 0x3F800000, 0x3F800000, 0x3F800000, 0x3F800000},
        {0x3F800000, 0x3F4CCCCD, 0x3F23D70A, 0x3F03126F, 0x3F000000},
        {0x3F800000, 0x3F2AAAAB, 0x3EE38E39, 0x3EAAAAAB, 0x3EAAAAAB},
        {0x3F800000, 0x3F124925, 0x3EA72F05, 0x3E800000, 0x3E800000}};
    REF_CASE("interpolation row and level", REF_UP_TO(19), 5 * x->row + (level < 4 ? level : 4));
    const double f = (double)ref_as_float(table[x->row][level < 4 ? level : 4]);
    return 2 * rn(x, x->b->frame->bound * f);
}

static double predict(const struct tile *x, uint64_t i, int d, uint64_t h) {
    const uint64_t at = place(x->t, i, d), n = x->t->extent[d], s = stride(x->t, d) * h;
    const double *const y = x->y + i;
    const double a = y[-(ptrdiff_t)s], b = at + h < n ? y[s] : 0;
    const bool has_b = at + h < n, has_c = at >= 3 * h, has_e = at + 3 * h < n;
    const double c = has_c ? y[-3 * (ptrdiff_t)s] : 0, e = has_e ? y[3 * s] : 0;
    if (!has_b) return has_c ? rn(x, rn(x, 1.5 * a) - rn(x, 0.5 * c)) : a;
    if (has_c && has_e) return rn(x, rn(x, 0.5625 * rn(x, a + b)) - rn(x, 0.0625 * rn(x, c + e)));
    if (has_c) return rn(x, rn(x, rn(x, 0.75 * a) + rn(x, 0.375 * b)) - rn(x, 0.125 * c));
    if (has_e) return rn(x, rn(x, rn(x, 0.375 * a) + rn(x, 0.75 * b)) - rn(x, 0.125 * e));
    return rn(x, 0.5 * rn(x, a + b));
}

static void reconstruct(struct tile *x, uint64_t i, double p, double step) {
    const double q = rn(x, ref_number(*x->words++));
    const double y = rn(x, p + rn(x, q * step));
    x->y[i] = isfinite(y) ? y : 0;
}

static bool in_pass(const struct tile *x, uint64_t i, int d, uint64_t h) {
    for (int k = 0; k < 4; k++) {
        const uint64_t at = place(x->t, i, k);
        if (at % h || (k == d && at / h % 2 == 0) || (k < d && at / h % 2)) return false;
    }
    return true;
}

static unsigned levels(const struct ref_tile *t) {
    unsigned l = 0;
    for (int d = 0; d < 4; d++)
        while ((t->extent[d] - 1) >> l) l++;
    return l;
}

static void interpolate(struct tile *x) {
    const unsigned top = levels(x->t);
    reconstruct(x, 0, 0, step_of(x, top - 1));
    for (unsigned l = top; l-- > 0;)
        for (int d = 3; d >= 0; d--)
            for (uint64_t i = 0, h = UINT64_C(1) << l; i < x->t->count; i++)
                if (in_pass(x, i, d, h)) reconstruct(x, i, predict(x, i, d, h), step_of(x, l));
}

static void put_values(const struct tile *x) {
    const struct ref_block *b = x->b;
    for (uint64_t i = 0; i < b->count; i++) {
        uint64_t u;
        memcpy(&u, &x->y[i], 8);
        if (b->frame->dtype != F64)
            ref_store(b->out, i, b->frame->dtype, ref_as_bits((float)x->y[i]));
        for (unsigned k = 0; b->frame->dtype == F64 && k < 8; k++, u >>= 8)
            b->out[8 * i + k] = (uint8_t)u;
    }
}

/* ---- A block ---------------------------------------------------------------------------------*/

/* The words before the last level, then those of it. */
static bool two_strings(struct ref_reader *r, const struct ref_tile *t, uint32_t *words) {
    uint64_t before = 1;
    for (int d = 0; d < 4; d++) before *= (t->extent[d] + 1) / 2;
    if (!ref_coded(r, before, words)) return false;
    return ref_coded(r, t->count - before, words + before);
}

static bool read_words(const struct ref_block *b, unsigned method, struct ref_reader *r,
                       uint32_t *words) {
    const uint8_t *code;
    if (method == PACKED) return ref_packed(r, b->count, words);
    if (method == CODED) return ref_coded(r, b->count, words);
    if (method == INTERPOLATED) return two_strings(r, b->tile, words);
    if (!ref_take(r, 4, &code)) return false;
    for (uint64_t i = 0; i < b->count; i++) words[i] = (uint32_t)ref_le(code, 4);
    return true;
}

static bool is_row(const struct ref_block *b, unsigned order) {
    if (order > 3 || b->frame->bound_kind != 1) return false;
    return true;
}

static bool legal(const struct ref_block *b, unsigned method, unsigned order) {
    if (b->count == 1) return false; /* nothing is shorter than the value itself */
    if (method == CONSTANT) return order == 0;
    if (method == INTERPOLATED) return is_row(b, order);
    if (method > INTERPOLATED || order > dimensions(b->tile)) return false;
    return true;
}

static bool read_block(const struct ref_block *b, uint32_t *words, int32_t *codes, double *y) {
    struct ref_reader r = {b->bytes, b->length,
                           b->frame->revision >= 2 ? REF_ZSTD_AND_RANS : REF_ZSTD};
    struct ref_exact exact;
    const uint8_t *head;
    if (!ref_take(&r, 2, &head) || !legal(b, head[0], head[1])) return false;
    if (!ref_take_exact(&r, b, &exact) || !read_words(b, head[0], &r, words) || r.left)
        return false;
    if (head[0] == INTERPOLATED) {
        struct tile x = {b, b->tile, head[1], words, y};
        interpolate(&x);
        put_values(&x);
    } else {
        for (uint64_t i = 0; i < b->count; i++)
            codes[i] = head[0] == CONSTANT ? (int32_t)words[i] : ref_number(words[i]);
        if (head[0] == PACKED) REF_CASE("eb packed order", REF_UP_TO(4), head[1]);
        if (head[0] == CODED) REF_CASE("eb coded order", REF_UP_TO(4), head[1]);
        sum_up(b->tile, head[1], codes);
        for (uint64_t i = 0; i < b->count; i++) ref_put_value(b->frame, codes[i], b->out, i);
    }
    ref_put_exact(b, &exact);
    return true;
}

static enum ref_status decode(const struct ref_block *b) {
    if (b->plain) return ref_plain(b);
    uint32_t *const words = malloc(4 * b->count);
    int32_t *const codes = malloc(4 * b->count);
    double *const y = malloc(8 * b->count);
    const bool allocated = words && codes && y, good = allocated && read_block(b, words, codes, y);
    free(words);
    free(codes);
    free(y);
    return good ? REF_OK : allocated ? REF_CORRUPT : REF_MEMORY;
}

/* ---- The codec -------------------------------------------------------------------------------*/

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Extents are doubled as long as the tile stays small enough. */
static void cubes(struct ref_frame *f) {
    for (;;) {
        int best = -1;
        uint64_t n = 1;
        for (int d = 3; d >= 0; d--)
            if (f->extent[d] < f->shape[d] && (best < 0 || f->extent[d] < f->extent[best]))
                best = d;
        if (best < 0) return;
        f->extent[best] *= 2;
        for (int d = 0; d < 4; d++) n *= least(f->extent[d], f->shape[d]);
        if (n <= f->block) continue;
        f->extent[best] /= 2;
        return;
    }
}

static bool cut(struct ref_frame *f) { return ref_cut_tiles(f, cubes); }

static enum ref_status check(const struct ref_frame *f) { return ref_check_bounded(f, 3, 5, 8); }

static unsigned only_revision(const struct ref_frame *f) {
    return f->parameter[1] == 0 ? 1 : 0; /* mode fast has no pieces */
}

const struct ref_codec ref_codec_eb = {
    .name = "eb",
    .revision = 2,
    .dtypes = 0x1E,
    .bases = 1,
    .section = BOUND,
    .read_section = ref_read_bound,
    .check = check,
    .only_revision = only_revision,
    .cut = cut,
    .block_bytes = ref_plain_bytes,
    .decode = decode,
};
