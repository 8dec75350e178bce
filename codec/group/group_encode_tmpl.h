/* group_encode_tmpl.h - the group quantizer from values to codes, written once over 16 lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and hadamard_tmpl.h, and defines, beside them:
 *   struct packing         what packing to `bits` bits needs, with a member bits
 *   packing_make(p, ...)   fills one, inlined; packing_init does so out of line
 *   pack64(...)            64 codes in four vectors to 8 * bits bytes
 *   unpack64(...)          and back
 *   v_streams_codes(bits)  whether pack64 can write codes of so many bits by non-temporal stores
 *   v_stream16(to, from)   16 bytes by non-temporal stores; v_stream16_fits(p): whether p allows it
 *   shrink_<isa>.h         included: what shrink_tmpl.h needs of lanes
 *   OWN_WHOLE              a macro, where packing integers has a shorter way; then also
 *                          pack64_whole, which is otherwise pack64 and may rely on lanes that
 *                          are codes: 0 to 2^bits - 1, or with a sign, as the packing says
 *   OWN_PACKING            a macro, where packing from other forms has an instruction of its own;
 *                          then also pack64_high, rotate_runs, has_transposed and pack_rotated,
 *                          which are otherwise made of pack64 below
 * It has also included search_<isa>.h, what the search for scales needs: SEARCHED, how many
 * candidates have their sums in registers together, which is even and divides their number, and
 * operations of 16-bit lanes; OWN_SEARCH_BYTES, a macro, where codes of bytes are looked up, and
 * then also v_pack8, search_split and search_rows.
 * group_decode_tmpl.h and group_channel_tmpl.h go on where this file ends. group/group.c says what
 * must come out; every float operation here is one of its operations, in its order.
 *
 * Work goes in batches (whole groups, at least ENCODED or DECODED elements): maxima, then scales,
 * then codes, 64 elements at a time. A batch that could overflow (differences or scales from 2^119
 * up, NaN, infinities) goes to scalar C as a whole, so the loops never see an x' overflow, and
 * encode sees finite bases only; decode hands 64 elements whose new base is not finite over. */
#include "common/lanes_tmpl.h"
#include "group/codebook.h"
#include "group/group.h"
#include "group/group_part.h"
#include "group/hadamard.h"

#ifndef OWN_WHOLE
/* Packs lanes that are the codes as integers. */
static inline void pack64_whole(uint8_t *to, size_t capacity, const struct packing *p,
                                const v16 q[4], bool nontemporal) {
    pack64(to, capacity, p, q, nontemporal);
}
#endif

#ifndef OWN_PACKING
/* Packs the bits of each lane of q[0..3] from 16 up, in order. */
static inline void pack64_high(uint8_t *to, size_t capacity, const struct packing *p,
                               const v16 q[4], bool nontemporal) {
    const v16 high[4] = {v_shr(q[0], 16), v_shr(q[1], 16), v_shr(q[2], 16), v_shr(q[3], 16)};
    pack64(to, capacity, p, high, nontemporal);
}

/* Transforms four runs of 32 values, and leaves them in the order in which pack_rotated takes their
 * codes. */
static inline __attribute__((always_inline)) void rotate_runs(v16 v[8], unsigned bits,
                                                              bool transposed) {
    (void)bits;
    (void)transposed;
    f_transform32x4(v);
}
static inline void pack_rotated(uint8_t *to, size_t capacity, const struct packing *p,
                                const v16 q[8], bool nontemporal) {
    pack64(to, capacity, p, q, nontemporal);
    pack64(to + 8 * p->bits, capacity - 8 * p->bits, p, q + 4, nontemporal);
}
#endif

/* Elements of a unit, and the least of a batch: with a base, without one, and when decoding. */
enum { UNIT = 64, ENCODED = 1024, ENCODED_ALONE = 2048, DECODED = 2048 };
enum { BATCH_GROUPS = DECODED / 16, LEAST_SEARCHED = 32, SEARCH_GROUPS = DECODED / LEAST_SEARCHED };

/* How far reads run before the codes being made, in elements, where arithmetic takes longest or
 * there are two streams: as far as the first-level cache holds what they bring. The lines codes go
 * to are fetched too, or the store queue would fill up waiting for them; that distance is in bytes.
 * Codes written by non-temporal stores need no such lines. */
enum { PREFETCH = 3072, PREFETCH_ALONE = 4608, PREFETCH_CODES = 1024, PREFETCH_SCALES = 128 };

#define TINY 0x04800000u /* the bits of 2^-118, as in group.c */

/* One batch; pointers are to its first element, and arrays have an entry per group. */
struct batch {
    size_t count;
    const uint8_t *value;
    const uint8_t *prefetch; /* what to prefetch while values are read, at their pace */
    uint8_t *base, *out, *codes, *scales;
    size_t capacity;  /* bytes of the job's codes from `codes` on */
    uint64_t counter; /* Philox counter of the first element */
    uint32_t shift;   /* log2 of the group */
    uint32_t largest[BATCH_GROUPS + 16];
    uint32_t above[SEARCH_GROUPS]; /* search: all ones where the largest is not negative */
    _Alignas(64) float scale[BATCH_GROUPS + 16];
    float zero[BATCH_GROUPS + 16], reciprocal[BATCH_GROUPS + 16];
    float most[BATCH_GROUPS + 16]; /* idempotent groups: the largest code */
};

static size_t batch_elements(const struct pithi_group_setting *s, size_t least) {
    return s->group > least ? s->group : least;
}

static void open_batch(struct batch *b, const struct pithi_group_job *job, size_t i, size_t n) {
    const uint8_t *const value = job->value, *const prefetch = job->prefetch;
    uint8_t *const base = job->base, *const out = job->out;
    const size_t codes = i * job->set.bits / 8, size = width(job->value_dtype);
    b->count = n;
    b->value = value ? value + i * size : NULL;
    b->prefetch = prefetch ? prefetch + i * size : value ? b->value + PREFETCH_ALONE * size : NULL;
    b->base = base ? base + i * width(job->base_dtype) : NULL;
    b->out = out ? out + i * width(job->out_dtype) : NULL;
    b->codes = job->codes + codes;
    b->scales = job->scales + pithi_group_scale_bytes(&job->set, i);
    b->capacity = pithi_group_code_bytes(&job->set, job->count) - codes;
    b->counter = (job->first + i) / 8;
    b->shift = (uint32_t)__builtin_ctz(job->set.group);
}

/* ---- Values -----------------------------------------------------------------------------------*/

ALWAYS v16 difference(uint32_t vt, uint32_t bt, const uint8_t *value, const uint8_t *base,
                      size_t i) {
    const v16 v = load(vt, value, i);
    return bt == PITH_NONE ? v : f_sub(v, load(bt, base, i));
}

struct four {
    v16 v[4];
};

/* Infinities become the largest value of the dtype; those in `valid` lanes are counted. */
static __attribute__((noinline)) void saturate(uint32_t dtype, struct four *x, uint64_t valid,
                                               uint64_t *count) {
    for (size_t k = 0; k < 4; k++) {
        const uint64_t infinite = v_nonfinite(x->v[k]);
        for (uint64_t m = infinite & valid >> 16 * k; m; m &= m - 1) ++*count;
        x->v[k] = v_saturate(x->v[k], pithi_largest(dtype));
    }
}

/* Returns new bases, rounded loosely, in which infinities are still to be replaced. */
ALWAYS v16 updated(uint32_t bt, v16 base, v16 x) { return round_loosely(bt, f_add(base, x)); }

ALWAYS void store_bases(uint32_t bt, uint8_t *p, const struct four *next) {
    store(bt, p, 0, next->v[0]);
    store(bt, p, 16, next->v[1]);
    store(bt, p, 32, next->v[2]);
    store(bt, p, 48, next->v[3]);
}

/* ---- Short ends -------------------------------------------------------------------------------*/

/* Copies the n (1..63) elements at p, and repeats the last one up to a whole unit. */
static const uint8_t *pad_unit(uint8_t to[UNIT * 4], const uint8_t *p, size_t n, size_t size) {
    if (size == 0) return p;
    memcpy(to, p, n * size);
    for (size_t i = n; i < UNIT; i++) memcpy(to + i * size, p + (n - 1) * size, size);
    return to;
}

static __attribute__((noinline)) v16 short_difference(uint32_t vt, uint32_t bt,
                                                      const uint8_t *value, const uint8_t *base,
                                                      size_t i, size_t n) {
    uint8_t padded[2][UNIT * 4];
    const uint8_t *v = pad_unit(padded[0], value + i * width(vt), n, width(vt));
    const uint8_t *b = base;
    if (bt != PITH_NONE) b = pad_unit(padded[1], base + i * width(bt), n, width(bt));
    return difference(vt, bt, v, b, 0);
}

/* ---- Encode: maxima and scales ----------------------------------------------------------------*/

/* ---- Scales and zero points of idempotent groups ----------------------------------------------*/
/* Groups are made idempotent 16 at a time, one to a lane. Nearly all are after one iteration, which
 * is checked by computing it; the others take the scalar reference, which goes on from their least
 * and largest values. */
/* 16 groups, in arrays, so that a lane can be spread. most: the largest code. */
struct idempotent {
    _Alignas(64) float low[16], high[16]; /* symmetric: 0, and the largest magnitude */
    float scale[16], zero[16], reciprocal[16], most[16];
    uint32_t irregular[16]; /* 0 where one iteration was enough */
};

ALWAYS v16 round_zero(const struct pithi_group_setting *s, v16 lo, bool round) {
    if (round) lo = round_to(s->scale_dtype, lo);
    const v16 zero = f_add(lo, v_set(0)); /* the sum is never -0 */
    if (!s->short_zero) return zero;
    const v16 odd = v_and(v_shr(zero, 18), v_set(1));
    return v_and(v_add(v_add(zero, v_set(0x1FFFF)), odd), v_set(0xFFFC0000u));
}

ALWAYS v16 above_limit(v16 x) { return v_greater(magnitude16(x), v_set(PITHI_SCALE_LIMIT - 1)); }

/* Sets bits where the last code does not lie at `range` above the zero point. */
ALWAYS v16 misses_top(v16 range, v16 reciprocal, uint32_t top) {
    return v_xor(f_round_to_i(f_mul(range, reciprocal)), v_set(top));
}

ALWAYS v16 divide(v16 a, v16 b, bool few) { return few ? f_div8(a, b) : f_div(a, b); }

/* Does pithi_grid_of, and finds whether pithi_idempotent_scale would leave it: the zero point
 * decodes to itself and is the code of the least value, the last code is that of the largest one
 * and of what it decodes to, from which the same scale comes. whole: lo is a value of the dtype.
 * few: there are at most eight groups, as of an appended token; divisions of half as many lanes are
 * then sooner done. */
