/* codebook_tmpl.h - groups coded as numbers of levels, written once over 16-lane vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has the lanes and defines, beside them: v_up (a shift of 32 bits), b_add and
 * b_look (bytes), look8 and look16 (floats of a table in one vector), f_cut (towards 0), f_step
 * (2 * code + (v >= threshold)), f_sum_lanes (the sums of 16 vectors, lanes halved as
 * group/codebook.c does it), put64 (64 codes, kept as below, to memory), take64 (and back).
 * It may define OWN_NEAREST, a macro, where tables of 32 entries can be looked up; then also
 * look32 (an entry of two vectors, by the low five bits), and f_above (adds 1 where v >= threshold)
 * in place of f_step. It may define OWN_SIGNS, a macro, and then also join_signs (see below), where
 * b_look sees only the highest bit of an index in a table of one value.
 *
 * Work goes in strips of up to 16 groups, which the first-level cache holds: their maxima and sums,
 * then all scales at once, one group to a lane, then codes. The bytes of four vectors of codes are
 * kept together in one: byte j of lane i belongs to element 16 * j + i. */
#include "common/lanes_tmpl.h"
#include "group/codebook.h"
#include "group/codebook_value.h"
#include "group/group_part.h"

enum { UNIT = 64, STRIP = 16, DEPTH = 4 };

/* ---- Tables -----------------------------------------------------------------------------------*/

struct book {
    struct pithi_codebook plain;
    unsigned bits;
    v16 step[DEPTH]; /* nf: see book_nf */
    v16 level, add;  /* lloyd: positive levels; see cell_numbers */
    v16 low, flip;   /* lloyd, in bytes: the last negative code; all bits of a code */
};

static v16 floats(const float from[16]) { return v_load((const uint8_t *)from); }
static v16 every_byte(uint32_t x) { return v_set(x * 0x01010101u); }

#ifdef OWN_NEAREST
/* Values are told apart by cells of 1/14, of which those beyond 15 count as the outermost ones. No
 * two thresholds are in one cell, so that a code is the number of thresholds in the cells before,
 * and one more from the threshold of its own cell on. Tables have cell c at c mod 32: two vectors
 * of thresholds, +inf where there is none, and two of numbers. */
#define NF_CELLS 14.0f
enum { NF_LAST = 15 };
static void book_nf(struct book *b) {
    float threshold[32];
    uint32_t before[32] = {0};
    for (int c = -NF_LAST - 1, k = 0; c <= NF_LAST; c++) {
        const float next = k + 1 < b->plain.levels ? b->plain.middle[k] : 2.0f;
        const bool here = pithi_round_even(next * NF_CELLS) == c;
        threshold[c & 31] = here ? next : pithi_float(PITHI_F32_INF);
        before[c & 31] = (uint32_t)k;
        k += here;
    }
    b->step[0] = floats(threshold);
    b->step[1] = floats(threshold + 16);
    b->step[2] = v_load((const uint8_t *)before);
    b->step[3] = v_load((const uint8_t *)(before + 16));
}
#else
/* Thresholds, of one level of a tree each; +inf above its root. */
static void book_nf(struct book *b) {
    float t[16];
    for (int d = 0; d < DEPTH; d++) {
        const int depth = d - (DEPTH - (int)b->bits);
        const int step = depth < 0 ? 0 : b->plain.levels >> (depth + 1);
        for (int i = 0; i < 16; i++) {
            const int at = depth < 0 ? 0 : (2 * (i & ((1 << depth) - 1)) + 1) * step - 1;
            t[i] = depth < 0 ? pithi_float(PITHI_F32_INF) : b->plain.middle[at];
        }
        b->step[d] = floats(t);
    }
}
#endif

/* Prepares Lloyd-Max codes. Of 8 cells at most one begins a level: cell + add counts these in its
 * bits from 3 on, as what add has beside whole levels is what that cell lacks of 8. Appended tokens
 * have a book each, so that this does not divide, nor look for what it passed. */
