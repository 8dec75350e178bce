/* group_pass_tmpl.h - a part of group_tmpl.h: encode group by group.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For symmetric groups of whole units to the nearest codes, without a base: the maximum of a group,
 * then its codes, of what the first-level cache still holds. Nothing here prefetches: prefetchers
 * in hardware keep up best with plain loads, and codes that stream to memory are not held up. */

/* Elements of a rotated group, which registers hold. */
enum { HELD = 128 };

/* What a loop is made for; constant in the common loops. */
struct way {
    uint32_t vt;
    unsigned bits; /* of codes whose scales are f32; 0: as the job has it */
    bool stream;
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

/* Never beyond the largest code: |x * reciprocal| < Q + 1/2. */
ALWAYS v16 code16(v16 x, v16 reciprocal) { return f_round_to_i(f_mul(x, reciprocal)); }

/* ---- Groups ----------------------------------------------------------------------------------*/

/* What a loop works with: copies no store can alias, made in registers. What was just stored could
 * not be loaded before all codes that are on their way to memory. */
struct pass {
    struct packing pack;
    struct pithi_group_setting set;
    const uint8_t *value;
    uint8_t *codes, *scales;
    size_t room, unit; /* bytes of the codes from `codes` on, and of those of a unit */
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
}

ALWAYS void pass_units(struct pass *p, size_t n) {
    p->codes += n * p->unit;
    p->room -= n * p->unit;
}

ALWAYS void put_unit(struct pass *p, const v16 v[4], v16 reciprocal, bool stream) {
    const v16 q[4] = {code16(v[0], reciprocal), code16(v[1], reciprocal), code16(v[2], reciprocal),
                      code16(v[3], reciprocal)};
    pack64(p->codes, p->room, &p->pack, q, stream);
    pass_units(p, 1);
}

ALWAYS void encode_groups(struct pithi_group_job *job, size_t count, struct way w) {
    struct pass p;
    open_pass(&p, job, w);
    for (size_t i = 0; i < count; i += p.set.group) {
        const size_t end = i + p.set.group;
        v16 x[4], m = v_set(0);
        for (size_t k = i; k < end; k += UNIT) {
            load_unit(x, w.vt, p.value, k);
            m = v_maxu(m, largest_lanes(x));
        }
        const uint32_t largest = v_reduce_maxu(m);
        if (__builtin_expect(largest >= LIMIT, 0)) {
            encode_huge(job, i, false);
            pass_units(&p, p.set.group / UNIT);
            continue;
        }
        const v16 reciprocal = put_scale(&p.set, p.scales, i / p.set.group, largest);
        for (size_t k = i; k < end; k += UNIT) {
            load_unit(x, w.vt, p.value, k);
            put_unit(&p, x, reciprocal, w.stream);
        }
    }
}

/* ---- Rotated groups --------------------------------------------------------------------------*/

struct held {
    v16 v[8];
};

/* The transform of a group; returns its maxima. */
ALWAYS v16 rotate_group(struct held *x, const struct pass *p, size_t i, struct way w) {
    load_unit(x->v, w.vt, p->value, i);
    load_unit(x->v + 4, w.vt, p->value, i + UNIT);
    rotate_runs(x->v, p->set.bits);
    return v_maxu(largest_lanes(x->v), largest_lanes(x->v + 4));
}

ALWAYS void put_rotated(const struct pass *p, const v16 v[8], v16 r, bool stream) {
    const v16 q[8] = {code16(v[0], r), code16(v[1], r), code16(v[2], r), code16(v[3], r),
                      code16(v[4], r), code16(v[5], r), code16(v[6], r), code16(v[7], r)};
    pack_rotated(p->codes, p->room, &p->pack, q, stream);
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
        if (__builtin_expect(largest < LIMIT, 1))
            put_rotated(&p, x.v, reciprocal, w.stream);
        else
            encode_huge(job, i, true);
        pass_units(&p, HELD / UNIT);
    }
}

/* ---- Entry -----------------------------------------------------------------------------------*/

ALWAYS void encode_way(struct pithi_group_job *job, size_t count, bool rotated, struct way w) {
    if (rotated)
        encode_rotated(job, count, w);
    else
        encode_groups(job, count, w);
}

ALWAYS void encode_dtype(struct pithi_group_job *job, size_t count, bool rotated, uint32_t vt) {
    const unsigned bits = job->set.scale_dtype == PITH_F32 ? job->set.bits : 0;
    const bool stream = codes_stream(job);
    if (bits == 4 && stream)
        encode_way(job, count, rotated, (struct way){vt, 4, true});
    else if (bits == 4)
        encode_way(job, count, rotated, (struct way){vt, 4, false});
    else if (bits == 8 && stream)
        encode_way(job, count, rotated, (struct way){vt, 8, true});
    else if (bits == 8)
        encode_way(job, count, rotated, (struct way){vt, 8, false});
    else
        encode_way(job, count, rotated, (struct way){vt, 0, stream});
}

ALWAYS void encode_whole(struct pithi_group_job *job, size_t count, bool rotated) {
    if (job->value_dtype == PITH_F32)
        encode_dtype(job, count, rotated, PITH_F32);
    else if (job->value_dtype == PITH_BF16)
        encode_dtype(job, count, rotated, PITH_BF16);
    else
        encode_way(job, count, rotated, (struct way){PITH_F16, 0, codes_stream(job)});
}

static bool pass_fits(const struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    return !s->asymmetric && !s->stochastic && !s->search && job->base_dtype == PITH_NONE &&
           s->group >= UNIT;
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