ALWAYS void idempotent_lanes(struct idempotent *to, const struct pithi_group_setting *s,
                             uint32_t dtype, bool asymmetric, v16 lo, v16 hi, bool whole,
                             bool few) {
    const uint32_t top_code = (1u << (asymmetric ? s->bits : s->bits - 1)) - 1;
    const v16 levels = f_from_i(v_set(top_code));
    v16 zero = v_set(0), irregular = above_limit(hi);
    if (asymmetric) {
        const bool other = !whole || s->scale_dtype != dtype; /* where rounding may change lo */
        zero = round_zero(s, lo, other);
        irregular = v_maxu(irregular, v_maxu(above_limit(lo), above_limit(zero)));
        /* A short zero point may be -0, which decodes to +0. */
        const v16 decoded = round_to(dtype, f_add(zero, v_set(0)));
        if (other || s->short_zero) irregular = v_maxu(irregular, v_xor(decoded, zero));
    }
    const v16 range = f_sub(hi, zero);
    const v16 coded = v_greater(range, v_set(TINY - 1));
    const v16 scale = v_and(round_step(s->scale_dtype, divide(range, levels, few)), coded);
    const v16 steps = v_greater(scale, v_set(0));
    const v16 reciprocal = v_and(divide(v_set(0x3F800000u), scale, few), steps);
    const v16 reached = f_sub(round_to(dtype, f_add(f_mul(levels, scale), zero)), zero);
    const v16 again = round_step(s->scale_dtype, divide(reached, levels, few));
    if (asymmetric) irregular = v_maxu(irregular, f_round_to_i(f_mul(f_sub(lo, zero), reciprocal)));
    irregular =
        v_maxu(irregular, v_and(steps, v_xor(v_greater(reached, v_set(TINY - 1)), v_set(~0u))));
    irregular = v_maxu(irregular, v_and(steps, v_xor(again, scale)));
    irregular = v_maxu(irregular, v_and(steps, misses_top(range, reciprocal, top_code)));
    irregular = v_maxu(irregular, v_and(steps, misses_top(reached, reciprocal, top_code)));
    v_store((uint8_t *)to->low, lo);
    v_store((uint8_t *)to->high, hi);
    v_store((uint8_t *)to->scale, scale);
    v_store((uint8_t *)to->zero, zero);
    v_store((uint8_t *)to->reciprocal, reciprocal);
    v_store((uint8_t *)to->most, levels);
    v_store((uint8_t *)to->irregular, irregular);
}

/* Does the iterations that irregular groups in lanes [first, first + groups) still need; returns
 * how many of these groups are poisoned, whose codes are 0. */
static __attribute__((noinline)) uint32_t idempotent_slow_path(struct idempotent *to,
                                                               const struct pithi_group_setting *s,
                                                               uint32_t dtype, size_t first,
                                                               size_t groups) {
    uint32_t poisoned = 0;
    for (size_t g = first; g < first + groups; g++) {
        if (!to->irregular[g]) continue;
        const uint32_t nan = PITHI_F32_NAN;
        struct pithi_grid r = {.scale = pithi_float(nan), .zero = pithi_float(nan)};
        if (!pithi_nonfinite(pithi_bits(to->low[g])) && !pithi_nonfinite(pithi_bits(to->high[g]))) {
            r = pithi_grid_of(s, dtype, to->low[g], to->high[g]);
            pithi_idempotent_scale(s, dtype, to->low[g], to->high[g], &r);
        }
        to->scale[g] = r.scale;
        to->zero[g] = r.zero;
        to->reciprocal[g] = r.reciprocal;
        to->most[g] = r.most;
        poisoned += pithi_nonfinite(pithi_bits(r.scale));
    }
    return poisoned;
}

static __attribute__((noinline)) bool idempotent_ranges(struct idempotent *to,
                                                        const struct pithi_group_setting *s,
                                                        uint32_t dtype, v16 lo, v16 hi, bool whole,
                                                        bool few) {
    idempotent_lanes(to, s, dtype, true, lo, hi, whole, few);
    return v_any(v_load((const uint8_t *)to->irregular));
}
static __attribute__((noinline)) bool idempotent_magnitudes(struct idempotent *to,
                                                            const struct pithi_group_setting *s,
                                                            uint32_t dtype, v16 hi, bool few) {
    idempotent_lanes(to, s, dtype, false, v_set(0), hi, true, few);
    return v_any(v_load((const uint8_t *)to->irregular));
}

ALWAYS uint32_t largest_of(uint32_t vt, uint32_t bt, const struct batch *b, size_t i, size_t end) {
    v16 m = v_set(0), n = v_set(0);
    for (; i + 32 <= end; i += 32) {
        m = v_maxu(m, magnitude16(difference(vt, bt, b->value, b->base, i)));
        n = v_maxu(n, magnitude16(difference(vt, bt, b->value, b->base, i + 16)));
    }
    for (; i + 16 <= end; i += 16)
        m = v_maxu(m, magnitude16(difference(vt, bt, b->value, b->base, i)));
    if (i < end)
        n = v_maxu(n, magnitude16(short_difference(vt, bt, b->value, b->base, i, end - i)));
    return v_reduce_maxu(v_maxu(m, n));
}

ALWAYS bool find_largest(uint32_t vt, uint32_t bt, struct batch *b) {
    const size_t group = (size_t)1 << b->shift;
    uint32_t worst = 0;
    for (size_t i = 0; i < b->count; i += group) {
        const uint32_t m = largest_of(vt, bt, b, i, i + group < b->count ? i + group : b->count);
        b->largest[i >> b->shift] = m;
        if (m > worst) worst = m;
    }
    return worst < PITHI_SCALE_LIMIT;
}

/* Widens bits of a dtype to f32. */
ALWAYS v16 from_bits(uint32_t dtype, v16 x) {
    if (dtype == PITH_F32) return x;
    return dtype == PITH_F16 ? f_widen(x) : v_shl16(x);
}

/* Returns the largest value that is not negative. */
ALWAYS uint32_t largest_above(uint32_t dtype, const struct batch *b, size_t i, size_t end) {
    v16 m = v_set(0);
    for (; i + 16 <= end; i += 16) m = v_maxi(m, load(dtype, b->value, i));
    if (i < end) m = v_maxi(m, short_difference(dtype, PITH_NONE, b->value, NULL, i, end - i));
    return (uint32_t)v_reduce_maxi(m);
}

/* Finds the largest magnitudes of the first groups, of at least 32 values each, and sets `above`.
 * Bits are compared as they are: the largest as signed integers is the largest value, unless all
 * are negative, and the highest as unsigned ones that of the largest magnitude with a sign, if
 * there is a sign. */
ALWAYS void find_signed_largest(uint32_t dtype, struct batch *b, size_t groups) {
    const bool wide = dtype == PITH_F32;
    const size_t bytes = width(dtype) << b->shift;
    for (size_t g = 0; g < groups; g += 16) {
        vquad largest[4], highest[4];
        v16 x[4], y[4];
        for (size_t k = 0; k < 16; k++) {
            const uint8_t *v = b->value + (g + k < groups ? g + k : groups - 1) * bytes;
            const uint8_t *const end = v + bytes;
            v16 hi = v_load(v), lo = hi;
            for (v += 64; v < end; v += 64) {
                hi = wide ? v_maxi(hi, v_load(v)) : v_maxi16(hi, v_load(v));
                lo = wide ? v_maxu(lo, v_load(v)) : v_maxu16(lo, v_load(v));
            }
            x[k % 4] = hi;
            y[k % 4] = lo;
            if (k % 4 < 3) continue;
            largest[k / 4] = wide ? v_largest_four(x) : v_largest16_four(x);
            highest[k / 4] = wide ? v_highest_four(y) : v_highest16_four(y);
        }
        const v16 hi = from_bits(dtype, wide ? v_largest_all(largest) : v_largest16_all(largest));
        const v16 lo = from_bits(dtype, wide ? v_highest_all(highest) : v_highest16_all(highest));
        const v16 m = v_maxi(hi, v_and(lo, v_set(0x7FFFFFFFu)));
        v_store((uint8_t *)(b->largest + g), m);
        v_store((uint8_t *)(b->above + g), v_xor(v_greater(m, hi), v_set(~0u)));
    }
}

/* Does find_largest for a search. */
ALWAYS bool find_searched(uint32_t dtype, struct batch *b) {
    const size_t groups = b->count >> b->shift, whole = groups << b->shift;
    uint32_t worst = 0;
    find_signed_largest(dtype, b, groups);
    if (whole < b->count) {
        b->largest[groups] = largest_of(dtype, PITH_NONE, b, whole, b->count);
        b->above[groups] = largest_above(dtype, b, whole, b->count) == b->largest[groups] ? ~0u : 0;
    }
    for (size_t g = 0; g << b->shift < b->count; g++)
        worst = b->largest[g] > worst ? b->largest[g] : worst;
    return worst < PITHI_SCALE_LIMIT;
}

/* Rounds scales; e8m0 goes up to the next power of two. */
ALWAYS v16 round_scale(uint32_t dtype, v16 x) {
    if (dtype != PITHI_E8M0) return round_to(dtype, x);
    return v_and(v_add(x, v_set(0x007FFFFFu)), v_set(0xFF800000u));
}

/* Does pithi_group_scale for 16 groups at a time, none of which is huge. */
static void symmetric_scales(const struct pithi_group_setting *s, struct batch *b, size_t groups) {
    const float levels = (float)((1 << (s->bits - 1)) - 1);
    v_store((uint8_t *)(b->largest + groups), v_set(0));
    for (size_t g = 0; g < groups; g += 16) {
        const v16 m = v_load((const uint8_t *)(b->largest + g));
        const v16 scale = round_scale(s->scale_dtype, f_div(m, v_set(pithi_bits(levels))));
        const v16 coded = v_greater(m, v_set(TINY - 1));
        v_store((uint8_t *)(b->scale + g), v_and(scale, coded));
        v_store((uint8_t *)(b->reciprocal + g), v_and(f_div(v_set(0x3F800000u), scale), coded));
    }
}

/* Finds the extremes of one group, and puts them in the places of its zero point and its scale. */
ALWAYS void find_extremes_of(uint32_t vt, uint32_t bt, struct batch *b, size_t i, size_t end) {
    const size_t g = i >> b->shift;
    v16 lo = v_set(0x7FFFFFFFu), hi = v_set(0x80000000u);
    for (; i < end; i += 16) {
        const v16 d = i + 16 <= end ? difference(vt, bt, b->value, b->base, i)
                                    : short_difference(vt, bt, b->value, b->base, i, end - i);
        lo = v_mini(lo, v_ordered(d));
        hi = v_maxi(hi, v_ordered(d));
    }
    b->zero[g] = pithi_from_ordered(v_reduce_mini(lo));
    b->scale[g] = pithi_from_ordered(v_reduce_maxi(hi));
}

ALWAYS bool find_ends(uint32_t vt, uint32_t bt, bool asymmetric, struct batch *b, size_t groups) {
    const size_t group = (size_t)1 << b->shift;
    if (!asymmetric) {
        const bool fits = find_largest(vt, bt, b);
        memset(b->zero, 0, groups * sizeof *b->zero);
        memcpy(b->scale, b->largest, groups * sizeof *b->scale);
        return fits;
    }
    for (size_t i = 0; i < b->count; i += group)
        find_extremes_of(vt, bt, b, i, i + group < b->count ? i + group : b->count);
    return true;
}

/* Makes idempotent scales for what is coded, of this dtype; false when a group is poisoned or could
 * overflow. */
static bool idempotent_scales(const struct pithi_group_setting *s, uint32_t dtype, struct batch *b,
                              size_t groups) {
    struct idempotent t;
    v_store((uint8_t *)(b->zero + groups), v_set(0));
    v_store((uint8_t *)(b->scale + groups), v_set(0));
    for (size_t g = 0; g < groups; g += 16) {
        const v16 lo = v_load((const uint8_t *)(b->zero + g));
        const v16 hi = v_load((const uint8_t *)(b->scale + g));
        const bool irregular = s->asymmetric ? idempotent_ranges(&t, s, dtype, lo, hi, true, false)
                                             : idempotent_magnitudes(&t, s, dtype, hi, false);
        if (v_reduce_maxu(v_maxu(magnitude16(lo), magnitude16(hi))) >= PITHI_SCALE_LIMIT)
            return false;
        if (irregular && idempotent_slow_path(&t, s, dtype, 0, 16)) return false;
        memcpy(b->scale + g, t.scale, sizeof t.scale);
        memcpy(b->zero + g, t.zero, sizeof t.zero);
        memcpy(b->reciprocal + g, t.reciprocal, sizeof t.reciprocal);
        memcpy(b->most + g, t.most, sizeof t.most);
    }
    return true;
}