static void book_lloyd(struct book *b) {
    const int half = b->plain.levels / 2;
    float level[16];
    uint8_t add[64];
    for (int bin = 0, k = 1; bin < 16; bin++) { /* level k begins in this cell or behind it */
        k += k < half && b->plain.first[k] <= 8 * bin;
        const int lacking = k < half ? 8 * bin + 8 - b->plain.first[k] : 0;
        add[bin] = (uint8_t)(8 * (k - 1 - bin) + (lacking > 0 ? lacking : 0));
        level[bin] = b->plain.level[half + (bin & (half - 1))];
    }
    for (int quarter = 1; quarter < 4; quarter++) memcpy(add + 16 * quarter, add, 16);
    b->level = floats(level);
    b->add = v_load(add);
    b->low = every_byte((uint32_t)half - 1);
    b->flip = every_byte((uint32_t)b->plain.levels - 1);
}

static void book_make(struct book *b, const struct pithi_group_setting *s) {
    pithi_codebook_init(&b->plain, s);
    b->bits = s->bits;
    if (s->codebook == PITHI_CODEBOOK_NF)
        book_nf(b);
    else
        book_lloyd(b);
}

/* ---- Codes of a unit --------------------------------------------------------------------------*/

/* Joins bytes of four vectors; lanes hold values below 256. */
ALWAYS v16 join(const v16 x[4]) {
    return v_add(v_add(x[0], v_up(x[1], 8)), v_add(v_up(x[2], 16), v_up(x[3], 24)));
}
#ifndef OWN_SIGNS
/* Joins the sign bits, each as the highest bit of its byte. */
ALWAYS v16 join_signs(const v16 x[4]) {
    return v_add(v_add(v_and(v_shr(x[0], 24), v_set(0x80)), v_and(v_shr(x[1], 16), v_set(0x8000))),
                 v_add(v_and(v_shr(x[2], 8), v_set(0x800000)), v_and(x[3], v_set(0x80000000u))));
}
#endif

#ifdef OWN_NEAREST
ALWAYS v16 nearest16(const struct book *b, v16 v) {
    const v16 last = v_set(pithi_bits((float)NF_LAST));
    const v16 cell = f_round_to_i(f_limit(f_mul(v, v_set(pithi_bits(NF_CELLS))), last));
    const v16 threshold = look32(b->step[0], b->step[1], cell);
    return f_above(look32(b->step[2], b->step[3], cell), v, threshold);
}
#else
ALWAYS v16 nearest16(const struct book *b, v16 v) {
    v16 code = v_set(0);
    code = f_step(code, v, b->step[0]);
    code = f_step(code, v, look8(b->step[1], code));
    code = f_step(code, v, look8(b->step[2], code));
    return f_step(code, v, look8(b->step[3], code));
}
#endif
ALWAYS v16 nearest64(const struct book *b, const v16 x[4], v16 cells) {
    const v16 code[4] = {nearest16(b, f_mul(x[0], cells)), nearest16(b, f_mul(x[1], cells)),
                         nearest16(b, f_mul(x[2], cells)), nearest16(b, f_mul(x[3], cells))};
    return join(code);
}

ALWAYS v16 cell16(v16 x, v16 cells) {
    return f_cut(f_min(f_mul(magnitude16(x), cells), v_set(pithi_bits((float)(PITHI_CELLS - 1)))));
}
/* Returns the numbers of the positive levels of cells, all in bytes. */
ALWAYS v16 cell_numbers(const struct book *b, v16 cells) {
    const v16 bin = v_and(v_shr(cells, 3), every_byte(15));
    return v_and(v_shr(b_add(cells, b_look(b->add, bin)), 3), every_byte(7));
}
ALWAYS v16 numbers64(const struct book *b, const v16 x[4], v16 cells) {
    const v16 c[4] = {cell16(x[0], cells), cell16(x[1], cells), cell16(x[2], cells),
                      cell16(x[3], cells)};
    return cell_numbers(b, join(c));
}
/* Returns the codes of these numbers with the signs of x. */
ALWAYS v16 signed64(const struct book *b, v16 numbers, const v16 x[4]) {
    return v_xor(v_xor(numbers, b->low), b_look(b->flip, join_signs(x)));
}

