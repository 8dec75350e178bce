/* codebook_decode_tmpl.h - the second half of codebook_tmpl.h: from codes to values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What each code of a group stands for is one table, rounded before it is looked up in. Scales from
 * 2^119 up, where values could overflow, go to the scalar text with the groups beside them. */

enum { READABLE = 32 }; /* bytes that take64 may read */

#define LIMIT 0x7B000000u /* bits of 2^119 */

struct decoder {
    struct reading reading;
    v16 level;
};

ALWAYS v16 table_of(const struct decoder *d, const float *scale, uint32_t dtype) {
    const v16 x = f_add(f_mul(d->level, v_spread(scale)), v_set(0)); /* never -0 */
    return round_loosely(dtype, x);
}

ALWAYS void put16(uint8_t *to, uint32_t dtype, size_t i, v16 x, struct streamer *stream) {
    if (dtype == PITH_F32 && stream)
        v_stream(stream, to + 4 * i, x);
    else
        store(dtype, to, i, x);
}

/* Units of 64 values of groups from `scale` on, `first` of the first of them; plainly, or through
 * *stream when that is not NULL. */
ALWAYS void decode_units(const struct decoder *d, const struct pithi_group_job *job,
                         const float *scale, size_t first, size_t count, uint32_t dtype,
                         struct streamer *stream) {
    const struct decoder copy = *d; /* which no store can alias */
    const unsigned bits = job->set.bits, shift = (unsigned)__builtin_ctz(job->set.group);
    const uint8_t *from = job->codes + first * bits / 8;
    uint8_t *to = (uint8_t *)job->out + first * width(dtype);
    for (size_t i = 0; i < count; i += UNIT, from += UNIT * bits / 8) {
        v16 q[4], t[4];
        take64(q, from, &copy.reading);
        t[0] = t[1] = t[2] = t[3] = table_of(&copy, &scale[i >> shift], dtype);
        if (shift < 6) {
            t[1] = table_of(&copy, &scale[(i + 16) >> shift], dtype);
            t[2] = table_of(&copy, &scale[(i + 32) >> shift], dtype);
            t[3] = table_of(&copy, &scale[(i + 48) >> shift], dtype);
        }
        put16(to, dtype, i, look16(t[0], q[0]), stream);
        put16(to, dtype, i + 16, look16(t[1], q[1]), stream);
        put16(to, dtype, i + 32, look16(t[2], q[2]), stream);
        put16(to, dtype, i + 48, look16(t[3], q[3]), stream);
    }
}

/* Up to 64 values, as copies. */
static __attribute__((noinline)) void decode_end(const struct decoder *d,
                                                 const struct pithi_group_job *job,
                                                 const float *scale, size_t first, size_t count) {
    uint8_t codes[READABLE] = {0}, out[UNIT * 4];
    const size_t size = width(job->out_dtype);
    struct pithi_group_job p = *job;
    memcpy(codes, job->codes + first * job->set.bits / 8, (count * job->set.bits + 7) / 8);
    p.codes = codes;
    p.out = out;
    decode_units(d, &p, scale, 0, UNIT, job->out_dtype, NULL);
    memcpy((uint8_t *)job->out + first * size, out, count * size);
}

/* In f32; returns the largest magnitude's bits. */
static uint32_t read_scales(const struct pithi_group_job *job, size_t first, size_t groups,
                            float to[]) {
    const uint32_t dtype = job->set.scale_dtype;
    const uint8_t *from = job->scales + pithi_group_scale_bytes(&job->set, first);
    v16 most = v_set(0);
    for (size_t g = 0; g < groups; g += 16) {
        if (g + 16 <= groups)
            v_store((uint8_t *)(to + g), load(dtype, from, g));
        else
            for (size_t k = g; k < g + 16; k++)
                to[k] = pithi_float(k < groups ? pithi_load(from, dtype, k) : 0);
        most = v_maxu(most, magnitude16(get16(to + g)));
    }
    return v_reduce_maxu(most);
}

static size_t code_at(const struct pithi_group_job *job, size_t i) { return i * job->set.bits / 8; }

/* Values at a time: of whole groups, as many as `scale` has room for. */
enum { DECODED = 2048, SCALES = DECODED / 16 };

ALWAYS void decode_all(struct pithi_group_job *job, uint32_t dtype, bool streamed) {
    struct decoder d;
    struct pithi_codebook book;
    _Alignas(64) float scale[SCALES + 16], level[16];
    pithi_codebook_init(&book, &job->set);
    for (int k = 0; k < 16; k++) level[k] = book.level[k % book.levels];
    d.level = floats(level);
    reading_make(&d.reading, job->set.bits);
    struct streamer stream; /* of which nobody has the address: it stays in registers */
    v_stream_begin(&stream, job->out);
    const size_t group = job->set.group, step = group > DECODED ? group : DECODED;
    const size_t bytes = pithi_group_code_bytes(&job->set, job->count);
    uint8_t *const out = job->out;
    for (size_t first = 0, n; first < job->count; first += n) {
        n = job->count - first < step ? job->count - first : step;
        if (read_scales(job, first, (n + group - 1) / group, scale) >= LIMIT) {
            if (streamed) v_stream_end(&stream, out + first * width(dtype));
            scalar_part(job, first, n, pithi_codebook_decode_c);
            continue;
        }
        size_t units = n - n % UNIT;
        while (units && code_at(job, first + units - UNIT) + READABLE > bytes) units -= UNIT;
        decode_units(&d, job, scale, first, units, dtype, streamed ? &stream : NULL);
        if (units < n && streamed) v_stream_end(&stream, out + (first + units) * width(dtype));
        for (size_t i = units; i < n; i += UNIT)
            decode_end(&d, job, scale + i / group, first + i, n - i < UNIT ? n - i : UNIT);
    }
    if (streamed && job->count) v_stream_end(&stream, out + job->count * width(dtype));
}

static void codebook_decode(struct pithi_group_job *job) {
    const bool streamed = job->stream && job->out_dtype == PITH_F32 && v_stream_fits(job->out);
    if (!job->out)
        pithi_codebook_decode_c(job);
    else if (job->out_dtype == PITH_F32 && streamed)
        decode_all(job, PITH_F32, true);
    else if (job->out_dtype == PITH_F32)
        decode_all(job, PITH_F32, false);
    else if (job->out_dtype == PITH_BF16)
        decode_all(job, PITH_BF16, false);
    else
        decode_all(job, PITH_F16, false);
}