static void put_scales(const struct pithi_group_setting *s, const struct batch *b, size_t groups,
                       uint8_t *scales, bool nontemporal) {
    const size_t step = s->asymmetric ? 2 : 1;
    if (step == 1 && s->scale_dtype == PITH_F32) {
        if (nontemporal && groups % 16 == 0 && v_stream16_fits(scales))
            for (size_t g = 0; g < groups; g += 4) v_stream16(scales + 4 * g, b->scale + g);
        else
            memcpy(scales, b->scale, groups * 4);
        return;
    }
    for (size_t g = 0; g < groups; g++) {
        pithi_scale_store(scales, s->scale_dtype, step * g, pithi_bits(b->scale[g]));
        if (s->asymmetric)
            pithi_store(scales, s->scale_dtype, step * g + 1, pithi_bits(b->zero[g]));
    }
}

/* ---- The search for the scale of least error --------------------------------------------------*/
/* A lane has up to 128 values of one group, as integers of 16 bits in pairs: 16 lanes are summed at
 * a time, each in itself, then the lanes of a group. */
enum { LANE_VALUES = 128, LANE_ROWS = LANE_VALUES / 32 };

struct search {
    const struct pithi_group_setting *set;
    const int16_t *factor;
    size_t rows;                /* of 32 values, in a lane */
    v16 values[16 * LANE_ROWS]; /* 16 lanes a row; then pairs of values across lanes */
    _Alignas(64) int32_t yq[PITHI_SEARCH_CANDIDATES][SEARCH_GROUPS];
    _Alignas(64) int32_t qq[PITHI_SEARCH_CANDIDATES][SEARCH_GROUPS];
    _Alignas(64) uint32_t above[SEARCH_GROUPS]; /* the sign bit where values are turned */
};

/* Returns 32 values as integers, in some order. */
ALWAYS v16 integers_32(uint32_t dtype, const uint8_t *value, size_t i, v16 reciprocal) {
    return v_pack16(f_round_to_i(f_mul(load(dtype, value, i), reciprocal)),
                    f_round_to_i(f_mul(load(dtype, value, i + 16), reciprocal)));
}
/* Does so for the last n, and zeros. */
static __attribute__((noinline)) v16 integers_end(uint32_t dtype, const uint8_t *value, size_t i,
                                                  size_t n, v16 reciprocal) {
    uint8_t padded[32 * 4] = {0};
    memcpy(padded, value + i * width(dtype), n * width(dtype));
    return integers_32(dtype, padded, 0, reciprocal);
}

/* Does so for the 32 values from element i on of those that the batch has. */
ALWAYS v16 integers_of(uint32_t dtype, const struct batch *b, size_t i) {
    const float *const reciprocal = &b->reciprocal[i >> b->shift];
    if (i + 32 <= b->count) return integers_32(dtype, b->value, i, v_spread(reciprocal));
    if (i >= b->count) return v_set(0);
    return integers_end(dtype, b->value, i, b->count - i, v_spread(reciprocal));
}

ALWAYS void make_integers(uint32_t dtype, struct search *s, const struct batch *b, size_t first) {
    size_t i = first;
    for (size_t lane = 0; lane < 16; lane++)
        for (size_t r = 0; r < s->rows; r++, i += 32) {
            const uint8_t *const prefetch = b->prefetch + i * width(dtype);
            for (size_t k = 0; k < 32 * width(dtype); k += 64) __builtin_prefetch(prefetch + k);
            s->values[16 * r + lane] = integers_of(dtype, b, i);
        }
    for (size_t r = 0; r < s->rows; r++) v_transpose(s->values + 16 * r);
}

/* Sums of a candidate. */
struct correlation {
    v16 yq, qq;
};
ALWAYS void correlate_32(v16 y, v16 factor, v16 least, v16 most, struct correlation *c) {
    const v16 q = v_maxi16(v_mini16(v_scale16(y, factor), most), least);
    c->yq = v_add(c->yq, v_dot16(y, q));
    c->qq = v_add(c->qq, v_dot16(q, q));
}
ALWAYS v16 set_twice(int x) { return v_set((uint32_t)(x & 0xFFFF) * 0x10001u); }

/* Adds the sums of lanes to those of their groups; the lanes begin at element `first`. */
ALWAYS void add_lanes(int32_t *sums, v16 lanes, size_t first, uint32_t shift) {
    const size_t g = first >> shift;
    if (shift <= 7) {
        v_store((uint8_t *)(sums + g), lanes);
        return;
    }
    _Alignas(64) int32_t lane[16];
    v_store((uint8_t *)lane, lanes);
    const size_t each = shift < 11 ? (size_t)1 << (shift - 7) : 16;
    for (size_t i = 0; i < 16; i++) sums[g + i / each] += lane[i];
}

/* Sums candidates from k on, SEARCHED of them. */
ALWAYS void correlate(struct search *s, int k, size_t first, uint32_t shift) {
    const int reach = 1 << (s->set->bits - 1);
    const v16 least = set_twice(-reach), most = set_twice(reach - 1), zero = v_set(0);
    v16 factor[SEARCHED];
    struct correlation c[SEARCHED];
    PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) {
        factor[n] = set_twice(s->factor[k + n]);
        c[n] = (struct correlation){zero, zero};
    }
    for (size_t i = 0; i < 16 * s->rows; i++) {
        const v16 y = s->values[i];
        PITHI_UNROLL for (int n = 0; n < SEARCHED; n++)
            correlate_32(y, factor[n], least, most, &c[n]);
    }
    PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) {
        add_lanes(s->yq[k + n], c[n].yq, first, shift);
        add_lanes(s->qq[k + n], c[n].qq, first, shift);
    }
}
static __attribute__((noinline)) void correlate_all(struct search *s, size_t first,
                                                    uint32_t shift) {
    for (int k = 0; k < PITHI_SEARCH_CANDIDATES && s->factor[k]; k += SEARCHED)
        correlate(s, k, first, shift);
}

#ifdef OWN_SEARCH_BYTES
/* Does what make_integers and correlate_all do for integers of a byte, in lanes of whole rows of
 * 64. */
static bool search_in_bytes(const struct search *s) {
    return pithi_search_most(s->set) < 128 && s->rows % 2 == 0 && !pithi_search_is_power(s->set);
}
/* Lines of what comes later are fetched one by one, a quarter of them here and the others where
 * candidates are summed: all at once they would wait for each other. */
ALWAYS void make_bytes(uint32_t dtype, struct search *s, struct search_bytes *bytes,
                       const struct batch *b, size_t first, const uint8_t *prefetch) {
    const int reach = 1 << (s->set->bits - 1);
    const size_t rows = s->rows / 2;
    size_t i = first;
    for (size_t lane = 0; lane < 16; lane++)
        for (size_t r = 0; r < rows; r++, i += 64) {
            __builtin_prefetch(prefetch + i - first);
            s->values[16 * r + lane] =
                v_pack8(integers_of(dtype, b, i), integers_of(dtype, b, i + 32));
        }
    for (size_t r = 0; r < rows; r++) v_transpose(s->values + 16 * r);
    for (size_t k = 0; k < 16 * rows; k++) search_split(bytes, k, s->values[k], reach);
}
static __attribute__((noinline)) void correlate_bytes(struct search *s,
                                                      const struct search_bytes *bytes,
                                                      size_t first, uint32_t shift,
                                                      const uint8_t *prefetch) {
    const int reach = 1 << (s->set->bits - 1);
    const size_t rows = 8 * s->rows;
    for (int k = 0; k < PITHI_SEARCH_CANDIDATES; k += SEARCHED, prefetch += 64 * rows) {
        v16 yq[SEARCHED], qq[SEARCHED];
        search_rows(bytes, rows, s->factor + k, reach, prefetch, yq, qq);
        PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) {
            add_lanes(s->yq[k + n], yq[n], first, shift);
            add_lanes(s->qq[k + n], qq[n], first, shift);
        }
    }
}
#endif

/* Adds the sums of what begins at element `first`, a batch of 16 lanes, to those of the groups. */
ALWAYS void sum_lanes(uint32_t dtype, struct search *s, const struct batch *b, size_t first) {
#ifdef OWN_SEARCH_BYTES
    if (search_in_bytes(s)) {
        const uint8_t *const prefetch = b->prefetch + first * width(dtype);
        struct search_bytes bytes;
        make_bytes(dtype, s, &bytes, b, first, prefetch);
        correlate_bytes(s, &bytes, first, b->shift, prefetch + 512 * s->rows);
        return;
    }
#endif
    make_integers(dtype, s, b, first);
    correlate_all(s, first, b->shift);
}

/* Makes b->reciprocal what values become integers with, 0 in groups without codes. */
static void open_search(struct search *s, struct batch *b, size_t groups) {
    const bool power = pithi_search_is_power(s->set);
    const v16 most =
        v_set(pithi_bits(power ? pithi_search_step(s->set) : (float)pithi_search_most(s->set)));
    for (size_t g = 0; g < SEARCH_GROUPS; g += 16) {
        const v16 sign = v_set(power ? 0 : 0x80000000u);
        v_store((uint8_t *)(s->above + g), v_and(v_load((const uint8_t *)(b->above + g)), sign));
    }
    for (size_t g = 0; g < groups; g += 16) {
        const v16 m = v_load((const uint8_t *)(b->largest + g));
        const v16 by = power ? v_load((const uint8_t *)(b->scale + g)) : m;
        const v16 r = v_xor(f_div(most, by), v_load((const uint8_t *)(s->above + g)));
        v_store((uint8_t *)(b->reciprocal + g), v_and(r, v_greater(m, v_set(TINY - 1))));
    }
}

ALWAYS v16 choose_of(v16 mask, v16 a, v16 b) { return v_xor(a, v_and(mask, v_xor(a, b))); }
ALWAYS v16 float_sums(const int32_t *sums) { return f_from_i(v_load((const uint8_t *)sums)); }

/* Does pithi_search_scale for 16 groups. Nothing overflows, since values are below 2^119. */
ALWAYS v16 chosen_scales(const struct search *s, const struct batch *b, size_t g) {
    const v16 sign = v_set(0x80000000u), most = v_set(pithi_bits((float)pithi_search_most(s->set)));
    const v16 least = v_set(pithi_bits(0.5f * pithi_search_step(s->set)));
    v16 yq = float_sums(s->yq[0] + g), qq = float_sums(s->qq[0] + g);
    for (int k = 1; k < PITHI_SEARCH_CANDIDATES; k++) {
        const v16 y = float_sums(s->yq[k] + g), q = float_sums(s->qq[k] + g);
        const v16 better = v_greater(f_mul(f_mul(y, y), qq), f_mul(f_mul(yq, yq), q));
        yq = choose_of(better, yq, y);
        qq = choose_of(better, qq, q);
    }
    const v16 a = f_div(yq, qq), m = v_load((const uint8_t *)(b->largest + g));
    const v16 kept = v_xor(v_maxu(magnitude16(a), least), v_and(a, sign));
    const v16 scale = f_mul(kept, f_div(m, most));
    return round_to(s->set->scale_dtype, v_xor(scale, v_load((const uint8_t *)(s->above + g))));
}
/* Does pithi_search_power for 16 groups. */
ALWAYS v16 chosen_powers(const struct search *s, const struct batch *b, size_t g) {
    const float step = pithi_search_step(s->set);
    const v16 scale = v_load((const uint8_t *)(b->scale + g)), yq = float_sums(s->yq[0] + g);
    const v16 whole =
        f_sub(f_add(yq, yq), f_mul(v_set(pithi_bits(step)), float_sums(s->qq[0] + g)));
    const v16 half = f_sub(float_sums(s->yq[1] + g),
                           f_mul(v_set(pithi_bits(step * 0.25f)), float_sums(s->qq[1] + g)));
    const v16 better = v_greater(v_ordered(half), v_ordered(whole));
    return choose_of(better, scale, f_mul(scale, v_set(0x3F000000u)));
}

