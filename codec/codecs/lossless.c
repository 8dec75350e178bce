/* lossless.c - codec lossless: exact values, or exact updates of a base.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Values become unsigned words (bytes/update.h), words become small symbols with escapes or, where
 * most words are large, symbols of their tops beside lower bits (bytes/top_symbols.h), or byte
 * planes; every symbol string and plane is then a piece of its own. */
#include <string.h>

#include "bytes/block_pieces.h"
#include "bytes/byte_planes.h"
#include "bytes/entropy.h"
#include "bytes/piece.h"
#include "bytes/top_shift.h"
#include "bytes/top_symbols.h"
#include "bytes/update.h"
#include "bytes/word_value.h"
#include "codec.h"
#include "common/endian.h"
#include "common/pad.h"
#include "device_plan.h"

enum { EFFORT, BLOCK, BASE_HASH, KEY_EVERY, DIM, REVISION, ENTROPY };
enum { AT_ENTROPY = 2, AT_DIM = 4 };
enum { AUTO, RANS }; /* values of ENTROPY */

static const struct pithi_key keys[] = {
    [EFFORT] = {"effort", PITHI_KEY_NUMBER, 3, PITHI_EFFORT_MIN, PITHI_EFFORT_MAX, 0, 0, "1..22",
                "effort of zstd", true},
    [BLOCK] = {"block", PITHI_KEY_POW2, 131072, 16, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK,
               "16..16777216, a power of two", "elements per block", false},
    [BASE_HASH] = {"base_hash", PITHI_KEY_WORD, 0, 0, 1, 0, 1, "on|off",
                   "carry and compare the hash of the base", false},
    [KEY_EVERY] = {"key_every", PITHI_KEY_NUMBER, 0, 0, UINT32_MAX, 0, PITHI_WIRE_NONE,
                   "0..4294967295", "make every step divisible by this a key frame; 0: none",
                   false},
    [DIM] = {"dim", PITHI_KEY_NUMBER, 0, 0, 1u << PITHI_BLOCK_LOG2_MAX, 0, AT_DIM, "0..16777216",
             "floats without a base: elements of a row; 0: the last dimension", true},
    [REVISION] =
        {"revision", PITHI_KEY_NUMBER, 3, 1, 3, 0, PITHI_WIRE_REVISION, "1,2,3",
         "newest revision of frames to make: 1 is for readers without rANS, 2 without rows", true},
    [ENTROPY] = {"entropy", PITHI_KEY_WORD, AUTO, AUTO, RANS, 0, AT_ENTROPY, "auto|rans",
                 "entropy coding; auto: rANS, and zstd for what repeats", true},
};

static const struct pithi_need needs[] = {
    {EFFORT, ENTROPY, PITHI_NEED_ZERO, "has no effect with entropy=rans"},
    {DIM, REVISION, 3, "has no effect before revision 3"},
};

/* The first byte of a block: bits per symbol, or that symbols are tops (bytes/top_symbols.h), these
 * perhaps shifted (bytes/top_shift.h), and whether the words are updates. */
enum { HEAD_BITS = 0x0F, HEAD_TOPS = 9, HEAD_SHIFTED = 10, HEAD_UPDATE = 0x10 };
/* After HEAD_TOPS: the lower bits of a word, and the base. */
enum { TOPS_HEAD = 3 };

static size_t width_of(const struct pithi_params *p) { return pith_dtype_bytes(p->dtype); }

/* ---- Sizes -----------------------------------------------------------------------------------*/

/* Revision 3 is for rows. */
static uint8_t frame_revision(const struct pithi_params *p) {
    const uint32_t most = p->value[DIM] ? 3 : 2;
    return (uint8_t)(p->value[REVISION] < most ? p->value[REVISION] : most);
}

static pith_status check(const struct pithi_params *p, const char **detail) {
    if (p->value[ENTROPY] == RANS && frame_revision(p) < 2) {
        *detail = "entropy=rans is of revision 2";
        return PITH_ERR_SPEC;
    }
    *detail = "lossless takes a base of the values' dtype";
    if (p->base_dtype != PITH_NONE && p->base_dtype != p->dtype) return PITH_ERR_DTYPE;
    *detail = "rows are for values without a base";
    if (p->value[DIM] && p->base_dtype != PITH_NONE) return PITH_ERR_DTYPE;
    *detail = "rows are for frames of revision 3";
    return p->value[DIM] && frame_revision(p) < 3 ? PITH_ERR_SPEC : PITH_OK;
}

