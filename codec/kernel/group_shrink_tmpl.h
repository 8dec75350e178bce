/* group_shrink_tmpl.h - a part of group_tmpl.h: the search for the part of a range of least error.
 * SPDX-License-Identifier: Apache-2.0
 *
 * 16 groups at a time: candidates are a lane each, as settled groups are; errors are summed over
 * 16 lanes of one group, as the text sums them. */

/* Groups of whole vectors that have been settled, one after another from `value` on. */
struct shrinking {
    const struct pithi_group_setting *set;
    const uint8_t *value;
    uint32_t dtype;
    size_t group, groups;
};

/* ---- Errors ----------------------------------------------------------------------------------*/

/* A grid in all lanes. */
struct spread_grid {
    v16 scale, zero, reciprocal, least, most;
};

ALWAYS v16 squared_error(v16 x, const struct spread_grid *r, uint32_t dtype) {
    v16 q = f_mul(f_sub(x, r->zero), r->reciprocal);
    q = f_from_i(f_round_to_i(f_min(f_max(q, r->least), r->most)));
    const v16 e = f_sub(x, round_to(dtype, f_add(f_mul(q, r->scale), r->zero)));
    return f_mul(e, e);
}

ALWAYS void errors_as(uint32_t dtype, const struct shrinking *h, const struct settled *s,
                      float error[16]) {
    const uint8_t *value = h->value;
    for (size_t g = 0; g < h->groups; g++, value += h->group * width(dtype)) {
        const v16 most = v_spread(&s->most[g]);
        const v16 least = h->set->asymmetric ? v_set(0) : v_xor(most, v_set(0x80000000u));
        const struct spread_grid r = {v_spread(&s->scale[g]), v_spread(&s->zero[g]),
                                      v_spread(&s->reciprocal[g]), least, most};
        v16 sum = v_set(0);
        for (size_t i = 0; i < h->group; i += 16)
            sum = f_add(sum, squared_error(load(dtype, value, i), &r, dtype));
        error[g] = f_sum(sum);
    }
}

static __attribute__((noinline)) void squared_errors(const struct shrinking *shared,
                                                     const struct settled *s, float error[16]) {
    const struct shrinking h = *shared; /* that no store can alias */
    if (h.dtype == PITH_F32)
        errors_as(PITH_F32, &h, s, error);
    else if (h.dtype == PITH_BF16)
        errors_as(PITH_BF16, &h, s, error);
    else
        errors_as(PITH_F16, &h, s, error);
}

/* ---- Candidates ------------------------------------------------------------------------------*/

/* What is cut from both sides, in 32nds of the range. */
struct cuts {
    v16 low, high;
};

ALWAYS v16 lanes_of(const float *p) { return v_load((const uint8_t *)p); }
ALWAYS v16 chosen(v16 mask, v16 yes, v16 no) { return v_xor(no, v_and(mask, v_xor(yes, no))); }

/* As pithi_shrink_place has it. */
ALWAYS struct cuts cuts_of(const struct cuts *best, int turn) {
    const int later = turn - PITHI_SHRINK_SAME, size = later < 0 ? 0 : 4 >> later / 4;
    const v16 step = v_set((uint32_t)(later & 1 ? -size : size));
    const v16 same = v_set((uint32_t)(turn + 1));
    if (later < 0) return (struct cuts){same, same};
    if (later & 2) return (struct cuts){v_add(best->low, step), best->high};
    return (struct cuts){best->low, v_add(best->high, step)};
}

/* Lanes in which neither side is negative, nor too much is cut. */
ALWAYS v16 cuts_fit(const struct cuts *c) {
    const v16 least = v_mini(c->low, c->high);
    return v_and(v_greater(least, v_set(~0u)),
                 v_greater(v_set(PITHI_SHRINK_MOST + 1), v_add(c->low, c->high)));
}

/* The candidates that do not settle in one turn; the groups' own values go on from there. */
static __attribute__((noinline)) void settle_cut(struct settled *to, const struct settled *whole,
                                                 const struct shrinking *h) {
    for (size_t g = 0; g < h->groups; g++) {
        if (!to->odd[g] || whole->reciprocal[g] == 0) continue;
        struct pithi_grid r = pithi_grid_of(h->set, h->dtype, to->low[g], to->high[g]);
        pithi_settle(h->set, h->dtype, whole->low[g], whole->high[g], &r);
        to->scale[g] = r.scale;
        to->zero[g] = r.zero;
        to->reciprocal[g] = r.reciprocal;
        to->most[g] = r.most;
    }
}

static void settle_cuts(struct settled *to, const struct settled *whole, const struct shrinking *h,
                        const struct cuts *c) {
    const v16 lo = lanes_of(whole->low), hi = lanes_of(whole->high);
    const v16 unit = f_mul(f_sub(hi, lo), v_set(0x3D000000u)); /* 1/32 */
    const v16 high = f_sub(hi, f_mul(unit, f_from_i(c->high)));
    const v16 low = f_add(lo, f_mul(unit, f_from_i(c->low)));
    const bool odd = h->set->asymmetric
                         ? settle_ranges(to, h->set, h->dtype, low, high, false, false)
                         : settle_sizes(to, h->set, h->dtype, high, false);
    if (odd) settle_cut(to, whole, h);
}

ALWAYS void keep(float *best, const float *tried, v16 better) {
    v_store((uint8_t *)best, chosen(better, lanes_of(tried), lanes_of(best)));
}

/* Lanes whose candidates are better; errors are not negative, so that their bits compare alike. */
ALWAYS v16 judged(const struct settled *best, const struct settled *tried, const float *error,
                  const float *tried_error) {
    const v16 coded = v_and(v_greater(lanes_of(tried->reciprocal), v_set(0)),
                            v_greater(lanes_of(best->reciprocal), v_set(0)));
    return v_and(coded, v_greater(lanes_of(error), lanes_of(tried_error)));
}

/* s holds the settled groups, and then those of the ranges that lose least. */
static __attribute__((noinline)) void shrink_settled(struct settled *s, const struct shrinking *h) {
    struct settled tried;
    struct cuts best = {v_set(0), v_set(0)};
    _Alignas(64) float error[16] = {0}, tried_error[16] = {0};
    squared_errors(h, s, error);
    for (int turn = 0; turn < PITHI_SHRINK_TURNS; turn++) {
        const struct cuts c = cuts_of(&best, turn);
        settle_cuts(&tried, s, h, &c);
        squared_errors(h, &tried, tried_error);
        const v16 better = v_and(cuts_fit(&c), judged(s, &tried, error, tried_error));
        best = (struct cuts){chosen(better, c.low, best.low), chosen(better, c.high, best.high)};
        keep(error, tried_error, better);
        keep(s->scale, tried.scale, better);
        keep(s->zero, tried.zero, better);
        keep(s->reciprocal, tried.reciprocal, better);
        keep(s->most, tried.most, better);
    }
}