ALWAYS void search_as(uint32_t dtype, const struct pithi_group_setting *set, struct batch *b) {
    const size_t groups = (b->count + set->group - 1) >> b->shift;
    struct search s;
    s.set = set;
    s.factor = pithi_search_factors(set);
    s.rows = (set->group < LANE_VALUES ? set->group : LANE_VALUES) / 32;
    if (b->shift > 7) {
        memset(s.yq, 0, sizeof s.yq);
        memset(s.qq, 0, sizeof s.qq);
    }
    open_search(&s, b, groups);
    for (size_t i = 0; i < b->count; i += 16 * 32 * s.rows) sum_lanes(dtype, &s, b, i);
    for (size_t g = 0; g < groups; g += 16) {
        const v16 coded = v_greater(v_load((const uint8_t *)(b->largest + g)), v_set(TINY - 1));
        const v16 found =
            pithi_search_is_power(set) ? chosen_powers(&s, b, g) : chosen_scales(&s, b, g);
        const v16 scale = choose_of(coded, v_load((const uint8_t *)(b->scale + g)), found);
        v_store((uint8_t *)(b->scale + g), scale);
        v_store((uint8_t *)(b->reciprocal + g), v_and(f_div(v_set(0x3F800000u), scale), coded));
    }
}
static __attribute__((noinline)) void search_scales(const struct pithi_group_setting *s,
                                                    struct batch *b, uint32_t dtype) {
    if (dtype == PITH_F32)
        search_as(PITH_F32, s, b);
    else if (dtype == PITH_BF16)
        search_as(PITH_BF16, s, b);
    else
        search_as(PITH_F16, s, b);
}

/* ---- The search for the part of a range that loses least --------------------------------------*/

#include "group/shrink_tmpl.h"

/* ---- Encode: codes ----------------------------------------------------------------------------*/

struct encoder {
    const struct pithi_group_setting *set;
    struct packing pack;
    struct philox philox;
    v16 ceiling; /* the largest code, as f32 */
    uint64_t saturated;
};

/* What a loop is made for; constant in the common loops. */
struct variant {
    uint32_t vt, bt; /* dtypes: value (encode) or out (decode), and base */
    bool write;      /* the new base is wanted */
    bool asymmetric, stochastic;
    bool nontemporal; /* encode: codes and scales go by non-temporal stores */
    bool search;
    bool idempotent;
};

/* Returns the code in the low bits as an integer (the rest of a lane is undefined), and as f32 in
 * *f. The scalar reference clamps codes; clamping v to the same integers before it is rounded, down
 * or to nearest, gives the same code. A symmetric nearest code needs neither: |d * r| < Q + 1/2 for
 * every scale and its rounding. */
ALWAYS v16 nearest(v16 v, v16 ceiling, bool asymmetric, bool search, v16 *f) {
    const v16 magic = v_set(0x4B400000u); /* 1.5 * 2^23 */
    if (asymmetric) v = f_min(f_max(v, v_set(0)), ceiling);
    if (search) v = f_min(f_max(v, f_sub(v_set(0xBF800000u), ceiling)), ceiling); /* -1 - Q */
    const v16 t = f_add(v, magic);
    *f = f_sub(t, magic);
    return t;
}

/* Rounds at random. `random` has 65535 minus each 16 bits, so that a carry counts. */
ALWAYS v16 stochastic(v16 v, v16 ceiling, bool asymmetric, const uint16_t *random, v16 *f) {
    v = asymmetric ? f_min(f_max(v, v_set(0)), ceiling) : f_limit(v, ceiling);
    const v16 t = f_floor_to_i(f_mul(v, v_set(0x47800000u))); /* 2^16 */
    const v16 q = v_sar16(v_add(t, v_load16((const uint8_t *)random)));
    *f = f_from_i(q);
    return q;
}

/* Up to 64 elements: those of the batch from `first` on, or padded copies of them. */
struct unit {
    const uint8_t *value;
    uint8_t *base, *out, *codes;
    size_t capacity; /* bytes that may be touched from `codes` on */
    size_t first;    /* place in the batch */
    uint64_t valid;  /* which lanes count */
};

static struct unit unit_at(const struct batch *b, size_t i, size_t vt, size_t bt, size_t bits) {
    const size_t code = i * bits / 8;
    return (struct unit){.value = vt ? b->value + i * vt : NULL,
                         .base = bt ? b->base + i * bt : NULL,
                         .codes = b->codes + code,
                         .capacity = b->capacity - code,
                         .first = i,
                         .valid = ~UINT64_C(0)};
}

/* Makes the codes of 16 elements and, when wanted, their new bases. */
ALWAYS v16 encode_16(const struct encoder *e, const struct batch *b, const struct unit *u,
                     struct variant r, const uint16_t *random, size_t i, v16 *next) {
    const size_t g = (u->first + i) >> b->shift;
    v16 base = v_set(0), d = load(r.vt, u->value, i), f;
    if (r.bt != PITH_NONE) base = load(r.bt, u->base, i), d = f_sub(d, base);
    if (r.asymmetric) d = f_sub(d, v_spread(&b->zero[g]));
    const v16 v = f_mul(d, v_spread(&b->reciprocal[g]));
    const v16 most = r.idempotent ? v_spread(&b->most[g]) : e->ceiling;
    const v16 q = r.stochastic ? stochastic(v, most, r.asymmetric, random + i, &f)
                               : nearest(r.idempotent && !r.asymmetric ? f_limit(v, most) : v, most,
                                         r.asymmetric, r.search, &f);
    if (!r.write) return q;
    v16 x = f_mul(f, v_spread(&b->scale[g]));
    if (r.asymmetric) x = f_add(x, v_spread(&b->zero[g]));
    *next = updated(r.bt, base, x);
    return q;
}

ALWAYS void encode_unit(struct encoder *e, const struct packing *pack, const struct batch *b,
                        const struct unit *u, struct variant r, const uint16_t *random) {
    struct four q, next;
    q.v[0] = encode_16(e, b, u, r, random, 0, &next.v[0]);
    q.v[1] = encode_16(e, b, u, r, random, 16, &next.v[1]);
    q.v[2] = encode_16(e, b, u, r, random, 32, &next.v[2]);
    q.v[3] = encode_16(e, b, u, r, random, 48, &next.v[3]);
    if (r.write) {
        if (__builtin_expect(some_overflow(next.v), 0)) {
            struct four copy = next; /* leaves the common path its registers */
            saturate(r.bt, &copy, u->valid, &e->saturated);
            next = copy;
        }
        store_bases(r.bt, u->base, &next);
    }
    pack64(u->codes, u->capacity, pack, q.v, r.nontemporal);
}

/* Fetches what will be read next while this unit is computed. */
ALWAYS void prefetch_unit(const uint8_t *p, size_t size, size_t prefetch) {
    for (size_t k = 0; k < UNIT * size; k += 64) __builtin_prefetch(p + prefetch * size + k);
}

static __attribute__((noinline)) void encode_end(struct encoder *e, const struct batch *b, size_t i,
                                                 struct variant r) {
    const size_t n = b->count - i, bits = e->set->bits, bytes = (n * bits + 7) / 8;
    uint8_t value[UNIT * 4], base[UNIT * 4], codes[UNIT];
    struct unit u = unit_at(b, i, width(r.vt), width(r.bt), bits);
    uint8_t *const to_base = u.base, *const to_codes = u.codes;
    u.value = pad_unit(value, u.value, n, width(r.vt));
    if (r.bt != PITH_NONE) pad_unit(base, u.base, n, width(r.bt));
    u.base = base;
    u.codes = codes;
    u.capacity = sizeof codes;
    u.valid >>= UNIT - n;
    uint16_t random[4 * UNIT];
    if (r.stochastic) random256(&e->philox, b->counter + i / 8, random);
    r.nontemporal = false;
    encode_unit(e, &e->pack, b, &u, r, random);
    if (n * bits % 8) codes[bytes - 1] &= (uint8_t)((1u << n * bits % 8) - 1);
    memcpy(to_codes, codes, bytes);
    if (r.write) memcpy(to_base, base, n * width(r.bt));
}

ALWAYS void encode_codes(struct encoder *e, const struct batch *b, struct variant r) {
    const struct packing pack = e->pack; /* a copy that no store can alias */
    const size_t vs = width(r.vt), bs = width(r.bt), bits = e->set->bits, count = b->count;
    const size_t prefetch = r.bt == PITH_NONE ? 0 : PREFETCH;
    const bool fetch = r.stochastic || r.bt != PITH_NONE;
    uint16_t random[4 * UNIT];
    size_t i = 0;
    for (; i + UNIT <= count; i += UNIT) {
        const struct unit u = unit_at(b, i, vs, bs, bits);
        const size_t offset = i % (4 * UNIT);
        if (r.stochastic && offset == 0) random256(&e->philox, b->counter + i / 8, random);
        if (fetch) {
            prefetch_unit(r.bt == PITH_NONE ? b->prefetch + i * vs : u.value, vs, prefetch);
            prefetch_unit(u.base, bs, prefetch);
            if (!r.nontemporal) __builtin_prefetch(u.codes + PREFETCH_CODES, 1);
        }
        encode_unit(e, &pack, b, &u, r, random + offset);
    }
    if (i < count) encode_end(e, b, i, r);
}

ALWAYS bool encode_batch(struct encoder *e, struct batch *b, struct variant r) {
    const struct pithi_group_setting *s = e->set;
    const size_t groups = (b->count + s->group - 1) >> b->shift;
    if (r.idempotent) {
        const uint32_t dtype = r.bt == PITH_NONE ? r.vt : PITH_F32;
        if (!find_ends(r.vt, r.bt, r.asymmetric, b, groups)) return false;
        if (!idempotent_scales(s, dtype, b, groups)) return false;
    } else {
        if (!(r.search ? find_searched(r.vt, b) : find_largest(r.vt, r.bt, b))) return false;
        symmetric_scales(s, b, groups);
    }
    if (r.search) search_scales(s, b, r.vt);
    put_scales(s, b, groups, b->scales, r.nontemporal);
    encode_codes(e, b, r);
    return true;
}

/* Has a loop of its own for one pair of dtypes with known rounding, symmetric. */
ALWAYS bool encode_common(struct encoder *e, struct batch *b, uint32_t vt, uint32_t bt, bool random,
                          bool nontemporal) {
    const bool write = bt != PITH_NONE;
    if (random)
        return encode_batch(e, b,
                            (struct variant){.vt = vt,
                                             .bt = bt,
                                             .write = write,
                                             .stochastic = true,
                                             .nontemporal = nontemporal});
    return encode_batch(
        e, b, (struct variant){.vt = vt, .bt = bt, .write = write, .nontemporal = nontemporal});
}

/* Has a loop of its own for ranges of differences from a base of one dtype. */
ALWAYS bool encode_ranges(struct encoder *e, struct batch *b, uint32_t vt, uint32_t bt) {
    return encode_batch(
        e, b,
        (struct variant){
            .vt = vt, .bt = bt, .write = true, .asymmetric = true, .idempotent = true});
}

