/* codebook_channel_tmpl.h - codes of levels along rows, written once over 16-lane vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included codebook_tmpl.h; it includes nothing more.
 *
 * A column is a group, so that a lane has its scale. Encoding goes by tiles of 64 columns, whose
 * rows are read twice; decoding goes by rows of up to COLUMNS columns, in the order of memory. */
#include "group/channel.h"
#include "group/trellis_value.h"

enum { COLUMNS = 1024 };

static struct pithi_channel_job columns_of(const struct pithi_channel_job *job, size_t first,
                                           size_t columns) {
    struct pithi_channel_job p = *job;
    p.columns = columns;
    if (p.value) p.value = (const uint8_t *)p.value + first * width(p.dtype);
    if (p.out) p.out = (uint8_t *)p.out + first * width(p.dtype);
    p.codes += first * p.set.bits / 8;
    p.scales += first * width(p.set.scale_dtype);
    return p;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Up to 64 columns; of lanes without a column all codes are 0. */
struct columns {
    const uint8_t *value;
    int64_t row; /* bytes from one row of values to the next */
    size_t count;
    v16 cells[4], coded[4]; /* coded: all ones unless all codes are 0 */
};

/* Returns a row of values: in place, or padded. */
ALWAYS const uint8_t *row_of(const struct columns *c, size_t i, uint32_t dtype, bool whole,
                             uint8_t padded[UNIT * 4]) {
    const uint8_t *const from = c->value + (int64_t)i * c->row;
    if (whole) return from;
    memcpy(padded, from, c->count * width(dtype));
    return padded;
}

/* Finds the scales; false where a column is for scalar C. */
ALWAYS bool scale_columns(struct columns *c, const struct pithi_channel_job *job,
                          const struct book *b, uint32_t dtype, bool whole, uint8_t *padded) {
    const float one = 1;
    float scales[UNIT];
    v16 m[4];
    uint32_t irregular = 0;
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) m[k] = v_set(0);
    for (size_t i = 0; i < job->rows; i++) {
        const uint8_t *const row = row_of(c, i, dtype, whole, padded);
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) m[k] =
            v_maxu(m[k], magnitude16(load(dtype, row, 16 * k)));
    }
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
        const v16 scale = reach16(m[k], &job->set, b);
        irregular |= v_nonfinite(m[k]) | v_nonfinite(scale) | v_nonfinite(top_of(b, dtype, scale));
        c->cells[k] = f_div(v_spread(&one), scale);
        c->coded[k] = v_greater(scale, v_set(0));
        set16(scales + 16 * k, scale);
    }
    if (irregular) return false;
    for (size_t k = 0; whole && k < 4; k++)
        store(job->set.scale_dtype, job->scales, 16 * k, get16(scales + 16 * k));
    for (size_t k = 0; !whole && k < c->count; k++)
        pithi_store(job->scales, job->set.scale_dtype, k, pithi_bits(scales[k]));
    return true;
}

/* Makes the codes of a row. What comes next in memory is fetched. */
ALWAYS void code_row(const struct columns *c, const struct pithi_channel_job *job,
                     const struct book *b, size_t i, uint32_t dtype, bool whole, uint8_t *padded) {
    const uint8_t *const row = row_of(c, i, dtype, whole, padded);
    uint8_t *const to = job->codes + i * job->code_stride, part[UNIT / 2];
    v16 code[4];
    for (size_t k = 0; whole && k < UNIT * width(dtype); k += 64)
        __builtin_prefetch(row + UNIT * width(dtype) + k, 0, 3);
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
        const v16 x = f_mul(load(dtype, row, 16 * k), c->cells[k]);
        code[k] = v_and(nearest16(b, x), c->coded[k]);
    }
    put_unit(b, whole ? to : part, join(code), 4);
    if (!whole) memcpy(to, part, (c->count * b->bits + 7) / 8);
}

/* Encodes a job of up to 64 columns. */
ALWAYS void encode_columns(struct pithi_channel_job *job, const struct book *b, uint32_t dtype,
                           bool whole) {
    struct columns c;
    uint8_t padded[UNIT * 4] = {0};
    c.value = job->value;
    c.row = job->stride * (int64_t)width(dtype);
    c.count = job->columns;
    if (scale_columns(&c, job, b, dtype, whole, padded))
        for (size_t i = 0; i < job->rows; i++) code_row(&c, job, b, i, dtype, whole, padded);
    else
        pithi_channel_encode_c(job);
}

static __attribute__((noinline)) void encode_rest(struct pithi_channel_job *job,
                                                  const struct book *b) {
    encode_columns(job, b, job->dtype, false);
}