/* Frames have rows where offsets may pay: the tensor and its blocks have enough elements to be cut,
 * and rows are not too short to have a mean, nor too long for a block to have some of them. */
static void resolve(struct pithi_params *p, uint32_t ndim, const uint64_t *shape) {
    enum { ROW_LEAST = 8, ROW_WANTED = 16, ROWS_LEAST = 4, COUNT_LEAST = 1024 };
    if (p->value[DIM] || p->value[REVISION] < 3 || p->decode_only || p->base_dtype != PITH_NONE ||
        !pithi_is_ordered(p->dtype) || pith_dtype_bytes(p->dtype) < 2)
        return;
    uint64_t row = 1, rows = 1;
    uint32_t d = ndim;
    while (d > 1 && row < ROW_WANTED && row <= p->block) row *= shape[--d];
    while (d > 0 && row && rows < COUNT_LEAST) rows *= shape[--d];
    if (row >= ROW_LEAST && row <= p->block / ROWS_LEAST && rows >= ROWS_LEAST &&
        row * rows >= COUNT_LEAST && p->block >= COUNT_LEAST)
        p->value[DIM] = (uint32_t)row;
}

static bool fixed(const struct pithi_params *p) {
    (void)p;
    return false;
}

static uint64_t block_bytes(const struct pithi_params *p, uint64_t count) {
    return count * width_of(p);
}

struct work {
    uint8_t *words, *more, *planes; /* a block of words each */
    uint8_t *spread, *symbols;      /* a byte for each element each */
    uint16_t *escapes;
    void *pieces;
    size_t most; /* elements of the largest block, the most bytes of a piece */
};

static struct work work_of(const struct pithi_params *p, uint8_t *scratch) {
    const size_t words = pithi_pad64(p->most * width_of(p)), bytes = pithi_pad64(p->most);
    struct work w = {.words = scratch, .most = p->most};
    w.more = w.words + words;
    w.planes = w.more + words;
    w.spread = w.planes + words;
    w.symbols = w.spread + bytes;
    w.escapes = (uint16_t *)(void *)(w.symbols + bytes);
    w.pieces = w.symbols + bytes + pithi_pad64(p->most * sizeof *w.escapes);
    return w;
}

/* Returns the effort of entropy coding. Integers and bytes repeat where floats do not, so that
 * their default effort looks for matches. */
static int effort_of(const struct pithi_params *p) {
    const int effort = (int)p->value[EFFORT];
    if (p->value[ENTROPY] == RANS) return PITHI_EFFORT_RANS;
    const bool search = effort == PITHI_EFFORT_SEARCH - 1 && !pithi_is_ordered(p->dtype);
    return search ? PITHI_EFFORT_SEARCH : effort;
}

static size_t scratch_bytes(const struct pithi_params *p) {
    return 3 * pithi_pad64(p->most * width_of(p)) + 2 * pithi_pad64(p->most) +
           pithi_pad64(p->most * sizeof(uint16_t)) + pithi_piece_scratch(p->most);
}

