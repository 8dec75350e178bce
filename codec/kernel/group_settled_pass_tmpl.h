/* group_settled_pass_tmpl.h - a part of group_tmpl.h: encode settled groups, 16 at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For groups of up to 256 elements without a base. The extremes of the next 16 groups are found
 * between the codes of these, four groups at a time, so that reads from memory never pause; where a
 * run ends, as of a token for one of many caches, they are the next one's. Where there are no
 * others, what comes behind is fetched beside the codes: beside extremes alone it would come too
 * fast for as many lines as can be under way. */

/* Elements that are fetched beside codes of the last turn; from how many runs on values are
 * fetched, where runs are short. */
enum { BEHIND = 2048, RUNS_AHEAD = 2 };

/* What a loop is made for; constant in the common loops. bits 0: as the job has it. small: groups
 * are smaller than a unit. */
struct settled_way {
    uint32_t vt;
    unsigned bits;
    bool asymmetric, small, stream;
};

/* What a loop works with: copies no store can alias. */
struct settled_pass {
    struct packing pack;
    struct pithi_group_run *run;
    size_t runs, run_groups;
    size_t group, groups, turn; /* elements; of all runs, and those whose scales are made at once */
    size_t quads;               /* fours of groups of a turn; fewer where all are less than one */
    size_t room, unit;          /* bytes of codes, of a run and of a unit */
    uintptr_t next; /* from an element to the one to be fetched beside its code, bytes */
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
        __builtin_prefetch((const void *)((uintptr_t)value + ahead), 0, 2);
        take_extremes(lo, hi, v_load(value), w);
    }
}

/* From bits to f32. */
ALWAYS v16 from_bits(uint32_t dtype, v16 x) {
    if (dtype == PITH_F32) return x;
    return dtype == PITH_F16 ? f_widen(x) : v_shl16(x);
}

/* The values nearest to 0 of 16 groups from g on; behind the last, of that one. */
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

/* b where the sign of a is set, a elsewhere; or the other way round. */
ALWAYS v16 where_negative(v16 a, v16 b) { return v_xor(a, v_and(v_xor(a, b), v_sar31(a))); }
ALWAYS v16 where_positive(v16 a, v16 b) { return v_xor(b, v_and(v_xor(a, b), v_sar31(a))); }

/* Of the turn at g. */
ALWAYS bool settle_found(struct settled *s, const struct pithi_group_setting *set,
                         const struct settled_pass *p, const struct extremes *e, size_t g,
                         struct settled_way w) {
    const bool wide = w.vt == PITH_F32;
    const bool few = p->turn == 8 || p->groups - g <= 8;
    const v16 sign = v_set(0x80000000u);
    v16 hi = from_bits(w.vt, wide ? v_largest_all(e->high) : v_largest16_all(e->high));
    if (!w.asymmetric) return settle_sizes(s, set, w.vt, hi, few);
    v16 lo = from_bits(w.vt, wide ? v_highest_all(e->low) : v_highest16_all(e->low));
    const v16 both = v_and(lo, v_xor(hi, sign));
    if (__builtin_expect(v_any(v_and(v_xor(both, sign), sign)), 0)) {
        const v16 nearest = nearest_to_0(p->run, p->run_groups, g, p->groups, w.vt, p->group);
        hi = where_negative(hi, nearest);
        lo = where_positive(lo, nearest);
    }
    return settle_ranges(s, set, w.vt, lo, hi, true, few);
}

/* ---- Scales ----------------------------------------------------------------------------------*/

static void put_entries(const struct pithi_group_setting *s, const struct settled *from,
                        size_t first, size_t groups, uint8_t *to) {
    for (size_t g = 0; g < groups; g++) {
        const size_t at = s->asymmetric ? 2 * g : g;
        pithi_store(to, s->scale_dtype, at, pithi_bits(from->scale[first + g]));
        if (s->asymmetric)
            pithi_store(to, s->scale_dtype, at + 1, pithi_bits(from->zero[first + g]));
    }
}

/* Scales of a 16-bit dtype as 16 bits a lane. */
ALWAYS v16 half_of(uint32_t dtype, const float from[16]) {
    const v16 x = v_load((const uint8_t *)from);
    return dtype == PITH_F16 ? f_narrow(x) : v_shr(x, 16);
}

