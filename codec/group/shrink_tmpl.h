/* shrink_tmpl.h - the search for the part of an idempotent group's range that loses least, written
 * once over 16 lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * group_encode_tmpl.h includes it behind struct idempotent. The including file has included
 * shrink_<isa>.h.
 *
 * A lane is a group. It has two values at a time, as integers of 16 bits, so that no sum crosses
 * lanes; all 16 groups try a part of their ranges at once. The order of values does not matter, as
 * sums of integers are exact, and a place where a group has no value is 0, which adds nothing. */

/* Groups of whole vectors whose scales are idempotent, one after another from `value` on. */
struct shrinking {
    const struct pithi_group_setting *set;
    const uint8_t *value;
    uint32_t dtype;
    size_t group, groups;
};

/* A lane for each of 16 groups: what struct pithi_shrink has of one, and values. Codes have 15 bits
 * below the point, since values have `lift` bits more. */
struct shrink_lanes {
    const struct shrinking *of;
    int levels, shift, top;
    unsigned lift;
    v16 fits; /* all ones where a group is searched */
    v16 low, high, range, sum;
    v16 u, v, codes; /* of the best parts so far */
    v16 from, to;    /* of their lines, as f32 */
    size_t words;
    _Alignas(64) uint8_t value[PITHI_SHRINK_GROUP / 2][64];
};

ALWAYS v16 lanes_of(const float *p) { return v_load((const uint8_t *)p); }
ALWAYS v16 chosen(v16 mask, v16 yes, v16 no) { return v_xor(no, v_and(mask, v_xor(yes, no))); }
ALWAYS v16 f_of(float x) { return v_set(pithi_bits(x)); }
ALWAYS v16 both_halves(v16 x) { return v_add(x, v_shl16(x)); }
ALWAYS v16 add_halves(v16 x) { return v_add(v_and(x, v_set(0xFFFF)), v_shr(x, 16)); }

/* ---- Values -----------------------------------------------------------------------------------*/

/* Does pithi_shrink_place. */
ALWAYS v16 shrink_place(v16 x, const float *low, const float *factor, bool asymmetric) {
    x = asymmetric ? f_sub(x, v_spread(low)) : v_and(x, v_set(0x7FFFFFFFu));
    return f_round_to_i(f_mul(x, v_spread(factor)));
}

ALWAYS void shrink_values(struct shrink_lanes *s, const float *low, const float *factor,
                          uint32_t dtype, bool asymmetric) {
    const struct shrinking h = *s->of; /* copies that no store can alias */
    const unsigned lift = s->lift;
    const size_t group = h.group, step = group * width(dtype);
    v16 sum = v_set(0), row[16];
    uint8_t(*to)[64] = s->value;
    for (size_t i = 0; i < group; i += 32, to += 16) {
        const uint8_t *value = h.value + i * width(dtype);
        for (size_t g = 0; g < 16; g++) {
            row[g] = shrink_place(load(dtype, value, 0), &low[g], &factor[g], asymmetric);
            if (group > 16)
                row[g] = v_add(row[g], v_shl16(shrink_place(load(dtype, value, 16), &low[g],
                                                            &factor[g], asymmetric)));
            if (g + 1 < h.groups) value += step; /* the last one fills lanes behind it */
        }
        v_transpose(row);
        for (size_t k = 0; k < 16; k++) {
            sum = v_add16(sum, row[k]);
            v_store(to[k], v_shl(row[k], lift));
        }
    }
    s->words = group > 16 ? group / 2 : 16;
    s->sum = add_halves(sum);
}

/* ---- Parts of the range -----------------------------------------------------------------------*/

/* In both halves of each lane, in units of the values; a reciprocal of 0 makes all codes 0. */
struct span_lanes {
    v16 low, length, reciprocal;
};
struct tally {
    v16 codes, squares, products;
};

