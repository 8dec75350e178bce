/* group_settled_pass_tmpl.h - a part of group_tmpl.h: encode settled groups, 16 at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For groups of up to 256 elements without a base. The extremes of the next 16 groups are found
 * between the codes of these, four groups at a time, so that reads from memory never pause. Where
 * there are no others, as of an appended token, what comes behind is fetched beside the codes:
 * beside extremes alone it would come too fast for as many lines as can be under way. */

/* How far, in elements, what comes behind is fetched. */
enum { BEHIND = 2048 };

/* What a loop is made for; constant in the common loops. bits 0: as the job has it. */
struct settled_way {
    uint32_t vt;
    unsigned bits;
    bool asymmetric, stream;
};

/* What a loop works with: copies no store can alias. */
struct settled_pass {
    struct packing pack;
    const uint8_t *value;
    uintptr_t next; /* from an element to the one to be fetched beside its code, bytes */
    uint8_t *codes;
    size_t room, unit;          /* bytes of codes from `codes` on, and of a unit's */
    size_t group, groups, turn; /* elements; of the job, and those whose scales are made at once */
    size_t ahead;               /* bytes that values are fetched before their extremes are found */
};

/* Of 16 groups, as bits: the largest as signed integers, the highest as unsigned ones. */
struct extremes {
    vquad high[4], low[4];
};

/* ---- Extremes --------------------------------------------------------------------------------
 * Bits are compared as they are: of values that are not negative, the largest as signed integers is
 * the largest; of negative ones, the highest as unsigned integers is the least. Both are of every
 * other group too but those of one sign, which lack one of them: the value nearest to 0. */

ALWAYS void take_extremes(v16 *lo, v16 *hi, v16 x, struct settled_way w) {
    const bool wide = w.vt == PITH_F32;
    if (!w.asymmetric) x = v_and(x, v_set(wide ? 0x7FFFFFFFu : 0x7FFF7FFFu));
    *hi = wide ? v_maxi(*hi, x) : v_maxi16(*hi, x);
    if (w.asymmetric) *lo = wide ? v_maxu(*lo, x) : v_maxu16(*lo, x);
}

/* Of one group, from every lane. ahead: bytes to what is fetched; 0 is as good as none. */
ALWAYS void group_extremes(v16 *lo, v16 *hi, const uint8_t *value, size_t group, size_t ahead,
                           struct settled_way w) {
    const bool wide = w.vt == PITH_F32;
    *lo = v_set(0);
    *hi = v_set(!w.asymmetric ? 0 : wide ? 0x80000000u : 0x80008000u);
    if (!wide && group == 16) {
        take_extremes(lo, hi, v_load_twice(value), w);
        return;
    }
    const uint8_t *const end = value + group * width(w.vt);
    for (; value < end; value += 64) {
        __builtin_prefetch(value + ahead, 0, 2);
        take_extremes(lo, hi, v_load(value), w);
    }
}

/* From bits to f32. */
ALWAYS v16 from_bits(uint32_t dtype, v16 x) {
    if (dtype == PITH_F32) return x;
    return dtype == PITH_F16 ? f_widen(x) : v_shl16(x);
}

/* The values nearest to 0 of 16 groups, of which those behind the last are as that one. */
static __attribute__((noinline)) v16 nearest_to_0(const uint8_t *value, uint32_t dtype,
                                                  size_t group, size_t groups) {
    const bool wide = dtype == PITH_F32;
    const size_t bytes = group * width(dtype);
    vquad q[4];
    v16 x[4];
    for (size_t k = 0; k < 16; k++) {
        const uint8_t *v = value + (k < groups ? k : groups - 1) * bytes, *const end = v + bytes;
        v16 m = bytes < 64 ? v_load_twice(v) : v_load(v);
        for (v += 64; v < end; v += 64) m = wide ? v_minu(m, v_load(v)) : v_minu16(m, v_load(v));
        x[k % 4] = m;
        if (k % 4 == 3) q[k / 4] = wide ? v_lowest_four(x) : v_lowest16_four(x);
    }
    return from_bits(dtype, wide ? v_lowest_all(q) : v_lowest16_all(q));
}

/* b where the sign of a is set, a elsewhere; or the other way round. */
ALWAYS v16 where_negative(v16 a, v16 b) { return v_xor(a, v_and(v_xor(a, b), v_sar31(a))); }
ALWAYS v16 where_positive(v16 a, v16 b) { return v_xor(b, v_and(v_xor(a, b), v_sar31(a))); }