ALWAYS void encode_tiles(struct pithi_channel_job *job, uint32_t dtype) {
    struct book b;
    book_make(&b, &job->set);
    for (size_t c = 0; c < job->columns; c += UNIT) {
        struct pithi_channel_job tile =
            columns_of(job, c, job->columns - c < UNIT ? job->columns - c : UNIT);
        if (tile.columns == UNIT)
            encode_columns(&tile, &b, dtype, true);
        else
            encode_rest(&tile, &b);
        job->poisoned = tile.poisoned;
    }
}

static void levels_encode(struct pithi_channel_job *job) {
    if (job->rows == 0) return;
    if (job->dtype == PITH_F32)
        encode_tiles(job, PITH_F32);
    else if (job->dtype == PITH_BF16)
        encode_tiles(job, PITH_BF16);
    else
        encode_tiles(job, PITH_F16);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* What codes mean. A trellis has levels that a code and those before it give the number of: twice
 * the code, with two bits changed that their lowest bits say. Of its levels the positive ones are
 * kept, repeated; of codebooks all. */
struct meaning {
    struct reading reading;
    v16 level, change; /* change: by the lowest bits of the last three codes */
    v16 mask, half;    /* of a code; how many levels are negative */
};

/* A strip of columns, whose arrays have a whole number of units. */
struct strip_out {
    size_t count;
    _Alignas(64) float scale[COLUMNS];
    uint32_t history[COLUMNS]; /* the lowest bits of the codes before, the last one in bit 0 */
};

static void meaning_make(struct meaning *d, const struct pithi_group_setting *s, bool path) {
    float level[16];
    uint32_t change[16];
    reading_make(&d->reading, s->bits);
    d->mask = v_set((1u << s->bits) - 1);
    d->half = v_set(1u << s->bits);
    if (path) {
        struct pithi_trellis t;
        const int half = 1 << s->bits;
        pithi_trellis_init(&t, s->bits);
        for (int k = 0; k < 16; k++) {
            level[k] = (float)t.level[half + k % half] / PITHI_TRELLIS_UNIT;
            change[k] = pithi_trellis_number((unsigned)k % PITHI_TRELLIS_STATES, 0);
        }
        d->change = v_load((const uint8_t *)change);
    } else {
        struct pithi_codebook book;
        pithi_codebook_init(&book, s);
        for (int k = 0; k < 16; k++) level[k] = book.level[k % book.levels];
        d->change = v_set(0);
    }
    d->level = floats(level);
}

/* Returns what a code means after others, and adds it to them. */
ALWAYS v16 next_level(const struct meaning *d, v16 code, uint32_t *history) {
    const v16 h = get16(history), q = v_and(code, d->mask);
    const v16 number = v_xor(v_add(q, q), look8(d->change, h));
    const v16 below = v_greater(d->half, number);
    set16(history, v_add(v_add(h, h), v_and(q, v_set(1))));
    return v_xor(look16(d->level, v_xor(number, below)), v_and(below, v_set(0x80000000u)));
}

/* Takes 64 codes, of which `readable` bytes may be read. */
ALWAYS void take_unit(v16 q[4], const uint8_t *from, size_t readable, const struct reading *r) {
    uint8_t copy[READABLE] = {0};
    if (__builtin_expect(readable < READABLE, 0)) {
        memcpy(copy, from, readable);
        from = copy;
    }
    take64(q, from, r);
}

/* Decodes 64 columns from c on. */
ALWAYS void decode_tile(const struct meaning *d, struct strip_out *s, const uint8_t *from,
                        size_t readable, uint8_t *to, size_t c, uint32_t dtype, bool path,
                        struct streamer *stream) {
    v16 q[4];
    take_unit(q, from, readable, &d->reading);
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
        const v16 level =
            path ? next_level(d, q[k], s->history + c + 16 * k) : look16(d->level, q[k]);
        const v16 x = f_add(f_mul(level, get16(s->scale + c + 16 * k)), v_set(0)); /* never -0 */
        put16(to, dtype, 16 * k, dtype == PITH_F16 ? x : round_loosely(dtype, x), stream);
    }
}

static __attribute__((noinline)) void decode_tile_end(const struct meaning *d, struct strip_out *s,
                                                      const uint8_t *from, size_t readable,
                                                      uint8_t *to, size_t c, uint32_t dtype,
                                                      bool path) {
    uint8_t out[UNIT * 4];
    decode_tile(d, s, from, readable, out, c, dtype, path, NULL);
    memcpy(to, out, (s->count - c) * width(dtype));
}