static bool encode_any(struct encoder *e, struct batch *b, struct variant r) {
    /* The maxima that were just stored are loaded as vectors, which would wait for non-temporal
     * stores. */
    const struct variant f32 = {.vt = PITH_F32, .search = true};
    const struct variant bf16 = {.vt = PITH_BF16, .search = true};
    const struct variant f16 = {.vt = PITH_F16, .search = true};
    if (r.search && r.vt == PITH_F32) return encode_batch(e, b, f32);
    if (r.search && r.vt == PITH_BF16) return encode_batch(e, b, bf16);
    if (r.search && r.vt == PITH_F16) return encode_batch(e, b, f16);
    if (!r.idempotent && !r.search && r.write == (r.bt != PITH_NONE)) {
        if (r.vt == PITH_F32 && r.bt == PITH_NONE && r.nontemporal)
            return encode_common(e, b, PITH_F32, PITH_NONE, r.stochastic, true);
        if (r.vt == PITH_F32 && r.bt == PITH_NONE)
            return encode_common(e, b, PITH_F32, PITH_NONE, r.stochastic, false);
        if (r.vt == PITH_BF16 && r.bt == PITH_NONE && r.nontemporal)
            return encode_common(e, b, PITH_BF16, PITH_NONE, r.stochastic, true);
        if (r.vt == PITH_BF16 && r.bt == PITH_NONE)
            return encode_common(e, b, PITH_BF16, PITH_NONE, r.stochastic, false);
        if (r.vt == PITH_F32 && r.bt == PITH_F32)
            return encode_common(e, b, PITH_F32, PITH_F32, r.stochastic, false);
        if (r.vt == PITH_F32 && r.bt == PITH_BF16)
            return encode_common(e, b, PITH_F32, PITH_BF16, r.stochastic, false);
        if (r.vt == PITH_BF16 && r.bt == PITH_BF16)
            return encode_common(e, b, PITH_BF16, PITH_BF16, r.stochastic, false);
    }
    if (r.idempotent && r.asymmetric && r.write && !r.stochastic && !r.search) {
        if (r.vt == PITH_F32 && r.bt == PITH_F32) return encode_ranges(e, b, PITH_F32, PITH_F32);
        if (r.vt == PITH_F32 && r.bt == PITH_BF16) return encode_ranges(e, b, PITH_F32, PITH_BF16);
        if (r.vt == PITH_BF16 && r.bt == PITH_BF16)
            return encode_ranges(e, b, PITH_BF16, PITH_BF16);
    }
    return encode_batch(e, b, r);
}

/* Whether codes go by non-temporal stores: with a base there is more to wait for than lines of
 * codes. */
static bool codes_nontemporal(const struct pithi_group_job *job) {
    return job->nontemporal && job->base_dtype == PITH_NONE && v_stream16_fits(job->codes) &&
           v_streams_codes(job->set.bits);
}

/* Whether random bits can be drawn in vectors: whole counters, all with one high word. */
static bool random_fits(const struct pithi_group_job *job) {
    const uint64_t first = job->first / 8, last = (job->first + job->count) / 8 + UNIT;
    return job->first % 8 == 0 && first >> 32 == last >> 32;
}

/* Whether a search has whole rows for groups, and nothing else to do. */
static bool search_fits(const struct pithi_group_job *job) {
    return job->set.group >= LEAST_SEARCHED && job->base_dtype == PITH_NONE &&
           !job->set.asymmetric && !job->set.stochastic;
}

/* ---- Encode group by group --------------------------------------------------------------------*/
/* Symmetric groups of whole units without a base: the maximum of a group is found, then its codes
 * are made of what the first-level cache still holds, between the maxima of the next group. Memory
 * must not wait for codes: values are prefetched from far, since prefetchers in hardware end with a
 * page, and to the second-level cache, since the first one holds groups; with the maxima, or beside
 * codes that random bits make slow. */
/* HELD elements of a rotated group are in registers; SPAN elements have their maxima found between
 * codes. Values are prefetched at a distance in bytes, beside arithmetic and beside their extremes;
 * there a whole number of pages is slower, by a tenth at times. */
enum { HELD = 128, SPAN = 256, PREFETCH_VALUES = 8192, PREFETCH_EXTREMES = 6144 };

/* What a loop is made for; constant in the common loops. */
struct pass_variant {
    uint32_t vt;
    unsigned bits; /* of codes whose scales are f32; 0: as the job has it */
    bool nontemporal, random;
};

/* Encodes a group that may be poisoned with the scalar reference. */
static __attribute__((noinline)) void encode_huge(struct pithi_group_job *job, size_t i,
                                                  size_t count, bool rotated) {
    struct pithi_group_job p = part_of(job, i, count);
    const struct pithi_rotation r = {.order = 32};
    float x[HELD];
    if (rotated) {
        pithi_rotate_c(&r, x, p.value, p.value_dtype, HELD, p.first);
        p.value = x;
        p.value_dtype = PITH_F32;
    }
    pithi_group_encode_c(&p);
    job->poisoned = p.poisoned;
}

/* Does pithi_group_scale for a maximum that is not huge; stores the scale and returns its
 * reciprocal. Division of one number takes a fraction of a vector's. */
ALWAYS v16 put_scale(const struct pithi_group_setting *s, uint8_t *scales, size_t g, uint32_t m) {
    const float quotient = pithi_float(m) / (float)((1 << (s->bits - 1)) - 1);
    const uint32_t rounded = v_first(round_scale(s->scale_dtype, v_spread(&quotient)));
    const uint32_t scale = m < TINY ? 0 : rounded;
    const float reciprocal = m < TINY ? 0 : 1.0f / pithi_float(rounded);
    pithi_scale_store(scales, s->scale_dtype, g, scale);
    return v_spread(&reciprocal);
}

/* ---- Units, written out: loops over vectors would keep them in memory -------------------------*/

ALWAYS void load_unit(v16 v[4], uint32_t vt, const uint8_t *value, size_t i) {
    v[0] = load(vt, value, i);
    v[1] = load(vt, value, i + 16);
    v[2] = load(vt, value, i + 32);
    v[3] = load(vt, value, i + 48);
}

ALWAYS v16 largest_lanes(const v16 v[4]) {
    return v_maxu(v_maxu(magnitude16(v[0]), magnitude16(v[1])),
                  v_maxu(magnitude16(v[2]), magnitude16(v[3])));
}

/* ---- Groups -----------------------------------------------------------------------------------*/

/* What a loop works with: copies that no store can alias, made in registers. What was just stored
 * could not be loaded before all codes that are on their way to memory. */
struct pass {
    struct packing pack;
    struct pithi_group_setting set;
    const uint8_t *value;
    uint8_t *codes, *scales;
    size_t capacity, unit;   /* bytes of codes: from `codes` on, and of a unit */
    const uint8_t *prefetch; /* what is fetched beside the first value */
    struct philox philox;
    uint64_t counter; /* Philox counter of the job's first element */
    uint16_t drawn[4 * UNIT];
    v16 ceiling; /* the largest code, as f32 */
};

ALWAYS void open_pass(struct pass *p, const struct pithi_group_job *job, size_t distance,
                      struct pass_variant w) {
    p->set = job->set;
    if (w.bits) {
        p->set.bits = (uint8_t)w.bits;
        p->set.scale_dtype = PITH_F32;
    }
    packing_make(&p->pack, p->set.bits, true);
    p->value = job->value;
    p->codes = job->codes;
    p->scales = job->scales;
    p->capacity = pithi_group_code_bytes(&p->set, job->count);
    p->unit = UNIT * p->set.bits / 8;
    p->prefetch = pithi_prefetch_begin(job->value, job->prefetch, distance);
    if (!w.random) return;
    p->counter = job->first / 8;
    philox_init(&p->philox, &job->random, p->counter);
    p->ceiling = v_set(pithi_bits((float)((1 << (p->set.bits - 1)) - 1)));
}

ALWAYS void pass_units(struct pass *p, size_t n) {
    p->codes += n * p->unit;
    p->capacity -= n * p->unit;
}

/* Returns codes, which are never beyond the largest: |x * reciprocal| < Q + 1/2. */
ALWAYS v16 code16(v16 x, v16 reciprocal) { return f_round_to_i(f_mul(x, reciprocal)); }

/* Returns codes from bit 16 up; what is below carries into them. */
ALWAYS v16 random16(const struct pass *p, v16 x, v16 reciprocal, v16 random) {
    return v_add(f_fixed(f_limit(f_mul(x, reciprocal), p->ceiling)), random);
}

/* Puts a unit of codes. `random` is four vectors, or NULL. */
ALWAYS void put_unit(struct pass *p, const v16 x[4], v16 r, const v16 *random, bool nontemporal) {
    if (random) {
        const v16 q[4] = {random16(p, x[0], r, random[0]), random16(p, x[1], r, random[1]),
                          random16(p, x[2], r, random[2]), random16(p, x[3], r, random[3])};
        pack64_high(p->codes, p->capacity, &p->pack, q, nontemporal);
    } else {
        const v16 q[4] = {code16(x[0], r), code16(x[1], r), code16(x[2], r), code16(x[3], r)};
        pack64(p->codes, p->capacity, &p->pack, q, nontemporal);
    }
    pass_units(p, 1);
}

/* Draws bits in a function of its own, which needs all registers. */
static __attribute__((noinline)) void draw_apart(const struct philox *r, uint64_t counter,
                                                 uint16_t drawn[4 * UNIT]) {
    random256(r, counter, drawn);
}

/* Draws bits for the 256 elements around i. */
ALWAYS void draw(struct pass *p, size_t i) {
    draw_apart(&p->philox, p->counter + i / (4 * UNIT) * (4 * UNIT / 8), p->drawn);
}

/* Takes the random bits of the unit at i; units come one after another. */
ALWAYS void take_random(struct pass *p, v16 random[4], size_t i) {
    const size_t offset = i % (4 * UNIT);
    if (offset == 0) draw(p, i);
    const uint8_t *const from = (const uint8_t *)(p->drawn + offset);
    random[0] = v_load16(from);
    random[1] = v_load16(from + 32);
    random[2] = v_load16(from + 64);
    random[3] = v_load16(from + 96);
}

/* Goes on after the group at i without making codes. */
ALWAYS void skip_group(struct pass *p, size_t i, struct pass_variant w) {
    pass_units(p, p->set.group / UNIT);
    if (w.random) draw(p, i);
}

/* Fetches a unit to the second-level cache: the first is too small for all that is read before. */
ALWAYS void prefetch_far(const uint8_t *p, size_t size) {
    for (size_t k = 0; k < UNIT * size; k += 64) __builtin_prefetch(p + k, 0, 2);
}

/* Prefetches what is read so much later than the unit at i. */
ALWAYS void prefetch_values(const struct pass *p, size_t i, struct pass_variant w) {
    prefetch_far(p->prefetch + i * width(w.vt), width(w.vt));
}

/* Returns the maxima of m and of n elements from i on. The loop loads once from each line, and
 * compilers do not know how often, or they would unroll it: what hardware fetches by itself depends
 * on the instructions that read, and one that reads line after line is followed best. */
ALWAYS v16 maxima(v16 m, const struct pass *p, size_t i, size_t n, struct pass_variant w) {
    const uint8_t *const end = p->value + (i + n) * width(w.vt);
    const uint8_t *prefetch = p->prefetch + i * width(w.vt);
    for (const uint8_t *at = p->value + i * width(w.vt); at < end; at += 64, prefetch += 64) {
        __builtin_prefetch(prefetch, 0, 2);
        m = v_maxu(m, magnitude16(load(w.vt, at, 0)));
        if (w.vt == PITH_F32)
            v_pace();
        else
            m = v_maxu(m, magnitude16(load(w.vt, at, 16)));
    }
    return m;
}

ALWAYS size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Makes the codes of the group at i between the maxima of the group at `next`, or, where that is
 * count, fetches what comes behind the last group as the maxima would. */
ALWAYS v16 put_group(struct pass *p, size_t i, size_t next, size_t count, v16 reciprocal,
                     struct pass_variant w) {
    const size_t end = least(i + p->set.group, count), last = least(next + p->set.group, count);
    v16 m = v_set(0), x[4];
    for (; i < end; next += SPAN) {
        if (next < last) m = maxima(m, p, next, least(SPAN, last - next), w);
        for (const size_t stop = least(i + SPAN, end); i < stop; i += UNIT) {
            if (next >= last) prefetch_values(p, i, w);
            load_unit(x, w.vt, p->value, i);
            put_unit(p, x, reciprocal, NULL, w.nontemporal);
        }
    }
    return m;
}

