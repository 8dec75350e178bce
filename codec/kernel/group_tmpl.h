/* group_tmpl.h - the group quantizer's loops, written once over 16-lane vectors of each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file defines the type v16 (16 lanes of 32 bits), the operations used below, and
 * struct packing with pack64 and unpack64. stage/group.c says what must come out; every float
 * operation here is one of its operations, in its order.
 *
 * Work goes in batches (whole groups, at least ENCODED or DECODED elements): maxima, then scales,
 * then codes, 64 elements at a time. A batch that could overflow (differences or scales from 2^119
 * up, NaN, infinities) goes to the scalar text as a whole, so the loops never see an x' overflow,
 * and encode sees finite bases only; decode hands 64 elements whose new base is not finite over. */
#include "kernel/lanes_tmpl.h"
#include "stage/codebook.h"
#include "stage/group.h"
#include "stage/hadamard.h"

/* Elements. */
enum { UNIT = 64, ENCODED = 1024, ENCODED_ALONE = 2048, DECODED = 2048 };
enum { BATCH_GROUPS = DECODED / 16 };

/* How far reads run before the codes being made, in elements, where arithmetic takes longest or
 * there are two streams: as far as the first-level cache holds what they bring. The lines codes go
 * to are fetched too, or the store queue would fill up waiting for them; that distance is in bytes.
 * Codes that stream past the cache need no such lines. */
enum { AHEAD = 3072, AHEAD_ALONE = 4608, CODES_AHEAD = 1024, SCALES_AHEAD = 128 };

#define TINY 0x04800000u  /* bits of 2^-118, as in group.c */
#define LIMIT 0x7B000000u /* bits of 2^119 */

/* One batch: pointers to its first element, and one entry per group. */
struct batch {
    size_t count;
    const uint8_t *value;
    const uint8_t *ahead; /* to be prefetched while the values are read, at their pace */
    uint8_t *base, *out, *codes, *scales;
    size_t room;      /* bytes of the job's codes from `codes` on */
    uint64_t counter; /* Philox counter of the first element */
    uint32_t shift;   /* log2 of the group */
    uint32_t largest[BATCH_GROUPS + 16];
    _Alignas(64) float scale[BATCH_GROUPS + 16];
    float zero[BATCH_GROUPS + 16], reciprocal[BATCH_GROUPS + 16];
    float most[BATCH_GROUPS + 16]; /* settled: the largest code */
};

static size_t batch_elements(const struct pithi_group_setting *s, size_t least) {
    return s->group > least ? s->group : least;
}

/* The part of a job that begins at element i; the scalar text takes it as it is. */
static struct pithi_group_job part(const struct pithi_group_job *job, size_t i, size_t count) {
    struct pithi_group_job p = *job;
    const size_t base = i * width(job->base_dtype);
    p.count = count;
    if (job->value) p.value = (const uint8_t *)job->value + i * width(job->value_dtype);
    if (job->out) p.out = (uint8_t *)job->out + i * width(job->out_dtype);
    if (job->base) p.base = (uint8_t *)job->base + base;
    p.codes = job->codes + i * job->set.bits / 8;
    p.scales = job->scales + pithi_group_scale_bytes(&job->set, i);
    p.first = job->first + i;
    return p;
}

static void scalar_part(struct pithi_group_job *job, size_t i, size_t count, pithi_group_fn *fn) {
    struct pithi_group_job p = part(job, i, count);
    fn(&p);
    job->saturated = p.saturated;
    job->poisoned = p.poisoned;
}

static void open_batch(struct batch *b, const struct pithi_group_job *job, size_t i, size_t n) {
    const uint8_t *const value = job->value, *const ahead = job->ahead;
    uint8_t *const base = job->base, *const out = job->out;
    const size_t codes = i * job->set.bits / 8, size = width(job->value_dtype);
    b->count = n;
    b->value = value ? value + i * size : NULL;
    b->ahead = ahead ? ahead + i * size : value ? b->value + AHEAD_ALONE * size : NULL;
    b->base = base ? base + i * width(job->base_dtype) : NULL;
    b->out = out ? out + i * width(job->out_dtype) : NULL;
    b->codes = job->codes + codes;
    b->scales = job->scales + pithi_group_scale_bytes(&job->set, i);
    b->room = pithi_group_code_bytes(&job->set, job->count) - codes;
    b->counter = (job->first + i) / 8;
    b->shift = (uint32_t)__builtin_ctz(job->set.group);
}

/* ---- Values ----------------------------------------------------------------------------------*/

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

/* New bases, loosely rounded, before infinities are seen to. */
ALWAYS v16 updated(uint32_t bt, v16 base, v16 x) { return round_loosely(bt, f_add(base, x)); }