static size_t coder_bytes(const struct pithi_params *p) {
    /* A frame that is read may have strings of zstd, whatever the setting. */
    const bool reads = p->decode_only || p->value[ENTROPY] == RANS;
    return pithi_entropy_bytes(p->most, reads ? PITHI_EFFORT_NONE : effort_of(p));
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static bool put_planes(struct pithi_pen *pen, const struct work *w, const uint8_t *words,
                       size_t width, size_t count) {
    for (size_t k = 0; k < width; k++) {
        pithi_plane_take(w->planes, words, width, k, count);
        if (!pithi_piece_put(pen, w->most, w->planes, count)) return false;
    }
    return true;
}

static size_t column_of(const struct pithi_block *b) {
    const uint32_t dim = b->params->value[DIM];
    return dim ? (size_t)(b->first % dim) : 0;
}

/* Words that are cut: into symbols, which may be shifted, and lower bits. */
struct cut {
    struct pithi_top top;
    size_t escapes;
    const uint8_t *symbols;
    bool shifted;
    struct pithi_top_shift shift;
};

/* Writes words as symbols of their tops and lower bits, of which those that fill no byte are not
 * coded. *repeats becomes true where they may repeat: zstd found repeats in strings beside them, or
 * all symbols are one. */
static bool put_tops(struct pithi_pen *pen, const struct work *w, const struct cut *c, size_t count,
                     bool *repeats) {
    const struct pithi_top *const top = &c->top;
    const struct pithi_top_shift *const shift = &c->shift;
    const unsigned planes = top->low / 8, width = top->low % 8;
    const uint8_t head[1 + TOPS_HEAD] = {c->shifted ? HEAD_SHIFTED : HEAD_TOPS, (uint8_t)top->low,
                                         (uint8_t)top->base, (uint8_t)(top->base >> 8)};
    uint8_t *const string = w->planes + planes * count;
    if (!pithi_pen_put(pen, head, sizeof head)) return false;
    if (c->shifted) {
        const size_t rows = pithi_top_shift_rows(shift->width, shift->first, count);
        const int effort = pen->effort;
        pen->effort = PITHI_EFFORT_RANS; /* offsets hardly repeat, and zstd takes its time */
        if (!pithi_piece_put(pen, w->most, shift->rows, rows) ||
            !pithi_piece_put(pen, w->most, shift->columns, shift->width))
            return false;
        pen->effort = effort;
    }
    for (unsigned k = 0; k <= planes; k++) {
        const uint8_t *const piece = pen->at;
        const uint8_t *const from = k ? w->planes + (k - 1) * count : c->symbols;
        if (!pithi_piece_put(pen, w->most, from, count)) return false;
        const bool one = !k && memcmp(from, from + 1, count - 1) == 0;
        *repeats |= width && (one || pithi_piece_repeats(piece));
    }
    if (width) pithi_top_pack(string, w->spread, width, count);
    return pithi_pen_put(pen, string, pithi_top_bits_bytes(top, count)) &&
           pithi_pen_put(pen, (const uint8_t *)w->escapes, c->escapes * sizeof *w->escapes);
}

static size_t cut_words(const struct pithi_block *b, const struct work *w,
                        const struct pithi_top *top) {
    return b->kernels->top_cut(top, w->words, b->count, w->symbols, w->planes, w->spread,
                               w->escapes);
}

static size_t escapes_most(const struct pithi_block *b) { return b->count / 16; }

/* Cuts words as finer tops and shifts their symbols, to w->more: symbols, then offsets of rows and
 * of columns. False where that does not pay; the words are as they were. A shift by whole octaves
 * is a poor one, hence the finer tops. */
static bool cut_shifted(const struct pithi_block *b, const struct work *w,
                        const struct pithi_top_choice *choice, struct cut *c) {
    const size_t count = b->count, bytes = width_of(b->params);
    const uint64_t least = pithi_top_shift_least(bytes);
    const size_t width = b->params->value[DIM], first = column_of(b);
    if (b->base || pithi_frame_revision(b->params) < 3) return false;
    const struct pithi_top_shift_sample sample =
        pithi_top_shift_sample(w->more, w->words, bytes, count, width, first);
    if (!sample.taken) return false;
    b->kernels->top_cut(&choice->finer, w->more, sample.taken * sample.columns, w->symbols,
                        w->planes, w->spread, w->escapes);
    const struct pithi_top_shift_verdict worth =
        pithi_top_shift_estimate(&sample, w->symbols, width, least + choice->finer_loss / count);
    if (!worth.rows && !worth.columns) return false;
    c->top = choice->finer;
    c->escapes = cut_words(b, w, &c->top);
    if (c->escapes > escapes_most(b)) return false;
    uint8_t *const to = w->more, *const rows = to + count;
    uint8_t *const columns = rows + pithi_top_shift_rows(width, first, count);
    pithi_top_shift_find(w->symbols, count, width, first, worth, rows, columns);
    c->shift = (struct pithi_top_shift){rows, columns, width, first};
    b->kernels->top_shift(&c->shift, to, w->symbols, count);
    c->shifted =
        pithi_top_shift_pays(&c->shift, w->symbols, to, count, least * count + choice->finer_loss);
    if (!c->shifted) return false;
    c->symbols = to;
    pithi_top_shift_invert(rows, (size_t)(columns - rows));
    pithi_top_shift_invert(columns, width);
    return true;
}

/* Cuts words into symbols and lower bits where that pays. */
static bool cut_tops(const struct pithi_block *b, const struct work *w, struct cut *c) {
    struct pithi_top_choice choice;
    *c = (struct cut){.symbols = w->symbols};
    if (pithi_frame_revision(b->params) < 2 ||
        !pithi_top_choose(&choice, w->words, b->params->dtype, b->count))
        return false;
    if (cut_shifted(b, w, &choice, c)) return true;
    if (!choice.pays) return false;
    c->top = choice.top;
    c->escapes = cut_words(b, w, &c->top);
    return c->escapes <= escapes_most(b);
}

/* Returns the bits of symbols. From revision 2 on they are bytes, since rANS takes no more for
 * them than what they say; words of one byte are symbols as they are. */
static unsigned symbol_bits(const struct pithi_block *b, const struct work *w) {
    const size_t width = width_of(b->params);
    const unsigned bits = pithi_symbol_choose(w->words, width, b->count);
    if (!bits || pithi_frame_revision(b->params) < 2) return bits;
    return width > 1 ? 8 : 0;
}

static struct pithi_update update_of(const struct pithi_block *b) {
    const uint32_t dtype = b->params->dtype;
    return (struct pithi_update){b->base, b->count, (unsigned)pith_dtype_bytes(dtype),
                                 pithi_is_ordered(dtype)};
}

/* Writes an update as symbols of 8 bits or, where more than a quarter of these would be escapes, as
 * byte planes: what symbol_bits says of its words. */
static bool put_update(struct pithi_pen *pen, const struct pithi_block *b, const struct work *w) {
    const struct pithi_update u = update_of(b);
    const size_t most = u.count / 4;
    const size_t escapes =
        u.width > 1 ? b->kernels->update_cut(&u, b->value, most, w->symbols, w->words) : u.count;
    if (escapes <= most)
        return pithi_pen_put(pen, (const uint8_t[]){8 | HEAD_UPDATE}, 1) &&
               pithi_piece_put(pen, w->most, w->symbols, u.count) &&
               (!escapes || put_planes(pen, w, w->words, u.width, escapes));
    uint8_t *planes[8];
    for (unsigned k = 0; k < u.width; k++) planes[k] = w->planes + k * u.count;
    b->kernels->update_split(&u, b->value, planes);
    if (!pithi_pen_put(pen, (const uint8_t[]){HEAD_UPDATE}, 1)) return false;
    for (unsigned k = 0; k < u.width; k++)
        if (!pithi_piece_put(pen, w->most, planes[k], u.count)) return false;
    return true;
}

static struct pithi_pen pen_of(const struct pithi_block *b, const struct work *w, uint8_t *dst,
                               size_t cap) {
    return pithi_block_pen(b, dst, cap, effort_of(b->params), w->pieces);
}

/* Writes words as symbols with escapes, or as byte planes. They are lost. */
static bool put_words(struct pithi_pen *pen, const struct pithi_block *b, const struct work *w,
                      bool update) {
    const size_t width = width_of(b->params);
    const unsigned bits = symbol_bits(b, w);
    const uint8_t head = (uint8_t)(bits | (update ? HEAD_UPDATE : 0u));
    size_t escapes = b->count;
    if (!pithi_pen_put(pen, &head, 1)) return false;
    if (bits) {
        escapes =
            pithi_symbols_from(w->symbols, w->words, w->words, width, bits, b->count, w->spread);
        if (!pithi_piece_put(pen, w->most, w->symbols, pithi_symbol_bytes(b->count, bits)))
            return false;
    }
    return !escapes || put_planes(pen, w, w->words, width, escapes);
}

/* Encodes words that are cut, or not where they repeat and that is shorter, which it is through
 * zstd. */
static size_t code_cut(const struct pithi_block *b, const struct work *w, const struct cut *c,
                       uint8_t *dst, size_t cap) {
    struct pithi_pen pen = pen_of(b, w, dst, cap);
    bool repeats = false;
    const size_t length = put_tops(&pen, w, c, b->count, &repeats) ? (size_t)(pen.at - dst) : 0;
    if (!repeats || pen.effort == PITHI_EFFORT_RANS || dst != b->bytes) return length;
    pen = pen_of(b, w, w->more, length ? length - 1 : cap);
    if (!put_words(&pen, b, w, false)) return length;
    memcpy(dst, w->more, (size_t)(pen.at - w->more));
    return (size_t)(pen.at - w->more);
}

/* Encodes the block; returns its bytes, 0 when they would be more than cap. */
static size_t code(const struct pithi_block *b, bool update, uint8_t *dst, size_t cap) {
    const struct work w = work_of(b->params, b->scratch);
    struct pithi_pen pen = pen_of(b, &w, dst, cap);
    if (update && pithi_frame_revision(b->params) >= 2)
        return put_update(&pen, b, &w) ? (size_t)(pen.at - dst) : 0;
    pithi_words_from(w.words, b->value, update ? b->base : NULL, b->params->dtype, b->count);
    struct cut c;
    if (!update && cut_tops(b, &w, &c)) return code_cut(b, &w, &c, dst, cap);
    return put_words(&pen, b, &w, update) ? (size_t)(pen.at - dst) : 0;
}

/* Whether values may take less than an update of `length` bytes, as a sample of them, coded as a
 * block, says. */
static bool values_may_pay(const struct pithi_block *b, size_t length) {
    enum { RUNS = PITHI_VALUES_RUNS };
    const size_t width = width_of(b->params), run = PITHI_VALUES_RUN * width;
    if (!length || b->count < PITHI_VALUES_LEAST) return true;
    uint8_t *const coded = work_of(b->params, b->scratch).more, *const sample = coded + RUNS * run;
    for (size_t k = 0; k < RUNS; k++)
        memcpy(sample + k * run, (const uint8_t *)b->value + b->count / RUNS * k * width, run);
    struct pithi_block part = *b;
    part.value = sample;
    part.count = PITHI_VALUES_SAMPLE;
    const size_t taken = code(&part, false, coded, RUNS * run - 1);
    return pithi_values_may_pay(taken ? taken : RUNS * run, b->count, length);
}

/* Encodes an update of the base, or the values where that is shorter. An update that saves half of
 * the bytes is never worse than the values in practice, and trying both doubles the time. */
static size_t code_best(const struct pithi_block *b, size_t raw) {
    if (!b->base || b->params->key_frame) return code(b, false, b->bytes, raw - 1);
    const size_t length = code(b, true, b->bytes, raw - 1);
    if ((length && length <= raw / 2) || !values_may_pay(b, length)) return length;
    uint8_t *const other = work_of(b->params, b->scratch).more;
    const size_t values = code(b, false, other, length ? length - 1 : raw - 1);
    if (values) memcpy(b->bytes, other, values);
    return values ? values : length;
}

static uint64_t hash_base(const struct pithi_block *b) {
    const size_t width = width_of(b->params);
    if (!b->base || b->params->value[BASE_HASH]) return 0;
    return b->kernels->nh(b->base, b->count * width, b->first * width / 8);
}

/* Makes the values the base, where that is wanted, and adds the base's hash: each part of it while
 * it is in the first-level cache. */
static void renew_base(struct pithi_block *b, size_t raw) {
    enum { PART = 8192 };
    if (!b->base || !b->update) {
        b->hash += hash_base(b);
        return;
    }
    for (size_t at = 0, n; at < raw; at += n) {
        uint8_t *const part = (uint8_t *)b->base + at;
        n = raw - at < PART ? raw - at : PART;
        memcpy(part, (const uint8_t *)b->value + at, n);
        if (!b->params->value[BASE_HASH])
            b->hash += b->kernels->nh(part, n, (b->first * width_of(b->params) + at) / 8);
    }
}

static pith_status encode(struct pithi_block *b) {
    const size_t raw = b->count * width_of(b->params);
    b->length = code_best(b, raw);
    b->plain = b->length == 0;
    if (b->plain) {
        memcpy(b->bytes, b->value, raw);
        b->length = raw;
    }
    renew_base(b, raw);
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* What a block holds: words; symbols of 8 bits or byte planes of an update's words; or tops. */
struct content {
    enum { WORDS, SYMBOLS, PLANES, TOPS } form;
    bool update;
    const uint8_t *symbols, *planes[8];
    struct pithi_top top;
    const uint8_t *bits, *tops;
};

static bool take_planes(struct pithi_reader *r, const struct work *w, const uint8_t **planes,
                        size_t width, size_t count) {
    for (size_t k = 0; k < width; k++) {
        planes[k] = pithi_piece_take(r, count, w->planes + k * count);
        if (!planes[k]) return false;
    }
    return true;
}

/* Reads symbols, and the escapes to w->more; makes w->words of them, or leaves that to an update's
 * kernel. */
static const char *take_symbols(struct pithi_reader *r, const struct work *w, size_t width,
                                unsigned bits, size_t count, struct content *c) {
    const uint8_t *const symbols = pithi_piece_take(r, pithi_symbol_bytes(count, bits), w->symbols);
    if (!symbols) return "the symbols are damaged";
    const bool whole = bits == 8 && c->update;
    const size_t escapes = whole ? pithi_top_escapes(symbols, count)
                                 : pithi_symbols_spread(w->spread, symbols, bits, count);
    if (escapes > count) return "bits after the last symbol are not 0";
    if (escapes) {
        const uint8_t *planes[8];
        if (!take_planes(r, w, planes, width, escapes)) return "the escapes are damaged";
        pithi_planes_merge(w->more, planes, width, escapes);
    }
    c->symbols = symbols;
    if (whole)
        c->form = SYMBOLS;
    else
        pithi_symbols_to(w->words, w->spread, w->more, width, bits, count);
    return NULL;
}

/* Reads offsets, to the memory of words, which tops have no need of. */
static const char *take_offsets(struct pithi_reader *r, const struct pithi_block *b,
                                const struct work *w, struct pithi_top_shift *shift) {
    const size_t width = b->params->value[DIM], first = column_of(b);
    if (width > b->count) return "a block with less than a row";
    shift->width = width;
    shift->first = first;
    const size_t rows = pithi_top_shift_rows(width, first, b->count);
    shift->rows = pithi_piece_take(r, rows, w->words);
    if (!shift->rows) return "the offsets of rows are damaged";
    shift->columns = pithi_piece_take(r, width, w->words + b->count);
    return shift->columns ? NULL : "the offsets of columns are damaged";
}

static const char *take_tops(struct pithi_reader *r, const struct pithi_block *b,
                             const struct work *w, bool shifted, struct content *c) {
    const size_t count = b->count;
    const uint32_t dtype = b->params->dtype;
    const uint8_t *const head = pithi_reader_take(r, TOPS_HEAD);
    const unsigned bytes = (unsigned)pith_dtype_bytes(dtype);
    struct pithi_top_shift shift;
    if (!head) return "a block of tops is cut";
    const struct pithi_top top = {bytes, head[0], pithi_get16(head + 1)};
    if (!pithi_is_ordered(dtype) || bytes < 2 || top.low >= 8 * bytes || top.low + 16 < 8 * bytes)
        return "tops that the dtype cannot have";
    c->form = TOPS;
    c->top = top;
    const char *const fault = shifted ? take_offsets(r, b, w, &shift) : NULL;
    if (fault) return fault;
    c->symbols = pithi_piece_take(r, count, w->symbols);
    if (!c->symbols) return "the symbols are damaged";
    if (shifted) {
        b->kernels->top_shift(&shift, w->spread, c->symbols, count);
        c->symbols = w->spread;
    }
    if (!take_planes(r, w, c->planes, top.low / 8, count)) return "a byte plane is damaged";
    c->bits = pithi_reader_take(r, pithi_top_bits_bytes(&top, count));
    if (!c->bits) return "the lower bits are cut";
    const size_t escapes = pithi_top_escapes(c->symbols, count);
    c->tops = pithi_reader_take(r, 2 * escapes);
    if (!c->tops) return "the escapes are cut";
    return pithi_top_fit(&top, c->tops, escapes) ? NULL : "a top has too many bits";
}

static const char *take_content(const struct pithi_block *b, const struct work *w,
                                struct content *c) {
    struct pithi_reader r = pithi_block_reader(b, b->bytes, b->length, w->pieces);
    const uint8_t *const head = pithi_reader_take(&r, 1);
    if (!head) return "the block is empty";
    const unsigned bits = *head & HEAD_BITS;
    *c = (struct content){.form = WORDS, .update = *head & HEAD_UPDATE};
    const bool shifted = *head == HEAD_SHIFTED && pithi_frame_revision(b->params) >= 3;
    const bool tops = shifted || (*head == HEAD_TOPS && pithi_frame_revision(b->params) >= 2);
    if (!tops && (*head & ~(HEAD_BITS | HEAD_UPDATE) || bits > 8 || bits & (bits - 1)))
        return "unknown coding of a block";
    if (c->update && (b->params->base_dtype == PITH_NONE || b->params->key_frame))
        return "an update where there is no base";
    const size_t width = width_of(b->params);
    const char *fault = NULL;
    if (tops)
        fault = take_tops(&r, b, w, shifted, c);
    else if (bits)
        fault = take_symbols(&r, w, width, bits, b->count, c);
    else if (!take_planes(&r, w, c->planes, width, b->count))
        fault = "a byte plane is damaged";
    else if (c->update)
        c->form = PLANES;
    else
        pithi_planes_merge(w->words, c->planes, width, b->count);
    return fault ? fault : r.left ? "bytes after the end of a block" : NULL;
}

static pith_status corrupt(struct pithi_block *b, const char *detail) {
    b->detail = detail;
    return PITH_ERR_CORRUPT;
}

/* Makes values of a content, in `to`, which may be the base. */
static void put_values(const struct pithi_block *b, const struct work *w, const struct content *c,
                       void *to) {
    const struct pithi_update u = update_of(b);
    if (c->form == SYMBOLS)
        b->kernels->update_join(&u, to, c->symbols, w->more);
    else if (c->form == PLANES)
        b->kernels->update_merge(&u, to, c->planes);
    else if (c->form == TOPS)
        b->kernels->top_join(&c->top, to, b->count, c->symbols, c->planes, c->bits, c->tops);
    else
        pithi_words_to(to, w->words, c->update ? b->base : NULL, b->params->dtype, b->count);
}

/* Makes values in out and, with update, in the base. Either may be missing; a check of a frame
 * without its base has neither. */
static void deliver(const struct pithi_block *b, const struct work *w, const struct content *c) {
    const bool remember = b->base && b->update;
    if (b->out) {
        put_values(b, w, c, b->out);
        if (remember) memcpy(b->base, b->out, b->count * width_of(b->params));
    } else if (remember) {
        put_values(b, w, c, b->base);
    }
}

static pith_status decode(struct pithi_block *b) {
    const size_t raw = b->count * width_of(b->params);
    if (b->plain) {
        if (b->length != raw) return corrupt(b, "a plain block of a wrong length");
        if (b->out) memcpy(b->out, b->bytes, raw);
        if (b->base && b->update) memcpy(b->base, b->bytes, raw);
    } else {
        const struct work w = work_of(b->params, b->scratch);
        struct content c;
        const char *const fault = take_content(b, &w, &c);
        if (fault) return corrupt(b, fault);
        if (c.update && !b->base && b->out) return corrupt(b, "an update where there is no base");
        deliver(b, &w, &c);
    }
    b->hash += hash_base(b);
    return PITH_OK;
}

static struct pithi_stream_setting stream_setting(const struct pithi_params *p) {
    return (struct pithi_stream_setting){.base_hash = !p->value[BASE_HASH],
                                         .key_every = p->value[KEY_EVERY]};
}

/* Devices make no strings of zstd. */
static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    d->kind = PITHI_KIND_RAW;
    d->coded = true;
    d->row = p->value[DIM];
    return p->value[ENTROPY] == RANS && !p->value[KEY_EVERY];
}

static const struct pithi_former former[] = {
    {"identity", "base_hash", ""},
    {"key", "key_every", ""},
    {"level", "effort", ""},
};

const struct pithi_codec pithi_codec_lossless = {
    .id = 2,
    .revision = 3,
    .frame_revision = frame_revision,
    .name = "lossless",
    .summary = "exact: values, or updates of a base, by rANS and zstd",
    .traits = PITH_TRAIT_LOSSLESS | PITH_TRAIT_BASE,
    .dtypes = 0xFFFEu,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .former = former,
    .former_count = sizeof former / sizeof *former,
    .needs = needs,
    .need_count = sizeof needs / sizeof needs[0],
    .later_keys = 1u << DIM | 1u << ENTROPY,
    .resolve = resolve,
    .stream_keys = 1u << KEY_EVERY,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .scratch_bytes = scratch_bytes,
    .coder_bytes = coder_bytes,
    .open_coder = pithi_entropy_open,
    .encode = encode,
    .decode = decode,
    .stream_setting = stream_setting,
    .describe = describe,
    .described = "devices code lossless with entropy=rans and without key_every",
    .described_keys = 1u << EFFORT | 1u << ENTROPY,
};
