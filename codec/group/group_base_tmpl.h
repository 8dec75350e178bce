/* group_base_tmpl.h - symmetric groups of differences from a base: codes, the new base and its hash
 * in one pass, written once over 16 lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included group_encode_tmpl.h, and defines, beside what that asks for:
 *   struct hashing         the hash of what is written, in registers
 *   hashing_open(lane)     begins one; lanes of 64 bits are numbered from there
 *   hashing_add(h, x)      adds 64 bytes
 *   hashing_sum(h)         returns the sum
 *   MAXIMA_FETCH           whether memory, not arithmetic, is the limit over a base of f32
 *   HASHES_RANDOM          whether 4-bit codes rounded at random over a base of bf16 gain by one
 *                          pass
 *
 * Memory must not wait for arithmetic, nor this for it: the maxima of later groups are found
 * between the codes of these, a unit of the one for a unit of the other. What both read is fetched
 * to the second-level cache beside codes: the last codes of an item, which no maxima come with, so
 * fetch what the first maxima of the next one read, which no codes come with. Where memory is the
 * limit values are fetched beside maxima, so that it does not rest while only these are made. */

/* Elements of a batch, whose scales are made together, and how far maxima are beyond the next batch
 * when its scales are made, so that codes do not wait for a division. */
enum { BASE_BATCH = 1024, BASE_LEAD = 2 * UNIT, BASE_GROUPS = BASE_BATCH / 16 };
/* The place of scales behind the reciprocals, which two batches have. */
enum { BASE_SCALES = 2 * BASE_GROUPS };
/* How many elements reads run before maxima: with bytes of a whole number of pages it is slower. */
enum { READS_LEAD = 1536 };

/* What a loop is made for. With bits 0 the job says them. */
struct base_variant {
    uint32_t vt, bt;
    unsigned bits;
    bool random, small; /* small: groups may be smaller than a unit */
};

/* What a loop works with. Scales are those of two batches, one after the other in turn; what is to
 * be spread over lanes is read from here. */
struct base_pass {
    struct pithi_group_setting set;
    size_t count, batch;
    uint32_t shift;
    const uint8_t *value;
    uint8_t *base, *codes, *scales;
    size_t capacity;
    const uint8_t *prefetch, *prefetch_base; /* what is fetched beside the first value and base */
    v16 most[BASE_GROUPS];                   /* lanes of the maxima of a batch's groups */
    _Alignas(64) float factor[2 * BASE_SCALES];
    struct packing pack;
    struct philox philox;
    uint64_t counter;
    uint16_t drawn[4 * UNIT];
    uint64_t lane, correction; /* of the hash: of the first base, and what is to be added */
    uint64_t saturated;
};

/* Whether values are fetched beside maxima. */
ALWAYS bool maxima_fetch(struct base_variant w) {
    return MAXIMA_FETCH && w.bt == PITH_F32 && !w.random;
}

ALWAYS void open_base_pass(struct base_pass *p, const struct pithi_group_job *job, size_t count,
                           struct base_variant w) {
    p->set = job->set;
    p->count = count;
    p->batch = job->set.group > BASE_BATCH ? job->set.group : BASE_BATCH;
    p->shift = (uint32_t)__builtin_ctz(job->set.group);
    p->value = job->value;
    p->base = job->base;
    p->codes = job->codes;
    p->scales = job->scales;
    p->capacity = pithi_group_code_bytes(&p->set, job->count);
    const size_t ahead = p->batch + BASE_LEAD + READS_LEAD;
    p->prefetch = pithi_prefetch_begin(job->value, job->prefetch,
                                       (maxima_fetch(w) ? READS_LEAD : ahead) * width(w.vt));
    p->prefetch_base = pithi_prefetch_begin(job->base, job->prefetch_base, ahead * width(w.bt));
    p->lane = job->first * width(w.bt) / 8;
    p->correction = 0;
    p->saturated = 0;
    for (size_t k = 0; k < p->batch >> p->shift; k += 16) /* scales are made of 16 groups at once */
        for (size_t n = k; n < k + 16; n++) p->most[n] = v_set(0);
    packing_make(&p->pack, w.bits ? w.bits : job->set.bits, true);
    if (!w.random) return;
    p->counter = job->first / 8;
    philox_init(&p->philox, &job->random, p->counter);
}

