/* group_decode_tmpl.h - the group quantizer from codes to values, new bases and sums.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included group_encode_tmpl.h and may define, where an instruction set
 * looks values up faster than it computes them:
 *   OWN_PRODUCTS           a macro; then products(): 64 codes to four vectors of values
 *   OWN_HALVES             a macro; then has_halves(bits, group) and halves(): 64 codes to values
 *                          of 16 bits in two vectors, each of one group */

/* Values written by non-temporal stores go to two places in turn, each half of a job, when a half
 * is so many elements: stores then wait for two pages of memory at once. Codes for them are
 * prefetched at this distance, in bytes, only to the second-level cache: what waits for a line of
 * the first has no buffer left for a store. */
enum { HALF = 4096, PREFETCH_NONTEMPORAL = 8192, PREFETCH_BASE = 16384 };

struct decoder {
    const struct pithi_group_setting *set;
    const struct pithi_group_job *job;
    struct packing pack;
    uint64_t saturated;
};

/* Widens 16 scales of 16 bits, which are in lanes. */
ALWAYS v16 widen_scales(uint32_t dtype, v16 x) {
    return dtype == PITH_F16 ? f_widen(x) : v_shl16(x);
}

static uint32_t worse(uint32_t worst, float x) {
    const uint32_t m = pithi_magnitude(pithi_bits(x));
    return m > worst ? m : worst;
}

/* Reads symmetric scales as f32; returns the largest magnitude's bits. Vectors are not read back: a
 * load of what smaller stores wrote would wait until the values before are on their way to
 * memory. */
static uint32_t read_scales(const struct pithi_group_setting *s, const uint8_t *scales,
                            size_t count, float *to) {
    const size_t groups = (count + s->group - 1) >> __builtin_ctz(s->group);
    v16 most = v_set(0);
    uint32_t worst = 0;
    size_t g = 0;
    if (s->scale_dtype != PITHI_E8M0)
        for (; g + 16 <= groups; g += 16) {
            const v16 x = load(s->scale_dtype, scales, g);
            v_store((uint8_t *)(to + g), x);
            most = v_maxu(most, magnitude16(x));
        }
    if (g) worst = v_reduce_maxu(most);
    for (; g < groups; g++) {
        to[g] = pithi_float(pithi_scale_load(scales, s->scale_dtype, g));
        worst = worse(worst, to[g]);
    }
    return worst;
}

/* Reads scales and zero points of 16 groups, of a dtype of 16 bits; returns the larger
 * magnitudes. */
ALWAYS v16 read_pairs(uint32_t dtype, const uint8_t *from, float *scale, float *zero) {
    const v16 both = v_load(from);
    const v16 s = widen_scales(dtype, v_and(both, v_set(0xFFFF)));
    const v16 z = widen_scales(dtype, v_shr(both, 16));
    v_store((uint8_t *)scale, s);
    v_store((uint8_t *)zero, z);
    return v_maxu(magnitude16(s), magnitude16(z));
}

/* Reads the scales of a batch; false when a group is poisoned or could overflow. */
static bool get_scales(const struct pithi_group_setting *s, struct batch *b) {
    if (!s->asymmetric) return read_scales(s, b->scales, b->count, b->scale) < PITHI_SCALE_LIMIT;
    const size_t groups = (b->count + s->group - 1) >> b->shift;
    v16 most = v_set(0);
    uint32_t worst = 0;
    size_t g = 0;
    if (s->scale_dtype != PITH_F32)
        for (; g + 16 <= groups; g += 16)
            most = v_maxu(most,
                          read_pairs(s->scale_dtype, b->scales + 4 * g, b->scale + g, b->zero + g));
    if (g) worst = v_reduce_maxu(most);
    for (; g < groups; g++) {
        b->scale[g] = pithi_float(pithi_load(b->scales, s->scale_dtype, 2 * g));
        b->zero[g] = pithi_float(pithi_load(b->scales, s->scale_dtype, 2 * g + 1));
        worst = worse(worse(worst, b->scale[g]), b->zero[g]);
    }
    return worst < PITHI_SCALE_LIMIT;
}