/* Encodes groups, of which the last may be short. */
ALWAYS void encode_groups(struct pithi_group_job *job, size_t count, struct pass_variant w) {
    struct pass p;
    open_pass(&p, job, PREFETCH_EXTREMES, w);
    const size_t group = p.set.group;
    v16 m = maxima(v_set(0), &p, 0, least(group, count), w);
    for (size_t i = 0, g = 0; i < count; i += group, g++) {
        const size_t next = least(i + group, count);
        const uint32_t largest = v_reduce_maxu(m);
        const v16 reciprocal = put_scale(&p.set, p.scales, g, largest);
        if (__builtin_expect(largest >= PITHI_SCALE_LIMIT, 0)) {
            encode_huge(job, i, least(group, count - i), false);
            skip_group(&p, i, w);
            m = maxima(v_set(0), &p, next, least(group, count - next), w);
        } else {
            m = put_group(&p, i, next, count, reciprocal, w);
        }
    }
}

/* Finds the maxima of one group. With random bits, which take longer than memory does, groups are
 * coded one by one, and values are fetched beside codes alone. */
ALWAYS v16 random_maxima(const struct pass *p, size_t i, struct pass_variant w) {
    v16 m = v_set(0), x[4];
    for (size_t k = 0; k < p->set.group; k += UNIT) {
        load_unit(x, w.vt, p->value, i + k);
        m = v_maxu(m, largest_lanes(x));
    }
    return m;
}

ALWAYS void put_random_group(struct pass *p, size_t i, v16 reciprocal, struct pass_variant w) {
    v16 x[4], random[4];
    for (size_t k = i; k < i + p->set.group; k += UNIT) {
        take_random(p, random, k);
        prefetch_values(p, k, w);
        load_unit(x, w.vt, p->value, k);
        put_unit(p, x, reciprocal, random, w.nontemporal);
    }
}

ALWAYS void encode_random_groups(struct pithi_group_job *job, size_t count, struct pass_variant w) {
    struct pass p;
    open_pass(&p, job, PREFETCH_VALUES, w);
    for (size_t i = 0; i < count; i += p.set.group) {
        const uint32_t largest = v_reduce_maxu(random_maxima(&p, i, w));
        if (__builtin_expect(largest >= PITHI_SCALE_LIMIT, 0)) {
            encode_huge(job, i, p.set.group, false);
            skip_group(&p, i, w);
        } else {
            put_random_group(&p, i, put_scale(&p.set, p.scales, i / p.set.group, largest), w);
        }
    }
}

/* ---- Rotated groups ---------------------------------------------------------------------------*/

struct held {
    v16 v[8];
};

/* Transforms a group; returns its maxima. */
ALWAYS v16 rotate_group(struct held *x, const struct pass *p, size_t i, struct pass_variant w) {
    const uint8_t *const value = p->value + i * width(w.vt);
    prefetch_values(p, i, w);
    prefetch_values(p, i + UNIT, w);
    load_unit(x->v, w.vt, value, 0);
    load_unit(x->v + 4, w.vt, value, UNIT);
    rotate_runs(x->v, p->set.bits, !w.random);
    return v_maxu(largest_lanes(x->v), largest_lanes(x->v + 4));
}

ALWAYS void put_rotated(struct pass *p, const v16 v[8], v16 r, bool nontemporal) {
    const v16 q[8] = {code16(v[0], r), code16(v[1], r), code16(v[2], r), code16(v[3], r),
                      code16(v[4], r), code16(v[5], r), code16(v[6], r), code16(v[7], r)};
    pack_rotated(p->codes, p->capacity, &p->pack, q, nontemporal);
    pass_units(p, HELD / UNIT);
}

ALWAYS void put_random(struct pass *p, const v16 v[8], v16 r, size_t i, bool nontemporal) {
    v16 random[4];
    take_random(p, random, i);
    put_unit(p, v, r, random, nontemporal);
    take_random(p, random, i + UNIT);
    put_unit(p, v + 4, r, random, nontemporal);
}

/* Encodes rotated groups: one is rotated while the scale of the one before it is found. */
ALWAYS void encode_rotated(struct pithi_group_job *job, size_t count, struct pass_variant w) {
    struct pass p;
    struct held next;
    open_pass(&p, job, PREFETCH_VALUES, w);
    v16 m = rotate_group(&next, &p, 0, w);
    for (size_t i = 0; i < count; i += HELD) {
        const struct held x = next;
        const uint32_t largest = v_reduce_maxu(m);
        const v16 reciprocal = put_scale(&p.set, p.scales, i / HELD, largest);
        m = rotate_group(&next, &p, i + HELD < count ? i + HELD : i, w);
        if (__builtin_expect(largest >= PITHI_SCALE_LIMIT, 0)) {
            encode_huge(job, i, HELD, true);
            skip_group(&p, i, w);
        } else if (w.random) {
            put_random(&p, x.v, reciprocal, i, w.nontemporal);
        } else {
            put_rotated(&p, x.v, reciprocal, w.nontemporal);
        }
    }
}

/* ---- Entry ------------------------------------------------------------------------------------*/

ALWAYS void encode_variant(struct pithi_group_job *job, size_t count, bool rotated,
                           struct pass_variant w) {
    if (rotated)
        encode_rotated(job, count, w);
    else if (w.random)
        encode_random_groups(job, count, w);
    else
        encode_groups(job, count, w);
}

ALWAYS void encode_dtype(struct pithi_group_job *job, size_t count, bool rotated, uint32_t vt) {
    const unsigned bits = job->set.scale_dtype == PITH_F32 ? job->set.bits : 0;
    const bool nontemporal = codes_nontemporal(job);
    if (bits == 4 && nontemporal)
        encode_variant(job, count, rotated, (struct pass_variant){vt, 4, true, false});
    else if (bits == 4)
        encode_variant(job, count, rotated, (struct pass_variant){vt, 4, false, false});
    else if (bits == 8 && nontemporal)
        encode_variant(job, count, rotated, (struct pass_variant){vt, 8, true, false});
    else if (bits == 8)
        encode_variant(job, count, rotated, (struct pass_variant){vt, 8, false, false});
    else
        encode_variant(job, count, rotated, (struct pass_variant){vt, 0, nontemporal, false});
}

ALWAYS void encode_whole(struct pithi_group_job *job, size_t count, bool rotated) {
    const bool random = job->set.stochastic, nontemporal = codes_nontemporal(job);
    if (job->value_dtype == PITH_F32 && random)
        encode_variant(job, count, rotated, (struct pass_variant){PITH_F32, 4, nontemporal, true});
    else if (job->value_dtype == PITH_F32)
        encode_dtype(job, count, rotated, PITH_F32);
    else if (job->value_dtype == PITH_BF16 && random)
        encode_variant(job, count, rotated, (struct pass_variant){PITH_BF16, 4, nontemporal, true});
    else if (job->value_dtype == PITH_BF16)
        encode_dtype(job, count, rotated, PITH_BF16);
    else
        encode_variant(job, count, rotated, (struct pass_variant){PITH_F16, 0, nontemporal, false});
}

/* Whether random bits have a loop, as they do for the common kind alone. */
static bool random_pass(const struct pithi_group_job *job) {
    return job->set.bits == 4 && job->set.scale_dtype == PITH_F32 && job->value_dtype != PITH_F16 &&
           random_fits(job);
}

static bool pass_fits(const struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    return !s->asymmetric && !s->search && !s->codebook && (!s->stochastic || random_pass(job)) &&
           job->base_dtype == PITH_NONE && s->group >= UNIT;
}

/* Encodes the whole groups of a job, and the short one behind them where it is whole units; returns
 * how many elements they are. */
static size_t encode_pass(struct pithi_group_job *job) {
    const size_t rest = job->count % job->set.group;
    const bool all = rest % UNIT == 0 && !job->set.stochastic;
    const size_t count = all ? job->count : job->count - rest;
    if (!count || !pass_fits(job)) return 0;
    encode_whole(job, count, false);
    return count;
}

static size_t rotate_encode(const struct pithi_rotation *r, struct pithi_group_job *job) {
    const bool fits = r->order == 32 && r->signs == 0 && job->set.group == HELD;
    if (job->count < HELD || !fits || !pass_fits(job)) return 0;
    const size_t count = job->count - job->count % HELD;
    encode_whole(job, count, true);
    return count;
}

/* ---- Encode idempotent groups, 16 at a time ---------------------------------------------------*/
/* Groups of up to 256 elements without a base. The extremes of the next 16 groups are found between
 * the codes of these, four groups at a time, so that reads from memory never pause; where a run
 * ends, as of a token for one of many caches, they are the next one's. Where there are no others,
 * PREFETCH_NEXT elements after these are fetched beside the codes: beside extremes alone they would
 * come too fast for as many lines as can be under way. Short runs are prefetched PREFETCH_RUNS runs
 * ahead. */
enum { PREFETCH_NEXT = 2048, PREFETCH_RUNS = 2 };

/* What a loop is made for; constant in the common loops. Where bits or group is 0 the job says it.
 * small: groups are smaller than a unit. */
struct idempotent_variant {
    uint32_t vt;
    unsigned bits, group;
    bool asymmetric, small, nontemporal;
};

/* What a loop works with: copies that no store can alias. */
struct idempotent_pass {
    struct packing pack;
    struct pithi_group_run *run;
    size_t runs, run_groups;
    size_t group, groups,
        batch;    /* group: elements; groups: of all runs; batch: whose scales are made at once */
    size_t quads; /* fours of groups of a batch; fewer where all are less than one */
    size_t capacity, unit; /* bytes of codes, of a run and of a unit */
    uintptr_t next;        /* from an element to the one to be fetched beside its code, bytes */
};

ALWAYS size_t group_of(const struct idempotent_pass *p, struct idempotent_variant w) {
    return w.group ? w.group : p->group;
}

/* Extremes of 16 groups, as bits: the largest as signed integers, the highest as unsigned ones. */
struct extremes {
    vquad high[4], low[4];
};

/* ---- Extremes --------------------------------------------------------------------------------
 * Bits are compared as they are: of values that are not negative, the largest as signed integers is
 * the largest; of negative ones, the highest as unsigned integers is the least. Both are of every
 * other group too but those of one sign, which lack one of them: the value nearest to 0. */

ALWAYS void take_extremes(v16 *lo, v16 *hi, v16 x, struct idempotent_variant w) {
    const bool wide = w.vt == PITH_F32;
    if (!w.asymmetric) x = v_and(x, v_set(wide ? 0x7FFFFFFFu : 0x7FFF7FFFu));
    *hi = wide ? v_maxi(*hi, x) : v_maxi16(*hi, x);
    if (w.asymmetric) *lo = wide ? v_maxu(*lo, x) : v_maxu16(*lo, x);
}

/* Finds the extremes of one group, in any of the lanes. `prefetch` is the distance in bytes of what
 * is fetched; 0 is as good as none. */
ALWAYS void group_extremes(v16 *lo, v16 *hi, const uint8_t *value, size_t group, size_t prefetch,
                           struct idempotent_variant w) {
    const bool wide = w.vt == PITH_F32;
    *lo = v_set(0);
    *hi = v_set(!w.asymmetric ? 0 : wide ? 0x80000000u : 0x80008000u);
    if (!wide && group == 16) {
        take_extremes(lo, hi, v_load_twice(value), w);
        return;
    }
    const uint8_t *const end = value + group * width(w.vt);
    for (; value < end; value += 64) {
        __builtin_prefetch((const void *)((uintptr_t)value + prefetch), 0, 2);
        take_extremes(lo, hi, v_load(value), w);
    }
}