/* ---- Maxima and scales ------------------------------------------------------------------------*/

/* Finds the maxima of the unit at i; returns those of its group so far. */
ALWAYS v16 base_maxima(struct base_pass *p, v16 m, const uint8_t *value, const uint8_t *base,
                       size_t i, struct base_variant w) {
    const size_t g = (i & (p->batch - 1)) >> p->shift, group = p->set.group;
    if (maxima_fetch(w)) prefetch_far(p->prefetch + i * width(w.vt), width(w.vt));
    const v16 x[4] = {magnitude16(difference(w.vt, w.bt, value, base, 0)),
                      magnitude16(difference(w.vt, w.bt, value, base, 16)),
                      magnitude16(difference(w.vt, w.bt, value, base, 32)),
                      magnitude16(difference(w.vt, w.bt, value, base, 48))};
    const v16 a = v_maxu(x[0], x[1]), b = v_maxu(x[2], x[3]);
    if (__builtin_expect(group < UNIT, 0)) {
        p->most[g] = group == 16 ? x[0] : a;
        p->most[g + 1] = group == 16 ? x[1] : b;
        if (group == 16) {
            p->most[g + 2] = x[2];
            p->most[g + 3] = x[3];
        }
        return m;
    }
    m = v_maxu(m, v_maxu(a, b));
    if ((i + UNIT) & (group - 1)) return m;
    p->most[g] = m;
    return v_set(0);
}

/* Makes the scales of the batch at i; false when one of them could overflow. */
static __attribute__((noinline)) bool base_scales(struct base_pass *p, size_t i) {
    const size_t n = p->count - i < p->batch ? p->count - i : p->batch, groups = n >> p->shift;
    const size_t first = i >> p->shift, place = first & ((2 * p->batch >> p->shift) - 1);
    const uint32_t dtype = p->set.scale_dtype;
    const float most = (float)((1 << (p->set.bits - 1)) - 1);
    _Alignas(64) float scale[16], reciprocal[16];
    v16 worst = v_set(0);
    for (size_t g = 0; g < groups; g += 16) {
        const vquad q[4] = {v_largest_four(p->most + g), v_largest_four(p->most + g + 4),
                            v_largest_four(p->most + g + 8), v_largest_four(p->most + g + 12)};
        const v16 m = v_largest_all(q);
        const v16 s = round_scale(dtype, f_div(m, v_spread(&most)));
        const v16 coded = v_greater(m, v_set(TINY - 1));
        worst = v_maxu(worst, m);
        v_store((uint8_t *)scale, v_and(s, coded));
        v_store((uint8_t *)reciprocal, v_and(f_div(v_set(0x3F800000u), s), coded));
        for (size_t k = 0; k < 16 && g + k < groups; k++) {
            p->factor[BASE_SCALES + place + g + k] = scale[k];
            p->factor[place + g + k] = reciprocal[k];
            pithi_scale_store(p->scales, dtype, first + g + k, pithi_bits(scale[k]));
        }
    }
    return v_reduce_maxu(worst) < PITHI_SCALE_LIMIT;
}

/* ---- Codes ------------------------------------------------------------------------------------*/

/* Makes the codes of 16 elements and their new bases, rounded loosely. */
ALWAYS v16 base_codes(v16 value, v16 base, const float *factor, v16 ceiling, const uint16_t *random,
                      v16 *next, struct base_variant w) {
    const v16 v = f_mul(f_sub(value, base), v_spread(factor));
    v16 f;
    const v16 q = w.random ? stochastic(v, ceiling, false, random, &f)
                           : nearest(v, ceiling, false, false, &f);
    *next = updated(w.bt, base, f_mul(f, v_spread(factor + BASE_SCALES)));
    return q;
}