ALWAYS void store_bases(uint32_t bt, uint8_t *p, const struct four *next) {
    store(bt, p, 0, next->v[0]);
    store(bt, p, 16, next->v[1]);
    store(bt, p, 32, next->v[2]);
    store(bt, p, 48, next->v[3]);
}

/* ---- Short ends ------------------------------------------------------------------------------*/

/* The n (1..63) elements at p, the last one repeated up to a whole unit. */
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

/* ---- Encode: maxima and scales ---------------------------------------------------------------*/

#include "kernel/group_settled_tmpl.h"

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
    return worst < LIMIT;
}

/* For e8m0 up to the next power of two. */
ALWAYS v16 round_scale(uint32_t dtype, v16 x) {
    if (dtype != PITHI_E8M0) return round_to(dtype, x);
    return v_and(v_add(x, v_set(0x007FFFFFu)), v_set(0xFF800000u));
}

/* pithi_group_scale for 16 groups at a time; none is huge. */
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

/* Of one group, into the places of its zero point and its scale. */
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

/* False when a group is poisoned or could overflow. dtype: of what is coded. */
static bool settled_scales(const struct pithi_group_setting *s, uint32_t dtype, struct batch *b,
                           size_t groups) {
    struct settled t;
    v_store((uint8_t *)(b->zero + groups), v_set(0));
    v_store((uint8_t *)(b->scale + groups), v_set(0));
    for (size_t g = 0; g < groups; g += 16) {
        const v16 lo = v_load((const uint8_t *)(b->zero + g));
        const v16 hi = v_load((const uint8_t *)(b->scale + g));
        const bool odd = s->asymmetric ? settle_ranges(&t, s, dtype, lo, hi, true, false)
                                       : settle_sizes(&t, s, dtype, hi, false);
        if (v_reduce_maxu(v_maxu(magnitude16(lo), magnitude16(hi))) >= LIMIT) return false;
        if (odd && settle_odd(&t, s, dtype, 0, 16)) return false;
        memcpy(b->scale + g, t.scale, sizeof t.scale);
        memcpy(b->zero + g, t.zero, sizeof t.zero);
        memcpy(b->reciprocal + g, t.reciprocal, sizeof t.reciprocal);
        memcpy(b->most + g, t.most, sizeof t.most);
    }
    return true;
}