/* Does pithi_shrink_part; ends are integers. */
ALWAYS struct span_lanes span_of(const struct shrink_lanes *s, v16 low, v16 high, bool asymmetric) {
    low = asymmetric ? v_maxi(low, v_set(0)) : v_set(0);
    high = v_mini(high, v_set((uint32_t)s->top));
    const v16 length = v_sub(high, low);
    const v16 enough = v_greater(length, v_set(PITHI_SHRINK_LEAST - 1));
    const v16 levels = f_from_i(v_set((uint32_t)(s->levels << s->shift)));
    /* The quotient is no integer that it is within half a last place of, but is not. */
    const v16 reciprocal = v_and(f_floor_to_i(f_div(levels, f_from_i(length))), enough);
    return (struct span_lanes){both_halves(v_shl(low, s->lift)),
                               both_halves(v_shl(v_and(length, enough), s->lift)),
                               both_halves(reciprocal)};
}

ALWAYS void tally_word(struct tally *c, v16 t, const struct span_lanes *p, bool asymmetric) {
    const v16 x = asymmetric ? v_above16(t, p->low) : t;
    const v16 q = v_part16(v_minu16(x, p->length), p->reciprocal);
    if (asymmetric) c->codes = v_add16(c->codes, q);
    c->squares = v_add(c->squares, v_products16(q, q));
    c->products = v_add(c->products, v_products16(q, t));
}

/* Does pithi_shrink_judge. */
ALWAYS void judge(struct shrink_lanes *s, const struct tally *c, bool asymmetric) {
    const unsigned log2 = (unsigned)__builtin_ctzll(s->of->group);
    const v16 codes = add_halves(c->codes);
    v16 u = v_srl(c->products, s->lift), v = c->squares;
    if (asymmetric) {
        u = v_sub(v_shl(u, log2), v_mul(codes, s->sum));
        v = v_sub(v_shl(v, log2), v_mul(codes, codes));
    }
    u = f_from_i(u);
    v = f_from_i(v);
    const v16 square = f_mul(u, u), best = f_mul(s->u, s->u);
    const v16 better = v_greater(f_mul(square, s->v), f_mul(best, v)); /* none is negative */
    s->u = chosen(better, u, s->u);
    s->v = chosen(better, v, s->v);
    s->codes = chosen(better, codes, s->codes);
}

/* Does pithi_shrink_line; groups are powers of two. */
ALWAYS void find_lines(struct shrink_lanes *s, bool asymmetric) {
    const v16 step = f_div(s->u, s->v), reach = f_mul(step, f_of((float)s->levels));
    v16 low = v_set(0), high = reach;
    if (asymmetric) {
        const v16 codes = f_mul(step, f_from_i(s->codes));
        low = f_mul(f_sub(f_from_i(s->sum), codes), f_of(1.0f / (float)s->of->group));
        high = f_add(low, reach);
    }
    s->from = f_max(low, v_set(0));
    s->to = f_min(high, f_of((float)s->top));
}

/* Tries n parts, at most SPANS. */
ALWAYS void try_spans(struct shrink_lanes *s, const struct span_lanes *p, int n, bool asymmetric) {
    const v16 none = v_set(0);
    struct tally c[SPANS];
    for (int k = 0; k < n; k++) c[k] = (struct tally){none, none, none};
    for (size_t i = 0; i < s->words; i++) {
        const v16 t = v_load(s->value[i]);
        for (int k = 0; k < n; k++) tally_word(&c[k], t, &p[k], asymmetric);
    }
    for (int k = 0; k < n; k++) judge(s, &c[k], asymmetric);
}

/* Returns the part that is the same of all groups, by scalar arithmetic, beside that of vectors. */
ALWAYS struct span_lanes cut_span(const struct shrink_lanes *s, int k, bool asymmetric) {
    const uint32_t cut = (uint32_t)(k * PITHI_SHRINK_CUT), low = asymmetric ? cut : 0;
    const uint32_t length = (uint32_t)s->top - cut - low, twice = 0x10001;
    if (length < PITHI_SHRINK_LEAST) return (struct span_lanes){v_set(0), v_set(0), v_set(0)};
    const uint32_t reciprocal = ((uint32_t)s->levels << s->shift) / length;
    return (struct span_lanes){v_set((low << s->lift) * twice), v_set((length << s->lift) * twice),
                               v_set(reciprocal * twice)};
}