/* Fetches values into the second-level cache: what the first holds is still in use. */
ALWAYS void fetch_unit(const uint8_t *p, size_t bytes) {
    for (size_t k = 0; k < bytes; k += 64) __builtin_prefetch(p + k, 0, 2);
}

/* Loads the first n vectors; the others repeat the first. */
ALWAYS void load_unit(v16 x[4], uint32_t dtype, const uint8_t *p, size_t i, unsigned n) {
    x[0] = load(dtype, p, i);
    x[1] = n > 1 ? load(dtype, p, i + 16) : x[0];
    x[2] = n > 2 ? load(dtype, p, i + 32) : x[0];
    x[3] = n > 3 ? load(dtype, p, i + 48) : x[0];
}

/* Packs codes. */
ALWAYS void put_unit(const struct book *b, uint8_t *to, v16 codes, unsigned n) {
    if (n == 4) {
        put64(to, b->bits, codes);
    } else {
        uint8_t bytes[UNIT / 2];
        put64(bytes, b->bits, codes);
        memcpy(to, bytes, (size_t)2 * n * b->bits);
    }
}

/* ---- Groups -----------------------------------------------------------------------------------*/

/* Up to 16 groups of `size` elements, whole vectors each. Arrays have an entry for each group. */
struct strip {
    const struct pithi_group_setting *set;
    const uint8_t *value;
    const uint8_t *prefetch; /* what is read next, to be fetched while codes are made */
    uint8_t *codes, *scales;
    size_t groups, size;
    _Alignas(64) uint32_t largest[STRIP];
    float scale[STRIP];                  /* 0: all codes are 0 */
    float cells[STRIP];                  /* cells a unit, for codes by the scale */
    float guess[STRIP];                  /* lloyd: cells a unit, for codes by the mean magnitude */
    uint32_t fixed[STRIP], again[STRIP]; /* lloyd, not 0: the scale stays; codes by it are due */
    v16 with_value[STRIP], with_itself[STRIP], level[STRIP], mixed[STRIP];
};

ALWAYS v16 get16(const void *p) { return v_load((const uint8_t *)p); }
ALWAYS void set16(void *p, v16 x) { v_store((uint8_t *)p, x); }

ALWAYS v16 maxima_of(v16 x[STRIP]) {
    const vquad q[4] = {v_largest_four(x), v_largest_four(x + 4), v_largest_four(x + 8),
                        v_largest_four(x + 12)};
    return v_largest_all(q);
}

/* Finds the largest magnitudes and, when requested, sums of magnitudes. */
ALWAYS void measure(struct strip *s, uint32_t dtype, bool sums, v16 *sum) {
    v16 m[STRIP], t[STRIP];
    for (size_t g = 0; g < STRIP; g++) {
        m[g] = t[g] = v_set(0);
        if (g >= s->groups) continue;
        const size_t from = g * s->size;
        v16 most = v_set(0), all = v_set(0);
        for (size_t i = from; i < from + s->size; i += 16) {
            const v16 a = magnitude16(load(dtype, s->value, i));
            most = v_maxu(most, a);
            if (sums) all = f_add(all, a);
        }
        m[g] = most;
        t[g] = all;
    }
    set16(s->largest, maxima_of(m));
    *sum = sums ? f_sum_lanes(t) : v_set(0);
}

/* Returns what the last level stands for, in the dtype of the values. */
ALWAYS v16 top_of(const struct book *b, uint32_t dtype, v16 scale) {
    return round_to(dtype, f_mul(v_spread(&b->plain.level[b->plain.levels - 1]), scale));
}