static void put_scales(const struct pithi_group_setting *s, const struct batch *b, size_t groups,
                       uint8_t *scales, bool stream) {
    const size_t step = s->asymmetric ? 2 : 1;
    if (step == 1 && s->scale_dtype == PITH_F32) {
        if (stream && groups % 16 == 0 && v_stream16_fits(scales))
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

#include "kernel/group_search_tmpl.h"
#include "kernel/group_shrink_tmpl.h"

/* ---- Encode: codes ---------------------------------------------------------------------------*/

struct encoder {
    const struct pithi_group_setting *set;
    struct packing pack;
    struct philox philox;
    v16 ceiling; /* the largest code, as f32 */
    uint64_t saturated;
};

/* What a loop is made for; constant in the common loops. */
struct recipe {
    uint32_t vt, bt; /* dtypes: value (encode) or out (decode), and base */
    bool write;      /* the new base is wanted */
    bool asymmetric, stochastic;
    bool stream; /* encode: codes and scales go past the cache */
    bool search;
    bool settled;
};

/* The code as f32 in *f; in the result's low bits as an integer (the rest of a lane is undefined).
 * The text clamps codes; clamping v to the same integers before it is rounded, down or to nearest,
 * gives the same code. A symmetric nearest code needs neither: |d * r| < Q + 1/2 for every scale
 * and its rounding. */
ALWAYS v16 nearest(v16 v, v16 ceiling, bool asymmetric, bool search, v16 *f) {
    const v16 magic = v_set(0x4B400000u); /* 1.5 * 2^23 */
    if (asymmetric) v = f_min(f_max(v, v_set(0)), ceiling);
    if (search) v = f_min(f_max(v, f_sub(v_set(0xBF800000u), ceiling)), ceiling); /* -1 - Q */
    const v16 t = f_add(v, magic);
    *f = f_sub(t, magic);
    return t;
}

/* random: 65535 minus each 16 bits, so that a carry counts. */
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
    size_t room;    /* bytes that may be touched from `codes` on */
    size_t first;   /* place in the batch */
    uint64_t valid; /* which lanes count */
};

static struct unit unit_at(const struct batch *b, size_t i, size_t vt, size_t bt, size_t bits) {
    const size_t code = i * bits / 8;
    return (struct unit){.value = vt ? b->value + i * vt : NULL,
                         .base = bt ? b->base + i * bt : NULL,
                         .codes = b->codes + code,
                         .room = b->room - code,
                         .first = i,
                         .valid = ~UINT64_C(0)};
}

/* The code of 16 elements and, when wanted, their new base. */
ALWAYS v16 encode_16(const struct encoder *e, const struct batch *b, const struct unit *u,
                     struct recipe r, const uint16_t *random, size_t i, v16 *next) {
    const size_t g = (u->first + i) >> b->shift;
    v16 base = v_set(0), d = load(r.vt, u->value, i), f;
    if (r.bt != PITH_NONE) base = load(r.bt, u->base, i), d = f_sub(d, base);
    if (r.asymmetric) d = f_sub(d, v_spread(&b->zero[g]));
    const v16 v = f_mul(d, v_spread(&b->reciprocal[g]));
    const v16 most = r.settled ? v_spread(&b->most[g]) : e->ceiling;
    const v16 q = r.stochastic ? stochastic(v, most, r.asymmetric, random + i, &f)
                               : nearest(r.settled && !r.asymmetric ? f_limit(v, most) : v, most,
                                         r.asymmetric, r.search, &f);
    if (!r.write) return q;
    v16 x = f_mul(f, v_spread(&b->scale[g]));
    if (r.asymmetric) x = f_add(x, v_spread(&b->zero[g]));
    *next = updated(r.bt, base, x);
    return q;
}

ALWAYS void encode_unit(struct encoder *e, const struct packing *pack, const struct batch *b,
                        const struct unit *u, struct recipe r, const uint16_t *random) {
    struct four q, next;
    q.v[0] = encode_16(e, b, u, r, random, 0, &next.v[0]);
    q.v[1] = encode_16(e, b, u, r, random, 16, &next.v[1]);
    q.v[2] = encode_16(e, b, u, r, random, 32, &next.v[2]);
    q.v[3] = encode_16(e, b, u, r, random, 48, &next.v[3]);
    if (r.write) {
        if (__builtin_expect(v_any_nonfinite(next.v), 0)) {
            struct four copy = next; /* so that the common path keeps its registers */
            saturate(r.bt, &copy, u->valid, &e->saturated);
            next = copy;
        }
        store_bases(r.bt, u->base, &next);
    }
    pack64(u->codes, u->room, pack, q.v, r.stream);
}

/* What will be read next comes into the cache while this is computed. */
ALWAYS void prefetch_unit(const uint8_t *p, size_t size, size_t ahead) {
    for (size_t k = 0; k < UNIT * size; k += 64) __builtin_prefetch(p + ahead * size + k);
}

static __attribute__((noinline)) void encode_end(struct encoder *e, const struct batch *b, size_t i,
                                                 struct recipe r) {
    const size_t n = b->count - i, bits = e->set->bits, bytes = (n * bits + 7) / 8;
    uint8_t value[UNIT * 4], base[UNIT * 4], codes[UNIT];
    struct unit u = unit_at(b, i, width(r.vt), width(r.bt), bits);
    uint8_t *const to_base = u.base, *const to_codes = u.codes;
    u.value = pad_unit(value, u.value, n, width(r.vt));
    if (r.bt != PITH_NONE) pad_unit(base, u.base, n, width(r.bt));
    u.base = base;
    u.codes = codes;
    u.room = sizeof codes;
    u.valid >>= UNIT - n;
    uint16_t random[4 * UNIT];
    if (r.stochastic) random256(&e->philox, b->counter + i / 8, random);
    r.stream = false;
    encode_unit(e, &e->pack, b, &u, r, random);
    if (n * bits % 8) codes[bytes - 1] &= (uint8_t)((1u << n * bits % 8) - 1);
    memcpy(to_codes, codes, bytes);
    if (r.write) memcpy(to_base, base, n * width(r.bt));
}

ALWAYS void encode_codes(struct encoder *e, const struct batch *b, struct recipe r) {
    const struct packing pack = e->pack; /* a copy no store can alias */
    const size_t vs = width(r.vt), bs = width(r.bt), bits = e->set->bits, count = b->count;
    const size_t ahead = r.bt == PITH_NONE ? 0 : AHEAD;
    const bool fetch = r.stochastic || r.bt != PITH_NONE;
    uint16_t random[4 * UNIT];
    size_t i = 0;
    for (; i + UNIT <= count; i += UNIT) {
        const struct unit u = unit_at(b, i, vs, bs, bits);
        const size_t turn = i % (4 * UNIT);
        if (r.stochastic && turn == 0) random256(&e->philox, b->counter + i / 8, random);
        if (fetch) {
            prefetch_unit(r.bt == PITH_NONE ? b->ahead + i * vs : u.value, vs, ahead);
            prefetch_unit(u.base, bs, ahead);
            if (!r.stream) __builtin_prefetch(u.codes + CODES_AHEAD, 1);
        }
        encode_unit(e, &pack, b, &u, r, random + turn);
    }
    if (i < count) encode_end(e, b, i, r);
}

ALWAYS bool encode_batch(struct encoder *e, struct batch *b, struct recipe r) {
    const struct pithi_group_setting *s = e->set;
    const size_t groups = (b->count + s->group - 1) >> b->shift;
    if (r.settled) {
        const uint32_t dtype = r.bt == PITH_NONE ? r.vt : PITH_F32;
        if (!find_ends(r.vt, r.bt, r.asymmetric, b, groups)) return false;
        if (!settled_scales(s, dtype, b, groups)) return false;
    } else {
        if (!find_largest(r.vt, r.bt, b)) return false;
        symmetric_scales(s, b, groups);
    }
    if (r.search) search_scales(s, b, r.vt);
    put_scales(s, b, groups, b->scales, r.stream);
    encode_codes(e, b, r);
    return true;
}

/* A loop of its own for one pair of dtypes, rounding known, symmetric. */
ALWAYS bool encode_common(struct encoder *e, struct batch *b, uint32_t vt, uint32_t bt, bool random,
                          bool stream) {
    const bool write = bt != PITH_NONE;
    if (random)
        return encode_batch(
            e, b,
            (struct recipe){
                .vt = vt, .bt = bt, .write = write, .stochastic = true, .stream = stream});
    return encode_batch(e, b,
                        (struct recipe){.vt = vt, .bt = bt, .write = write, .stream = stream});
}

static bool encode_any(struct encoder *e, struct batch *b, struct recipe r) {
    if (!r.settled && !r.search && r.write == (r.bt != PITH_NONE)) {
        if (r.vt == PITH_F32 && r.bt == PITH_NONE && r.stream)
            return encode_common(e, b, PITH_F32, PITH_NONE, r.stochastic, true);
        if (r.vt == PITH_F32 && r.bt == PITH_NONE)
            return encode_common(e, b, PITH_F32, PITH_NONE, r.stochastic, false);
        if (r.vt == PITH_BF16 && r.bt == PITH_NONE && r.stream)
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
    return encode_batch(e, b, r);
}

/* With a base there is more to wait for than lines of codes. */
static bool codes_stream(const struct pithi_group_job *job) {
    return job->stream && job->base_dtype == PITH_NONE && v_stream16_fits(job->codes) &&
           v_streams_codes(job->set.bits);
}

/* Random bits for vectors: whole counters, all with one high word. */
static bool random_fits(const struct pithi_group_job *job) {
    const uint64_t first = job->first / 8, last = (job->first + job->count) / 8 + UNIT;
    return job->first % 8 == 0 && first >> 32 == last >> 32;
}

/* Groups of whole vectors, and nothing else to do. */
static bool search_fits(const struct pithi_group_job *job) {
    return job->count % 16 == 0 && job->base_dtype == PITH_NONE && !job->set.asymmetric &&
           !job->set.stochastic;
}

#include "kernel/group_pass_tmpl.h"
#include "kernel/group_settled_pass_tmpl.h"

static void group_encode(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    if ((s->stochastic && !random_fits(job)) || (s->search && !search_fits(job)) || s->codebook) {
        pithi_group_encode_c(job);
        return;
    }
    const bool settled = s->asymmetric || s->settle;
    const size_t done = settled ? settled_pass(job) : encode_pass(job);
    if (done == job->count) return;
    if (s->shrink) {
        scalar_part(job, done, job->count - done, pithi_group_encode_c);
        return;
    }
    const int levels = (1 << (s->asymmetric ? s->bits : s->bits - 1)) - 1;
    const struct recipe r = {
        job->value_dtype, job->base_dtype, job->update && job->base_dtype != PITH_NONE,
        s->asymmetric,    s->stochastic,   codes_stream(job),
        s->search,        settled};
    struct encoder e; /* most of it is packing, so no initializer */
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
    const bool settled = (s->asymmetric || s->settle) && !s->codebook && !s->search;
    if (settled && !s->shrink && runs && like->count && settled_elements(like) == like->count)
        encode_settled_any(like, run, runs, like->count, false);
    else
        pithi_group_each_run(like, run, runs, group_encode);
}

#include "kernel/group_decode_tmpl.h"
#include "kernel/group_sum_tmpl.h"

/* Of what both halves have. */
#include "kernel/group_column_tmpl.h"