/* Learns the lowest bits of the codes of a row before the strip's. */
static void learn_row(const struct meaning *d, struct strip_out *s, const uint8_t *from,
                      size_t readable, size_t unit) {
    for (size_t c = 0; c < s->count; c += UNIT, from += unit, readable -= unit) {
        v16 q[4];
        take_unit(q, from, readable, &d->reading);
        for (size_t k = 0; k < 4; k++) {
            uint32_t *const history = s->history + c + 16 * k;
            (void)next_level(d, q[k], history);
        }
        if (readable < unit) break;
    }
}

/* Decodes the rows of a strip, a job of its own. */
ALWAYS void decode_rows(const struct meaning *shared, struct strip_out *s,
                        const struct pithi_channel_job *job, uint32_t dtype, bool path,
                        bool streamed) {
    const struct meaning d = *shared; /* a copy that no store can alias */
    const size_t unit = UNIT * job->set.bits / 8;
    const size_t bytes = pithi_group_code_bytes(&job->set, s->count);
    for (size_t i = 0; i < job->rows; i++) {
        uint8_t *const to = (uint8_t *)job->out + (int64_t)i * job->stride * (int64_t)width(dtype);
        const uint8_t *from = job->codes + i * job->code_stride;
        size_t readable = (job->rows - 1 - i) * job->code_stride + bytes, c = 0;
        struct streamer stream;
        if (streamed) v_stream_begin(&stream, to);
        for (; c + UNIT <= s->count; c += UNIT, from += unit, readable -= unit)
            decode_tile(&d, s, from, readable, to + c * width(dtype), c, dtype, path,
                        streamed ? &stream : NULL);
        if (streamed && c) v_stream_end(&stream, to + c * width(dtype));
        if (c < s->count)
            decode_tile_end(&d, s, from, readable, to + c * width(dtype), c, dtype, path);
    }
}

ALWAYS void decode_strip_to(const struct meaning *d, struct strip_out *s,
                            const struct pithi_channel_job *job, bool path) {
    const bool streamed = job->nontemporal && job->stride * 4 % 16 == 0 && v_stream_fits(job->out);
    if (job->dtype == PITH_F32 && streamed)
        decode_rows(d, s, job, PITH_F32, path, true);
    else if (job->dtype == PITH_F32)
        decode_rows(d, s, job, PITH_F32, path, false);
    else if (job->dtype == PITH_BF16)
        decode_rows(d, s, job, PITH_BF16, path, false);
    else
        decode_rows(d, s, job, PITH_F16, path, false);
}

static __attribute__((noinline)) void decode_paths(const struct meaning *d, struct strip_out *s,
                                                   const struct pithi_channel_job *job) {
    enum { WINDOW = 3 }; /* rows before it that a code depends on */
    const size_t bytes = pithi_group_code_bytes(&job->set, s->count);
    memset(s->history, 0, sizeof s->history);
    for (size_t k = job->before < WINDOW ? job->before : WINDOW; k > 0; k--)
        learn_row(d, s, job->codes - k * job->code_stride, k * job->code_stride + bytes,
                  UNIT * job->set.bits / 8);
    decode_strip_to(d, s, job, true);
}

static __attribute__((noinline)) void decode_levels(const struct meaning *d, struct strip_out *s,
                                                    const struct pithi_channel_job *job) {
    decode_strip_to(d, s, job, false);
}

/* Reads the scales of a strip; false when a column is poisoned or could overflow. */
static bool open_scales(struct strip_out *s, const struct pithi_channel_job *job) {
    const struct pithi_group_job scales = {.set = {.group = 1, .scale_dtype = job->set.scale_dtype},
                                           .scales = job->scales};
    s->count = job->columns;
    memset(s->scale, 0, sizeof s->scale);
    return read_scales(&scales, 0, s->count, s->scale) < PITHI_SCALE_LIMIT;
}

static void levels_decode(struct pithi_channel_job *job) {
    const bool path = job->set.codebook == PITHI_CODEBOOK_TRELLIS;
    struct meaning d;
    struct strip_out s;
    meaning_make(&d, &job->set, path);
    for (size_t c = 0; job->rows && c < job->columns; c += COLUMNS) {
        struct pithi_channel_job strip =
            columns_of(job, c, job->columns - c < COLUMNS ? job->columns - c : COLUMNS);
        if (!open_scales(&s, &strip))
            pithi_levels_decode_c(&strip);
        else if (path)
            decode_paths(&d, &s, &strip);
        else
            decode_levels(&d, &s, &strip);
        job->saturated = strip.saturated;
        job->poisoned = strip.poisoned;
    }
}
