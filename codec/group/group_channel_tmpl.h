/* group_channel_tmpl.h - idempotent groups that run along rows, written once over 16 lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included group_encode_tmpl.h and group_decode_tmpl.h, and defines nothing
 * more.
 *
 * Strips of columns, as wide as the second-level cache has space for their rows. Extremes are taken
 * of a few rows at a time, in the order of memory; then scales; then codes, of as many rows. So
 * that memory need not wait for scales and codes, beside these the first rows of what comes next
 * are fetched, and beside extremes the others, at a pace that lasts to the last of them: all of
 * what comes next would come too fast beside codes, which wait for lines of their own. */
#include "group/channel.h"

/* A strip has STRIP columns; extremes or codes of AT_ONCE rows are taken together; BESIDE_SCALES
 * rows are fetched beside scales; codes are prefetched PREFETCH_CODE_ROWS rows ahead. */
enum { STRIP = 1024, AT_ONCE = 8, BESIDE_SCALES = 4, PREFETCH_CODE_ROWS = 2 };

/* What a loop is made for; constant in the common loops. With bits 0 the job says them. irregular:
 * some values are beyond the last code. */
struct column_variant {
    uint32_t vt;
    unsigned bits;
    bool asymmetric, irregular;
};

/* A strip of columns; pointers are to its first column. */
struct strip {
    const uint8_t *value;
    const uint8_t *next; /* the strip that is encoded after this one; or NULL */
    uint8_t *out, *codes, *scales, *zeros;
    int64_t row;              /* bytes from one row of values to the next */
    size_t columns, capacity; /* capacity: bytes of a row's codes from `codes` on */
    size_t code_row;          /* bytes from one row of codes to the next */
    bool irregular;
    _Alignas(64) float low[STRIP]; /* at first, like the others of encode, ordered integers */
    float high[STRIP], scale[STRIP], zero[STRIP], reciprocal[STRIP], most[STRIP];
};

static struct pithi_channel_job columns_of(const struct pithi_channel_job *job, size_t first,
                                           size_t columns) {
    const size_t scale = first * pithi_scale_width(job->set.scale_dtype);
    struct pithi_channel_job p = *job;
    p.columns = columns;
    if (p.value) p.value = (const uint8_t *)p.value + first * width(p.dtype);
    if (p.out) p.out = (uint8_t *)p.out + first * width(p.dtype);
    p.codes += first * p.set.bits / 8;
    p.scales += scale;
    if (p.zeros) p.zeros += scale;
    return p;
}

static void open_strip(struct strip *s, const struct pithi_channel_job *job, size_t first,
                       size_t columns) {
    const struct pithi_channel_job p = columns_of(job, first, columns);
    s->value = p.value;
    s->out = p.out;
    s->codes = p.codes;
    s->scales = p.scales;
    s->zeros = p.zeros;
    s->columns = columns;
    s->row = job->stride * (int64_t)width(job->dtype);
    s->code_row = job->code_stride;
    s->capacity = pithi_group_code_bytes(&job->set, job->columns) - first * job->set.bits / 8;
    s->irregular = false;
}

/* ---- Fetching --------------------------------------------------------------------------------*/

/* Returns how many rows are fetched beside the codes of AT_ONCE rows, the others being fetched
 * beside extremes: half of f32, a quarter of values that are converted first. Faster by measurement
 * than more and less. */
ALWAYS size_t beside_codes(uint32_t vt) { return vt == PITH_F32 ? AT_ONCE / 2 : AT_ONCE / 4; }

/* Returns how many rows of a strip are fetched beside the scales and codes of the one before. */
ALWAYS size_t fetched_before(size_t rows, uint32_t vt) {
    return BESIDE_SCALES + rows / AT_ONCE * beside_codes(vt);
}

/* Fetches `columns` columns of `rows` rows from p on. */
ALWAYS void fetch_rows(const uint8_t *p, int64_t row, size_t rows, size_t columns, uint32_t vt) {
    for (size_t k = 0; k < rows; k++, p += row)
        for (size_t b = 0; b < columns * width(vt); b += 64) __builtin_prefetch(p + b, 0, 2);
}

/* ---- Extremes --------------------------------------------------------------------------------*/

struct ends {
    v16 low, high;
};