#ifndef OWN_PRODUCTS
/* Multiplies codes by the scale of their 16 elements, and adds their zero point. */
ALWAYS void products(v16 x[4], const uint8_t *from, size_t capacity, const struct packing *p,
                     const float *const scale[4], const float *const zero[4]) {
    unpack64(x, from, capacity, p);
    x[0] = product(x[0], scale[0], zero[0]);
    x[1] = product(x[1], scale[1], zero[1]);
    x[2] = product(x[2], scale[2], zero[2]);
    x[3] = product(x[3], scale[3], zero[3]);
}
#endif

#ifndef OWN_HALVES
static inline bool has_halves(unsigned bits, size_t group) {
    (void)bits;
    (void)group;
    return false;
}
ALWAYS void halves(v16 x[2], uint32_t dtype, const uint8_t *from, size_t capacity,
                   const struct packing *p, const float *const scale[2],
                   const float *const zero[2]) {
    (void)dtype;
    (void)from;
    (void)capacity;
    (void)p;
    (void)scale;
    (void)zero;
    x[0] = x[1] = v_set(0);
}
#endif

/* Decodes 64 values of 16 bits that are looked up as such; one: all are of one group, and compilers
 * see that both halves have one scale. */
ALWAYS void decode_halves(const struct packing *pack, const struct batch *b, const struct unit *u,
                          struct variant r, struct streamer *stream, bool one) {
    const size_t g = u->first >> b->shift, h = one ? g : (u->first + UNIT / 2) >> b->shift;
    const float *const scale[2] = {&b->scale[g], &b->scale[h]};
    const float *const zero[2] = {r.asymmetric ? &b->zero[g] : NULL,
                                  r.asymmetric ? &b->zero[h] : NULL};
    v16 x[2];
    halves(x, r.vt, u->codes, u->capacity, pack, scale, zero);
    if (stream) {
        v_stream(stream, u->out, x[0]);
        v_stream(stream, u->out + 64, x[1]);
    } else {
        v_store(u->out, x[0]);
        v_store(u->out + 64, x[1]);
    }
}

ALWAYS v16 decode_16(const struct unit *u, struct variant r, v16 x, size_t i) {
    return r.bt == PITH_NONE ? x : updated(r.bt, load(r.bt, u->base, i), x);
}

/* Keeps compilers from moving stores across: out of the order of their addresses, stores that cross
 * lines are slower by a tenth. */
ALWAYS void in_order(void) { __asm__ volatile("" ::: "memory"); }

/* Puts values out by ordinary stores, or through *stream when that is not NULL. */
ALWAYS void put_out(const struct unit *u, struct variant r, v16 x, size_t i,
                    struct streamer *stream) {
    x = tidy(r.bt, x);
    if (r.vt == PITH_F32 && stream)
        v_stream(stream, u->out + 4 * i, x);
    else if (r.vt != PITH_NONE)
        store(r.vt, u->out, i, r.vt == PITH_F16 ? x : round_loosely(r.vt, x));
    in_order();
}

/* Decodes a unit in scalar C: one with infinite or NaN bases, or new bases that overflow. Smaller
 * groups within a unit come here as well. */
static __attribute__((noinline)) void decode_scalar(struct decoder *d, const struct batch *b,
                                                    const struct unit *u) {
    struct pithi_group_job p = *d->job;
    const size_t step = pithi_group_scale_bytes(&p.set, p.set.group);
    p.scales = b->scales + (u->first >> b->shift) * step;
    if (p.set.group > UNIT) p.set.group = UNIT;
    p.count = (size_t)__builtin_popcountll(u->valid);
    p.codes = u->codes;
    p.base = u->base;
    if (p.out) p.out = u->out;
    p.saturated = 0;
    pithi_group_decode_c(&p);
    d->saturated += p.saturated;
}