/* Writes 32 new bases. */
ALWAYS void put_bases(struct hashing *h, uint32_t bt, uint8_t *to, v16 a, v16 b) {
    if (bt != PITH_F32) {
        const v16 both = f_narrow_two(bt, a, b);
        v_store(to, both);
        hashing_add(h, both);
        return;
    }
    v_store(to, a);
    hashing_add(h, a);
    v_store(to + 64, b);
    hashing_add(h, b);
}

/* Saturates the 64 new bases of the unit at i, which are written and hashed already, and corrects
 * their hash. */
static __attribute__((noinline)) void mend_bases(struct base_pass *p, uint32_t bt, size_t i) {
    uint8_t *const base = p->base + i * width(bt);
    const uint64_t lane = p->lane + i * width(bt) / 8;
    const size_t bytes = UNIT * width(bt);
    struct four next;
    for (size_t k = 0; k < 4; k++) next.v[k] = load(bt, base, 16 * k);
    p->correction -= pithi_nh_c(base, bytes, lane);
    saturate(bt, &next, ~UINT64_C(0), &p->saturated);
    store_bases(bt, base, &next);
    p->correction += pithi_nh_c(base, bytes, lane);
}

/* Goes over the units from i to `end`, and finds maxima so many elements later where those are
 * before `last`. */
ALWAYS v16 base_units(struct base_pass *p, struct hashing *hashing, v16 m, size_t i, size_t end,
                      size_t later, size_t last, struct base_variant w) {
    const unsigned bits = w.bits ? w.bits : p->set.bits;
    struct packing pack = p->pack; /* copies that no store can alias */
    pack.bits = bits;
    struct hashing h = *hashing;
    const v16 ceiling = v_set(pithi_bits((float)((1 << (bits - 1)) - 1)));
    const uint8_t *value = p->value + i * width(w.vt);
    uint8_t *base = p->base + i * width(w.bt), *codes = p->codes + i * bits / 8;
    const uint32_t shift = p->shift;
    const size_t ring = (2 * p->batch >> shift) - 1;
    const float *const r[4] = {p->factor, p->factor + (16 >> shift), p->factor + (32 >> shift),
                               p->factor + (48 >> shift)};
    for (; i < end; i += UNIT) {
        const size_t g = i >> shift & ring;
        if (i + later < last)
            m = base_maxima(p, m, value + later * width(w.vt), base + later * width(w.bt),
                            i + later, w);
        const uint16_t *const random = p->drawn + i % (4 * UNIT);
        if (!maxima_fetch(w)) prefetch_far(p->prefetch + i * width(w.vt), width(w.vt));
        prefetch_far(p->prefetch_base + i * width(w.bt), width(w.bt));
        v16 q[4], sum = v_set(0);
        PITHI_UNROLL for (size_t k = 0; k < 4; k += 2) {
            v16 next[2];
            for (size_t n = k; n < k + 2; n++)
                q[n] =
                    base_codes(load(w.vt, value, 16 * n), load(w.bt, base, 16 * n),
                               r[w.small ? n : 0] + g, ceiling, random + 16 * n, &next[n - k], w);
            put_bases(&h, w.bt, base + 16 * k * width(w.bt), next[0], next[1]);
            const v16 both = f_add(next[0], next[1]);
            sum = k == 0 ? both : f_add(sum, both);
        }
        __builtin_prefetch(codes + PREFETCH_CODES, 1);
        if (__builtin_expect(v_overflows(sum), 0)) mend_bases(p, w.bt, i);
        pack64(codes, p->capacity - i * bits / 8, &pack, q, false);
        value += UNIT * width(w.vt);
        base += UNIT * width(w.bt);
        codes += UNIT * bits / 8;
    }
    *hashing = h;
    return m;
}

/* Encodes units as base_units does, with random bits that are drawn for four units at a time. */
ALWAYS v16 base_stretch(struct base_pass *p, struct hashing *h, v16 m, size_t i, size_t end,
                        size_t later, size_t last, struct base_variant w) {
    if (!w.random) return base_units(p, h, m, i, end, later, last, w);
    for (size_t stop; i < end; i = stop) {
        const size_t offset = i % (4 * UNIT);
        stop = i - offset + 4 * UNIT < end ? i - offset + 4 * UNIT : end;
        if (offset == 0) draw_apart(&p->philox, p->counter + i / 8, p->drawn);
        m = base_units(p, h, m, i, stop, later, last, w);
    }
    return m;
}

