/* group_settled_tmpl.h - a part of group_tmpl.h: scales and zero points of settled groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * 16 groups at a time, one to a lane. Nearly all settle in one turn, which is checked by taking
 * it; the others are the scalar text's, which goes on from their least and largest values. */

/* 16 groups; arrays, so that a lane can be spread. most: the largest code. */
struct settled {
    _Alignas(64) float low[16], high[16]; /* symmetric: 0, and the largest magnitude */
    float scale[16], zero[16], reciprocal[16], most[16];
    uint32_t odd[16]; /* 0 where one turn settled */
};

ALWAYS v16 round_step(uint32_t dtype, v16 x) {
    if (dtype != PITH_F32) return round_to(dtype, x);
    const v16 odd = v_and(v_shr(x, 8), v_set(1));
    return v_and(v_add(v_add(x, v_set(0x7F)), odd), v_set(0xFFFFFF00u));
}

ALWAYS v16 round_zero(const struct pithi_group_setting *s, v16 lo, bool round) {
    if (round) lo = round_to(s->scale_dtype, lo);
    const v16 zero = f_add(lo, v_set(0)); /* never -0 */
    if (!s->short_zero) return zero;
    const v16 odd = v_and(v_shr(zero, 18), v_set(1));
    return v_and(v_add(v_add(zero, v_set(0x1FFFF)), odd), v_set(0xFFFC0000u));
}

ALWAYS v16 magnitude16(v16 x) { return v_and(x, v_set(0x7FFFFFFFu)); }
ALWAYS v16 above_limit(v16 x) { return v_greater(magnitude16(x), v_set(LIMIT - 1)); }

/* Bits where the last code does not lie at `range` above the zero point. */
ALWAYS v16 misses_top(v16 range, v16 reciprocal, uint32_t top) {
    return v_xor(f_round_to_i(f_mul(range, reciprocal)), v_set(top));
}

ALWAYS v16 divide(v16 a, v16 b, bool few) { return few ? f_div8(a, b) : f_div(a, b); }

/* pithi_grid_of, and whether pithi_settle would leave it: the zero point decodes to itself and is
 * the code of the least value, the last code is that of the largest one and of what it decodes to,
 * from which the same scale comes. whole: lo is a value of the dtype. few: of eight groups at most,
 * as of an appended token; there divisions of half as many lanes are sooner done. */
ALWAYS void settle_lanes(struct settled *to, const struct pithi_group_setting *s, uint32_t dtype,
                         bool asymmetric, v16 lo, v16 hi, bool whole, bool few) {
    const uint32_t top_code = (1u << (asymmetric ? s->bits : s->bits - 1)) - 1;
    const v16 levels = f_from_i(v_set(top_code));
    v16 zero = v_set(0), odd = above_limit(hi);
    if (asymmetric) {
        const bool other = !whole || s->scale_dtype != dtype; /* where rounding may change lo */
        zero = round_zero(s, lo, other);
        odd = v_maxu(odd, v_maxu(above_limit(lo), above_limit(zero)));
        /* A short zero point may be -0, which decodes to +0. */
        const v16 decoded = round_to(dtype, f_add(zero, v_set(0)));
        if (other || s->short_zero) odd = v_maxu(odd, v_xor(decoded, zero));
    }
    const v16 range = f_sub(hi, zero);
    const v16 coded = v_greater(range, v_set(TINY - 1));
    const v16 scale = v_and(round_step(s->scale_dtype, divide(range, levels, few)), coded);
    const v16 steps = v_greater(scale, v_set(0));
    const v16 reciprocal = v_and(divide(v_set(0x3F800000u), scale, few), steps);
    const v16 reached = f_sub(round_to(dtype, f_add(f_mul(levels, scale), zero)), zero);
    const v16 again = round_step(s->scale_dtype, divide(reached, levels, few));
    if (asymmetric) odd = v_maxu(odd, f_round_to_i(f_mul(f_sub(lo, zero), reciprocal)));
    odd = v_maxu(odd, v_and(steps, v_xor(v_greater(reached, v_set(TINY - 1)), v_set(~0u))));
    odd = v_maxu(odd, v_and(steps, v_xor(again, scale)));
    odd = v_maxu(odd, v_and(steps, misses_top(range, reciprocal, top_code)));
    odd = v_maxu(odd, v_and(steps, misses_top(reached, reciprocal, top_code)));
    v_store((uint8_t *)to->low, lo);
    v_store((uint8_t *)to->high, hi);
    v_store((uint8_t *)to->scale, scale);
    v_store((uint8_t *)to->zero, zero);
    v_store((uint8_t *)to->reciprocal, reciprocal);
    v_store((uint8_t *)to->most, levels);
    v_store((uint8_t *)to->odd, odd);
}

/* The turns that are left of odd groups in lanes [first, first + groups); returns how many are
 * poisoned. Theirs are the codes 0. */
static __attribute__((noinline)) uint32_t settle_odd(struct settled *to,
                                                     const struct pithi_group_setting *s,
                                                     uint32_t dtype, size_t first, size_t groups) {
    uint32_t poisoned = 0;
    for (size_t g = first; g < first + groups; g++) {
        if (!to->odd[g]) continue;
        const uint32_t nan = PITHI_F32_NAN;
        struct pithi_grid r = {.scale = pithi_float(nan), .zero = pithi_float(nan)};
        if (!pithi_nonfinite(pithi_bits(to->low[g])) && !pithi_nonfinite(pithi_bits(to->high[g]))) {
            r = pithi_grid_of(s, dtype, to->low[g], to->high[g]);
            pithi_settle(s, dtype, to->low[g], to->high[g], &r);
        }
        to->scale[g] = r.scale;
        to->zero[g] = r.zero;
        to->reciprocal[g] = r.reciprocal;
        to->most[g] = r.most;
        poisoned += pithi_nonfinite(pithi_bits(r.scale));
    }
    return poisoned;
}

static __attribute__((noinline)) bool settle_ranges(struct settled *to,
                                                    const struct pithi_group_setting *s,
                                                    uint32_t dtype, v16 lo, v16 hi, bool whole,
                                                    bool few) {
    settle_lanes(to, s, dtype, true, lo, hi, whole, few);
    return v_any(v_load((const uint8_t *)to->odd));
}
static __attribute__((noinline)) bool settle_sizes(struct settled *to,
                                                   const struct pithi_group_setting *s,
                                                   uint32_t dtype, v16 hi, bool few) {
    settle_lanes(to, s, dtype, false, v_set(0), hi, true, few);
    return v_any(v_load((const uint8_t *)to->odd));
}