ALWAYS struct ends widened(struct ends e, v16 x, bool asymmetric) {
    if (!asymmetric) return (struct ends){e.low, v_maxi(e.high, magnitude16(x))};
    x = v_ordered(x);
    return (struct ends){v_mini(e.low, x), v_maxi(e.high, x)};
}

ALWAYS struct ends ends_at(const struct strip *s, size_t c) {
    return (struct ends){v_load((const uint8_t *)(s->low + c)),
                         v_load((const uint8_t *)(s->high + c))};
}
ALWAYS void set_ends(struct strip *s, size_t c, struct ends e) {
    v_store((uint8_t *)(s->low + c), e.low);
    v_store((uint8_t *)(s->high + c), e.high);
}

/* Widens the extremes of whole vectors of columns by AT_ONCE rows, while rows are fetched that were
 * not before. */
ALWAYS void widen_rows(struct strip *s, const uint8_t *v, size_t whole, const uint8_t *fetch,
                       struct column_variant w) {
    const size_t line = 64 / width(w.vt);
    for (size_t c = 0; c < whole; c += 16) {
        struct ends e = ends_at(s, c);
        if (fetch && c % line == 0)
            fetch_rows(fetch + c * width(w.vt), s->row, AT_ONCE - beside_codes(w.vt), line, w.vt);
        for (int k = 0; k < AT_ONCE; k++)
            e = widened(e, load(w.vt, v + k * s->row, c), w.asymmetric);
        set_ends(s, c, e);
    }
}

/* Finds the extremes of the columns that make whole vectors. */
ALWAYS void extremes_of_rows(struct strip *s, size_t rows, struct column_variant w) {
    const size_t whole = s->columns - s->columns % 16;
    const struct ends none = {v_set(0x7FFFFFFFu), v_set(w.asymmetric ? 0x80000000u : 0)};
    const uint8_t *v = s->value;
    size_t i = 0;
    for (size_t c = 0; c < whole; c += 16) set_ends(s, c, none);
    for (; i + AT_ONCE <= rows; i += AT_ONCE, v += AT_ONCE * s->row) {
        const size_t fetch =
            fetched_before(rows, w.vt) + i / AT_ONCE * (AT_ONCE - beside_codes(w.vt));
        widen_rows(s, v, whole, fetch < rows ? s->value + (int64_t)fetch * s->row : NULL, w);
    }
    for (; i < rows; i++, v += s->row)
        for (size_t c = 0; c < whole; c += 16)
            set_ends(s, c, widened(ends_at(s, c), load(w.vt, v, c), w.asymmetric));
}

/* Finds the extremes of the columns after the last whole vector; lanes without a column are 0. */
static __attribute__((noinline)) void extremes_of_rest(struct strip *s, size_t rows,
                                                       struct column_variant w) {
    const size_t first = s->columns - s->columns % 16, n = s->columns % 16;
    struct ends e = {v_set(0x7FFFFFFFu), v_set(w.asymmetric ? 0x80000000u : 0)};
    uint8_t padded[16 * 4] = {0};
    if (n == 0) return;
    for (size_t i = 0; i < rows; i++) {
        memcpy(padded, s->value + (int64_t)i * s->row + first * width(w.vt), n * width(w.vt));
        e = widened(e, load(w.vt, padded, 0), w.asymmetric);
    }
    set_ends(s, first, e);
}

/* ---- Scales ----------------------------------------------------------------------------------*/

static void put_row_of_scales(uint32_t dtype, const float *from, size_t count, uint8_t *to) {
    size_t g = 0;
    if (dtype != PITH_F32)
        for (; g + 16 <= count; g += 16) v_store16(to + 2 * g, half_of(dtype, from + g));
    for (; g < count; g++) pithi_store(to, dtype, g, pithi_bits(from[g]));
}

/* Clears what a last unit reads beyond the columns, so that codes there are 0. */
static void clear_rest(float *p, size_t columns) {
    for (size_t c = columns; c % UNIT; c++) p[c] = 0;
}