/* Returns the scales with which the last level reaches 16 largest magnitudes. */
ALWAYS v16 reach16(v16 m, const struct pithi_group_setting *s, const struct book *b) {
    const v16 coded = v_greater(m, v_set(PITHI_CODEBOOK_TINY - 1));
    const v16 x = f_div(m, v_spread(&b->plain.level[b->plain.levels - 1]));
    return v_and(round_step(s->scale_dtype, x), coded);
}

/* Does pithi_codebook_reach for every group, with `unit` cells a scale; returns which groups need
 * more work. */
ALWAYS uint32_t reach(struct strip *s, const struct book *b, uint32_t dtype, float unit) {
    const v16 m = get16(s->largest), scale = reach16(m, s->set, b);
    set16(s->scale, scale);
    set16(s->cells, f_div(v_spread(&unit), scale));
    return v_nonfinite(m) | v_nonfinite(scale) | v_nonfinite(top_of(b, dtype, scale));
}

/* Writes the codes of a group whose values all have code 0. */
static void put_blank(const struct strip *s, size_t g) {
    const size_t bytes = s->size * s->set->bits / 8;
    memset(s->codes + g * bytes, 0, bytes);
}

ALWAYS bool skipped(const struct strip *s, uint32_t irregular, size_t g) {
    if (irregular >> g & 1) return true;
    if (s->scale[g] != 0) return false;
    put_blank(s, g);
    return true;
}

static void put_scales(const struct strip *s, v16 scale) {
    const uint32_t dtype = s->set->scale_dtype;
    float x[STRIP];
    if (s->groups == STRIP) {
        store(dtype, s->scales, 0, scale);
        return;
    }
    set16(x, scale);
    for (size_t g = 0; g < s->groups; g++) pithi_store(s->scales, dtype, g, pithi_bits(x[g]));
}

/* ---- Normal float -----------------------------------------------------------------------------*/

ALWAYS void encode_nf(struct strip *s, const struct book *b, uint32_t dtype, uint32_t irregular) {
    for (size_t g = 0; g < s->groups; g++) {
        if (skipped(s, irregular, g)) continue;
        const v16 cells = v_spread(&s->cells[g]);
        uint8_t *to = s->codes + g * s->size * b->bits / 8;
        size_t i = g * s->size;
        v16 x[4];
        for (; i + UNIT <= (g + 1) * s->size; i += UNIT, to += UNIT * b->bits / 8) {
            fetch_unit(s->prefetch + i * width(dtype), UNIT * width(dtype));
            load_unit(x, dtype, s->value, i, 4);
            put_unit(b, to, nearest64(b, x, cells), 4);
        }
        const unsigned rest = (unsigned)((g + 1) * s->size - i) / 16;
        if (!rest) continue;
        load_unit(x, dtype, s->value, i, rest);
        put_unit(b, to, nearest64(b, x, cells), rest);
    }
    put_scales(s, get16(s->scale));
}

/* ---- Lloyd-Max --------------------------------------------------------------------------------*/

struct sums {
    v16 with_value, with_itself, level, first, mixed;
};

/* Adds to the sums. `number` is in the low bits of the lanes. */
ALWAYS void add16(struct sums *t, const struct book *b, v16 number, v16 x) {
    const v16 level = look8(b->level, number);
    t->with_value = f_add(t->with_value, f_mul(magnitude16(x), level));
    t->with_itself = f_add(t->with_itself, f_mul(level, level));
    t->level = f_add(t->level, level);
}

ALWAYS void lloyd_unit(struct sums *t, const struct book *b, const v16 x[4], v16 cells, uint8_t *to,
                       unsigned n, bool begin) {
    const v16 k = numbers64(b, x, cells);
    put_unit(b, to, signed64(b, k, x), n);
    if (begin) t->first = every_byte(v_first(k) & 0xFF);
    t->mixed = v_maxu(t->mixed, v_xor(k, t->first));
    add16(t, b, k, x[0]);
    if (n > 1) add16(t, b, v_shr(k, 8), x[1]);
    if (n > 2) add16(t, b, v_shr(k, 16), x[2]);
    if (n > 3) add16(t, b, v_shr(k, 24), x[3]);
}