/* Tries the ends of the best line, moved up and down where `by` is not 0. */
ALWAYS void try_moved(struct shrink_lanes *s, int by, bool asymmetric) {
    struct span_lanes p[2];
    const v16 low = f_round_to_i(s->from), high = f_round_to_i(s->to);
    const v16 up = v_set((uint32_t)by);
    p[0] = span_of(s, v_sub(low, up), v_sub(high, up), asymmetric);
    p[1] = span_of(s, v_add(low, up), v_add(high, up), asymmetric);
    if (by == 0) {
        try_spans(s, p, 1, asymmetric);
    } else if (SPANS > 1) {
        try_spans(s, p, SPANS > 1 ? 2 : 1, asymmetric);
    } else {
        try_spans(s, p, 1, asymmetric);
        try_spans(s, p + 1, 1, asymmetric);
    }
}

/* Finds the lines that explain most. */
ALWAYS void search_spans(struct shrink_lanes *s, bool asymmetric) {
    struct span_lanes p[SPANS];
    for (int k = 0; k < PITHI_SHRINK_CUTS; k += SPANS) {
        for (int i = 0; i < SPANS; i++) p[i] = cut_span(s, k + i, asymmetric);
        try_spans(s, p, SPANS, asymmetric);
    }
    find_lines(s, asymmetric);
    for (int round = 1, by = 1; by; round++) {
        by = pithi_shrink_move(asymmetric, round);
        try_moved(s, by, asymmetric);
        find_lines(s, asymmetric);
    }
}

/* ---- Groups that coding does not change -------------------------------------------------------*/

/* Returns what x is once coded. */
ALWAYS v16 coded_value(const struct shrinking *h, v16 x, v16 scale, v16 zero, v16 reciprocal,
                       v16 most) {
    const v16 least = h->set->asymmetric ? v_set(0) : v_xor(most, v_set(0x80000000u));
    v16 q = f_mul(f_sub(x, zero), reciprocal);
    q = f_from_i(f_round_to_i(f_min(f_max(q, least), most)));
    return round_to(h->dtype, f_add(f_mul(q, scale), zero));
}
/* Returns by how much coding changes x, lane by lane. */
ALWAYS v16 changes(const struct shrinking *h, v16 x, v16 scale, v16 zero, v16 reciprocal,
                   v16 most) {
    return v_and(f_sub(x, coded_value(h, x, scale, zero, reciprocal, most)), v_set(0x7FFFFFFFu));
}

/* Does pithi_shrink_loss, and squares it. */
ALWAYS v16 losses16(const struct shrinking *h, v16 x, const struct idempotent *s, size_t g,
                    const float *factor) {
    const v16 most = f_of((float)PITHI_SHRINK_LOSS), least = f_of(-(float)PITHI_SHRINK_LOSS);
    const v16 value = coded_value(h, x, v_spread(&s->scale[g]), v_spread(&s->zero[g]),
                                  v_spread(&s->reciprocal[g]), v_spread(&s->most[g]));
    const v16 loss = f_mul(f_mul(f_sub(value, x), v_spread(factor)), f_of(8));
    const v16 i = f_round_to_i(f_min(f_max(loss, least), most));
    return v_mul(i, i);
}

/* Whether a part of the range of group g loses no less than the whole. */
static __attribute__((noinline)) bool loses(const struct shrinking *h,
                                            const struct idempotent *part,
                                            const struct idempotent *whole, size_t g,
                                            const float *factor) {
    const uint8_t *const value = h->value + g * h->group * width(h->dtype);
    v16 of_part = v_set(0), of_whole = v_set(0);
    uint32_t more[16];
    int32_t sum = 0;
    for (size_t i = 0; i < h->group; i += 16) {
        const v16 x = load(h->dtype, value, i);
        of_part = v_add(of_part, losses16(h, x, part, g, factor));
        of_whole = v_add(of_whole, losses16(h, x, whole, g, factor));
    }
    v_store((uint8_t *)more, v_sub(of_part, of_whole));
    for (size_t i = 0; i < 16; i++) sum += (int32_t)more[i];
    return sum >= 0;
}