/* Returns the values nearest to 0 of 16 groups from g on; lanes behind the last repeat it. */
static __attribute__((noinline)) v16 nearest_to_0(const struct pithi_group_run *run,
                                                  size_t run_groups, size_t g, size_t groups,
                                                  uint32_t dtype, size_t group) {
    const bool wide = dtype == PITH_F32;
    const size_t bytes = group * width(dtype);
    vquad q[4];
    v16 x[4];
    for (size_t k = 0; k < 16; k++) {
        const size_t i = g + k < groups ? g + k : groups - 1;
        const uint8_t *v = (const uint8_t *)run[i / run_groups].value + i % run_groups * bytes;
        const uint8_t *const end = v + bytes;
        v16 m = bytes < 64 ? v_load_twice(v) : v_load(v);
        for (v += 64; v < end; v += 64) m = wide ? v_minu(m, v_load(v)) : v_minu16(m, v_load(v));
        x[k % 4] = m;
        if (k % 4 == 3) q[k / 4] = wide ? v_lowest_four(x) : v_lowest16_four(x);
    }
    return from_bits(dtype, wide ? v_lowest_all(q) : v_lowest16_all(q));
}

/* Select b where the sign of a is set and a elsewhere, and the other way round. */
ALWAYS v16 where_negative(v16 a, v16 b) { return v_xor(a, v_and(v_xor(a, b), v_sar31(a))); }
ALWAYS v16 where_positive(v16 a, v16 b) { return v_xor(b, v_and(v_xor(a, b), v_sar31(a))); }

/* Makes idempotent scales of the batch at group g from its extremes; whether some are irregular. */
ALWAYS bool idempotent_extremes(struct idempotent *s, const struct pithi_group_setting *set,
                                const struct idempotent_pass *p, const struct extremes *e, size_t g,
                                struct idempotent_variant w) {
    const bool wide = w.vt == PITH_F32;
    const bool few = p->batch == 8 || p->groups - g <= 8;
    const v16 sign = v_set(0x80000000u);
    v16 hi = from_bits(w.vt, wide ? v_largest_all(e->high) : v_largest16_all(e->high));
    if (!w.asymmetric) return idempotent_magnitudes(s, set, w.vt, hi, few);
    v16 lo = from_bits(w.vt, wide ? v_highest_all(e->low) : v_highest16_all(e->low));
    const v16 both = v_and(lo, v_xor(hi, sign));
    if (__builtin_expect(v_any(v_and(v_xor(both, sign), sign)), 0)) {
        const v16 nearest = nearest_to_0(p->run, p->run_groups, g, p->groups, w.vt, p->group);
        hi = where_negative(hi, nearest);
        lo = where_positive(lo, nearest);
    }
    return idempotent_ranges(s, set, w.vt, lo, hi, true, few);
}

/* ---- Scales -----------------------------------------------------------------------------------*/

static void put_entries(const struct pithi_group_setting *s, const struct idempotent *from,
                        size_t first, size_t groups, uint8_t *to) {
    for (size_t g = 0; g < groups; g++) {
        const size_t at = s->asymmetric ? 2 * g : g;
        pithi_store(to, s->scale_dtype, at, pithi_bits(from->scale[first + g]));
        if (s->asymmetric)
            pithi_store(to, s->scale_dtype, at + 1, pithi_bits(from->zero[first + g]));
    }
}

/* Returns scales of a 16-bit dtype as 16 bits a lane. */
ALWAYS v16 half_of(uint32_t dtype, const float from[16]) {
    const v16 x = v_load((const uint8_t *)from);
    return dtype == PITH_F16 ? f_narrow(x) : v_shr(x, 16);
}

/* Puts `count` of these entries. */
static void put_some(uint8_t *to, v16 entries, size_t first, size_t count) {
    uint8_t all[64];
    v_store(all, entries);
    memcpy(to, all + 4 * first, 4 * count);
}

/* Puts the scales of lanes [first, first + groups). */
static __attribute__((noinline)) void put_idempotent(const struct pithi_group_setting *s,
                                                     const struct idempotent *from, size_t first,
                                                     size_t groups, bool irregular, uint8_t *to) {
    __builtin_prefetch(to + PREFETCH_SCALES, 1);
    if (irregular || (s->scale_dtype == PITH_F32 && s->asymmetric) ||
        (groups < 16 && !s->asymmetric)) {
        put_entries(s, from, first, groups, to);
    } else if (s->scale_dtype == PITH_F32) {
        memcpy(to, from->scale, sizeof from->scale);
    } else {
        const v16 scale = half_of(s->scale_dtype, from->scale);
        if (!s->asymmetric)
            v_store16(to, scale);
        else
            put_some(to, v_xor(scale, v_shl16(half_of(s->scale_dtype, from->zero))), first, groups);
    }
}

/* Where the scales of the next batch go: to a run, which has groups left. */
struct scaling {
    size_t run, left;
};

/* Makes the scales of the batch at group g, whose extremes are known; whether values may be beyond
 * the last code. */
ALWAYS bool put_batch_scales(struct idempotent *s, const struct pithi_group_setting *set,
                             const struct idempotent_pass *p, const struct extremes *e,
                             struct scaling *t, size_t g, struct idempotent_variant w) {
    const size_t n = p->groups - g < p->batch ? p->groups - g : p->batch;
    const size_t entry = pithi_scale_width(set->scale_dtype) * (w.asymmetric ? 2 : 1);
    const bool irregular = idempotent_extremes(s, set, p, e, g, w);
    for (size_t lane = 0, m; lane < n; lane += m) {
        struct pithi_group_run *const run = &p->run[t->run];
        const size_t at = p->run_groups - t->left;
        m = n - lane < t->left ? n - lane : t->left;
        if (__builtin_expect(irregular, 0))
            run->poisoned += idempotent_slow_path(s, set, w.vt, lane, m);
        if (__builtin_expect(set->shrink, 0)) { /* a single run, which this loop passes once */
            const uint8_t *const value = (const uint8_t *)run->value;
            const struct shrinking h = {set, value + at * p->group * width(w.vt), w.vt, p->group,
                                        n};
            shrink_idempotent(s, &h);
        }
        put_idempotent(set, s, lane, m, irregular, run->scales + at * entry);
        t->left -= m;
        if (t->left == 0) *t = (struct scaling){t->run + 1, p->run_groups};
    }
    return irregular || set->shrink;
}

/* ---- Codes ------------------------------------------------------------------------------------*/

/* What makes the codes of a group. */
struct grid {
    v16 zero, reciprocal, most;
};

ALWAYS struct grid grid_of(const struct idempotent *s, size_t g, struct idempotent_variant w,
                           bool irregular) {
    struct grid r = {v_set(0), v_spread(&s->reciprocal[g]), v_set(0)};
    if (w.asymmetric) r.zero = v_spread(&s->zero[g]);
    if (irregular) r.most = v_spread(&s->most[g]);
    return r;
}

/* Makes codes. None is beyond the last in groups that are idempotent after one iteration. */
ALWAYS v16 idempotent_code(const struct grid *r, v16 x, struct idempotent_variant w,
                           bool irregular) {
    if (w.asymmetric) x = f_sub(x, r->zero);
    x = f_mul(x, r->reciprocal);
    if (irregular && w.asymmetric) x = f_min(f_max(x, v_set(0)), r->most);
    if (irregular && !w.asymmetric)
        x = f_min(f_max(x, v_xor(r->most, v_set(0x80000000u))), r->most);
    return f_round_to_i(x);
}

/* Where codes are made: of elements [at, end) of the batch that `idempotent` describes. `value`
 * points at the next one; value_end and codes_end are the ends of its run. */
struct coding {
    const struct idempotent *idempotent;
    const struct packing *searched; /* made once where all groups are irregular, or NULL */
    const uint8_t *value, *value_end;
    uint8_t *codes, *codes_end;
    size_t run, at, end;
    bool irregular;
};

/* Makes the next n codes. */
ALWAYS void idempotent_codes(struct coding *c, const struct idempotent_pass *p,
                             const struct packing *pack, size_t n, struct idempotent_variant w,
                             bool irregular, bool fetch) {
    const unsigned shift = (unsigned)__builtin_ctzll(group_of(p, w));
    for (size_t i = 0; i < n; i += UNIT) {
        const uint8_t *const v = c->value + i * width(w.vt);
        struct grid r = grid_of(c->idempotent, (c->at + i) >> shift, w, irregular);
        v16 q[4];
        for (size_t k = 0; k < 4; k++) {
            if (w.small && k > 0 && !(w.group && 16 * k % w.group))
                r = grid_of(c->idempotent, (c->at + i + 16 * k) >> shift, w, irregular);
            q[k] = idempotent_code(&r, load(w.vt, v, 16 * k), w, irregular);
        }
        if (!w.nontemporal) __builtin_prefetch(c->codes + PREFETCH_CODES, 1);
        for (size_t k = 0; fetch && k < UNIT * width(w.vt); k += 64)
            __builtin_prefetch((const void *)((uintptr_t)v + p->next + k), 0, 2);
        pack64_whole(c->codes, (size_t)(c->codes_end - c->codes), pack, q, w.nontemporal);
        c->codes += p->unit;
    }
}

/* Makes the next n codes of irregular groups. The code of NaN is 0, which clamping or rounding
 * makes of it. The loop is not inlined, so that the common one is in registers. */
static __attribute__((noinline)) void irregular_codes(struct coding c,
                                                      const struct pithi_group_setting *s, size_t n,
                                                      struct idempotent_variant w) {
    struct idempotent_pass p;
    const struct packing *pack = c.searched;
    p.group = s->group;
    p.unit = UNIT * s->bits / 8;
    w.small = false;
    w.bits = w.group = 0;
    if (!pack) {
        packing_init(&p.pack, s->bits, !s->asymmetric);
        pack = &p.pack;
    }
    if (s->group >= UNIT) {
        idempotent_codes(&c, &p, pack, n, w, true, false);
        return;
    }
    w.small = true;
    idempotent_codes(&c, &p, pack, n, w, true, false);
}

ALWAYS void open_coding(struct coding *c, const struct idempotent_pass *p, size_t run,
                        struct idempotent_variant w) {
    c->run = run;
    c->value = p->run[run].value;
    c->value_end = c->value + p->run_groups * p->group * width(w.vt);
    c->codes = p->run[run].codes;
    c->codes_end = c->codes + p->capacity;
}

/* Makes the next n codes, which all belong to one run. */
ALWAYS void put_codes_of(struct coding *c, const struct idempotent_pass *p,
                         const struct pithi_group_setting *s, size_t n, struct idempotent_variant w,
                         bool fetch) {
    if (__builtin_expect(c->irregular, 0)) {
        irregular_codes(*c, s, n, w);
        c->codes += n / UNIT * p->unit;
    } else {
        idempotent_codes(c, p, &p->pack, n, w, false, fetch);
    }
    c->value += n * width(w.vt);
    c->at += n;
    if (c->value == c->value_end && c->run + 1 < p->runs) open_coding(c, p, c->run + 1, w);
}

/* ---- Groups -----------------------------------------------------------------------------------*/

/* Where extremes are found next: in the group at `value`, after which, itself counted, `left`
 * remain in its run. Past the end, a little of the last group is read again. */
struct reading {
    const uint8_t *value;
    size_t run, left;
    size_t elements, step; /* elements of a group that are read; bytes to the next group */
    size_t prefetch;       /* how many bytes ahead values are fetched */
};

/* Begins a run. Where a run is short, values are fetched from the next run but one. */
ALWAYS void open_reading(struct reading *r, const struct idempotent_pass *p, size_t run,
                         struct idempotent_variant w) {
    const bool large = p->run_groups * p->group * width(w.vt) >= PREFETCH_EXTREMES;
    r->run = run;
    r->value = p->run[run].value;
    r->left = p->run_groups;
    r->elements = p->group;
    r->step = p->group * width(w.vt);
    r->prefetch = p->groups > p->batch ? PREFETCH_EXTREMES : 0;
    if (p->runs == 1 || large) return;
    r->prefetch = 0;
    if (run + PREFETCH_RUNS < p->runs)
        r->prefetch = (uintptr_t)p->run[run + PREFETCH_RUNS].value - (uintptr_t)r->value;
}

