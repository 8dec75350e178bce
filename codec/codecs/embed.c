/* embed.c - codec embed: rows of embedding tables under a bound, equal rows once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block's codes are rows; the distinct ones are coded, less a centre per column where that pays,
 * as packed or coded words, and a map says which of them each row is (predict/rows.h,
 * row_map.h). */
#include <string.h>

#include "bytes/block_pieces.h"
#include "bytes/entropy.h"
#include "bytes/symbols.h"
#include "common/convert.h"
#include "common/decimal.h"
#include "common/endian.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "predict/bounded.h"
#include "predict/bounded_keys.h"
#include "predict/exact_values.h"
#include "predict/row_map.h"
#include "predict/rows.h"
#include "predict/strip.h"

enum { MODE, ABS, REL, RANGE, ZEROS, DIM, EFFORT, START, DECAY, STEPS, BLOCK, REVISION, ENTROPY };
enum { FAST, AUTO };
enum { ANY, RANS }; /* values of ENTROPY */
enum { AT_DIM = 8 };

static const struct pithi_key keys[] = {
    [MODE] = {"mode", PITHI_KEY_WORD, AUTO, 0, AUTO, 0, PITHI_BOUNDED_AT_MODE, "fast|auto",
              "fast: fixed effort; auto: whatever is shortest", true},
    [ABS] = PITHI_BOUNDED_ABS,
    [REL] = PITHI_BOUNDED_REL("default 0.01"),
    [RANGE] = PITHI_BOUNDED_RANGE("with rel: the range, where ranks must agree"),
    [ZEROS] = PITHI_BOUNDED_ZEROS,
    [DIM] = {"dim", PITHI_KEY_NUMBER, 0, 0, 1u << PITHI_BLOCK_LOG2_MAX, 0, AT_DIM, "0..16777216",
             "elements of a row; 0: the last dimension, of flat tensors 16", false},
    [EFFORT] = PITHI_BOUNDED_EFFORT,
    [START] = {"start", PITHI_KEY_REAL, PITHI_DECIMAL(2, 0), 0, 0, 0, PITHI_WIRE_NONE,
               "a number, at least 1", "with decay: the first bound, in units of the last", true},
    [DECAY] = {"decay", PITHI_KEY_WORD, 0, 0, 4, 0, PITHI_WIRE_NONE, "none|step|stairs|linear|log",
               "how the bound falls from start to 1", true},
    [STEPS] = {"steps", PITHI_KEY_NUMBER, 0, 0, UINT32_MAX, 0, PITHI_WIRE_NONE, "0..4294967295",
               "with decay: steps until then", true},
    [BLOCK] = PITHI_BOUNDED_BLOCK,
    [REVISION] = {"revision", PITHI_KEY_NUMBER, 2, 1, 2, 0, PITHI_WIRE_REVISION, "1,2",
                  "newest revision of frames to make: 1 is for readers without rANS", true},
    [ENTROPY] = PITHI_BOUNDED_ENTROPY,
};

static const struct pithi_need needs[] = {
    PITHI_BOUNDED_NEEDS,
    {ENTROPY, REVISION, 2, "has no effect with revision=1"},
    {START, DECAY, 0, "has no effect without decay"},
    {STEPS, DECAY, 0, "has no effect without decay"},
    {DECAY, STEPS, 0, "has no effect without steps"},
};

static size_t element_of(const struct pithi_params *p) { return pith_dtype_bytes(p->dtype); }

/* ---- Settings --------------------------------------------------------------------------------*/

static uint8_t frame_revision(const struct pithi_params *p) {
    return p->value[MODE] == FAST ? 1 : (uint8_t)p->value[REVISION];
}

static void preset(uint32_t value[PITHI_KEYS_MAX], uint32_t seen) {
    (void)seen;
    if (!(value[ABS] | value[REL])) value[REL] = PITHI_DECIMAL(1, -2);
}