/* Makes the scales of the batch whose maxima end at `found`; returns where codes have to end: at
 * `end`, or before this batch if it could overflow. */
ALWAYS size_t close_batch(struct base_pass *p, size_t found, size_t end) {
    const size_t begin = (found - 1) & ~(p->batch - 1);
    return base_scales(p, begin) ? end : begin;
}

/* Encodes batches up to the first that could overflow; returns how many elements. */
ALWAYS size_t encode_over_base(struct pithi_group_job *job, size_t count, uint64_t *hash,
                               struct base_variant w) {
    struct base_pass p;
    open_base_pass(&p, job, count, w);
    struct hashing h = hashing_open(p.lane);
    const size_t later = p.batch + BASE_LEAD;
    size_t end = count;
    v16 m = v_set(0);
    for (size_t i = 0; i < later && i < end; i += UNIT) {
        m = base_maxima(&p, m, p.value + i * width(w.vt), p.base + i * width(w.bt), i, w);
        if (((i + UNIT) & (p.batch - 1)) == 0 || i + UNIT == count)
            end = close_batch(&p, i + UNIT, end);
    }
    for (size_t i = 0, stop; i < end; i = stop) { /* a batch of maxima ends where codes stop */
        stop = i + p.batch - ((i + later) & (p.batch - 1));
        if (stop + later > end) stop = i + later < end ? end - later : end;
        m = base_stretch(&p, &h, m, i, stop, later, end, w);
        if (stop < end) end = close_batch(&p, stop + later, end);
    }
    job->saturated += p.saturated;
    *hash += hashing_sum(&h) + p.correction;
    return end;
}

/* ---- Entry ------------------------------------------------------------------------------------*/

/* Each kind is a function of its own: one of all would spill the registers of all. */
#define BASE_LOOP(name, bt, bits, random, small)                                            \
    static __attribute__((noinline)) size_t name(struct pithi_group_job *job, size_t count, \
                                                 uint64_t *hash) {                          \
        return encode_over_base(job, count, hash,                                           \
                                (struct base_variant){PITH_F32, bt, bits, random, small});  \
    }
BASE_LOOP(over_f32_4, PITH_F32, 4, false, false)
BASE_LOOP(over_f32_any, PITH_F32, 0, false, true)
BASE_LOOP(over_f32_random_4, PITH_F32, 4, true, false)
BASE_LOOP(over_f32_random, PITH_F32, 0, true, true)
BASE_LOOP(over_bf16_4, PITH_BF16, 4, false, false)
BASE_LOOP(over_bf16_any, PITH_BF16, 0, false, true)
BASE_LOOP(over_bf16_random_4, PITH_BF16, 4, true, false)
#undef BASE_LOOP

/* Values of 16 bits take so much arithmetic that group_encode is as fast or faster; so do most
 * random bits over a base of bf16. */
static size_t encode_hashed(struct pithi_group_job *job, uint64_t *hash) {
    const struct pithi_group_setting *s = &job->set;
    const size_t least = s->group > UNIT ? s->group : UNIT, count = job->count & ~(least - 1);
    const bool four = s->bits == 4 && s->group >= UNIT;
    const bool symmetric = !s->asymmetric && !s->idempotent && !s->search && !s->codebook;
    if (!count || !symmetric || !job->update || job->value_dtype != PITH_F32) return 0;
    if (s->stochastic && !random_fits(job)) return 0;
    if (job->base_dtype == PITH_F32 && s->stochastic)
        return (four ? over_f32_random_4 : over_f32_random)(job, count, hash);
    if (job->base_dtype == PITH_F32) return (four ? over_f32_4 : over_f32_any)(job, count, hash);
    if (job->base_dtype == PITH_BF16 && s->stochastic)
        return HASHES_RANDOM && four ? over_bf16_random_4(job, count, hash) : 0;
    if (job->base_dtype == PITH_BF16) return (four ? over_bf16_4 : over_bf16_any)(job, count, hash);
    return 0;
}