ALWAYS void read_on(struct reading *r, const struct idempotent_pass *p,
                    struct idempotent_variant w) {
    r->left--;
    if (__builtin_expect(r->left > 0, 1)) {
        r->value += r->step;
    } else if (r->run + 1 < p->runs) {
        open_reading(r, p, r->run + 1, w);
    } else {
        r->left = SIZE_MAX;
        r->elements = 16;
        r->step = 0;
    }
}

/* Finds the extremes of the next group; then makes codes of the batch before, if there is one. */
ALWAYS void find_one(struct reading *r, struct coding *c, const struct idempotent_pass *p,
                     const struct pithi_group_setting *s, v16 *lo, v16 *hi,
                     struct idempotent_variant w) {
    const size_t least = w.small ? UNIT : p->group;
    group_extremes(lo, hi, r->value, w.group ? w.group : r->elements, r->prefetch, w);
    read_on(r, p, w);
    if (c && (!w.small || c->at < c->end)) put_codes_of(c, p, s, least, w, false);
}

/* Finds the extremes of four groups, written out to stay in registers. */
ALWAYS void find_four(struct reading *r, struct coding *c, const struct idempotent_pass *p,
                      const struct pithi_group_setting *s, struct extremes *e, size_t k,
                      struct idempotent_variant w) {
    v16 lo[4], hi[4];
    find_one(r, c, p, s, &lo[0], &hi[0], w);
    find_one(r, c, p, s, &lo[1], &hi[1], w);
    find_one(r, c, p, s, &lo[2], &hi[2], w);
    find_one(r, c, p, s, &lo[3], &hi[3], w);
    const bool wide = w.vt == PITH_F32;
    e->high[k] = wide ? v_largest_four(hi) : v_largest16_four(hi);
    if (w.asymmetric) e->low[k] = wide ? v_highest_four(lo) : v_highest16_four(lo);
}

/* Fills lanes from quad k on, which have no group: the first ones are as good. */
ALWAYS void repeat_first(struct extremes *e, size_t k, struct idempotent_variant w) {
    for (; k < 4; k++) {
        if (w.asymmetric) e->low[k] = e->low[0];
        e->high[k] = e->high[0];
    }
}

ALWAYS void find_batch_extremes(struct reading *r, struct coding *c,
                                const struct idempotent_pass *p,
                                const struct pithi_group_setting *s, struct extremes *e,
                                struct idempotent_variant w) {
    size_t k = 0;
    do {
        if (c) c->end = 4 * (k + 1) * group_of(p, w);
        find_four(r, c, p, s, e, k, w);
    } while (++k < p->quads);
    repeat_first(e, p->quads, w);
}

/* Sets all of p but the tables. */
ALWAYS void open_idempotent(struct idempotent_pass *p, const struct pithi_group_setting *s,
                            struct pithi_group_run *run, size_t runs, size_t count,
                            struct idempotent_variant w) {
    p->run = run;
    p->runs = runs;
    p->group = s->group;
    p->run_groups = count >> __builtin_ctz(s->group);
    p->groups = runs * p->run_groups;
    p->batch = p->group > 128 ? 8 : 16;
    p->quads = ((p->groups < p->batch ? p->groups : p->batch) + 3) / 4;
    p->capacity = pithi_group_code_bytes(s, count);
    p->unit = UNIT * (w.bits ? w.bits : s->bits) / 8;
    p->next = 0;
}

/* Encodes runs: the extremes of the next batch are found between the codes of one. */
ALWAYS void encode_idempotent(const struct pithi_group_job *like, struct pithi_group_run *run,
                              size_t runs, size_t count, struct idempotent_variant w) {
    const struct pithi_group_setting *const set = &like->set;
    struct idempotent_pass p;
    struct idempotent s;
    struct extremes e;
    struct packing searched; /* another one, which p's loops need not look at */
    open_idempotent(&p, set, run, runs, count, w);
    struct reading r;
    struct coding c;
    struct scaling t = {0, p.run_groups};
    open_reading(&r, &p, 0, w);
    open_coding(&c, &p, 0, w);
    c.idempotent = &s;
    c.searched = NULL;
    if (set->shrink) {
        packing_init(&searched, set->bits, !w.asymmetric);
        c.searched = &searched;
    }
    find_batch_extremes(&r, NULL, &p, set, &e, w);
    /* The tables are made here, while scales are waited for. */
    packing_make(&p.pack, w.bits ? w.bits : set->bits, !w.asymmetric);
    size_t g = 0;
    for (;; g += p.batch) {
        c.irregular = put_batch_scales(&s, set, &p, &e, &t, g, w);
        c.at = 0;
        if (g + p.batch >= p.groups) break;
        find_batch_extremes(&r, &c, &p, set, &e, w);
    }
    if (runs == 1)
        p.next = like->prefetch ? (uintptr_t)like->prefetch - (uintptr_t)c.value
                                : PREFETCH_NEXT * width(w.vt);
    for (size_t n, left = (p.groups - g) * p.group; left; left -= n) {
        n = (size_t)(c.value_end - c.value) / width(w.vt);
        if (n > left) n = left;
        put_codes_of(&c, &p, set, n, w, true);
    }
}

/* ---- Entry ------------------------------------------------------------------------------------*/

/* Each kind is a function of its own: one of all would spill the registers of all. */
#define IDEMPOTENT_LOOP(name, dtype, bits, group, asymmetric, small)                          \
    static __attribute__((noinline)) void name(const struct pithi_group_job *like,            \
                                               struct pithi_group_run *run, size_t runs,      \
                                               size_t count, bool nontemporal) {              \
        encode_idempotent(                                                                    \
            like, run, runs, count,                                                           \
            (struct idempotent_variant){dtype, bits, group, asymmetric, small, nontemporal}); \
    }
#define IDEMPOTENT_LOOPS(name, dtype)                                      \
    IDEMPOTENT_LOOP(name##_any, dtype, 0, 0, true, false)                  \
    IDEMPOTENT_LOOP(name##_2, dtype, 2, 0, true, false)                    \
    IDEMPOTENT_LOOP(name##_4, dtype, 4, 0, true, false)                    \
    IDEMPOTENT_LOOP(name##_symmetric, dtype, 0, 0, false, false)           \
    IDEMPOTENT_LOOP(name##_small, dtype, 0, 0, like->set.asymmetric, true) \
    IDEMPOTENT_LOOP(name##_2_of_32, dtype, 2, 32, true, true)              \
    IDEMPOTENT_LOOP(name##_4_of_32, dtype, 4, 32, true, true)              \
    IDEMPOTENT_LOOP(name##_8_of_32, dtype, 8, 32, false, true)
IDEMPOTENT_LOOPS(idempotent_f32, PITH_F32)
IDEMPOTENT_LOOPS(idempotent_bf16, PITH_BF16)
IDEMPOTENT_LOOPS(idempotent_f16, PITH_F16)
#undef IDEMPOTENT_LOOPS
#undef IDEMPOTENT_LOOP

/* The loops of a dtype. */
enum loop { ANY, TWO, FOUR, SYMMETRIC, SMALL, TWO_OF_32, FOUR_OF_32, EIGHT_OF_32, LOOPS };
#define LOOPS_OF(name)                                                                           \
    {                                                                                            \
        [ANY] = name##_any, [TWO] = name##_2, [FOUR] = name##_4, [SYMMETRIC] = name##_symmetric, \
        [SMALL] = name##_small, [TWO_OF_32] = name##_2_of_32, [FOUR_OF_32] = name##_4_of_32,     \
        [EIGHT_OF_32] = name##_8_of_32,                                                          \
    }

static enum loop loop_of(const struct pithi_group_setting *s) {
    const bool two = s->bits == 2, four = s->bits == 4, eight = s->bits == 8;
    if (s->group >= UNIT) return !s->asymmetric ? SYMMETRIC : two ? TWO : four ? FOUR : ANY;
    if (s->group != 32) return SMALL;
    if (!s->asymmetric) return eight ? EIGHT_OF_32 : SMALL;
    return two ? TWO_OF_32 : four ? FOUR_OF_32 : SMALL;
}

/* Encodes runs of `count` elements. */
static void encode_idempotent_any(const struct pithi_group_job *like, struct pithi_group_run *run,
                                  size_t runs, size_t count, bool nontemporal) {
    typedef void encode_fn(const struct pithi_group_job *, struct pithi_group_run *, size_t, size_t,
                           bool);
    static encode_fn *const known[3][LOOPS] = {LOOPS_OF(idempotent_f32), LOOPS_OF(idempotent_bf16),
                                               LOOPS_OF(idempotent_f16)};
    const int row = like->value_dtype == PITH_F32 ? 0 : like->value_dtype == PITH_BF16 ? 1 : 2;
    known[row][loop_of(&like->set)](like, run, runs, count, nontemporal);
}
#undef LOOPS_OF

/* Returns how many of a job's elements, from its beginning, are whole groups and whole units. */
static size_t idempotent_elements(const struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t least = s->group > UNIT ? s->group : UNIT;
    if (s->group > 256 || job->base_dtype != PITH_NONE) return 0;
    return job->count & ~(least - 1);
}

/* Encodes the whole groups and units of a job; returns how many elements they have. */
static size_t idempotent_pass(struct pithi_group_job *job) {
    const size_t count = idempotent_elements(job);
    if (count > 0) encode_idempotent_any(job, &job->run, 1, count, codes_nontemporal(job));
    return count;
}

static void group_encode(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    if ((s->stochastic && !random_fits(job)) || (s->search && !search_fits(job)) || s->codebook) {
        pithi_group_encode_c(job);
        return;
    }
    const bool idempotent = s->asymmetric || s->idempotent;
    const size_t done = idempotent ? idempotent_pass(job) : encode_pass(job);
    if (done == job->count) return;
    if (s->shrink) {
        scalar_part(job, done, job->count - done, pithi_group_encode_c);
        return;
    }
    const int levels = (1 << (s->asymmetric ? s->bits : s->bits - 1)) - 1;
    const struct variant r = {
        job->value_dtype, job->base_dtype, job->update && job->base_dtype != PITH_NONE,
        s->asymmetric,    s->stochastic,   codes_nontemporal(job),
        s->search,        idempotent};
    struct encoder e; /* has no initializer, as most of it is packing */
    e.set = s;
    e.saturated = 0;
    e.ceiling = v_set(pithi_bits((float)levels));
    packing_init(&e.pack, s->bits, !s->asymmetric);
    if (s->stochastic) philox_init(&e.philox, &job->random, job->first / 8);
    const size_t step = batch_elements(s, r.bt == PITH_NONE ? ENCODED_ALONE : ENCODED);
    struct batch b;
    for (size_t i = done; i < job->count; i += step) {
        const size_t n = job->count - i < step ? job->count - i : step;
        open_batch(&b, job, i, n);
        if (!encode_any(&e, &b, r)) scalar_part(job, i, n, pithi_group_encode_c);
    }
    job->saturated += e.saturated;
}

static void group_encode_runs(const struct pithi_group_job *like, struct pithi_group_run *run,
                              size_t runs) {
    const struct pithi_group_setting *s = &like->set;
    const bool idempotent = (s->asymmetric || s->idempotent) && !s->codebook && !s->search;
    if (idempotent && !s->shrink && runs && like->count && idempotent_elements(like) == like->count)
        encode_idempotent_any(like, run, runs, like->count, false);
    else
        pithi_group_each_run(like, run, runs, group_encode);
}
