/* refdec_eb.c - codec 5: differences of codes, and two interpolations of values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

enum { CONSTANT, PACKED, CODED, INTERPOLATED, WEIGHTED };

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

/* How many dimensions a tile of more than one element has, from its first longer one on. */
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
    /* Weighted interpolation: whether level and class have weights, and these, in units. */
    bool set[2][8];
    int32_t weight[2][8][16];
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

/* The levels from `last` on. */
static void interpolate(struct tile *x, unsigned last) {
    const unsigned top = levels(x->t);
    reconstruct(x, 0, 0, step_of(x, top - 1));
    for (unsigned l = top; l-- > last;)
        for (int d = 3; d >= 0; d--)
            for (uint64_t i = 0, h = UINT64_C(1) << l; i < x->t->count; i++)
                if (in_pass(x, i, d, h)) reconstruct(x, i, predict(x, i, d, h), step_of(x, l));
}

/* ---- Weighted interpolation -------------------------------------------------------------------*/

static const int offsets[16][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1},
                                   {1, 1, 1}, {3, 0, 0}, {0, 3, 0}, {0, 0, 3}, {1, 2, 0}, {1, 0, 2},
                                   {2, 1, 0}, {0, 1, 2}, {2, 0, 1}, {0, 2, 1}};

static bool can_weigh(const struct ref_block *b) {
    const uint64_t *const e = b->tile->extent;
    if (b->frame->revision < 3 || b->frame->dtype == F64 || e[0] > 1 || e[3] < 64) return false;
    if (e[1] > 1 && e[1] < 16) return false;
    if (e[2] > 1 && e[2] < 16) return false;
    return true;
}

/* Bit 2 of a class is the parity along dimension 1, bit 1 that along 2, bit 0 that along 3. */
static int parity(unsigned class, int d) { return (int)(class >> (2 - d) & 1); }

static bool is_term(const struct ref_tile *t, unsigned class, int k) {
    unsigned other = 0;
    for (int d = 0; d < 3; d++) {
        if (offsets[k][d] && t->extent[d + 1] == 1) return false;
        other = 2 * other + (unsigned)((parity(class, d) + offsets[k][d]) % 2);
    }
    return other < class;
}

static uint64_t class_count(const struct ref_tile *t, unsigned class) {
    uint64_t n = 1;
    for (int d = 0; d < 3; d++)
        n *= parity(class, d) ? t->extent[d + 1] / 2 : (t->extent[d + 1] + 1) / 2;
    return n;
}

/* What stands at places j of a level's grid, or would stand there outside. */
static double stretched(const struct tile *x, unsigned l, const int64_t j[3]) {
    uint64_t at = 0;
    for (int d = 0; d < 3; d++) {
        const int64_t n = (int64_t)((x->t->extent[d + 1] - 1) >> l) + 1;
        if (j[d] < 0 || j[d] >= n) {
            int64_t edge[3] = {j[0], j[1], j[2]}, mirrored[3] = {j[0], j[1], j[2]};
            edge[d] = j[d] < 0 ? 0 : (n - 1) / 2 * 2;
            mirrored[d] = 2 * edge[d] - j[d];
            REF_CASE("weighted edge", REF_UP_TO(5), 2 * (unsigned)d + (j[d] < 0));
            return rn(x, rn(x, 2 * stretched(x, l, edge)) - stretched(x, l, mirrored));
        }
        at += ((uint64_t)j[d] << l) * stride(x->t, d + 1);
    }
    return x->y[at];
}

/* The sum of a term's neighbours. */
static double neighbours(const struct tile *x, unsigned l, const int64_t j[3], const int o[3]) {
    double sum = 0;
    bool first = true;
    for (int s1 = o[0] ? -1 : 1; s1 <= 1; s1 += 2)
        for (int s2 = o[1] ? -1 : 1; s2 <= 1; s2 += 2)
            for (int s3 = o[2] ? -1 : 1; s3 <= 1; s3 += 2) {
                const int64_t p[3] = {j[0] + s1 * o[0], j[1] + s2 * o[1], j[2] + s3 * o[2]};
                const double y = stretched(x, l, p);
                sum = first ? y : rn(x, sum + y);
                first = false;
            }
    return sum;
}

/* The weight of term k where none are stored. */
static double usual(unsigned class, int k) {
    static const uint32_t near[4] = {0, 0x3F100000, 0x3E900000, 0x3E400000};
    static const uint32_t far[4] = {0, 0xBD800000, 0xBD000000, 0xBCAAAAAB};
    const int odd = parity(class, 0) + parity(class, 1) + parity(class, 2);
    if (k < 3) return (double)ref_as_float(near[odd]);
    return k >= 7 && k < 10 ? (double)ref_as_float(far[odd]) : 0;
}