/* Clears lanes of groups whose zero points are coarse and whose parts lose no less than the whole
 * range. */
static __attribute__((noinline)) v16 without_losers(const struct shrinking *h, v16 better,
                                                    v16 coarse, const struct idempotent *part,
                                                    const struct idempotent *whole,
                                                    const float *factor) {
    uint32_t lane[16], look[16];
    v_store((uint8_t *)lane, better);
    v_store((uint8_t *)look, coarse);
    for (size_t g = 0; g < h->groups; g++)
        if (lane[g] && look[g] && loses(h, part, whole, g, &factor[g])) lane[g] = 0;
    return v_load((const uint8_t *)lane);
}

static __attribute__((noinline)) bool keeps_all(const struct shrinking *h,
                                                const struct idempotent *s, size_t g) {
    const uint8_t *const value = h->value + g * h->group * width(h->dtype);
    v16 any = v_set(0);
    for (size_t i = 0; i < h->group; i += 16)
        any = v_maxu(
            any, changes(h, load(h->dtype, value, i), v_spread(&s->scale[g]), v_spread(&s->zero[g]),
                         v_spread(&s->reciprocal[g]), v_spread(&s->most[g])));
    return !v_any(any);
}

/* Sets lanes of groups that keep all values; most change one that is looked at first. */
ALWAYS v16 groups_kept(const struct shrinking *h, const struct idempotent *s) {
    _Alignas(64) float one[16] = {0};
    _Alignas(64) uint32_t kept[16] = {0};
    for (size_t g = 0; g < h->groups; g++)
        one[g] = pithi_float(pithi_load(h->value, h->dtype, g * h->group + h->group / 2));
    v_store((uint8_t *)kept, changes(h, lanes_of(one), lanes_of(s->scale), lanes_of(s->zero),
                                     lanes_of(s->reciprocal), lanes_of(s->most)));
    for (size_t g = 0; g < 16; g++)
        kept[g] = g < h->groups && kept[g] == 0 && keeps_all(h, s, g) ? ~0u : 0;
    return v_load((const uint8_t *)kept);
}

/* ---- Grids ------------------------------------------------------------------------------------*/

/* Handles parts that are not idempotent after one iteration; the scalar reference goes on from
 * the groups' own values. */
static __attribute__((noinline)) void idempotent_cuts_slow_path(struct idempotent *to,
                                                                const struct idempotent *whole,
                                                                const struct shrinking *h) {
    for (size_t g = 0; g < h->groups; g++) {
        if (!to->irregular[g] || whole->reciprocal[g] == 0) continue;
        struct pithi_grid r = pithi_grid_of(h->set, h->dtype, to->low[g], to->high[g]);
        pithi_idempotent_scale(h->set, h->dtype, whole->low[g], whole->high[g], &r);
        to->scale[g] = r.scale;
        to->zero[g] = r.zero;
        to->reciprocal[g] = r.reciprocal;
        to->most[g] = r.most;
    }
}

ALWAYS void keep(float *best, const float *tried, v16 better) {
    v_store((uint8_t *)best, chosen(better, lanes_of(tried), lanes_of(best)));
}