/* Of the turn at g. */
ALWAYS bool settle_found(struct settled *s, const struct pithi_group_job *job,
                         const struct settled_pass *p, const struct extremes *e, size_t g,
                         struct settled_way w) {
    const bool wide = w.vt == PITH_F32;
    const bool few = p->turn == 8 || p->groups - g <= 8;
    const v16 sign = v_set(0x80000000u);
    v16 hi = from_bits(w.vt, wide ? v_largest_all(e->high) : v_largest16_all(e->high));
    if (!w.asymmetric) return settle_sizes(s, &job->set, w.vt, hi, few);
    v16 lo = from_bits(w.vt, wide ? v_highest_all(e->low) : v_highest16_all(e->low));
    const v16 both = v_and(lo, v_xor(hi, sign));
    if (__builtin_expect(v_any(v_and(v_xor(both, sign), sign)), 0)) {
        const v16 nearest =
            nearest_to_0(p->value + g * p->group * width(w.vt), w.vt, p->group, p->groups - g);
        hi = where_negative(hi, nearest);
        lo = where_positive(lo, nearest);
    }
    return settle_ranges(s, &job->set, w.vt, lo, hi, true, few);
}

/* ---- Scales ----------------------------------------------------------------------------------*/

static void put_entries(const struct pithi_group_setting *s, const struct settled *from,
                        size_t groups, uint8_t *to) {
    for (size_t g = 0; g < groups; g++) {
        const size_t at = s->asymmetric ? 2 * g : g;
        pithi_store(to, s->scale_dtype, at, pithi_bits(from->scale[g]));
        if (s->asymmetric) pithi_store(to, s->scale_dtype, at + 1, pithi_bits(from->zero[g]));
    }
}

/* Scales of a 16-bit dtype as 16 bits a lane. */
ALWAYS v16 half_of(uint32_t dtype, const float from[16]) {
    const v16 x = v_load((const uint8_t *)from);
    return dtype == PITH_F16 ? f_narrow(x) : v_shr(x, 16);
}

/* The first of these entries. */
static void put_some(uint8_t *to, v16 entries, size_t bytes) {
    uint8_t all[64];
    v_store(all, entries);
    memcpy(to, all, bytes);
}