/* one: the unit is of one group. */
ALWAYS void decode_unit(struct decoder *d, const struct packing *pack, const struct batch *b,
                        const struct unit *u, struct variant r, struct streamer *stream, bool one) {
    const size_t next = one ? 0 : 16;
    const size_t g[4] = {u->first >> b->shift, (u->first + next) >> b->shift,
                         (u->first + 2 * next) >> b->shift, (u->first + 3 * next) >> b->shift};
    const float *const scale[4] = {&b->scale[g[0]], &b->scale[g[1]], &b->scale[g[2]],
                                   &b->scale[g[3]]};
    const bool z = r.asymmetric;
    const float *const zero[4] = {z ? &b->zero[g[0]] : NULL, z ? &b->zero[g[1]] : NULL,
                                  z ? &b->zero[g[2]] : NULL, z ? &b->zero[g[3]] : NULL};
    struct four x;
    products(x.v, u->codes, u->capacity, pack, scale, zero);
    x.v[0] = decode_16(u, r, x.v[0], 0);
    x.v[1] = decode_16(u, r, x.v[1], 16);
    x.v[2] = decode_16(u, r, x.v[2], 32);
    x.v[3] = decode_16(u, r, x.v[3], 48);
    if (r.bt != PITH_NONE && __builtin_expect(some_overflow(x.v), 0)) {
        if (stream) v_stream_end(stream, u->out);
        decode_scalar(d, b, u);
        return;
    }
    if (r.bt != PITH_NONE && r.write) store_bases(r.bt, u->base, &x);
    put_out(u, r, x.v[0], 0, stream);
    put_out(u, r, x.v[1], 16, stream);
    put_out(u, r, x.v[2], 32, stream);
    put_out(u, r, x.v[3], 48, stream);
}

static __attribute__((noinline)) void decode_end(struct decoder *d, struct batch *b, size_t i,
                                                 struct variant r) {
    const size_t n = b->count - i, bits = d->set->bits;
    uint8_t base[UNIT * 4], out[UNIT * 4], codes[UNIT] = {0};
    struct unit u = unit_at(b, i, 0, width(r.bt), bits);
    uint8_t *const to_base = u.base;
    if (r.bt != PITH_NONE) pad_unit(base, u.base, n, width(r.bt));
    /* Groups behind the last have no scale, which must not look like an overflow. */
    for (size_t g = ((b->count - 1) >> b->shift) + 1; g <= (i + UNIT - 1) >> b->shift; g++)
        b->scale[g] = b->zero[g] = 0;
    memcpy(codes, u.codes, (n * bits + 7) / 8);
    u.base = base;
    u.out = out;
    u.codes = codes;
    u.capacity = sizeof codes;
    u.valid >>= UNIT - n;
    decode_unit(d, &d->pack, b, &u, r, NULL, false);
    if (r.vt != PITH_NONE) memcpy(b->out + i * width(r.vt), out, n * width(r.vt));
    if (r.write) memcpy(to_base, base, n * width(r.bt));
}

/* Prefetches a base. One of f32 is the most that is read here: it comes into the second-level cache
 * from further off, as the first has no space for so many lines on their way. */
ALWAYS void prefetch_base(const uint8_t *base, size_t size) {
    if (size < 4) {
        prefetch_unit(base, size, PREFETCH);
        return;
    }
    for (size_t k = 0; k < UNIT * size; k += 64) __builtin_prefetch(base + PREFETCH_BASE + k, 0, 2);
}

/* Decodes what whole units leave over. */
ALWAYS void decode_left(struct decoder *d, struct batch *b, size_t i, struct variant r,
                        struct streamer *stream) {
    if (i == b->count) return;
    if (stream) v_stream_end(stream, b->out + i * width(r.vt));
    decode_end(d, b, i, r);
}

/* Decodes the whole units of a batch as halves; returns their elements. */
ALWAYS size_t decode_narrow(const struct packing *pack, const struct batch *b, struct variant r,
                            struct streamer *stream, bool one) {
    size_t i = 0;
    for (; i + UNIT <= b->count; i += UNIT) {
        struct unit u = unit_at(b, i, 0, 0, pack->bits);
        u.out = b->out + i * width(r.vt);
        __builtin_prefetch(u.codes + PREFETCH);
        decode_halves(pack, b, &u, r, stream, one);
    }
    return i;
}

/* Decodes a batch. four: codes have 4 bits and their vectors stay in registers, since loads beside
 * a stream wait for stores to the same place within other pages. one: no unit is of several
 * groups. */