/* Makes the codes of one group, and sums what they stand for. */
ALWAYS void lloyd_group(struct sums *t, const struct strip *s, const struct book *b, uint32_t dtype,
                        size_t g, float cells) {
    const v16 c = v_spread(&cells);
    uint8_t *to = s->codes + g * s->size * b->bits / 8;
    size_t i = g * s->size;
    v16 x[4];
    t->with_value = t->with_itself = t->level = t->mixed = t->first = v_set(0);
    for (; i + UNIT <= (g + 1) * s->size; i += UNIT, to += UNIT * b->bits / 8) {
        fetch_unit(s->prefetch + i * width(dtype), UNIT * width(dtype));
        load_unit(x, dtype, s->value, i, 4);
        lloyd_unit(t, b, x, c, to, 4, i == g * s->size);
    }
    const unsigned rest = (unsigned)((g + 1) * s->size - i) / 16;
    if (!rest) return;
    load_unit(x, dtype, s->value, i, rest);
    lloyd_unit(t, b, x, c, to, rest, i == g * s->size);
}

/* Does pithi_codebook_steady for 16 sums; all ones where it holds. */
ALWAYS v16 steady(const struct strip *s, const struct book *b, v16 sum) {
    const float count = (float)s->size;
    const v16 t = f_mul(f_div(sum, v_spread(&count)), v_set(pithi_bits(1.2533141f)));
    return v_and(v_greater(t, v_set(pithi_bits(b->plain.steady_from))),
                 v_greater(v_set(pithi_bits(b->plain.steady_to)), t));
}

/* Sets bits where a level times the scale is not x. */
ALWAYS v16 missed(const struct book *b, uint32_t dtype, v16 number, v16 scale, v16 x) {
    return v_xor(round_to(dtype, f_mul(look8(b->level, number), scale)), magnitude16(x));
}

/* Whether codes by the scale reproduce a group; *sum is then their level sum. Few groups come here
 * whose first vector does not tell. */
static __attribute__((noinline)) bool reproduced(const struct strip *s, const struct book *b,
                                                 uint32_t dtype, size_t g, v16 *sum) {
    const v16 cells = v_spread(&s->cells[g]), scale = v_spread(&s->scale[g]);
    *sum = v_set(0);
    for (size_t i = g * s->size; i < (g + 1) * s->size; i += 16) {
        const v16 x = load(dtype, s->value, i), k = cell_numbers(b, cell16(x, cells));
        if (v_reduce_maxu(missed(b, dtype, k, scale, x))) return false;
        *sum = f_add(*sum, look8(b->level, k));
    }
    return true;
}

/* Sets `fixed` and `guess`. Only where the largest value is reproduced all others can be. */
ALWAYS void guess_scales(struct strip *s, const struct book *b, uint32_t dtype, uint32_t irregular,
                         v16 sum) {
    const v16 m = get16(s->largest), scale = get16(s->scale);
    const v16 k = cell_numbers(b, cell16(m, get16(s->cells)));
    uint32_t miss[STRIP];
    set16(miss, missed(b, dtype, k, scale, m));
    const float count = (float)s->size, unit = PITHI_CELLS_A_UNIT;
    const v16 deviation = f_mul(f_div(sum, v_spread(&count)), v_set(pithi_bits(1.2533141f)));
    set16(s->guess, f_div(v_spread(&unit), deviation));
    set16(s->fixed, v_set(0));
    for (size_t g = 0; g < s->groups; g++) {
        v16 sums[STRIP];
        if (miss[g] || irregular >> g & 1 || s->scale[g] == 0) continue;
        if (!reproduced(s, b, dtype, g, &sums[0])) continue;
        for (size_t j = 1; j < STRIP; j++) sums[j] = v_set(0);
        if (v_first(steady(s, b, f_sum_lanes(sums)))) continue;
        s->fixed[g] = 1;
        s->guess[g] = s->cells[g];
    }
}