static __attribute__((noinline)) void put_settled(const struct pithi_group_setting *s,
                                                  const struct settled *from, size_t groups,
                                                  bool odd, uint8_t *to) {
    __builtin_prefetch(to + SCALES_AHEAD, 1);
    if (odd || (s->scale_dtype == PITH_F32 && s->asymmetric) || (groups < 16 && !s->asymmetric)) {
        put_entries(s, from, groups, to);
    } else if (s->scale_dtype == PITH_F32) {
        memcpy(to, from->scale, sizeof from->scale);
    } else {
        const v16 scale = half_of(s->scale_dtype, from->scale);
        if (!s->asymmetric)
            v_store16(to, scale);
        else
            put_some(to, v_xor(scale, v_shl16(half_of(s->scale_dtype, from->zero))), 4 * groups);
    }
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* What codes of a group come of. */
struct grid {
    v16 zero, reciprocal, most;
};

ALWAYS struct grid grid_of(const struct settled *s, size_t g, struct settled_way w, bool odd) {
    struct grid r = {v_set(0), v_spread(&s->reciprocal[g]), v_set(0)};
    if (w.asymmetric) r.zero = v_spread(&s->zero[g]);
    if (odd) r.most = v_spread(&s->most[g]);
    return r;
}

/* Of groups that settled in one turn no code is beyond the last. */
ALWAYS v16 settled_code(const struct grid *r, v16 x, struct settled_way w, bool odd) {
    if (w.asymmetric) x = f_sub(x, r->zero);
    x = f_mul(x, r->reciprocal);
    if (odd && w.asymmetric) x = f_min(f_max(x, v_set(0)), r->most);
    if (odd && !w.asymmetric) x = f_min(f_max(x, v_xor(r->most, v_set(0x80000000u))), r->most);
    return f_round_to_i(x);
}

/* Elements [from, end) of the groups that s is of, the first of which is at `value`. */
ALWAYS void settled_codes(struct settled_pass *p, const struct settled *s, const uint8_t *value,
                          size_t from, size_t end, struct settled_way w, bool odd, bool fetch) {
    const unsigned shift = (unsigned)__builtin_ctzll(p->group);
    for (size_t i = from; i < end; i += UNIT) {
        const uint8_t *const v = value + i * width(w.vt);
        struct grid r = grid_of(s, i >> shift, w, odd);
        v16 q[4];
        for (size_t k = 0; k < 4; k++) {
            if (k > 0 && p->group < UNIT) r = grid_of(s, (i + 16 * k) >> shift, w, odd);
            q[k] = settled_code(&r, load(w.vt, v, 16 * k), w, odd);
        }
        if (!w.stream) __builtin_prefetch(p->codes + CODES_AHEAD, 1);
        for (size_t k = 0; fetch && k < UNIT * width(w.vt); k += 64)
            __builtin_prefetch((const void *)((uintptr_t)v + p->next + k), 0, 2);
        pack64_whole(p->codes, p->room, &p->pack, q, w.stream);
        p->codes += p->unit;
        p->room -= p->unit;
    }
}

/* ---- Groups ----------------------------------------------------------------------------------*/

/* All but the tables. */
ALWAYS void open_settled(struct settled_pass *p, const struct pithi_group_job *job,
                         struct settled_way w) {
    const unsigned bits = w.bits ? w.bits : job->set.bits;
    p->value = job->value;
    p->codes = job->codes;
    p->room = pithi_group_code_bytes(&job->set, job->count);
    p->unit = UNIT * bits / 8;
    p->group = job->set.group;
    p->groups = job->count / p->group;
    p->turn = p->group > 128 ? 8 : 16;
    p->ahead = p->groups > p->turn ? VALUES_AHEAD : 0;
}

ALWAYS void make_tables(struct settled_pass *p, const struct pithi_group_job *job,
                        struct settled_way w) {
    packing_make(&p->pack, w.bits ? w.bits : job->set.bits, !w.asymmetric);
}

/* Codes of NaN are 0, which clamping makes of it or rounding does. A pass of its own, so that the
 * common one is in registers, and made of no more than what that reads. */
static __attribute__((noinline)) size_t odd_codes(const struct pithi_group_job *job, size_t done,
                                                  const struct settled *s, const uint8_t *value,
                                                  size_t from, size_t end, struct settled_way w) {
    struct settled_pass p;
    open_settled(&p, job, w);
    make_tables(&p, job, w);
    p.codes += done;
    p.room -= done;
    settled_codes(&p, s, value, from, end, w, true, false);
    return (size_t)(p.codes - job->codes) - done;
}

/* Scales of the turn at group g, whose extremes are known. */
ALWAYS bool open_turn(struct settled *s, struct pithi_group_job *job, const struct settled_pass *p,
                      const struct extremes *e, size_t g, struct settled_way w) {
    const size_t n = p->groups - g < p->turn ? p->groups - g : p->turn;
    const size_t entry = pithi_scale_width(job->set.scale_dtype) * (w.asymmetric ? 2 : 1);
    const bool odd = settle_found(s, job, p, e, g, w);
    if (__builtin_expect(odd, 0)) job->poisoned += settle_odd(s, &job->set, w.vt, n);
    if (__builtin_expect(job->set.shrink, 0)) {
        const struct shrinking h = {&job->set, p->value + g * p->group * width(w.vt), w.vt,
                                    p->group, n};
        shrink_settled(s, &h);
    }
    put_settled(&job->set, s, n, odd, job->scales + g * entry);
    return odd || job->set.shrink; /* some values are beyond the last code */
}

/* What is between two groups' extremes: codes of elements [at, end) of the turn at `value`. */
struct coding {
    const struct pithi_group_job *job;
    const struct settled *settled;
    const uint8_t *value;
    size_t at, end;
    bool odd;
};

ALWAYS void put_codes_of(struct settled_pass *p, const struct coding *c, size_t end,
                         struct settled_way w, bool fetch) {
    if (__builtin_expect(c->odd, 0)) {
        const size_t done = (size_t)(p->codes - c->job->codes);
        const size_t bytes = odd_codes(c->job, done, c->settled, c->value, c->at, end, w);
        p->codes += bytes;
        p->room -= bytes;
    } else {
        settled_codes(p, c->settled, c->value, c->at, end, w, false, fetch);
    }
}

ALWAYS void find_one(struct settled_pass *p, struct coding *c, size_t g, v16 *lo, v16 *hi,
                     struct settled_way w) {
    const size_t least = p->group > UNIT ? p->group : UNIT;
    const size_t one = g < p->groups ? p->group : 16; /* past the end, little of the last again */
    group_extremes(lo, hi, p->value + (g < p->groups ? g : p->groups - 1) * p->group * width(w.vt),
                   one, p->ahead, w);
    if (c->at >= c->end) return;
    put_codes_of(p, c, c->at + least, w, false);
    c->at += least;
}

/* Four groups' extremes from the one at g on, written out to stay in registers. */
ALWAYS void find_four(struct settled_pass *p, struct coding c, size_t g, struct extremes *e,
                      size_t k, struct settled_way w) {
    v16 lo[4], hi[4];
    find_one(p, &c, g, &lo[0], &hi[0], w);
    find_one(p, &c, g + 1, &lo[1], &hi[1], w);
    find_one(p, &c, g + 2, &lo[2], &hi[2], w);
    find_one(p, &c, g + 3, &lo[3], &hi[3], w);
    const bool wide = w.vt == PITH_F32;
    e->high[k] = wide ? v_largest_four(hi) : v_largest16_four(hi);
    if (w.asymmetric) e->low[k] = wide ? v_highest_four(lo) : v_highest16_four(lo);
}

/* Lanes from quad k on have no group: they are as good as the first ones. */
ALWAYS void repeat_first(struct extremes *e, size_t k, struct settled_way w) {
    for (; k < 4; k++) {
        if (w.asymmetric) e->low[k] = e->low[0];
        e->high[k] = e->high[0];
    }
}

/* The extremes of the next turn are found between the codes of one. */
ALWAYS void encode_settled(struct pithi_group_job *job, struct settled_way w) {
    struct settled_pass p;
    struct settled s;
    struct extremes e;
    struct coding c = {.job = job, .settled = &s, .value = job->value};
    size_t quads = 0, g = 0;
    open_settled(&p, job, w);
    do find_four(&p, c, 4 * quads, &e, quads, w);
    while (4 * ++quads < p.turn && 4 * quads < p.groups);
    make_tables(&p, job, w); /* while scales are waited for */
    repeat_first(&e, quads, w);
    for (; g + p.turn < p.groups; g += p.turn, c.value += p.turn * p.group * width(w.vt)) {
        c.odd = open_turn(&s, job, &p, &e, g, w);
        for (size_t k = 0; k < quads; k++) {
            c.at = 4 * k * p.group;
            c.end = c.at + 4 * p.group;
            find_four(&p, c, g + p.turn + 4 * k, &e, k, w);
        }
        repeat_first(&e, quads, w);
    }
    c.odd = open_turn(&s, job, &p, &e, g, w);
    c.at = 0;
    p.next = job->ahead ? (uintptr_t)job->ahead - (uintptr_t)c.value : BEHIND * width(w.vt);
    put_codes_of(&p, &c, (p.groups - g) * p.group, w, true);
}

/* ---- Entry -----------------------------------------------------------------------------------*/

static void encode_settled_any(struct pithi_group_job *job) {
    const bool stream = codes_stream(job), asymmetric = job->set.asymmetric;
    const unsigned bits = job->set.bits;
    const uint32_t vt = job->value_dtype;
    if (vt == PITH_F32 && asymmetric && bits == 4 && stream)
        encode_settled(job, (struct settled_way){PITH_F32, 4, true, true});
    else if (vt == PITH_F32 && asymmetric)
        encode_settled(job, (struct settled_way){PITH_F32, 0, true, stream});
    else if (vt == PITH_BF16 && asymmetric)
        encode_settled(job, (struct settled_way){PITH_BF16, 0, true, stream});
    else if (vt == PITH_F16 && asymmetric)
        encode_settled(job, (struct settled_way){PITH_F16, 0, true, stream});
    else if (vt == PITH_F32)
        encode_settled(job, (struct settled_way){PITH_F32, 0, false, stream});
    else if (vt == PITH_BF16)
        encode_settled(job, (struct settled_way){PITH_BF16, 0, false, stream});
    else
        encode_settled(job, (struct settled_way){PITH_F16, 0, false, stream});
}

/* Whole groups that are whole units, from the beginning; returns how many elements they are. */
static size_t settled_pass(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t least = s->group > UNIT ? s->group : UNIT;
    if (s->group > 256 || job->base_dtype != PITH_NONE || job->count < least) return 0;
    const size_t rest = job->count & (least - 1);
    if (rest == 0) {
        encode_settled_any(job);
        return job->count;
    }
    struct pithi_group_job whole = part(job, 0, job->count - rest);
    encode_settled_any(&whole);
    job->poisoned = whole.poisoned;
    return whole.count;
}