static void resolve(struct pithi_params *p, uint32_t ndim, const uint64_t *shape) {
    enum { FLAT = 16 };
    const uint64_t last = ndim > 1 ? shape[ndim - 1] : FLAT;
    if (!p->value[DIM]) p->value[DIM] = last < p->block ? (uint32_t)last : p->block;
    if (!p->value[DIM]) p->value[DIM] = 1;
}

static pith_status check(const struct pithi_params *p, const char **detail) {
    PITHI_TRY(pithi_bounded_check(p, detail));
    *detail = "start is at least 1";
    return pithi_decimal_floor(p->value[START]) < 1 ? PITH_ERR_SPEC : PITH_OK;
}

/* Returns the elements of a row; a row longer than a block is cut to it. */
static size_t row_of(const struct pithi_params *p) {
    return p->value[DIM] < p->block ? p->value[DIM] : p->block;
}

/* Returns the elements of a row in a block of count elements, which may be less: what a block takes
 * depends on its elements alone. */
static size_t row_in(const struct pithi_params *p, size_t count) {
    const size_t row = row_of(p);
    return row < count ? row : count;
}

static const char *cut(struct pithi_params *p, uint32_t ndim, const uint64_t *shape,
                       struct pithi_tiling *tiling) {
    if (!p->value[DIM]) return "rows have no elements";
    pithi_tiling_rows(tiling, shape, ndim, (uint32_t)row_of(p), p->block);
    return NULL;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

struct work {
    int32_t *codes;  /* codes of distinct rows */
    uint32_t *words; /* words of rows */
    uint8_t *values; /* decode: values of distinct rows */
    uint32_t *which; /* the distinct row that each row is */
    uint32_t *table; /* encode: hash table of rows */
    uint8_t *miss;   /* encode: values that are stored exactly */
    uint8_t *map;    /* scratch memory of a row map */
    int32_t *centre;
    void *pieces;
    size_t elements, rows; /* the most of a block, in whole rows */
    size_t row;
};

/* Hands out parts of a memory one behind the other, or (at NULL) counts their bytes. */
struct places {
    uint8_t *at;
    size_t bytes;
};
static void *place(struct places *p, uint64_t bytes) {
    uint8_t *const here = p->at ? p->at + p->bytes : NULL;
    p->bytes += pithi_pad64(bytes);
    return here;
}

static size_t pieces_bytes(const struct work *w) {
    const size_t words =
        pithi_max(pithi_strip_scratch(w->elements), pithi_symbols_scratch(w->elements));
    return pithi_max(words, pithi_piece_scratch(w->rows));
}

static int effort_of(const struct pithi_params *p) {
    if (p->decode_only || p->value[MODE] == FAST) return PITHI_EFFORT_NONE;
    return p->value[ENTROPY] == RANS ? PITHI_EFFORT_RANS : (int)p->value[EFFORT];
}

static struct work layout(const struct pithi_params *p, void *scratch, size_t *bytes) {
    struct work w = {.row = row_in(p, p->most ? p->most : 1)};
    struct places at = {scratch, 0};
    w.rows = (p->most + w.row - 1) / w.row;
    w.elements = w.rows * w.row;
    const size_t groups = pithi_pad64(w.elements * sizeof(uint32_t));
    w.codes = place(&at, groups);
    w.words = place(&at, groups);
    w.which = place(&at, w.rows * sizeof *w.which);
    w.map = place(&at, pithi_rowmap_scratch(w.rows));
    w.centre = place(&at, w.row * sizeof *w.centre);
    w.values = place(&at, w.elements * element_of(p));
    if (!p->decode_only) {
        w.table = place(&at, pithi_rows_table_bytes(w.rows));
        w.miss = place(&at, w.elements / 8 + 1);
    }
    w.pieces = place(&at, pieces_bytes(&w));
    *bytes = at.bytes;
    return w;
}

static size_t scratch_bytes(const struct pithi_params *p) {
    size_t bytes;
    layout(p, NULL, &bytes);
    return bytes;
}

static size_t coder_bytes(const struct pithi_params *p) {
    /* A frame that is read may have strings of zstd, whatever the setting. */
    const int effort = p->value[ENTROPY] == RANS ? PITHI_EFFORT_NONE : effort_of(p);
    size_t bytes;
    return pithi_entropy_bytes(layout(p, NULL, &bytes).elements, effort);
}

static struct work work_of(const struct pithi_block *b) {
    size_t bytes;
    struct work w = layout(b->params, b->scratch, &bytes);
    w.row = row_in(b->params, b->count);
    return w;
}

static size_t rows_of(const struct work *w, size_t count) { return (count + w->row - 1) / w->row; }

static struct pithi_strip tile_of(const struct pithi_block *b, const struct work *w,
                                  size_t distinct) {
    return (struct pithi_strip){b->kernels, {1, 1, (uint32_t)distinct, (uint32_t)w->row}, 0};
}

/* Returns the values in so many rows, of which the last may be short. */
static size_t values_in(const struct pithi_block *b, const struct work *w, size_t rows) {
    return rows * w->row < b->count ? rows * w->row : b->count;
}

static bool quant_of(const struct pithi_block *b, struct pithi_quant *q) {
    return pithi_quant_init(q, b->params->dtype, &b->said->bound, b->params->value[ZEROS]);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Quantizes the block and numbers its rows, a strip of them in the cache at a time, behind the
 * distinct rows, so that new ones stay where they are; a last short row is filled with 0. Returns
 * how many values are to be stored exactly. */
static size_t number_rows(const struct pithi_block *b, const struct pithi_quant *q,
                          const struct work *w, struct pithi_rows *rows) {
    enum { STRIP = 2048 };
    const size_t element = element_of(b->params), all = rows_of(w, b->count);
    size_t misses = 0, done = 0, begun = 0; /* begun: elements of a row that is not whole yet */
    pithi_rows_begin(rows, w->row, all, w->codes, w->table);
    for (size_t at = 0; at < b->count; at += STRIP) {
        const size_t left = b->count - at, n = left < STRIP ? left : STRIP;
        int32_t *const codes = w->codes + rows->distinct * w->row;
        misses += b->kernels->quantize(q, (const uint8_t *)b->value + at * element, n,
                                       codes + begun, w->miss + at / 8);
        begun += n;
        if (left <= STRIP) {
            const size_t padded = (all - done) * w->row;
            memset(codes + begun, 0, (padded - begun) * sizeof *codes);
            begun = padded;
        }
        const size_t ready = begun / w->row;
        b->kernels->rows_number(rows, codes, ready, w->which + done);
        done += ready;
        begun -= ready * w->row;
        memmove(w->codes + rows->distinct * w->row, codes + ready * w->row, begun * sizeof *codes);
    }
    return misses;
}

static bool put_centre(const struct work *w, struct pithi_rows *rows, struct pithi_pen *pen,
                       unsigned *bytes) {
    if (!pithi_rows_centre(rows->codes, rows->distinct, w->row, w->centre, bytes)) {
        *bytes = 0;
        return true;
    }
    pithi_rows_sink(rows->codes, rows->distinct, w->row, w->centre);
    for (size_t j = 0; j < w->row; j++)
        if (!pithi_pen_put(pen, (const uint8_t *)&w->centre[j], *bytes)) return false;
    return true;
}

/* Codes whose words, not differences from others, are made when they are asked for. */
struct coded_rows {
    const struct pithi_kernels *kernels;
    const struct pithi_strip *tile;
    const int32_t *codes;
};

static const uint32_t *make_words(const void *arg, size_t at, size_t n, uint32_t *to) {
    const struct coded_rows *const r = arg;
    r->kernels->predict(r->codes + at, r->tile->extent, 0, at, n, to);
    return to;
}

/* Whether an effort leaves out what hardly ever pays. */
static bool is_quick(int effort) {
    return effort >= PITHI_EFFORT_MIN && effort < PITHI_EFFORT_SEARCH;
}

/* Writes the distinct rows as coded words, in which zstd would look for repeats at length: what
 * repeats, whole rows, is not among them. */
static bool put_coded(const struct pithi_block *b, const struct work *w, size_t distinct,
                      struct pithi_pen *pen) {
    const struct pithi_strip tile = tile_of(b, w, distinct);
    const struct coded_rows rows = {b->kernels, &tile, w->codes};
    const int effort = pen->effort;
    if (pen->rans && is_quick(effort)) pen->effort = PITHI_EFFORT_RANS;
    const bool fits =
        pithi_symbols_put_from(pen, w->elements, b->kernels,
                               &(struct pithi_word_source){make_words, &rows}, distinct * w->row);
    pen->effort = effort;
    return fits;
}

/* Writes the distinct rows, coded or packed, whichever is shorter; packing is not tried where a
 * sample says it takes a 32nd more, but with entropy=rans, since devices know what it takes. */
static bool put_rows(const struct pithi_block *b, const struct work *w, size_t distinct,
                     struct pithi_pen *pen, bool *coded) {
    const struct pithi_strip tile = tile_of(b, w, distinct);
    struct pithi_pen packed = *pen;
    *coded = b->params->value[MODE] != FAST && put_coded(b, w, distinct, pen);
    if (*coded) {
        enum { SHORT = 1024 }; /* where packing costs little time */
        const size_t length = (size_t)(pen->at - packed.at);
        const bool sure = is_quick(effort_of(b->params)) && length > SHORT;
        if (sure && pithi_strip_estimate(&tile, w->codes) > length + length / 32) return true;
        packed.capacity = length - 1;
    }
    if (!pithi_strip_put(&tile, w->codes, &packed)) return *coded;
    *pen = packed;
    *coded = false;
    return true;
}

/* Encodes the block; returns its bytes, 0 when they would be more than cap. */
static size_t code(struct pithi_block *b, size_t cap) {
    const struct work w = work_of(b);
    const bool fast = b->params->value[MODE] == FAST;
    struct pithi_quant quant;
    struct pithi_rows rows;
    if (cap < PITHI_ROWS_HEAD || !quant_of(b, &quant)) return 0;
    struct pithi_pen pen = pithi_block_pen(b, b->bytes + PITHI_ROWS_HEAD, cap - PITHI_ROWS_HEAD,
                                           effort_of(b->params), w.pieces);
    pen.quick = true;
    unsigned kind, centre;
    bool coded;
    const struct pithi_tile_layout values =
        pithi_tile_layout_dense(b->value, element_of(b->params));
    b->exact = number_rows(b, &quant, &w, &rows);
    b->nonzero = values_in(b, &w, rows.distinct);
    const struct pithi_rowmap map = {w.which, rows_of(&w, b->count), rows.distinct, w.map};
    if (!pithi_exact_put(&pen, w.miss, b->exact, &values, b->count) ||
        !pithi_rowmap_put(&pen, &map, w.rows, !fast, &kind) ||
        !put_centre(&w, &rows, &pen, &centre) || !put_rows(b, &w, rows.distinct, &pen, &coded))
        return 0;
    const uint32_t head = pithi_rows_head(kind, coded, centre);
    pithi_put32(b->bytes, head | (uint32_t)(rows.distinct - 1) << 8);
    return (size_t)(pen.at - b->bytes);
}

static pith_status encode(struct pithi_block *b) {
    b->length = code(b, b->count * element_of(b->params) - 1);
    if (!b->length) {
        pithi_plain_put(b);
        b->nonzero = b->count;
    }
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static const char trailing[] = "bytes after the end of a block";

static bool take_centre(const struct work *w, struct pithi_reader *r, unsigned bytes) {
    const uint8_t *const from = pithi_reader_take(r, bytes * w->row);
    if (!from) return false;
    for (size_t j = 0; bytes && j < w->row; j++) {
        uint32_t x = 0;
        memcpy(&x, from + j * bytes, bytes);
        w->centre[j] = (int32_t)pithi_rows_centre_of(x, bytes);
    }
    return true;
}

/* Where values of distinct rows go: no more than `limit` of them are written. */
struct target {
    uint8_t *values;
    size_t limit;
    bool nontemporal;
};

/* Adds the centres to codes of n elements, of which the first is number `at` of the rows. */
static void lift(const struct work *w, int32_t *codes, size_t at, size_t n) {
    const size_t begun = at % w->row, left = begun ? w->row - begun : 0;
    const size_t first = left < n ? left : n, whole = (n - first) / w->row;
    const size_t done = first + whole * w->row;
    pithi_rows_lift(codes, 1, first, w->centre + begun);
    pithi_rows_lift(codes + first, whole, w->row, w->centre);
    pithi_rows_lift(codes + done, 1, n - done, w->centre);
}

/* Reads coded rows, the last part of a block, a strip in the cache at a time. */
static const char *take_coded(const struct pithi_block *b, const struct work *w,
                              const struct pithi_strip *tile, const struct pithi_quant *q,
                              struct pithi_reader *r, const struct target *to) {
    enum { STRIP = 2048 };
    const size_t count = (size_t)tile->extent[2] * w->row, element = element_of(b->params);
    struct pithi_symbols coded;
    struct pithi_unpredict u;
    const char *const fault = pithi_symbols_open(&coded, r, b->kernels, count);
    if (fault) return fault;
    if (r->left) return trailing;
    pithi_unpredict_init(&u, tile->extent, 0, NULL);
    for (size_t at = 0, n; at < to->limit; at += n) {
        n = count - at < STRIP ? count - at : STRIP;
        pithi_symbols_next(&coded, n, w->words);
        b->kernels->unpredict(&u, w->words, n, w->codes);
        if (b->bytes[0] & PITHI_ROWS_CENTRE) lift(w, w->codes, at, n);
        const size_t left = to->limit - at;
        b->kernels->dequantize(q, w->codes, left < n ? left : n, to->values + at * element,
                               to->nontemporal);
    }
    return NULL;
}

/* Reads the values of the distinct rows. */
static const char *take_rows(const struct pithi_block *b, const struct work *w, size_t distinct,
                             const struct pithi_quant *q, struct pithi_reader *r,
                             const struct target *to) {
    const struct pithi_strip tile = tile_of(b, w, distinct);
    const size_t count = distinct * w->row;
    const unsigned head = b->bytes[0], centre = pithi_rows_centre_bytes(head);
    if (!take_centre(w, r, centre)) return "the centres of columns are cut";
    if (head & PITHI_ROWS_CODED) return take_coded(b, w, &tile, q, r, to);
    if (!centre) return pithi_strip_take(&tile, r, q, to->values, false);
    const char *const fault = pithi_strip_take(&tile, r, NULL, w->codes, false);
    if (fault) return fault;
    pithi_rows_lift(w->codes, distinct, w->row, w->centre);
    b->kernels->dequantize(q, w->codes, count, to->values, false);
    return NULL;
}

/* Returns where values of distinct rows go: of coded rows that are all distinct, and so in order,
 * to where they stand, as many as the block has; else to memory for whole rows. */
static struct target target_of(const struct pithi_block *b, const struct work *w, size_t distinct) {
    const bool direct = b->bytes[0] & PITHI_ROWS_CODED && distinct == rows_of(w, b->count) &&
                        b->out_dtype == b->params->dtype;
    if (direct) return (struct target){b->out, b->count, b->nontemporal};
    return (struct target){w->values, distinct * w->row, false};
}

/* Copies distinct rows to all places where they stand; the last row may be short. */
static void deliver(const struct pithi_block *b, const struct work *w) {
    const uint32_t dtype = b->params->dtype;
    const size_t bytes = w->row * element_of(b->params), whole = b->count / w->row;
    const size_t step = w->row * pith_dtype_bytes(b->out_dtype), rest = b->count % w->row;
    uint8_t *const to = b->out;
    if (b->out_dtype == dtype)
        pithi_rows_place(to, w->values, w->which, whole, bytes,
                         b->nontemporal ? b->kernels->move_nontemporal : NULL);
    else
        for (size_t i = 0; i < whole; i++)
            pithi_convert(to + i * step, b->out_dtype, w->values + w->which[i] * bytes, dtype,
                          w->row);
    if (rest)
        pithi_convert(to + whole * step, b->out_dtype, w->values + w->which[whole] * bytes, dtype,
                      rest);
}

static const char *take_block(struct pithi_block *b, const struct work *w) {
    struct pithi_reader r = pithi_block_reader(b, b->bytes, b->length, w->pieces);
    const uint8_t *const head = pithi_reader_take(&r, PITHI_ROWS_HEAD);
    const size_t rows = rows_of(w, b->count);
    struct pithi_quant quant;
    struct pithi_exact exact;
    if (!head) return "the block is shorter than its head";
    const size_t distinct = (size_t)(pithi_get32(head) >> 8) + 1;
    if (head[0] & ~(PITHI_ROWS_MAP | PITHI_ROWS_CODED | PITHI_ROWS_CENTRE) || distinct > rows)
        return "unknown coding of a block";
    if (!quant_of(b, &quant)) return "a bound that the dtype cannot have";
    const char *fault = pithi_exact_take(&r, &exact, element_of(b->params), b->count);
    const struct pithi_rowmap map = {w->which, rows, distinct, w->map};
    if (!fault) fault = pithi_rowmap_take(&r, &map, head[0] & PITHI_ROWS_MAP);
    const struct target to = target_of(b, w, distinct);
    if (!fault) fault = take_rows(b, w, distinct, &quant, &r, &to);
    if (fault) return fault;
    if (r.left) return trailing;
    b->exact = exact.misses;
    b->nonzero = values_in(b, w, distinct);
    if (to.values == w->values) deliver(b, w);
    pithi_exact_patch(&exact, &(struct pithi_sink){pithi_block_put, b});
    return NULL;
}

static pith_status decode(struct pithi_block *b) {
    if (b->plain) {
        b->detail = pithi_plain_take(b);
        b->nonzero = b->count;
    } else {
        const struct work w = work_of(b);
        b->detail = take_block(b, &w);
    }
    return b->detail ? PITH_ERR_CORRUPT : PITH_OK;
}

static struct pithi_bound_setting bound_setting(const struct pithi_params *p) {
    return (struct pithi_bound_setting){.rows = true,
                                        .row = p->value[DIM],
                                        .range = p->value[RANGE],
                                        .decay = p->value[DECAY],
                                        .start = p->value[START],
                                        .steps = p->value[STEPS],
                                        .signed_zeros = p->value[ZEROS] != 0};
}

static const struct pithi_bounded_codec bounded = {bound_setting};

/* Kernels of devices make no strings of zstd, know no decay of the bound, and do not code f64. */
static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    const bool fast = p->value[MODE] == FAST;
    d->kind = PITHI_KIND_ROWS;
    d->coded = !fast;
    d->row = (uint32_t)row_of(p);
    return (fast || p->value[ENTROPY] == RANS) && !p->value[DECAY] && p->dtype != PITH_F64 &&
           pithi_bound_describe(p, d);
}

static const struct pithi_former former[] = {
    PITHI_BOUNDED_FORMER,
};

const struct pithi_codec pithi_codec_embed = {
    .id = 6,
    .revision = 2,
    .frame_revision = frame_revision,
    .name = "embed",
    .summary = "embedding rows under a bound, equal rows once",
    .traits = PITH_TRAIT_BOUND,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16 | 1u << PITH_F64,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .former = former,
    .former_count = sizeof former / sizeof *former,
    .needs = needs,
    .need_count = sizeof needs / sizeof needs[0],
    .preset = preset,
    .resolve = resolve,
    .check = check,
    .fixed = pithi_bounded_fixed,
    .block_bytes = pithi_bounded_block_bytes,
    .scratch_bytes = scratch_bytes,
    .coder_bytes = coder_bytes,
    .open_coder = pithi_entropy_open,
    .encode = encode,
    .decode = decode,
    .cut = cut,
    .frame_hooks = &pithi_bounded_frame_hooks,
    .own.bounded = &bounded,
    .describe = describe,
    .described = "devices code embed with mode=fast or entropy=rans, without decay and not in f64",
    .described_keys = 1u << MODE | 1u << REVISION | 1u << EFFORT,
    .later_keys = 1u << ENTROPY,
};
