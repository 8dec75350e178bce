/* group_pass_tmpl.h - a part of group_tmpl.h: encode group by group.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For symmetric groups of whole units without a base: the maximum of a group, then its codes, of
 * what the first-level cache still holds, between the maxima of the next group. Memory must not
 * wait for codes: values are fetched far ahead, since prefetchers in hardware end with a page, and
 * to the second-level cache, since the first one holds groups; with the maxima, or beside codes
 * that random bits make slow. */

/* Elements of a rotated group, which registers hold; those whose maxima are found between codes.
 * Bytes that values are fetched ahead, beside arithmetic and beside their extremes; there a whole
 * number of pages is slower, by a tenth at times. */
enum { HELD = 128, SPAN = 256, VALUES_AHEAD = 8192, EXTREMES_AHEAD = 6144 };

/* What a loop is made for; constant in the common loops. */
struct way {
    uint32_t vt;
    unsigned bits; /* of codes whose scales are f32; 0: as the job has it */
    bool stream, random;
};

/* A group that may be poisoned, in the scalar text. */
static __attribute__((noinline)) void encode_huge(struct pithi_group_job *job, size_t i,
                                                  bool rotated) {
    struct pithi_group_job p = part(job, i, job->set.group);
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

/* pithi_group_scale for a maximum that is not huge; the scale is stored, its reciprocal returned.
 * Division of one number takes a fraction of a vector's. */
ALWAYS v16 put_scale(const struct pithi_group_setting *s, uint8_t *scales, size_t g, uint32_t m) {
    const float quotient = pithi_float(m) / (float)((1 << (s->bits - 1)) - 1);
    const uint32_t rounded = v_first(round_scale(s->scale_dtype, v_spread(&quotient)));
    const uint32_t scale = m < TINY ? 0 : rounded;
    const float reciprocal = m < TINY ? 0 : 1.0f / pithi_float(rounded);
    pithi_scale_store(scales, s->scale_dtype, g, scale);
    return v_spread(&reciprocal);
}

/* ---- Units, written out: loops over vectors would keep them in memory ------------------------*/

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

/* ---- Groups ----------------------------------------------------------------------------------*/

/* What a loop works with: copies no store can alias, made in registers. What was just stored could
 * not be loaded before all codes that are on their way to memory. */
struct pass {
    struct packing pack;
    struct pithi_group_setting set;
    const uint8_t *value;
    uint8_t *codes, *scales;
    size_t room, unit; /* bytes of the codes from `codes` on, and of those of a unit */
    struct philox philox;
    uint64_t counter; /* Philox counter of the job's first element */
    uint16_t drawn[4 * UNIT];
    v16 ceiling; /* the largest code, as f32 */
};

ALWAYS void open_pass(struct pass *p, const struct pithi_group_job *job, struct way w) {
    p->set = job->set;
    if (w.bits) {
        p->set.bits = (uint8_t)w.bits;
        p->set.scale_dtype = PITH_F32;
    }
    packing_make(&p->pack, p->set.bits, true);
    p->value = job->value;
    p->codes = job->codes;
    p->scales = job->scales;
    p->room = pithi_group_code_bytes(&p->set, job->count);
    p->unit = UNIT * p->set.bits / 8;
    if (!w.random) return;
    p->counter = job->first / 8;
    philox_init(&p->philox, &job->random, p->counter);
    p->ceiling = v_set(pithi_bits((float)((1 << (p->set.bits - 1)) - 1)));
}

ALWAYS void pass_units(struct pass *p, size_t n) {
    p->codes += n * p->unit;
    p->room -= n * p->unit;
}

/* Never beyond the largest code: |x * reciprocal| < Q + 1/2. */
ALWAYS v16 code16(v16 x, v16 reciprocal) { return f_round_to_i(f_mul(x, reciprocal)); }

/* The code from bit 16 up; what is below carries into it. */
ALWAYS v16 random16(const struct pass *p, v16 x, v16 reciprocal, v16 random) {
    return v_add(f_fixed(f_limit(f_mul(x, reciprocal), p->ceiling)), random);
}

/* random: four vectors, or NULL. */
ALWAYS void put_unit(struct pass *p, const v16 x[4], v16 r, const v16 *random, bool stream) {
    if (random) {
        const v16 q[4] = {random16(p, x[0], r, random[0]), random16(p, x[1], r, random[1]),
                          random16(p, x[2], r, random[2]), random16(p, x[3], r, random[3])};
        pack64_high(p->codes, p->room, &p->pack, q, stream);
    } else {
        const v16 q[4] = {code16(x[0], r), code16(x[1], r), code16(x[2], r), code16(x[3], r)};
        pack64(p->codes, p->room, &p->pack, q, stream);
    }
    pass_units(p, 1);
}

/* Apart: it needs all registers for itself. */
static __attribute__((noinline)) void draw_apart(const struct philox *r, uint64_t counter,
                                                 uint16_t drawn[4 * UNIT]) {
    random256(r, counter, drawn);
}

/* Bits for the 256 elements around i. */
ALWAYS void draw(struct pass *p, size_t i) {
    draw_apart(&p->philox, p->counter + i / (4 * UNIT) * (4 * UNIT / 8), p->drawn);
}

/* Those of the unit at i; units come one after another. */
ALWAYS void take_random(struct pass *p, v16 random[4], size_t i) {
    const size_t turn = i % (4 * UNIT);
    if (turn == 0) draw(p, i);
    const uint8_t *const from = (const uint8_t *)(p->drawn + turn);
    random[0] = v_load16(from);
    random[1] = v_load16(from + 32);
    random[2] = v_load16(from + 64);
    random[3] = v_load16(from + 96);
}

/* Goes on after the group at i without codes. */
ALWAYS void skip_group(struct pass *p, size_t i, struct way w) {
    pass_units(p, p->set.group / UNIT);
    if (w.random) draw(p, i);
}

/* The unit so far behind that at i. */
ALWAYS void prefetch_values(const struct pass *p, size_t i, struct way w) {
    const uint8_t *const from = p->value + i * width(w.vt) + VALUES_AHEAD;
    for (size_t k = 0; k < UNIT * width(w.vt); k += 64) __builtin_prefetch(from + k, 0, 2);
}

/* Of n elements from i on, and of m. A loop of one load from each line, and how many there are is
 * not known to compilers, which would write it out: what hardware fetches by itself depends on the
 * instructions that read, and one that reads line after line is followed best. */
ALWAYS v16 maxima(v16 m, const struct pass *p, size_t i, size_t n, struct way w) {
    const uint8_t *const end = p->value + (i + n) * width(w.vt);
    for (const uint8_t *at = p->value + i * width(w.vt); at < end; at += 64) {
        __builtin_prefetch(at + EXTREMES_AHEAD, 0, 2);
        m = v_maxu(m, magnitude16(load(w.vt, at, 0)));
        if (w.vt == PITH_F32)
            v_pace();
        else
            m = v_maxu(m, magnitude16(load(w.vt, at, 16)));
    }
    return m;
}

/* The codes of the group at i between the maxima of that at `next`. */
ALWAYS v16 put_group(struct pass *p, size_t i, size_t next, v16 reciprocal, struct way w) {
    const size_t group = p->set.group, span = group < SPAN ? group : SPAN;
    v16 m = v_set(0), x[4];
    for (size_t k = 0; k < group; k += span) {
        m = maxima(m, p, next + k, span, w);
        for (size_t u = k; u < k + span; u += UNIT) {
            load_unit(x, w.vt, p->value, i + u);
            put_unit(p, x, reciprocal, NULL, w.stream);
        }
    }
    return m;
}

/* After the last group its own maxima are found again. */
ALWAYS void encode_groups(struct pithi_group_job *job, size_t count, struct way w) {
    struct pass p;
    open_pass(&p, job, w);
    const size_t group = p.set.group;
    v16 m = maxima(v_set(0), &p, 0, group, w);
    for (size_t i = 0, g = 0; i < count; i += group, g++) {
        const size_t next = i + group < count ? i + group : i;
        const uint32_t largest = v_reduce_maxu(m);
        const v16 reciprocal = put_scale(&p.set, p.scales, g, largest);
        if (__builtin_expect(largest >= LIMIT, 0)) {
            encode_huge(job, i, false);
            skip_group(&p, i, w);
            m = maxima(v_set(0), &p, next, group, w);
        } else {
            m = put_group(&p, i, next, reciprocal, w);
        }
    }
}

/* Random bits take longer than memory does: group by group, and fetched beside the codes alone. */
ALWAYS v16 random_maxima(const struct pass *p, size_t i, struct way w) {
    v16 m = v_set(0), x[4];
    for (size_t k = 0; k < p->set.group; k += UNIT) {
        load_unit(x, w.vt, p->value, i + k);
        m = v_maxu(m, largest_lanes(x));
    }
    return m;
}

ALWAYS void put_random_group(struct pass *p, size_t i, v16 reciprocal, struct way w) {
    v16 x[4], random[4];
    for (size_t k = i; k < i + p->set.group; k += UNIT) {
        take_random(p, random, k);
        prefetch_values(p, k, w);
        load_unit(x, w.vt, p->value, k);
        put_unit(p, x, reciprocal, random, w.stream);
    }
}

ALWAYS void encode_random_groups(struct pithi_group_job *job, size_t count, struct way w) {
    struct pass p;
    open_pass(&p, job, w);
    for (size_t i = 0; i < count; i += p.set.group) {
        const uint32_t largest = v_reduce_maxu(random_maxima(&p, i, w));
        if (__builtin_expect(largest >= LIMIT, 0)) {
            encode_huge(job, i, false);
            skip_group(&p, i, w);
        } else {
            put_random_group(&p, i, put_scale(&p.set, p.scales, i / p.set.group, largest), w);
        }
    }
}

/* ---- Rotated groups --------------------------------------------------------------------------*/

struct held {
    v16 v[8];
};

/* The transform of a group; returns its maxima. */
ALWAYS v16 rotate_group(struct held *x, const struct pass *p, size_t i, struct way w) {
    prefetch_values(p, i, w);
    prefetch_values(p, i + UNIT, w);
    load_unit(x->v, w.vt, p->value, i);
    load_unit(x->v + 4, w.vt, p->value, i + UNIT);
    rotate_runs(x->v, p->set.bits, !w.random);
    return v_maxu(largest_lanes(x->v), largest_lanes(x->v + 4));
}

ALWAYS void put_rotated(struct pass *p, const v16 v[8], v16 r, bool stream) {
    const v16 q[8] = {code16(v[0], r), code16(v[1], r), code16(v[2], r), code16(v[3], r),
                      code16(v[4], r), code16(v[5], r), code16(v[6], r), code16(v[7], r)};
    pack_rotated(p->codes, p->room, &p->pack, q, stream);
    pass_units(p, HELD / UNIT);
}

ALWAYS void put_random(struct pass *p, const v16 v[8], v16 r, size_t i, bool stream) {
    v16 random[4];
    take_random(p, random, i);
    put_unit(p, v, r, random, stream);
    take_random(p, random, i + UNIT);
    put_unit(p, v + 4, r, random, stream);
}

/* A group is rotated while the scale of the one before it is found. */
ALWAYS void encode_rotated(struct pithi_group_job *job, size_t count, struct way w) {
    struct pass p;
    struct held next;
    open_pass(&p, job, w);
    v16 m = rotate_group(&next, &p, 0, w);
    for (size_t i = 0; i < count; i += HELD) {
        const struct held x = next;
        const uint32_t largest = v_reduce_maxu(m);
        const v16 reciprocal = put_scale(&p.set, p.scales, i / HELD, largest);
        m = rotate_group(&next, &p, i + HELD < count ? i + HELD : i, w);
        if (__builtin_expect(largest >= LIMIT, 0)) {
            encode_huge(job, i, true);
            skip_group(&p, i, w);
        } else if (w.random) {
            put_random(&p, x.v, reciprocal, i, w.stream);
        } else {
            put_rotated(&p, x.v, reciprocal, w.stream);
        }
    }
}

/* ---- Entry -----------------------------------------------------------------------------------*/

ALWAYS void encode_way(struct pithi_group_job *job, size_t count, bool rotated, struct way w) {
    if (rotated)
        encode_rotated(job, count, w);
    else if (w.random)
        encode_random_groups(job, count, w);
    else
        encode_groups(job, count, w);
}

ALWAYS void encode_dtype(struct pithi_group_job *job, size_t count, bool rotated, uint32_t vt) {
    const unsigned bits = job->set.scale_dtype == PITH_F32 ? job->set.bits : 0;
    const bool stream = codes_stream(job);
    if (bits == 4 && stream)
        encode_way(job, count, rotated, (struct way){vt, 4, true, false});
    else if (bits == 4)
        encode_way(job, count, rotated, (struct way){vt, 4, false, false});
    else if (bits == 8 && stream)
        encode_way(job, count, rotated, (struct way){vt, 8, true, false});
    else if (bits == 8)
        encode_way(job, count, rotated, (struct way){vt, 8, false, false});
    else
        encode_way(job, count, rotated, (struct way){vt, 0, stream, false});
}

ALWAYS void encode_whole(struct pithi_group_job *job, size_t count, bool rotated) {
    const bool random = job->set.stochastic, stream = codes_stream(job);
    if (job->value_dtype == PITH_F32 && random)
        encode_way(job, count, rotated, (struct way){PITH_F32, 4, stream, true});
    else if (job->value_dtype == PITH_F32)
        encode_dtype(job, count, rotated, PITH_F32);
    else if (job->value_dtype == PITH_BF16 && random)
        encode_way(job, count, rotated, (struct way){PITH_BF16, 4, stream, true});
    else if (job->value_dtype == PITH_BF16)
        encode_dtype(job, count, rotated, PITH_BF16);
    else
        encode_way(job, count, rotated, (struct way){PITH_F16, 0, stream, false});
}

/* Random ones are the common kind alone. */
static bool random_pass(const struct pithi_group_job *job) {
    return job->set.bits == 4 && job->set.scale_dtype == PITH_F32 && job->value_dtype != PITH_F16 &&
           random_fits(job);
}

static bool pass_fits(const struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    return !s->asymmetric && !s->search && (!s->stochastic || random_pass(job)) &&
           job->base_dtype == PITH_NONE && s->group >= UNIT;
}

/* The whole groups of a job; returns how many elements they are. */
static size_t encode_pass(struct pithi_group_job *job) {
    if (job->count < job->set.group || !pass_fits(job)) return 0;
    const size_t count = job->count - job->count % job->set.group;
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