/* Takes the grids of the parts that were found. */
static __attribute__((noinline)) void shrink_grids(const struct shrink_lanes *s,
                                                   struct idempotent *best, const float *factor) {
    const struct shrinking *const h = s->of;
    const v16 top = f_of((float)s->top), unit = f_div(s->range, top);
    const v16 length = f_sub(s->to, s->from);
    const v16 enough =
        v_and(s->fits, v_greater(length, v_set(pithi_bits((float)PITHI_SHRINK_LEAST) - 1)));
    const v16 low = round_to(h->dtype, f_add(s->low, f_mul(s->from, unit)));
    const v16 high = round_to(h->dtype, f_sub(s->high, f_mul(f_sub(top, s->to), unit)));
    struct idempotent tried;
    const v16 lo = chosen(enough, low, s->low), hi = chosen(enough, high, s->high);
    if (h->set->asymmetric ? idempotent_ranges(&tried, h->set, h->dtype, lo, hi, true, false)
                           : idempotent_magnitudes(&tried, h->set, h->dtype, hi, false))
        idempotent_cuts_slow_path(&tried, best, h);
    const v16 coded = v_greater(lanes_of(tried.reciprocal), v_set(0));
    const v16 off = v_and(f_sub(lanes_of(tried.zero), low), v_set(0x7FFFFFFFu));
    const v16 coarse =
        v_and(v_greater(f_mul(off, f_of((float)PITHI_SHRINK_COARSE)), lanes_of(tried.scale)),
              v_and(enough, coded));
    v16 better = v_and(enough, coded);
    if (h->set->asymmetric && v_any(coarse))
        better = without_losers(h, better, coarse, &tried, best, factor);
    keep(best->scale, tried.scale, better);
    keep(best->zero, tried.zero, better);
    keep(best->reciprocal, tried.reciprocal, better);
    keep(best->most, tried.most, better);
}

/* ---- The search -------------------------------------------------------------------------------*/

ALWAYS void shrink_as(struct shrink_lanes *s, const float *low, const float *factor,
                      bool asymmetric) {
    if (s->of->dtype == PITH_F32)
        shrink_values(s, low, factor, PITH_F32, asymmetric);
    else if (s->of->dtype == PITH_BF16)
        shrink_values(s, low, factor, PITH_BF16, asymmetric);
    else
        shrink_values(s, low, factor, PITH_F16, asymmetric);
    search_spans(s, asymmetric);
}
static __attribute__((noinline)) void shrink_asymmetric(struct shrink_lanes *s, const float *low,
                                                        const float *factor) {
    shrink_as(s, low, factor, true);
}
static __attribute__((noinline)) void shrink_symmetric(struct shrink_lanes *s, const float *low,
                                                       const float *factor) {
    shrink_as(s, low, factor, false);
}

/* Shrinks ranges: best holds the idempotent groups, and then those of the parts found. */
static __attribute__((noinline)) void shrink_idempotent(struct idempotent *best,
                                                        const struct shrinking *h) {
    const struct pithi_group_setting *const set = h->set;
    _Alignas(64) float factor[16];
    struct shrink_lanes s; /* has no initializer, as most of it is values */
    if (set->bits > PITHI_SHRINK_BITS) return;
    s.of = h;
    s.levels = pithi_group_levels(set);
    s.top = pithi_shrink_top(s.levels);
    s.shift = pithi_shrink_shift(set);
    s.lift = 15 - (unsigned)s.shift;
    s.low = lanes_of(best->low);
    s.high = lanes_of(best->high);
    s.range = f_sub(s.high, s.low);
    s.u = s.codes = s.from = v_set(0);
    s.v = v_set(0x3F800000u);
    s.to = f_of((float)s.top);
    const v16 finite = v_greater(v_set(PITHI_F32_INF), s.range);
    s.fits = v_and(v_and(v_greater(s.range, v_set(PITHI_GROUP_TINY - 1)), finite),
                   v_greater(lanes_of(best->reciprocal), v_set(0)));
    s.fits = v_and(s.fits, v_xor(groups_kept(h, best), v_set(~0u)));
    if (!v_any(s.fits)) return;
    v_store((uint8_t *)factor, v_and(f_div(s.to, s.range), s.fits));
    if (set->asymmetric)
        shrink_asymmetric(&s, best->low, factor);
    else
        shrink_symmetric(&s, best->low, factor);
    shrink_grids(&s, best, factor);
}