/* Chooses the scales of least squares where they are idempotent; sets `again`. */
ALWAYS v16 choose_scales(struct strip *s, const struct book *b, uint32_t dtype) {
    const v16 previous = get16(s->scale), none = v_set(0);
    const v16 scale = round_step(s->set->scale_dtype,
                                 f_div(f_sum_lanes(s->with_value), f_sum_lanes(s->with_itself)));
    const v16 widest = f_mul(get16(s->largest), get16(s->guess));
    v16 good = v_and(steady(s, b, f_sum_lanes(s->level)), v_greater(scale, none));
    good = v_and(good, v_greater(v_set(PITHI_F32_INF), magnitude16(top_of(b, dtype, scale))));
    good = v_and(good, v_greater(v_set(pithi_bits(b->plain.widest)), widest));
    good = v_and(good, v_greater(maxima_of(s->mixed), none));
    const v16 fixed = v_greater(get16(s->fixed), none), coded = v_greater(previous, none);
    const v16 bad = v_xor(good, v_set(~0u)), free = v_xor(fixed, v_set(~0u));
    set16(s->again, v_and(v_and(bad, free), coded));
    good = v_and(v_and(good, free), coded);
    return v_xor(previous, v_and(v_xor(previous, scale), good));
}

static __attribute__((noinline)) void encode_again(struct strip *s, const struct book *b,
                                                   uint32_t dtype, uint32_t irregular) {
    struct sums unused;
    for (size_t g = 0; g < s->groups; g++)
        if (s->again[g] && !(irregular >> g & 1)) lloyd_group(&unused, s, b, dtype, g, s->cells[g]);
}

ALWAYS void encode_lloyd(struct strip *s, const struct book *b, uint32_t dtype, uint32_t irregular,
                         v16 sum) {
    guess_scales(s, b, dtype, irregular, sum);
    for (size_t g = 0; g < STRIP; g++) {
        struct sums t;
        t.with_value = t.with_itself = t.level = t.mixed = v_set(0);
        if (g < s->groups && !skipped(s, irregular, g))
            lloyd_group(&t, s, b, dtype, g, s->guess[g]);
        s->with_value[g] = t.with_value;
        s->with_itself[g] = t.with_itself;
        s->level[g] = t.level;
        s->mixed[g] = t.mixed;
    }
    const v16 scale = choose_scales(s, b, dtype);
    if (v_reduce_maxu(get16(s->again))) encode_again(s, b, dtype, irregular);
    put_scales(s, scale);
}

/* ---- Entry: encode ----------------------------------------------------------------------------*/

ALWAYS void encode_strip(struct pithi_group_job *job, const struct book *b, size_t first,
                         size_t groups, size_t size, uint32_t dtype, bool nf) {
    struct strip s;
    s.set = &job->set;
    s.value = (const uint8_t *)job->value + first * width(dtype);
    s.prefetch = job->prefetch ? (const uint8_t *)job->prefetch + first * width(dtype)
                               : s.value + groups * size * width(dtype);
    s.codes = job->codes + first * b->bits / 8;
    s.scales = job->scales + pithi_group_scale_bytes(&job->set, first);
    s.groups = groups;
    s.size = size;
    v16 sum;
    measure(&s, dtype, !nf, &sum);
    const uint32_t irregular = reach(&s, b, dtype, nf ? 1.0f : (float)PITHI_CELLS_A_UNIT);
    if (nf)
        encode_nf(&s, b, dtype, irregular);
    else
        encode_lloyd(&s, b, dtype, irregular, sum);
    for (size_t g = 0; g < groups; g++)
        if (irregular >> g & 1) scalar_part(job, first + g * size, size, pithi_codebook_encode_c);
}