ALWAYS void decode_batch(struct decoder *d, struct batch *b, struct variant r,
                         struct streamer *stream, bool four, bool one) {
    struct packing pack = d->pack; /* a copy that no store can alias */
    if (four) pack.bits = 4;
    pack.symmetric = !r.asymmetric;
    const size_t bs = width(r.bt), os = width(r.vt), bits = pack.bits, count = b->count;
    const size_t group = d->set->group;
    const bool half = r.vt == PITH_F16 || r.vt == PITH_BF16;
    if (r.bt == PITH_NONE && half && has_halves(pack.bits, group)) {
        const size_t done = group >= UNIT ? decode_narrow(&pack, b, r, stream, true)
                                          : decode_narrow(&pack, b, r, stream, false);
        decode_left(d, b, done, r, stream);
        return;
    }
    size_t i = 0;
    for (; i + UNIT <= count; i += UNIT) {
        struct unit u = unit_at(b, i, 0, bs, bits);
        u.out = os ? b->out + i * os : NULL;
        prefetch_base(u.base, bs);
        __builtin_prefetch(u.codes + PREFETCH);
        decode_unit(d, &pack, b, &u, r, stream, one);
    }
    decode_left(d, b, i, r, stream);
}

/* Decodes a job from element i on. */
ALWAYS void decode_batches(struct decoder *d, struct pithi_group_job *job, size_t i,
                           struct variant r, bool streamed, bool four, bool one) {
    const size_t step = batch_elements(&job->set, DECODED);
    struct streamer stream; /* nobody has its address, so that it stays in registers */
    struct batch b;
    v_stream_begin(&stream, job->out);
    for (; i < job->count; i += step) {
        const size_t n = job->count - i < step ? job->count - i : step;
        open_batch(&b, job, i, n);
        if (get_scales(&job->set, &b)) {
            decode_batch(d, &b, r, streamed ? &stream : NULL, four, one);
        } else {
            if (streamed) v_stream_end(&stream, b.out);
            scalar_part(job, i, n, pithi_group_decode_c);
        }
    }
    if (streamed && job->count)
        v_stream_end(&stream, (uint8_t *)job->out + job->count * width(r.vt));
}

/* Has loops of its own for one dtype to decode to. */
ALWAYS void decode_common(struct decoder *d, struct pithi_group_job *job, size_t i, uint32_t ot,
                          bool asymmetric, bool nontemporal) {
    const struct variant r = {.vt = ot, .bt = PITH_NONE, .asymmetric = asymmetric};
    if (nontemporal && ot == PITH_F32 && d->set->bits == 4)
        decode_batches(d, job, i, r, true, true, false);
    else if (nontemporal)
        decode_batches(d, job, i, r, true, false, false);
    else
        decode_batches(d, job, i, r, false, false, false);
}

/* Whether loops that know what groups are like are for these. */
ALWAYS bool is_common(const struct decoder *d, bool asymmetric) {
    return !asymmetric && d->set->bits == 4 && d->set->group >= UNIT;
}

/* Has loops of its own for one dtype of what is decoded and one of the base. */
ALWAYS void decode_based(struct decoder *d, struct pithi_group_job *job, size_t i, uint32_t ot,
                         uint32_t bt, bool asymmetric, bool nontemporal) {
    const struct variant r = {.vt = ot, .bt = bt, .write = true, .asymmetric = asymmetric};
    const bool common = is_common(d, asymmetric);
    if (common && nontemporal && ot == PITH_F32)
        decode_batches(d, job, i, r, true, true, true);
    else if (common)
        decode_batches(d, job, i, r, false, true, true);
    else if (nontemporal && ot == PITH_F32)
        decode_batches(d, job, i, r, true, false, false);
    else
        decode_batches(d, job, i, r, false, false, false);
}

/* Has loops of its own for bases of one dtype which alone are written. */
ALWAYS void decode_onto(struct decoder *d, struct pithi_group_job *job, size_t i, uint32_t bt,
                        bool asymmetric) {
    const struct variant r = {.vt = PITH_NONE, .bt = bt, .write = true, .asymmetric = asymmetric};
    if (is_common(d, asymmetric))
        decode_batches(d, job, i, r, false, true, true);
    else
        decode_batches(d, job, i, r, false, false, false);
}