static void weigh_element(struct tile *x, unsigned l, unsigned class, const int64_t j[3]) {
    double p = 0;
    uint64_t at = 0;
    for (int k = 0, m = 0; k < 16; k++) {
        if (!is_term(x->t, class, k)) continue;
        const double w = x->set[l][class] ? x->weight[l][class][m] * 0x1p-22 : usual(class, k);
        m++;
        if (w != 0) p = rn(x, p + rn(x, w * neighbours(x, l, j, offsets[k])));
    }
    for (int d = 0; d < 3; d++) at += ((uint64_t)j[d] << l) * stride(x->t, d + 1);
    reconstruct(x, at, p, step_of(x, l));
}

static void weigh(struct tile *x) {
    interpolate(x, 2);
    for (unsigned l = 2; l-- > 0;)
        for (unsigned class = 1; class < 8; class ++) {
            int64_t n[3], j[3];
            if (!class_count(x->t, class)) continue;
            REF_CASE("weights", REF_UP_TO(3), 2 * l + x->set[l][class]);
            for (int d = 0; d < 3; d++) n[d] = (int64_t)((x->t->extent[d + 1] - 1) >> l) + 1;
            for (j[0] = parity(class, 0); j[0] < n[0]; j[0] += 2)
                for (j[1] = parity(class, 1); j[1] < n[1]; j[1] += 2)
                    for (j[2] = parity(class, 2); j[2] < n[2]; j[2] += 2)
                        weigh_element(x, l, class, j);
        }
}

static bool read_weights(struct ref_reader *r, struct tile *x) {
    const uint8_t *set, *bytes;
    if (!ref_take(r, 2, &set)) return false;
    for (unsigned l = 2; l-- > 0;)
        for (unsigned class = 1; class <= 8; class ++) {
            if (!(set[1 - l] >> (class - 1) & 1)) continue;
            if (class == 8 || !class_count(x->t, class)) return false;
            x->set[l][class] = true;
            for (int k = 0, m = 0; k < 16; k++) {
                if (!is_term(x->t, class, k)) continue;
                if (!ref_take(r, 3, &bytes)) return false;
                const int32_t u = (int32_t)ref_le(bytes, 3);
                x->weight[l][class][m++] = u < 1 << 23 ? u : u - (1 << 24);
            }
        }
    return true;
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

/* The words before the last level, then those of each of its classes. */
static bool class_strings(struct ref_reader *r, const struct ref_tile *t, uint32_t *words) {
    const uint64_t before = class_count(t, 0);
    if (!ref_coded(r, before, words)) return false;
    words += before;
    for (unsigned class = 1; class < 8; class ++) {
        const uint64_t n = class_count(t, class);
        if (n && !ref_coded(r, n, words)) return false;
        words += n;
    }
    return true;
}

static bool read_words(const struct ref_block *b, unsigned method, struct ref_reader *r,
                       uint32_t *words) {
    const uint8_t *code;
    if (method == PACKED) return ref_packed(r, b->count, words);
    if (method == CODED) return ref_coded(r, b->count, words);
    if (method == INTERPOLATED) return two_strings(r, b->tile, words);
    if (method == WEIGHTED) return class_strings(r, b->tile, words);
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
    if (method == WEIGHTED && !can_weigh(b)) return false;
    if (method == WEIGHTED) return is_row(b, order);
    if (method > WEIGHTED || order > dimensions(b->tile)) return false;
    return true;
}

static bool read_block(const struct ref_block *b, uint32_t *words, int32_t *codes, double *y) {
    struct ref_reader r = {b->bytes, b->length,
                           b->frame->revision >= 2 ? REF_ZSTD_AND_RANS : REF_ZSTD};
    struct ref_exact exact;
    const uint8_t *head;
    if (!ref_take(&r, 2, &head) || !legal(b, head[0], head[1])) return false;
    if (!ref_take_exact(&r, b, &exact)) return false;
    struct tile x = {.b = b, .t = b->tile, .row = head[1], .words = words, .y = y};
    if (head[0] == WEIGHTED && !read_weights(&r, &x)) return false;
    if (!read_words(b, head[0], &r, words) || r.left) return false;
    if (head[0] >= INTERPOLATED) {
        if (head[0] == WEIGHTED)
            weigh(&x);
        else
            interpolate(&x, 0);
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
    .revision = 3,
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