ALWAYS void encode_all(struct pithi_group_job *job, uint32_t dtype, bool nf) {
    struct book b;
    book_make(&b, &job->set);
    const size_t size = job->set.group, whole = job->count / size;
    for (size_t g = 0; g < whole; g += STRIP)
        encode_strip(job, &b, g * size, whole - g < STRIP ? whole - g : STRIP, size, dtype, nf);
    const size_t rest = job->count % size;
    if (rest % 16)
        scalar_part(job, whole * size, rest, pithi_codebook_encode_c);
    else if (rest)
        encode_strip(job, &b, whole * size, 1, rest, dtype, nf);
}

static __attribute__((noinline)) void encode_f32(struct pithi_group_job *job, bool nf) {
    if (nf)
        encode_all(job, PITH_F32, true);
    else
        encode_all(job, PITH_F32, false);
}
static __attribute__((noinline)) void encode_bf16(struct pithi_group_job *job, bool nf) {
    if (nf)
        encode_all(job, PITH_BF16, true);
    else
        encode_all(job, PITH_BF16, false);
}
static __attribute__((noinline)) void encode_f16(struct pithi_group_job *job, bool nf) {
    if (nf)
        encode_all(job, PITH_F16, true);
    else
        encode_all(job, PITH_F16, false);
}

static void codebook_encode(struct pithi_group_job *job) {
    const bool nf = job->set.codebook == PITHI_CODEBOOK_NF;
    if (job->value_dtype == PITH_F32)
        encode_f32(job, nf);
    else if (job->value_dtype == PITH_BF16)
        encode_bf16(job, nf);
    else
        encode_f16(job, nf);
}

/* ---- From codes to values ---------------------------------------------------------------------*/
/* A table holds what each code of a group stands for, rounded before it is looked up. Scales from
 * 2^119 up, where values could overflow, go to the scalar reference with the groups beside them. */
enum { READABLE = 32 }; /* bytes that take64 may read */

struct decoder {
    struct reading reading;
    v16 level;
};

ALWAYS v16 table_of(const struct decoder *d, const float *scale, uint32_t dtype) {
    const v16 x = f_add(f_mul(d->level, v_spread(scale)), v_set(0)); /* never -0 */
    return round_loosely(dtype, x);
}

ALWAYS void put16(uint8_t *to, uint32_t dtype, size_t i, v16 x, struct streamer *stream) {
    if (dtype == PITH_F32 && stream)
        v_stream(stream, to + 4 * i, x);
    else
        store(dtype, to, i, x);
}

/* Decodes units of 64 values of groups from `scale` on, `first` of which are gone from the first
 * group, by ordinary stores or through *stream when that is not NULL. */
ALWAYS void decode_units(const struct decoder *d, const struct pithi_group_job *job,
                         const float *scale, size_t first, size_t count, uint32_t dtype,
                         struct streamer *stream) {
    const struct decoder copy = *d; /* a copy that no store can alias */
    const unsigned bits = job->set.bits, shift = (unsigned)__builtin_ctz(job->set.group);
    const uint8_t *from = job->codes + first * bits / 8;
    uint8_t *to = (uint8_t *)job->out + first * width(dtype);
    for (size_t i = 0; i < count; i += UNIT, from += UNIT * bits / 8) {
        v16 q[4], t[4];
        take64(q, from, &copy.reading);
        t[0] = t[1] = t[2] = t[3] = table_of(&copy, &scale[i >> shift], dtype);
        if (shift < 6) {
            t[1] = table_of(&copy, &scale[(i + 16) >> shift], dtype);
            t[2] = table_of(&copy, &scale[(i + 32) >> shift], dtype);
            t[3] = table_of(&copy, &scale[(i + 48) >> shift], dtype);
        }
        put16(to, dtype, i, look16(t[0], q[0]), stream);
        put16(to, dtype, i + 16, look16(t[1], q[1]), stream);
        put16(to, dtype, i + 32, look16(t[2], q[2]), stream);
        put16(to, dtype, i + 48, look16(t[3], q[3]), stream);
    }
}