static void decode_any(struct decoder *d, struct pithi_group_job *job, size_t i, struct variant r,
                       bool nontemporal) {
    const uint32_t ot = r.vt, bt = r.bt;
    if (bt == PITH_NONE && ot == PITH_F32 && r.asymmetric)
        decode_common(d, job, i, PITH_F32, true, nontemporal);
    else if (bt == PITH_NONE && ot == PITH_F32)
        decode_common(d, job, i, PITH_F32, false, nontemporal);
    else if (bt == PITH_NONE && ot == PITH_BF16 && r.asymmetric)
        decode_common(d, job, i, PITH_BF16, true, nontemporal);
    else if (bt == PITH_NONE && ot == PITH_BF16)
        decode_common(d, job, i, PITH_BF16, false, nontemporal);
    else if (bt == PITH_NONE && ot == PITH_F16 && r.asymmetric)
        decode_common(d, job, i, PITH_F16, true, nontemporal);
    else if (bt == PITH_NONE && ot == PITH_F16)
        decode_common(d, job, i, PITH_F16, false, nontemporal);
    else if (ot == PITH_NONE && bt == PITH_F32 && r.write && r.asymmetric)
        decode_onto(d, job, i, PITH_F32, true);
    else if (ot == PITH_NONE && bt == PITH_F32 && r.write)
        decode_onto(d, job, i, PITH_F32, false);
    else if (ot == PITH_NONE && bt == PITH_BF16 && r.write && r.asymmetric)
        decode_onto(d, job, i, PITH_BF16, true);
    else if (ot == PITH_NONE && bt == PITH_BF16 && r.write)
        decode_onto(d, job, i, PITH_BF16, false);
    else if (ot == PITH_F32 && bt == PITH_F32 && r.write && r.asymmetric)
        decode_based(d, job, i, PITH_F32, PITH_F32, true, nontemporal);
    else if (ot == PITH_F32 && bt == PITH_F32 && r.write)
        decode_based(d, job, i, PITH_F32, PITH_F32, false, nontemporal);
    else if (ot == PITH_F32 && bt == PITH_BF16 && r.write && r.asymmetric)
        decode_based(d, job, i, PITH_F32, PITH_BF16, true, nontemporal);
    else if (ot == PITH_F32 && bt == PITH_BF16 && r.write)
        decode_based(d, job, i, PITH_F32, PITH_BF16, false, nontemporal);
    else if (ot == PITH_BF16 && bt == PITH_BF16 && r.write && r.asymmetric)
        decode_based(d, job, i, PITH_BF16, PITH_BF16, true, nontemporal);
    else if (ot == PITH_BF16 && bt == PITH_BF16 && r.write)
        decode_based(d, job, i, PITH_BF16, PITH_BF16, false, nontemporal);
    else
        decode_batches(d, job, i, r, nontemporal, false, false);
}

/* Decodes 64 values of one group, in four lines or, of 16 bits, in two. */
ALWAYS void put_unit_nontemporal(const struct packing *pack, const uint8_t *codes, size_t capacity,
                                 const float *scale, const float *zero, uint8_t *out, uint32_t ot) {
    const float *const scales[4] = {scale, scale, scale, scale};
    const float *const zeros[4] = {zero, zero, zero, zero};
    v16 x[4];
    __builtin_prefetch(codes + PREFETCH_NONTEMPORAL, 0, 2);
    if (ot != PITH_F32) {
        halves(x, ot, codes, capacity, pack, scales, zeros);
        v_stream_line(out, x[0]);
        v_stream_line(out + 64, x[1]);
        return;
    }
    products(x, codes, capacity, pack, scales, zeros);
    v_stream_line(out, x[0]);
    v_stream_line(out + 64, x[1]);
    v_stream_line(out + 128, x[2]);
    v_stream_line(out + 192, x[3]);
}