/* Some of these entries. */
static void put_some(uint8_t *to, v16 entries, size_t first, size_t count) {
    uint8_t all[64];
    v_store(all, entries);
    memcpy(to, all + 4 * first, 4 * count);
}

/* Those of lanes [first, first + groups). */
static __attribute__((noinline)) void put_settled(const struct pithi_group_setting *s,
                                                  const struct settled *from, size_t first,
                                                  size_t groups, bool odd, uint8_t *to) {
    __builtin_prefetch(to + SCALES_AHEAD, 1);
    if (odd || (s->scale_dtype == PITH_F32 && s->asymmetric) || (groups < 16 && !s->asymmetric)) {
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

/* Where the scales of the turn that is next go: a run, and its groups that are left. */
struct scaling {
    size_t run, left;
};

/* Scales of the turn at group g, whose extremes are known; whether values may be beyond the last
 * code. */
ALWAYS bool open_turn(struct settled *s, const struct pithi_group_setting *set,
                      const struct settled_pass *p, const struct extremes *e, struct scaling *t,
                      size_t g, struct settled_way w) {
    const size_t n = p->groups - g < p->turn ? p->groups - g : p->turn;
    const size_t entry = pithi_scale_width(set->scale_dtype) * (w.asymmetric ? 2 : 1);
    const bool odd = settle_found(s, set, p, e, g, w);
    for (size_t lane = 0, m; lane < n; lane += m) {
        struct pithi_group_run *const run = &p->run[t->run];
        const size_t at = p->run_groups - t->left;
        m = n - lane < t->left ? n - lane : t->left;
        if (__builtin_expect(odd, 0)) run->poisoned += settle_odd(s, set, w.vt, lane, m);
        if (__builtin_expect(set->shrink, 0)) { /* of one run, so that this loop takes one turn */
            const uint8_t *const value = (const uint8_t *)run->value;
            const struct shrinking h = {set, value + at * p->group * width(w.vt), w.vt, p->group,
                                        n};
            shrink_settled(s, &h);
        }
        put_settled(set, s, lane, m, odd, run->scales + at * entry);
        t->left -= m;
        if (t->left == 0) *t = (struct scaling){t->run + 1, p->run_groups};
    }
    return odd || set->shrink;
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

/* Where codes are made: of elements [at, end) of the turn that `settled` is of, the next of which
 * lies at value; value_end, codes_end: of its run. */
struct coding {
    const struct settled *settled;
    const uint8_t *value, *value_end;
    uint8_t *codes, *codes_end;
    size_t run, at, end;
    bool odd;
};

/* The next n. */
ALWAYS void settled_codes(struct coding *c, const struct settled_pass *p, size_t n,
                          struct settled_way w, bool odd, bool fetch) {
    const unsigned shift = (unsigned)__builtin_ctzll(p->group);
    for (size_t i = 0; i < n; i += UNIT) {
        const uint8_t *const v = c->value + i * width(w.vt);
        struct grid r = grid_of(c->settled, (c->at + i) >> shift, w, odd);
        v16 q[4];
        for (size_t k = 0; k < 4; k++) {
            if (w.small && k > 0) r = grid_of(c->settled, (c->at + i + 16 * k) >> shift, w, odd);
            q[k] = settled_code(&r, load(w.vt, v, 16 * k), w, odd);
        }
        if (!w.stream) __builtin_prefetch(c->codes + CODES_AHEAD, 1);
        for (size_t k = 0; fetch && k < UNIT * width(w.vt); k += 64)
            __builtin_prefetch((const void *)((uintptr_t)v + p->next + k), 0, 2);
        pack64_whole(c->codes, (size_t)(c->codes_end - c->codes), &p->pack, q, w.stream);
        c->codes += p->unit;
    }
}

/* Codes of NaN are 0, which clamping makes of it or rounding does. A pass of its own, so that the
 * common one is in registers. */
static __attribute__((noinline)) void odd_codes(struct coding c,
                                                const struct pithi_group_setting *s, size_t n,
                                                struct settled_way w) {
    struct settled_pass p;
    p.group = s->group;
    p.unit = UNIT * s->bits / 8;
    w.small = true;
    w.bits = 0;
    packing_make(&p.pack, s->bits, !s->asymmetric);
    settled_codes(&c, &p, n, w, true, false);
}

ALWAYS void open_coding(struct coding *c, const struct settled_pass *p, size_t run,
                        struct settled_way w) {
    c->run = run;
    c->value = p->run[run].value;
    c->value_end = c->value + p->run_groups * p->group * width(w.vt);
    c->codes = p->run[run].codes;
    c->codes_end = c->codes + p->room;
}

/* The next n, all of one run. */
ALWAYS void put_codes_of(struct coding *c, const struct settled_pass *p,
                         const struct pithi_group_setting *s, size_t n, struct settled_way w,
                         bool fetch) {
    if (__builtin_expect(c->odd, 0)) {
        odd_codes(*c, s, n, w);
        c->codes += n / UNIT * p->unit;
    } else {
        settled_codes(c, p, n, w, false, fetch);
    }
    c->value += n * width(w.vt);
    c->at += n;
    if (c->value == c->value_end && c->run + 1 < p->runs) open_coding(c, p, c->run + 1, w);
}

/* ---- Groups ----------------------------------------------------------------------------------*/

/* Where extremes are found: of the group at value, and `left` with it of its run. Past the end, a
 * little of the last group is read again. */
struct reading {
    const uint8_t *value;
    size_t run, left;
    size_t elements, step; /* of a group that are read; bytes to the next one */
    size_t ahead;          /* bytes that values are fetched before */
};

/* Values are fetched from the next run but one where a run is short. */
ALWAYS void open_reading(struct reading *r, const struct settled_pass *p, size_t run,
                         struct settled_way w) {
    const bool large = p->run_groups * p->group * width(w.vt) >= EXTREMES_AHEAD;
    r->run = run;
    r->value = p->run[run].value;
    r->left = p->run_groups;
    r->elements = p->group;
    r->step = p->group * width(w.vt);
    r->ahead = p->groups > p->turn ? EXTREMES_AHEAD : 0;
    if (p->runs == 1 || large) return;
    r->ahead = 0;
    if (run + RUNS_AHEAD < p->runs)
        r->ahead = (uintptr_t)p->run[run + RUNS_AHEAD].value - (uintptr_t)r->value;
}

ALWAYS void read_on(struct reading *r, const struct settled_pass *p, struct settled_way w) {
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

/* Of the next group; then codes of the turn before, if there is one. */
ALWAYS void find_one(struct reading *r, struct coding *c, const struct settled_pass *p,
                     const struct pithi_group_setting *s, v16 *lo, v16 *hi, struct settled_way w) {
    const size_t least = w.small ? UNIT : p->group;
    group_extremes(lo, hi, r->value, r->elements, r->ahead, w);
    read_on(r, p, w);
    if (c && (!w.small || c->at < c->end)) put_codes_of(c, p, s, least, w, false);
}

/* Of four groups, written out to stay in registers. */
ALWAYS void find_four(struct reading *r, struct coding *c, const struct settled_pass *p,
                      const struct pithi_group_setting *s, struct extremes *e, size_t k,
                      struct settled_way w) {
    v16 lo[4], hi[4];
    find_one(r, c, p, s, &lo[0], &hi[0], w);
    find_one(r, c, p, s, &lo[1], &hi[1], w);
    find_one(r, c, p, s, &lo[2], &hi[2], w);
    find_one(r, c, p, s, &lo[3], &hi[3], w);
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

ALWAYS void find_turn(struct reading *r, struct coding *c, const struct settled_pass *p,
                      const struct pithi_group_setting *s, struct extremes *e,
                      struct settled_way w) {
    size_t k = 0;
    do {
        if (c) c->end = 4 * (k + 1) * p->group;
        find_four(r, c, p, s, e, k, w);
    } while (++k < p->quads);
    repeat_first(e, p->quads, w);
}

/* All but the tables. */
ALWAYS void open_settled(struct settled_pass *p, const struct pithi_group_setting *s,
                         struct pithi_group_run *run, size_t runs, size_t count,
                         struct settled_way w) {
    p->run = run;
    p->runs = runs;
    p->group = s->group;
    p->run_groups = count >> __builtin_ctz(s->group);
    p->groups = runs * p->run_groups;
    p->turn = p->group > 128 ? 8 : 16;
    p->quads = ((p->groups < p->turn ? p->groups : p->turn) + 3) / 4;
    p->room = pithi_group_code_bytes(s, count);
    p->unit = UNIT * (w.bits ? w.bits : s->bits) / 8;
    p->next = 0;
}

/* The extremes of the next turn are found between the codes of one. */
ALWAYS void encode_settled(const struct pithi_group_job *like, struct pithi_group_run *run,
                           size_t runs, size_t count, struct settled_way w) {
    const struct pithi_group_setting *const set = &like->set;
    struct settled_pass p;
    struct settled s;
    struct extremes e;
    open_settled(&p, set, run, runs, count, w);
    struct reading r;
    struct coding c;
    struct scaling t = {0, p.run_groups};
    open_reading(&r, &p, 0, w);
    open_coding(&c, &p, 0, w);
    c.settled = &s;
    find_turn(&r, NULL, &p, set, &e, w);
    /* While scales are waited for. */
    packing_make(&p.pack, w.bits ? w.bits : set->bits, !w.asymmetric);
    size_t g = 0;
    for (;; g += p.turn) {
        c.odd = open_turn(&s, set, &p, &e, &t, g, w);
        c.at = 0;
        if (g + p.turn >= p.groups) break;
        find_turn(&r, &c, &p, set, &e, w);
    }
    if (runs == 1)
        p.next = like->ahead ? (uintptr_t)like->ahead - (uintptr_t)c.value : BEHIND * width(w.vt);
    for (size_t n, left = (p.groups - g) * p.group; left; left -= n) {
        n = (size_t)(c.value_end - c.value) / width(w.vt);
        if (n > left) n = left;
        put_codes_of(&c, &p, set, n, w, true);
    }
}

/* ---- Entry -----------------------------------------------------------------------------------*/

/* A function each: one of all would spill the registers of all. */
#define SETTLED(name, dtype, bits, asymmetric, small)                                    \
    static __attribute__((noinline)) void name(const struct pithi_group_job *like,       \
                                               struct pithi_group_run *run, size_t runs, \
                                               size_t count, bool stream) {              \
        encode_settled(like, run, runs, count,                                           \
                       (struct settled_way){dtype, bits, asymmetric, small, stream});    \
    }
#define SETTLED_OF(name, dtype)                       \
    SETTLED(name##_2, dtype, 2, true, false)          \
    SETTLED(name##_4, dtype, 4, true, false)          \
    SETTLED(name##_any, dtype, 0, true, false)        \
    SETTLED(name##_symmetric, dtype, 0, false, false) \
    SETTLED(name##_small, dtype, 0, like->set.asymmetric, true)
SETTLED_OF(settled_f32, PITH_F32)
SETTLED_OF(settled_bf16, PITH_BF16)
SETTLED_OF(settled_f16, PITH_F16)
#undef SETTLED_OF
#undef SETTLED

/* Runs of `count` elements. */
static void encode_settled_any(const struct pithi_group_job *like, struct pithi_group_run *run,
                               size_t runs, size_t count, bool stream) {
    typedef void encode_fn(const struct pithi_group_job *, struct pithi_group_run *, size_t, size_t,
                           bool);
    static encode_fn *const known[3][5] = {
        {settled_f32_any, settled_f32_2, settled_f32_4, settled_f32_symmetric, settled_f32_small},
        {settled_bf16_any, settled_bf16_2, settled_bf16_4, settled_bf16_symmetric,
         settled_bf16_small},
        {settled_f16_any, settled_f16_2, settled_f16_4, settled_f16_symmetric, settled_f16_small}};
    const struct pithi_group_setting *const s = &like->set;
    const int row = like->value_dtype == PITH_F32 ? 0 : like->value_dtype == PITH_BF16 ? 1 : 2;
    const int column = s->group < UNIT                ? 4
                       : !s->asymmetric               ? 3
                       : s->bits == 2 || s->bits == 4 ? s->bits / 2
                                                      : 0;
    known[row][column](like, run, runs, count, stream);
}

/* How many of a job's elements are whole groups and whole units, from the beginning. */
static size_t settled_elements(const struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t least = s->group > UNIT ? s->group : UNIT;
    if (s->group > 256 || job->base_dtype != PITH_NONE) return 0;
    return job->count & ~(least - 1);
}

/* These; returns how many. */
static size_t settled_pass(struct pithi_group_job *job) {
    const size_t count = settled_elements(job);
    if (count > 0) encode_settled_any(job, &job->run, 1, count, codes_stream(job));
    return count;
}