/* Decodes up to 64 values, into a copy. */
static __attribute__((noinline)) void decode_end(const struct decoder *d,
                                                 const struct pithi_group_job *job,
                                                 const float *scale, size_t first, size_t count) {
    uint8_t codes[READABLE] = {0}, out[UNIT * 4];
    const size_t size = width(job->out_dtype);
    struct pithi_group_job p = *job;
    memcpy(codes, job->codes + first * job->set.bits / 8, (count * job->set.bits + 7) / 8);
    p.codes = codes;
    p.out = out;
    decode_units(d, &p, scale, 0, UNIT, job->out_dtype, NULL);
    memcpy((uint8_t *)job->out + first * size, out, count * size);
}

/* Reads scales as f32; returns the largest magnitude's bits. */
static uint32_t read_scales(const struct pithi_group_job *job, size_t first, size_t groups,
                            float to[]) {
    const uint32_t dtype = job->set.scale_dtype;
    const uint8_t *from = job->scales + pithi_group_scale_bytes(&job->set, first);
    v16 most = v_set(0);
    for (size_t g = 0; g < groups; g += 16) {
        if (g + 16 <= groups)
            v_store((uint8_t *)(to + g), load(dtype, from, g));
        else
            for (size_t k = g; k < g + 16; k++)
                to[k] = pithi_float(k < groups ? pithi_load(from, dtype, k) : 0);
        most = v_maxu(most, magnitude16(get16(to + g)));
    }
    return v_reduce_maxu(most);
}

static size_t code_at(const struct pithi_group_job *job, size_t i) { return i * job->set.bits / 8; }

/* DECODED values are decoded at a time: those of whole groups, as many as `scale` has entries
 * for. */
enum { DECODED = 2048, SCALES = DECODED / 16 };

ALWAYS void decode_all(struct pithi_group_job *job, uint32_t dtype, bool streamed) {
    struct decoder d;
    struct pithi_codebook book;
    _Alignas(64) float scale[SCALES + 16], level[16];
    pithi_codebook_init(&book, &job->set);
    for (int k = 0; k < 16; k++) level[k] = book.level[k % book.levels];
    d.level = floats(level);
    reading_make(&d.reading, job->set.bits);
    struct streamer stream; /* nobody has its address, so that it stays in registers */
    v_stream_begin(&stream, job->out);
    const size_t group = job->set.group, step = group > DECODED ? group : DECODED;
    const size_t bytes = pithi_group_code_bytes(&job->set, job->count);
    uint8_t *const out = job->out;
    for (size_t first = 0, n; first < job->count; first += n) {
        n = job->count - first < step ? job->count - first : step;
        if (read_scales(job, first, (n + group - 1) / group, scale) >= PITHI_SCALE_LIMIT) {
            if (streamed) v_stream_end(&stream, out + first * width(dtype));
            scalar_part(job, first, n, pithi_codebook_decode_c);
            continue;
        }
        size_t units = n - n % UNIT;
        while (units && code_at(job, first + units - UNIT) + READABLE > bytes) units -= UNIT;
        decode_units(&d, job, scale, first, units, dtype, streamed ? &stream : NULL);
        if (units < n && streamed) v_stream_end(&stream, out + (first + units) * width(dtype));
        for (size_t i = units; i < n; i += UNIT)
            decode_end(&d, job, scale + i / group, first + i, n - i < UNIT ? n - i : UNIT);
    }
    if (streamed && job->count) v_stream_end(&stream, out + job->count * width(dtype));
}

static void codebook_decode(struct pithi_group_job *job) {
    const bool streamed = job->nontemporal && job->out_dtype == PITH_F32 && v_stream_fits(job->out);
    if (!job->out)
        pithi_codebook_decode_c(job);
    else if (job->out_dtype == PITH_F32 && streamed)
        decode_all(job, PITH_F32, true);
    else if (job->out_dtype == PITH_F32)
        decode_all(job, PITH_F32, false);
    else if (job->out_dtype == PITH_BF16)
        decode_all(job, PITH_BF16, false);
    else
        decode_all(job, PITH_F16, false);
}