/* Decodes a batch of either half from element i on, a unit of each in turn. */
ALWAYS void decode_two(const struct packing *packing, const struct batch b[2], size_t i,
                       unsigned bits, bool asymmetric, uint32_t ot) {
    struct packing pack = *packing; /* a copy that no store can alias */
    pack.bits = bits;
    pack.symmetric = !asymmetric;
    const size_t count = b->count, size = width(ot), from = i * bits / 8;
    const size_t capacity[2] = {b[0].capacity - from, b[1].capacity - from};
    const uint8_t *const codes[2] = {b[0].codes + from, b[1].codes + from};
    uint8_t *const out[2] = {b[0].out + size * i, b[1].out + size * i};
    const uint32_t shift = b->shift;
    for (size_t k = 0; k < count; k += UNIT) {
        const size_t g = k >> shift, at = k * bits / 8;
        put_unit_nontemporal(&pack, codes[0] + at, capacity[0] - at, &b[0].scale[g],
                             asymmetric ? &b[0].zero[g] : NULL, out[0] + size * k, ot);
        put_unit_nontemporal(&pack, codes[1] + at, capacity[1] - at, &b[1].scale[g],
                             asymmetric ? &b[1].zero[g] : NULL, out[1] + size * k, ot);
    }
}

static void decode_two_any(const struct packing *pack, const struct batch b[2], size_t i,
                           bool asymmetric, uint32_t ot) {
    if (ot == PITH_F32 && asymmetric)
        decode_two(pack, b, i, 4, true, PITH_F32);
    else if (ot == PITH_F32)
        decode_two(pack, b, i, 4, false, PITH_F32);
    else if (ot == PITH_BF16 && asymmetric && pack->bits == 4)
        decode_two(pack, b, i, 4, true, PITH_BF16);
    else if (ot == PITH_F16 && asymmetric && pack->bits == 4)
        decode_two(pack, b, i, 4, true, PITH_F16);
    else if (ot == PITH_BF16)
        decode_two(pack, b, i, pack->bits, asymmetric, PITH_BF16);
    else
        decode_two(pack, b, i, pack->bits, asymmetric, PITH_F16);
}

/* Whether halves go by non-temporal stores: they begin at whole lines, and units have one group. */
static bool halves_nontemporal(const struct pithi_group_job *job, struct variant r, size_t step) {
    const size_t least = step > HALF ? step : HALF;
    return r.bt == PITH_NONE && (r.vt != PITH_F32 || job->set.bits == 4) &&
           job->set.group >= UNIT && job->count >= 2 * least && (uintptr_t)job->out % 64 == 0;
}

/* Decodes two halves that go to two places in turn; returns how many elements they are. The batches
 * stay where they are, but for their scales: addresses written one by one and read as a vector
 * would wait until the values before are on their way to memory. */
static size_t decode_halved(const struct decoder *d, struct pithi_group_job *job, size_t step) {
    const size_t half = job->count / 2 / step * step;
    const size_t scales = pithi_group_scale_bytes(&job->set, step);
    struct batch b[2];
    open_batch(&b[0], job, 0, step);
    open_batch(&b[1], job, half, step);
    for (size_t i = 0; i < half; i += step) {
        const bool good = get_scales(&job->set, &b[0]);
        if (!get_scales(&job->set, &b[1]) || !good) {
            scalar_part(job, i, step, pithi_group_decode_c);
            scalar_part(job, half + i, step, pithi_group_decode_c);
        } else {
            decode_two_any(&d->pack, b, i, job->set.asymmetric, job->out_dtype);
        }
        __builtin_prefetch(b[0].scales += scales);
        __builtin_prefetch(b[1].scales += scales);
    }
    return 2 * half;
}

static void group_decode(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    if (s->codebook) {
        pithi_codebook_decode_c(job);
        return;
    }
    const struct variant r = {job->out ? job->out_dtype : PITH_NONE,
                              job->base_dtype,
                              job->update && job->base_dtype != PITH_NONE,
                              s->asymmetric,
                              false,
                              false,
                              false,
                              false};
    const bool narrow = r.bt == PITH_NONE && has_halves(s->bits, s->group);
    const bool nontemporal = job->nontemporal && r.vt != PITH_NONE &&
                             (r.vt == PITH_F32 || narrow) && v_stream_fits(job->out);
    struct decoder d;
    d.set = s;
    d.job = job;
    d.saturated = 0;
    packing_init(&d.pack, s->bits, !s->asymmetric);
    const size_t step = batch_elements(s, DECODED);
    const size_t halved =
        nontemporal && halves_nontemporal(job, r, step) ? decode_halved(&d, job, step) : 0;
    if (halved < job->count) decode_any(&d, job, halved, r, nontemporal);
    if (d.saturated) job->saturated += d.saturated; /* mostly 0: see pithi_collect */
}