static void idempotent_strip(struct strip *s, struct pithi_channel_job *job) {
    const struct pithi_group_setting *set = &job->set;
    struct idempotent t;
    uint32_t poisoned = 0;
    for (size_t c = 0; c < s->columns; c += 16) {
        const struct ends e = ends_at(s, c);
        const uint8_t *const next = s->next ? s->next + c * width(job->dtype) : NULL;
        if (next) fetch_rows(next, s->row, BESIDE_SCALES, 16, job->dtype);
        const size_t n = s->columns - c < 16 ? s->columns - c : 16;
        const bool irregular = set->asymmetric
                                   ? idempotent_ranges(&t, set, job->dtype, v_ordered(e.low),
                                                       v_ordered(e.high), true, false)
                                   : idempotent_magnitudes(&t, set, job->dtype, e.high, false);
        if (irregular) poisoned += idempotent_slow_path(&t, set, job->dtype, 0, n);
        s->irregular = s->irregular || irregular;
        memcpy(s->scale + c, t.scale, sizeof t.scale);
        memcpy(s->zero + c, t.zero, sizeof t.zero);
        memcpy(s->reciprocal + c, t.reciprocal, sizeof t.reciprocal);
        memcpy(s->most + c, t.most, sizeof t.most);
    }
    job->poisoned += poisoned;
    put_row_of_scales(set->scale_dtype, s->scale, s->columns, s->scales);
    if (set->asymmetric) put_row_of_scales(set->scale_dtype, s->zero, s->columns, s->zeros);
    clear_rest(s->zero, s->columns);
    clear_rest(s->reciprocal, s->columns);
    clear_rest(s->most, s->columns);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

ALWAYS v16 lanes_at(const float *p, size_t c) { return v_load((const uint8_t *)(p + c)); }

/* What makes codes of a unit of columns, the same for all rows. */
struct grids {
    v16 zero[4], reciprocal[4], most[4];
};

ALWAYS void set_grid(struct grids *g, size_t k, const struct strip *s, size_t c,
                     struct column_variant w) {
    g->zero[k] = w.asymmetric ? lanes_at(s->zero, c + 16 * k) : v_set(0);
    g->reciprocal[k] = lanes_at(s->reciprocal, c + 16 * k);
    g->most[k] = w.irregular ? lanes_at(s->most, c + 16 * k) : v_set(0);
}

ALWAYS struct grids grids_at(const struct strip *s, size_t c, struct column_variant w) {
    struct grids g;
    set_grid(&g, 0, s, c, w);
    set_grid(&g, 1, s, c, w);
    set_grid(&g, 2, s, c, w);
    set_grid(&g, 3, s, c, w);
    return g;
}

ALWAYS v16 column_code(const struct grids *g, size_t k, v16 x, struct column_variant w) {
    if (w.asymmetric) x = f_sub(x, g->zero[k]);
    x = f_mul(x, g->reciprocal[k]);
    if (w.irregular) {
        const v16 most = g->most[k];
        x = f_min(f_max(x, w.asymmetric ? v_set(0) : v_xor(most, v_set(0x80000000u))), most);
    }
    return f_round_to_i(x);
}

ALWAYS void column_unit(const struct grids *g, const struct packing *pack, const uint8_t *value,
                        uint8_t *codes, size_t capacity, struct column_variant w) {
    const v16 q[4] = {
        column_code(g, 0, load(w.vt, value, 0), w), column_code(g, 1, load(w.vt, value, 16), w),
        column_code(g, 2, load(w.vt, value, 32), w), column_code(g, 3, load(w.vt, value, 48), w)};
    pack64_whole(codes, capacity, pack, q, false);
}

static __attribute__((noinline)) void column_rest(const struct strip *s, const struct packing *pack,
                                                  const uint8_t *value, uint8_t *codes,
                                                  size_t first, struct column_variant w) {
    const size_t n = s->columns - first, bytes = (n * pack->bits + 7) / 8;
    uint8_t padded[UNIT * 4] = {0}, made[UNIT];
    const struct grids g = grids_at(s, first, w);
    memcpy(padded, value, n * width(w.vt));
    column_unit(&g, pack, padded, made, sizeof made, w);
    memcpy(codes, made, bytes);
}

/* Makes the codes of `rows` rows at v. The lines that codes go to are fetched, too, or stores would
 * wait for them one after another. */
ALWAYS void code_rows(const struct strip *s, const struct packing *pack, const uint8_t *v,
                      uint8_t *codes, size_t rows, const uint8_t *fetch, struct column_variant w) {
    const size_t unit = UNIT * pack->bits / 8;
    size_t c = 0, capacity = s->capacity;
    for (; c + UNIT <= s->columns; c += UNIT, v += UNIT * width(w.vt), capacity -= unit) {
        const struct grids g = grids_at(s, c, w);
        if (fetch) fetch_rows(fetch + c * width(w.vt), s->row, beside_codes(w.vt), UNIT, w.vt);
        for (size_t k = 0; k < rows; k++) {
            uint8_t *const to = codes + k * s->code_row;
            __builtin_prefetch(to + PREFETCH_CODE_ROWS * s->code_row, 1);
            column_unit(&g, pack, v + (int64_t)k * s->row, to, capacity, w);
        }
        codes += unit;
    }
    for (size_t k = 0; c < s->columns && k < rows; k++)
        column_rest(s, pack, v + (int64_t)k * s->row, codes + k * s->code_row, c, w);
}

ALWAYS void column_codes(const struct strip *s, const struct packing *pack, size_t rows,
                         struct column_variant w) {
    const uint8_t *v = s->value, *fetch = s->next;
    uint8_t *to = s->codes;
    size_t i = 0;
    if (fetch) fetch += BESIDE_SCALES * s->row;
    for (; i + AT_ONCE <= rows; i += AT_ONCE, to += AT_ONCE * s->code_row) {
        code_rows(s, pack, v, to, AT_ONCE, fetch, w);
        v += AT_ONCE * s->row;
        if (fetch) fetch += (int64_t)beside_codes(w.vt) * s->row;
    }
    if (i < rows) code_rows(s, pack, v, to, rows - i, NULL, w);
}

static __attribute__((noinline)) void irregular_columns(const struct strip *s,
                                                        const struct packing *pack, size_t rows,
                                                        struct column_variant w) {
    w.irregular = true;
    column_codes(s, pack, rows, w);
}

/* ---- Strips ----------------------------------------------------------------------------------*/

ALWAYS void encode_strip(struct strip *s, const struct packing *pack, struct pithi_channel_job *job,
                         struct column_variant w) {
    extremes_of_rows(s, job->rows, w);
    extremes_of_rest(s, job->rows, w);
    idempotent_strip(s, job);
    if (s->irregular)
        irregular_columns(s, pack, job->rows, w);
    else
        column_codes(s, pack, job->rows, w);
}

ALWAYS void encode_strips(struct pithi_channel_job *job, struct column_variant w) {
    const size_t strip = job->rows > 128 ? STRIP / 2 : STRIP;
    struct packing pack; /* has no initializer: most of it is written before it is read */
    struct strip s;
    packing_make(&pack, w.bits ? w.bits : job->set.bits, !w.asymmetric);
    for (size_t c = 0; c < job->columns; c += strip) {
        open_strip(&s, job, c, job->columns - c < strip ? job->columns - c : strip);
        s.next = c + strip < job->columns ? s.value + strip * width(w.vt) : job->prefetch;
        encode_strip(&s, &pack, job, w);
    }
}

static void channel_encode(struct pithi_channel_job *job) {
    const bool asymmetric = job->set.asymmetric;
    if (job->rows == 0) return;
    if (job->dtype == PITH_F32 && asymmetric && job->set.bits == 4)
        encode_strips(job, (struct column_variant){PITH_F32, 4, true, false});
    else if (job->dtype == PITH_F32 && asymmetric)
        encode_strips(job, (struct column_variant){PITH_F32, 0, true, false});
    else if (job->dtype == PITH_BF16 && asymmetric)
        encode_strips(job, (struct column_variant){PITH_BF16, 0, true, false});
    else if (job->dtype == PITH_F16 && asymmetric)
        encode_strips(job, (struct column_variant){PITH_F16, 0, true, false});
    else
        encode_strips(job, (struct column_variant){job->dtype, 0, asymmetric, false});
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Reads scales; false when a column is poisoned or could overflow. */
static bool read_row_of_scales(uint32_t dtype, const uint8_t *from, size_t count, float *to) {
    const struct pithi_group_setting one = {.group = 1, .scale_dtype = (uint8_t)dtype};
    return read_scales(&one, from, count, to) < PITHI_SCALE_LIMIT;
}

ALWAYS v16 column_value(const struct strip *s, v16 q, size_t c, bool asymmetric) {
    const v16 x = f_mul(f_from_i(q), lanes_at(s->scale, c));
    return asymmetric ? f_add(x, lanes_at(s->zero, c)) : x;
}

ALWAYS void put_value(uint32_t ot, uint8_t *to, size_t i, v16 x, struct streamer *stream) {
    if (ot == PITH_F32 && stream)
        v_stream(stream, to + 4 * i, x);
    else
        store(ot, to, i, ot == PITH_F16 ? x : round_loosely(ot, x));
}

ALWAYS void decode_columns(const struct strip *s, const struct packing *pack, const uint8_t *codes,
                           size_t capacity, uint8_t *to, size_t c, uint32_t ot, bool asymmetric,
                           struct streamer *stream) {
    v16 q[4];
    unpack64(q, codes, capacity, pack);
    put_value(ot, to, 0, column_value(s, q[0], c, asymmetric), stream);
    put_value(ot, to, 16, column_value(s, q[1], c + 16, asymmetric), stream);
    put_value(ot, to, 32, column_value(s, q[2], c + 32, asymmetric), stream);
    put_value(ot, to, 48, column_value(s, q[3], c + 48, asymmetric), stream);
}

static __attribute__((noinline)) void decode_rest(const struct strip *s, const struct packing *pack,
                                                  const uint8_t *codes, uint8_t *to, size_t first,
                                                  uint32_t ot, bool asymmetric) {
    const size_t n = s->columns - first;
    uint8_t copy[UNIT] = {0}, out[UNIT * 4];
    memcpy(copy, codes, (n * pack->bits + 7) / 8);
    decode_columns(s, pack, copy, sizeof copy, out, first, ot, asymmetric, NULL);
    memcpy(to, out, n * width(ot));
}

ALWAYS void decode_rows(const struct strip *s, const struct packing *shared,
                        const struct pithi_channel_job *job, uint32_t ot, bool asymmetric,
                        bool streamed) {
    const struct packing pack = *shared; /* a copy that no store can alias */
    const size_t unit = UNIT * pack.bits / 8;
    for (size_t i = 0; i < job->rows; i++) {
        uint8_t *const to = s->out + (int64_t)i * s->row;
        const uint8_t *codes = s->codes + i * job->code_stride;
        size_t c = 0, capacity = s->capacity;
        struct streamer stream;
        if (streamed) v_stream_begin(&stream, to);
        for (; c + UNIT <= s->columns; c += UNIT, codes += unit, capacity -= unit)
            decode_columns(s, &pack, codes, capacity, to + c * width(ot), c, ot, asymmetric,
                           streamed ? &stream : NULL);
        if (streamed && c) v_stream_end(&stream, to + 4 * c);
        if (c < s->columns) decode_rest(s, &pack, codes, to + c * width(ot), c, ot, asymmetric);
    }
}

static void decode_rows_any(const struct strip *s, const struct packing *pack,
                            const struct pithi_channel_job *job, bool streamed) {
    if (job->dtype == PITH_F32 && job->set.asymmetric && streamed)
        decode_rows(s, pack, job, PITH_F32, true, true);
    else if (job->dtype == PITH_F32 && job->set.asymmetric)
        decode_rows(s, pack, job, PITH_F32, true, false);
    else if (job->dtype == PITH_BF16 && job->set.asymmetric)
        decode_rows(s, pack, job, PITH_BF16, true, false);
    else
        decode_rows(s, pack, job, job->dtype, job->set.asymmetric, false);
}

static void decode_strip(struct strip *s, const struct packing *pack, struct pithi_channel_job *job,
                         size_t first) {
    const uint32_t dtype = job->set.scale_dtype;
    bool fits = read_row_of_scales(dtype, s->scales, s->columns, s->scale);
    if (job->set.asymmetric)
        fits = read_row_of_scales(dtype, s->zeros, s->columns, s->zero) && fits;
    if (fits) {
        clear_rest(s->scale, s->columns);
        clear_rest(s->zero, s->columns);
        decode_rows_any(s, pack, job,
                        job->nontemporal && s->row % 16 == 0 && v_stream_fits(s->out));
        return;
    }
    struct pithi_channel_job p = columns_of(job, first, s->columns);
    pithi_channel_decode_c(&p);
    job->saturated = p.saturated;
    job->poisoned = p.poisoned;
}

static void channel_decode(struct pithi_channel_job *job) {
    struct packing pack;
    struct strip s;
    if (job->rows == 0) return;
    packing_init(&pack, job->set.bits, !job->set.asymmetric);
    for (size_t c = 0; c < job->columns; c += STRIP) {
        open_strip(&s, job, c, job->columns - c < STRIP ? job->columns - c : STRIP);
        decode_strip(&s, &pack, job, c);
    }
}