/* ---- The sum of many frames in one pass -------------------------------------------------------*/
/* 64 sums stay in registers while the codes of up to SUMMED frames are added to them. More frames
 * take more passes over a batch, whose sums the cache holds meanwhile. */
/* PREFETCH_SUM is a distance in bytes of each frame's codes. They go to the second-level cache:
 * lines of all frames often have one place in the first, which then loses them too early. */
enum { SUMMED = 8, PREFETCH_SUM = 2048 };

/* A batch of up to SUMMED frames; pointers are to its first element. */
struct addends {
    const struct pithi_group_setting *set;
    struct packing pack;
    const uint8_t *codes[SUMMED];
    size_t frames, count, capacity; /* capacity: bytes from its first code to the last of the job */
    uint32_t shift;                 /* log2 of the group */
    float *sum;
    float scale[SUMMED][BATCH_GROUPS + 16];
};

/* What a loop is made for; constant in the common loops. */
struct sum_variant {
    unsigned bits;
    bool one;  /* a unit has one scale */
    bool more; /* the sums go on */
};

/* Adds a unit of one frame. i is the unit's place in the batch, and its codes begin at `code`. */
ALWAYS void add_frame(const struct addends *a, const struct packing *pack, struct sum_variant w,
                      size_t k, size_t i, size_t code, bool first, v16 sum[4]) {
    const float *const s = a->scale[k], *const at = &s[i >> a->shift];
    const float *const scale[4] = {at, w.one ? at : &s[(i + 16) >> a->shift],
                                   w.one ? at : &s[(i + 32) >> a->shift],
                                   w.one ? at : &s[(i + 48) >> a->shift]};
    const float *const zero[4] = {NULL, NULL, NULL, NULL};
    v16 x[4];
    __builtin_prefetch(a->codes[k] + code + PREFETCH_SUM, 0, 2);
    products(x, a->codes[k] + code, a->capacity - code, pack, scale, zero);
    sum[0] = first ? x[0] : f_add(sum[0], x[0]);
    sum[1] = first ? x[1] : f_add(sum[1], x[1]);
    sum[2] = first ? x[2] : f_add(sum[2], x[2]);
    sum[3] = first ? x[3] : f_add(sum[3], x[3]);
}

ALWAYS void sum_unit(const struct addends *a, const struct packing *pack, struct sum_variant w,
                     size_t i, size_t code, uint8_t *to) {
    v16 sum[4];
    if (w.more) {
        sum[0] = v_load(to);
        sum[1] = v_load(to + 64);
        sum[2] = v_load(to + 128);
        sum[3] = v_load(to + 192);
        add_frame(a, pack, w, 0, i, code, false, sum);
    } else {
        add_frame(a, pack, w, 0, i, code, true, sum);
    }
    for (size_t k = 1; k < a->frames; k++) add_frame(a, pack, w, k, i, code, false, sum);
    v_store(to, sum[0]);
    v_store(to + 64, sum[1]);
    v_store(to + 128, sum[2]);
    v_store(to + 192, sum[3]);
}

static __attribute__((noinline)) void sum_end(struct addends *a, size_t i, bool more) {
    const size_t n = a->count - i, bits = a->set->bits;
    uint8_t codes[SUMMED][UNIT] = {{0}}, sum[UNIT * 4] = {0};
    for (size_t k = 0; k < a->frames; k++) {
        memcpy(codes[k], a->codes[k] + i * bits / 8, (n * bits + 7) / 8);
        a->codes[k] = codes[k];
    }
    a->capacity = UNIT;
    memcpy(sum, a->sum + i, n * sizeof *a->sum);
    sum_unit(a, &a->pack, (struct sum_variant){(unsigned)bits, false, more}, i, 0, sum);
    memcpy(a->sum + i, sum, n * sizeof *a->sum);
}

/* Sums a batch. `pack` is one that no store can alias. */
ALWAYS void sum_units(struct addends *a, const struct packing *pack, struct sum_variant w) {
    size_t i = 0;
    for (; i + UNIT <= a->count; i += UNIT)
        sum_unit(a, pack, w, i, i * w.bits / 8, (uint8_t *)(a->sum + i));
    if (i < a->count) sum_end(a, i, w.more);
}

/* Sums the common kind of batch: the first frames, of a width that the compiler knows. */
ALWAYS void sum_common(struct addends *a, unsigned bits) {
    struct packing pack;
    packing_make(&pack, bits, true);
    sum_units(a, &pack, (struct sum_variant){bits, true, false});
}

/* Elements [i, i + count) of a job, frames from k on, up to SUMMED of them. */
struct sum_batch {
    size_t i, count, k, frames;
    bool more;
};

static __attribute__((noinline)) void scalar_sum(struct pithi_sum_job *job,
                                                 const struct sum_batch *t) {
    struct pithi_sum_job p = *job;
    p.count = t->count;
    p.frames = job->frames + t->k;
    p.frame_count = t->frames;
    p.scales_at += pithi_group_scale_bytes(&job->set, t->i);
    p.codes_at += t->i * job->set.bits / 8;
    p.sum += t->i;
    p.more = t->more;
    pithi_group_sum_c(&p);
    job->saturated = p.saturated;
    job->poisoned = p.poisoned;
}

/* Reads the scales of a batch; false when a group is poisoned or could overflow. */
static bool open_addends(struct addends *a, const struct pithi_sum_job *job,
                         const struct sum_batch *t) {
    const size_t at = job->scales_at + pithi_group_scale_bytes(&job->set, t->i);
    const size_t bytes = pithi_group_scale_bytes(&job->set, t->count);
    const size_t codes_at = job->codes_at + t->i * job->set.bits / 8;
    uint32_t worst = 0;
    for (size_t k = 0; k < t->frames; k++) {
        const uint8_t *const frame = job->frames[t->k + k];
        __builtin_prefetch(frame + at + bytes);
        const uint32_t w = read_scales(&job->set, frame + at, t->count, a->scale[k]);
        worst = w > worst ? w : worst;
        a->codes[k] = frame + codes_at;
    }
    a->frames = t->frames;
    a->count = t->count;
    a->capacity = pithi_group_code_bytes(&job->set, job->count) - t->i * job->set.bits / 8;
    a->sum = job->sum + t->i;
    return worst < PITHI_SCALE_LIMIT;
}

/* Sums a batch. It never copies the job: what was just stored piece by piece cannot be loaded as a
 * whole before the stores before it, which may be many codes on their way to memory. */
static void sum_one_batch(struct addends *a, struct pithi_sum_job *job, const struct sum_batch *t) {
    const struct pithi_group_setting *s = &job->set;
    const bool common = s->group >= UNIT && !t->more;
    if (!open_addends(a, job, t)) {
        scalar_sum(job, t);
    } else if (common && s->bits == 8) {
        sum_common(a, 8);
    } else if (common && s->bits == 4) {
        sum_common(a, 4);
    } else {
        const struct packing pack = a->pack;
        sum_units(a, &pack, (struct sum_variant){s->bits, false, t->more});
    }
}

static void group_sum(struct pithi_sum_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t step = batch_elements(s, DECODED);
    struct addends a; /* has no initializer, as most of it is scales */
    a.set = s;
    a.shift = (uint32_t)__builtin_ctz(s->group);
    packing_init(&a.pack, s->bits, true);
    for (size_t i = 0; i < job->count; i += step) {
        const size_t n = job->count - i < step ? job->count - i : step;
        for (size_t k = 0; k < job->frame_count; k += SUMMED) {
            const size_t left = job->frame_count - k;
            sum_one_batch(
                &a, job,
                &(struct sum_batch){i, n, k, left < SUMMED ? left : SUMMED, job->more || k > 0});
        }
    }
}
