/* eb.c - codec eb: any values under a bound on every one of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tile's values become codes (predict/quant.h), whose differences from their neighbours are
 * packed (predict/strip.h) or coded (bytes/symbols.h); or they are predicted from reconstructed
 * ones (predict/interp.h). Values that would miss the bound go beside (predict/exact_values.h). */
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
#include "predict/estimate.h"
#include "predict/exact_values.h"
#include "predict/interp.h"
#include "predict/strip.h"

enum { MODE, ABS, REL, PWREL, PSNR, NMSE, RANGE, ZEROS, EFFORT, BLOCK, REVISION, ENTROPY };
enum { FAST, RATIO, AUTO };
enum { ANY, RANS }; /* values of ENTROPY */

static const struct pithi_key keys[] = {
    [MODE] = {"mode", PITHI_KEY_WORD, FAST, 0, AUTO, 0, PITHI_BOUNDED_AT_MODE, "fast|ratio|auto",
              "fast: fixed cost; ratio: predicted and coded; auto: whatever is shortest", true},
    [ABS] = PITHI_BOUNDED_ABS,
    [REL] = PITHI_BOUNDED_REL("0.001 when nothing is requested"),
    [PWREL] = PITHI_BOUNDED_PWREL,
    [PSNR] = {"psnr", PITHI_KEY_REAL, 0, 4, 0, 0, PITHI_BOUNDED_AT_TARGET, "decibels",
              "least peak signal-to-noise ratio of the frame", true},
    [NMSE] = {"nmse", PITHI_KEY_REAL, 0, 5, 0, 0, PITHI_BOUNDED_AT_TARGET, "a number above 0",
              "largest sum of squared errors over that of squared values", true},
    [RANGE] = PITHI_BOUNDED_RANGE("for rel and psnr: the range, where ranks must agree"),
    [ZEROS] = PITHI_BOUNDED_ZEROS,
    [EFFORT] = PITHI_BOUNDED_EFFORT,
    [BLOCK] = PITHI_BOUNDED_BLOCK,
    [REVISION] = {"revision", PITHI_KEY_NUMBER, 3, 1, 3, 0, PITHI_WIRE_REVISION, "1,2,3",
                  "newest revision of frames to make: 1 is for readers without rANS, 2 for those "
                  "without weighted interpolation",
                  true},
    [ENTROPY] = PITHI_BOUNDED_ENTROPY,
};

static const struct pithi_need needs[] = {
    PITHI_BOUNDED_NEEDS,
    {ENTROPY, REVISION, 3, "needs revision=3"},
};

/* The head of a block: how it is coded, and the order of differences or the row of level
 * bounds. */
enum method { CONSTANT, PACKED, CODED, INTERPOLATED, WEIGHTED, METHODS };
enum { HEAD_BYTES = 2, CODE_BYTES = 4 };
/* Weights may pay where they are said to take little more. Where words take less than MANY, in
 * 1/256 bit, all rows are tried. */
enum { MAY_PAY = 65536 / 100 * 102, MANY = 3 * 256 };

static size_t element_of(const struct pithi_params *p) { return pith_dtype_bytes(p->dtype); }

/* ---- Settings --------------------------------------------------------------------------------*/

static uint8_t frame_revision(const struct pithi_params *p) {
    return p->value[MODE] == FAST ? 1 : (uint8_t)p->value[REVISION];
}

static void preset(uint32_t value[PITHI_KEYS_MAX], uint32_t seen) {
    (void)seen;
    if (!(value[ABS] | value[REL] | value[PWREL] | value[PSNR] | value[NMSE]))
        value[REL] = PITHI_DECIMAL(1, -3);
}

static const char *cut(struct pithi_params *p, uint32_t ndim, const uint64_t *shape,
                       struct pithi_tiling *tiling) {
    pithi_tiling_init(tiling, shape, ndim, p->block, false);
    return NULL;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Scratch memory for encoding, and what codes are made of. */
struct work {
    int32_t *codes;  /* codes of the tile */
    uint32_t *words; /* words of the codes, in whole groups */
    uint8_t *other;  /* another attempt at the block's bytes */
    void *levels;    /* what interpolation keeps; NULL in mode fast, which does without */
    void *pieces;
    struct pithi_quant quant;
    struct pithi_source source;
    struct pithi_weights weights;
};

/* Scratch memory for decoding a strip at a time: as little as possible where a block is a whole
 * tensor, so that a few bytes cannot ask for many times what they decode to. */
struct reading {
    struct pithi_block *block;
    uint32_t *words; /* words of a strip, or codes */
    void *line;      /* values of the strip */
    void *rest;      /* what the method needs */
    struct pithi_quant quant;
    struct pithi_exact exact;
};
enum { STRIP = 1024, CLASS_STRIP = 1024 };

struct places {
    uint8_t *at;
    size_t bytes;
};
static void *place(struct places *p, size_t bytes) {
    uint8_t *const here = p->at ? p->at + p->bytes : NULL;
    p->bytes += pithi_pad64(bytes);
    return here;
}

/* Returns the effort of entropy coding, or none when the mode does without. */
static int effort_of(const struct pithi_params *p) {
    if (p->decode_only || p->value[MODE] == FAST) return PITHI_EFFORT_NONE;
    return p->value[ENTROPY] == RANS ? PITHI_EFFORT_RANS : (int)p->value[EFFORT];
}

static size_t pieces_bytes(const struct pithi_params *p) {
    return pithi_max(pithi_strip_scratch(p->most), pithi_symbols_scratch(p->most));
}

/* Fills in the memory in its final place: a copy would wait for what was just stored. Returns its
 * bytes. */
static size_t open_memory(const struct pithi_params *p, void *scratch, struct work *w) {
    struct places at = {scratch, 0};
    const size_t groups = ((size_t)p->most + PITHI_BITPLANE_GROUP) * sizeof(uint32_t);
    w->codes = place(&at, groups);
    w->words = place(&at, groups);
    w->pieces = place(&at, pieces_bytes(p));
    w->source.miss = place(&at, p->most / 8 + 1);
    w->other = place(&at, p->most * element_of(p));
    w->levels = NULL;
    if (p->value[MODE] != FAST) /* its size takes long to compute, for a small block */
        w->levels = place(&at, pithi_max(pithi_interp_scratch(p->most, p->dtype),
                                         pithi_weighted_scratch(p->extent, p->dtype)));
    return at.bytes;
}

/* Returns the bytes for reading words that are coded as one string. */
static size_t coded_bytes(size_t count) { return pithi_pad64(pithi_symbols_take_scratch(count)); }

static size_t count_of(const uint32_t extent[PITHI_TILE_NDIM]) {
    return (size_t)extent[0] * extent[1] * extent[2] * extent[3];
}

/* Returns the bytes for reading interpolated words: the coarse ones, then those of the finest
 * level, of which the larger string decides. Strings of classes are open at once, each behind the
 * symbols of those before it. */
static size_t interpolated_bytes(const uint32_t extent[PITHI_TILE_NDIM]) {
    const size_t coarse = pithi_interp_coarse(extent), finest = count_of(extent) - coarse;
    return coded_bytes(pithi_max(coarse, finest)) +
           PITHI_WEIGHTED_CLASSES * (64 + pithi_pad64(CLASS_STRIP * sizeof(uint32_t)));
}

static size_t rest_bytes(const struct pithi_params *p) {
    const uint32_t *const e = p->extent;
    const size_t coded = coded_bytes(count_of(e)) + pithi_unpredict_bytes(e);
    const size_t interp =
        interpolated_bytes(e) + pithi_max(pithi_interp_decode_scratch(e, p->dtype),
                                          pithi_weighted_decode_scratch(e, p->dtype));
    return pithi_max(pithi_strip_take_scratch(e), pithi_max(coded, interp));
}

static struct reading reading_layout(const struct pithi_params *p, void *scratch, size_t *bytes) {
    struct reading g = {0};
    struct places at = {scratch, 0};
    g.words = place(&at, STRIP * sizeof *g.words);
    g.line = place(&at, STRIP * sizeof(double));
    g.rest = place(&at, rest_bytes(p));
    *bytes = at.bytes;
    return g;
}

static size_t scratch_bytes(const struct pithi_params *p) {
    struct work w;
    size_t bytes;
    reading_layout(p, NULL, &bytes);
    return p->decode_only ? bytes : pithi_max(bytes, open_memory(p, NULL, &w));
}

static size_t coder_bytes(const struct pithi_params *p) {
    /* A frame that is read may have strings of zstd, whatever the setting. */
    const int effort = p->value[ENTROPY] == RANS ? PITHI_EFFORT_NONE : effort_of(p);
    return pithi_entropy_bytes(p->most, effort);
}

static bool quant_of(const struct pithi_block *b, struct pithi_quant *q) {
    return pithi_quant_init(q, b->params->dtype, &b->said->bound, b->params->value[ZEROS]);
}

static bool open(const struct pithi_block *b, struct work *w) {
    open_memory(b->params, b->scratch, w);
    w->source.quant = &w->quant;
    return quant_of(b, &w->quant);
}

static struct pithi_strip strip_of(const struct pithi_block *b, unsigned order) {
    struct pithi_strip p = {.kernels = b->kernels, .order = order};
    memcpy(p.extent, b->tiled.tile->extent, sizeof p.extent);
    return p;
}

static struct pithi_interp interp_of(const struct pithi_block *b, const struct pithi_quant *quant,
                                     unsigned row, void *scratch) {
    struct pithi_interp t = {.quant = quant,
                             .row = row,
                             .encode = b->kernels->interp_encode,
                             .decode = b->kernels->interp_decode,
                             .weigh = b->kernels->interp_weigh,
                             .fit = b->kernels->interp_fit,
                             .scratch = scratch};
    memcpy(t.extent, b->tiled.tile->extent, sizeof t.extent);
    return t;
}

/* Returns how many dimensions a tile has, not counting leading ones of one element: no higher order
 * of differences says more. */
static unsigned dimensions(const struct pithi_tile *t) {
    unsigned n = PITHI_TILE_NDIM;
    while (n > 0 && t->extent[PITHI_TILE_NDIM - n] == 1) n--;
    return n;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* A method to code a block, and the order of its differences (of both interpolations: the row of
 * level bounds). */
struct variant {
    enum method method;
    unsigned order;
};

/* Returns where words are cut into two strings: interpolated words of the finest level are unlike
 * the others. */
static size_t cut_of(const struct pithi_block *b, struct variant variant) {
    return variant.method >= INTERPOLATED ? pithi_interp_coarse(b->tiled.tile->extent) : 0;
}

/* Puts the weights of classes that have some, the coarse level's first. */
static bool put_weights(const struct pithi_block *b, const struct pithi_weights *w,
                        struct pithi_pen *pen) {
    const uint8_t set[PITHI_WEIGHTED_LEVELS] = {w->set[1], w->set[0]};
    if (!pithi_pen_put(pen, set, sizeof set)) return false;
    for (unsigned level = PITHI_WEIGHTED_LEVELS; level--;)
        for (unsigned k = 0; k < PITHI_WEIGHTED_CLASSES; k++) {
            if (!(w->set[level] >> k & 1)) continue;
            const unsigned terms = pithi_weighted_terms(b->tiled.tile->extent, k + 1);
            for (unsigned i = 0; i < terms; i++) {
                uint8_t bytes[4];
                pithi_put32(bytes, (uint32_t)w->of[level][k][i]);
                if (!pithi_pen_put(pen, bytes, PITHI_WEIGHT_BYTES)) return false;
            }
        }
    return true;
}

/* Puts the words of the finest level, a string for each class, behind the others. */
static bool put_classes(const struct pithi_block *b, const uint32_t *words, struct pithi_pen *pen) {
    for (unsigned k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) {
        const size_t count = pithi_weighted_count(b->tiled.tile->extent, k);
        if (count && !pithi_symbols_put(pen, b->params->most, b->kernels, words, count))
            return false;
        words += count;
    }
    return true;
}

/* Codes whose words are made when they are asked for. */
struct coded {
    const struct pithi_block *block;
    const int32_t *codes;
    unsigned order;
};

static const uint32_t *make_words(const void *arg, size_t at, size_t n, uint32_t *to) {
    const struct coded *const c = arg;
    c->block->kernels->predict(c->codes + at, c->block->tiled.tile->extent, c->order, at, n, to);
    return to;
}

static bool put_words(const struct pithi_block *b, const struct work *w, struct variant variant,
                      struct pithi_pen *pen) {
    const size_t most = b->params->most, cut = cut_of(b, variant);
    if (variant.method == WEIGHTED)
        return put_weights(b, &w->weights, pen) &&
               pithi_symbols_put(pen, most, b->kernels, w->words, cut) &&
               put_classes(b, w->words + cut, pen);
    if (cut && !pithi_symbols_put(pen, most, b->kernels, w->words, cut)) return false;
    return cut == b->count ||
           pithi_symbols_put(pen, most, b->kernels, w->words + cut, b->count - cut);
}

static bool put_body(const struct pithi_block *b, const struct work *w, struct variant variant,
                     struct pithi_pen *pen) {
    const struct pithi_strip strip = strip_of(b, variant.order);
    const struct coded coded = {b, w->codes, variant.order};
    uint8_t code[CODE_BYTES];
    switch (variant.method) {
    case CONSTANT:
        pithi_put32(code, (uint32_t)w->codes[0]);
        return pithi_pen_put(pen, code, sizeof code);
    case PACKED: return pithi_strip_put(&strip, w->codes, pen);
    case CODED:
        return pithi_symbols_put_from(pen, b->params->most, b->kernels,
                                      &(struct pithi_word_source){make_words, &coded}, b->count);
    default: return put_words(b, w, variant, pen); /* the caller has made the words */
    }
}

static bool put_head(const struct pithi_block *b, const struct work *w, struct variant variant,
                     size_t misses, struct pithi_pen *pen) {
    const uint8_t head[HEAD_BYTES] = {(uint8_t)variant.method, (uint8_t)variant.order};
    return pithi_pen_put(pen, head, sizeof head) &&
           pithi_exact_put(pen, w->source.miss, misses, &w->source.values, b->count);
}

/* Encodes the block by this variant; returns its bytes, 0 when they would be more than cap.
 * `misses` values are stored exactly, of which w->source.miss says which. */
static size_t put(const struct pithi_block *b, const struct work *w, struct variant variant,
                  size_t misses, uint8_t *dst, size_t cap) {
    const int effort = effort_of(b->params);
    const bool bare = variant.method == CODED && effort != PITHI_EFFORT_RANS;
    struct pithi_pen pen =
        pithi_block_pen(b, dst, cap, bare ? effort | PITHI_ENTROPY_BARE : effort, w->pieces);
    if (!put_head(b, w, variant, misses, &pen) || !put_body(b, w, variant, &pen)) return 0;
    return (size_t)(pen.at - dst);
}

/* Makes the words of one of the interpolations; returns how many values are stored exactly. */
static size_t interpolate(const struct pithi_block *b, struct work *w, struct variant variant) {
    const struct pithi_interp t = interp_of(b, &w->quant, variant.order, w->levels);
    return variant.method == WEIGHTED
               ? pithi_weighted_encode(&t, b->value, w->words, w->source.miss, &w->weights)
               : pithi_interp_encode(&t, b->value, w->words, w->source.miss);
}

/* Whether frames and tiles of this kind may be coded by weighted interpolation. */
static bool can_weigh(const struct pithi_block *b) {
    return pithi_frame_revision(b->params) >= 3 &&
           pithi_weighted_can(b->tiled.tile->extent, b->params->dtype);
}

static bool all_equal(const int32_t *codes, size_t count) {
    enum { PART = 1024 };
    uint32_t differ = 0;
    for (size_t at = 0, n; at < count && !differ; at += n) {
        n = count - at < PART ? count - at : PART;
        for (size_t i = at; i < at + n; i++) differ |= (uint32_t)codes[i] ^ (uint32_t)codes[0];
    }
    return differ == 0;
}

static bool finite(const struct pithi_block *b, size_t i) {
    const struct pithi_number_format f = pithi_number_format_of(b->params->dtype);
    uint64_t u = 0;
    memcpy(&u, (const uint8_t *)b->value + i * f.bytes, f.bytes);
    return (u & f.infinity) != f.infinity;
}

/* Whether one code stands for all finite values of the block; it then becomes that of element 0,
 * too. No other method is shorter, and where all finite values are one number no other keeps it: an
 * interpolated value is within the bound only. */
static bool one_code(const struct pithi_block *b, const struct work *w) {
    size_t first = 0;
    if (all_equal(w->codes, b->count)) return true;
    while (first < b->count && w->source.miss[first / 8] >> first % 8 & 1) first++;
    for (size_t i = 0; i < b->count; i++) {
        const bool missed = w->source.miss[i / 8] >> i % 8 & 1;
        if (missed ? finite(b, i) : w->codes[i] != w->codes[first]) return false;
    }
    w->codes[0] = w->codes[first];
    return true;
}

static unsigned packed_order(const struct pithi_block *b, const struct work *w) {
    const struct pithi_strip p = strip_of(b, 0);
    const struct pithi_source source = {.values =
                                            pithi_tile_layout_dense(w->codes, sizeof *w->codes)};
    return pithi_strip_choose(&p, &source, dimensions(b->tiled.tile));
}

static unsigned best_order(const struct pithi_estimate *e, unsigned most) {
    unsigned best = 0;
    for (unsigned i = 1; i <= most; i++)
        if (e->lorenzo[i] < e->lorenzo[best]) best = i;
    return best;
}

static struct pithi_estimate estimate(const struct pithi_block *b, const struct work *w) {
    return pithi_estimate_tile(&w->quant, b->kernels->predict, b->value, w->codes,
                               b->tiled.tile->extent);
}

/* Returns what weighted interpolation takes of a block that has the size for it, where differences
 * of this order take 2^16, by boxes of the block. Weights may let errors of neighbours grow, so
 * that rows of smaller bounds pay also where words take many bits: *row is the first one that may
 * suit, and becomes the best one. */
static uint32_t weighted_share(const struct pithi_block *b, const struct work *w, unsigned order,
                               unsigned *row) {
    const struct pithi_estimate_memory memory = {w->words, w->other, w->pieces};
    const uint32_t differences =
        pithi_estimate_differences(b->tiled.tile->extent, w->codes, order, w->words);
    uint32_t least = UINT32_MAX;
    for (unsigned k = *row; k < PITHI_INTERP_ROWS; k++) {
        const struct pithi_interp t = interp_of(b, &w->quant, k, w->levels);
        const uint64_t share = ((uint64_t)pithi_estimate_weighted(&t, b->value, &memory) << 16) /
                               (differences ? differences : 1);
        if (share >= least) break;
        least = (uint32_t)share;
        *row = k;
    }
    return least;
}

/* Returns the variant that is said to take least, without trying it. *share becomes what
 * weighted_share says where it is asked: where differences look best, and, unless `always`,
 * interpolation is near. */
static struct variant choose(const struct pithi_block *b, const struct work *w,
                             const struct pithi_estimate *e, bool always, uint32_t *share) {
    const unsigned order = best_order(e, dimensions(b->tiled.tile));
    const bool weigh = b->count >= PITHI_WEIGHTED_MIN && !w->quant.relative && can_weigh(b);
    const bool near = always || order || e->interp < e->lorenzo[order] + PITHI_INTERP_NEAR;
    unsigned row = e->interp_row;
    const bool interp_best = e->interp < e->lorenzo[order];
    *share = weigh && near && !interp_best ? weighted_share(b, w, order, &row) : UINT32_MAX;
    if (!interp_best && *share >= PITHI_WEIGHTED_PAYS) return (struct variant){CODED, order};
    return (struct variant){weigh ? WEIGHTED : INTERPOLATED, row};
}

static void quantize(struct pithi_block *b, struct work *w) {
    b->exact = b->kernels->quantize(&w->quant, b->value, b->count, w->codes, w->source.miss);
}

static size_t code_ratio(struct pithi_block *b, struct work *w, size_t cap) {
    const struct pithi_estimate e = estimate(b, w);
    uint32_t share;
    struct variant variant = choose(b, w, &e, false, &share);
    if (variant.method != CODED) {
        const size_t misses = interpolate(b, w, variant);
        if (misses <= b->exact + b->count / PITHI_INTERP_FEW) {
            b->exact = misses;
            return put(b, w, variant, misses, b->bytes, cap);
        }
        /* No estimate sees that sums of values near the largest number are infinite. */
        quantize(b, w);
        variant = (struct variant){CODED, best_order(&e, dimensions(b->tiled.tile))};
    }
    return put(b, w, variant, (size_t)b->exact, b->bytes, cap);
}

/* Keeps what a variant of interpolation makes of the block, in b->bytes, where that is shorter than
 * `length`, which is 0 where nothing is kept yet. Returns the length that is kept. */
static size_t shorter(struct pithi_block *b, struct work *w, struct variant variant, size_t length,
                      size_t cap) {
    const size_t misses = interpolate(b, w, variant);
    const size_t n = put(b, w, variant, misses, w->other, length ? length - 1 : cap);
    if (!n) return length;
    memcpy(b->bytes, w->other, n);
    b->exact = misses;
    return n;
}

/* Tries the rows of level bounds, but for what was tried: all, or, where words take many bits,
 * those that are each better than the one before. */
static size_t shortest_row(struct pithi_block *b, struct work *w, enum method method,
                           struct variant tried, bool all_rows, size_t length, size_t cap) {
    for (unsigned row = 0; row < PITHI_INTERP_ROWS; row++) {
        if (method == tried.method && row == tried.order) continue;
        const size_t n = shorter(b, w, (struct variant){method, row}, length, cap);
        if (row && n == length && !all_rows) break;
        length = n;
    }
    return length;
}

/* Tries all methods that may be the shortest, what mode ratio takes among them, and leaves the
 * shortest result in b->bytes. */
static size_t code_auto(struct pithi_block *b, struct work *w, size_t cap) {
    const struct pithi_estimate e = estimate(b, w);
    const unsigned order = best_order(&e, dimensions(b->tiled.tile));
    const struct variant variants[] = {{PACKED, packed_order(b, w)}, {CODED, order}};
    size_t length = 0;
    for (size_t i = 0; i < 2; i++) {
        const size_t limit = length ? length - 1 : cap;
        const size_t n = put(b, w, variants[i], (size_t)b->exact, w->other, limit);
        if (n) memcpy(b->bytes, w->other, length = n);
    }
    if (w->quant.relative) return length;
    const bool large =
        b->count >= PITHI_WEIGHTED_MIN; /* what is estimated of it is near the truth */
    const bool all_rows = !large || e.interp < MANY;
    uint32_t share;
    const struct variant chosen = choose(b, w, &e, true, &share);
    if (chosen.method != CODED) length = shorter(b, w, chosen, length, cap);
    if (can_weigh(b) && (!large || e.interp < e.lorenzo[order] || share < MAY_PAY))
        length = shortest_row(b, w, WEIGHTED, chosen, all_rows, length, cap);
    if (large && length && (uint64_t)e.interp * b->count / 2048 > length + length / 16)
        return length;
    return shortest_row(b, w, INTERPOLATED, chosen, all_rows, length, cap);
}

/* Encodes in one pass over the values: codes are packed as they are made. */
static size_t code_fast(struct pithi_block *b, struct work *w, size_t cap) {
    const struct pithi_source *const source = &w->source;
    struct pithi_strip p = strip_of(b, 0);
    struct pithi_packing packing;
    struct pithi_pen pen = {.at = b->bytes, .capacity = cap};
    const unsigned most = dimensions(b->tiled.tile);
    p.order = pithi_strip_guess(&p, source, most);
    pithi_strip_begin(&p, source, w->pieces, &packing);
    if (packing.misses) {
        const unsigned order = pithi_strip_choose(&p, source, most);
        if (order != p.order) {
            p.order = order;
            pithi_strip_begin(&p, source, w->pieces, &packing);
        }
    }
    b->exact = packing.misses;
    w->codes[0] = packing.first;
    if (packing.constant)
        return put(b, w, (struct variant){CONSTANT, 0}, packing.misses, b->bytes, cap);
    if (!put_head(b, w, (struct variant){PACKED, p.order}, packing.misses, &pen) ||
        !pithi_strip_finish(&p, &packing, &pen))
        return 0;
    return (size_t)(pen.at - b->bytes);
}

static size_t code(struct pithi_block *b, size_t cap) {
    struct work w;
    if (!open(b, &w)) return 0;
    w.source.values = b->tiled.layout;
    if (b->params->value[MODE] == FAST && !b->value) return code_fast(b, &w, cap);
    w.source.values = pithi_tile_layout_dense(pithi_block_values(b), element_of(b->params));
    if (b->params->value[MODE] == FAST) return code_fast(b, &w, cap);
    quantize(b, &w);
    if (one_code(b, &w))
        return put(b, &w, (struct variant){CONSTANT, 0}, (size_t)b->exact, b->bytes, cap);
    if (b->params->value[MODE] == RATIO) return code_ratio(b, &w, cap);
    return code_auto(b, &w, cap);
}

static pith_status encode(struct pithi_block *b) {
    b->length = code(b, b->count * element_of(b->params) - 1);
    if (!b->length) pithi_plain_put(b);
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Puts values where they belong, exact ones among them. A pithi_sink_fn of a struct reading. */
static void put_part(void *reading, size_t at, size_t count, const void *values) {
    struct reading *const g = reading;
    const size_t element = g->exact.element;
    const uint8_t *from = values;
    if (g->exact.number == g->exact.misses) {
        pithi_block_put(g->block, at, count, values);
        return;
    }
    for (size_t n; count; at += n, from += n * element, count -= n) {
        n = count < STRIP ? count : STRIP;
        memcpy(g->line, from, n * element);
        pithi_exact_merge(&g->exact, at, n, g->line);
        pithi_block_put(g->block, at, n, g->line);
    }
}

/* Makes values of a strip of codes, and puts them where they belong. */
static void put_values(struct reading *g, size_t at, size_t count, const uint32_t *codes) {
    struct pithi_block *const b = g->block;
    const size_t element = g->exact.element;
    const bool direct = b->out && b->out_dtype == b->params->dtype;
    void *const to = direct ? (uint8_t *)b->out + at * element : g->line;
    b->kernels->dequantize(&g->quant, (const int32_t *)codes, count, to, direct && b->nontemporal);
    pithi_exact_merge(&g->exact, at, count, to);
    if (!direct) pithi_block_put(b, at, count, to);
}

static const char *take_constant(struct reading *g, struct pithi_reader *r) {
    const struct pithi_block *const b = g->block;
    const uint8_t *const code = pithi_reader_take(r, CODE_BYTES);
    if (!code) return "the code of a block is cut";
    for (size_t i = 0; i < STRIP; i++) g->words[i] = pithi_get32(code);
    for (size_t at = 0, n; at < b->count; at += n) {
        n = b->count - at < STRIP ? b->count - at : STRIP;
        put_values(g, at, n, g->words);
    }
    return NULL;
}

/* Puts one value of its dtype in its place. A pithi_sink_fn of a struct pithi_tile_layout. */
static void put_one(void *layout, size_t at, size_t count, const void *value) {
    const struct pithi_tile_layout *const to = layout;
    memcpy(pithi_tile_layout_at(to, at), value, count * to->element);
}

static const char *take_packed(struct reading *g, unsigned order, struct pithi_reader *r) {
    const struct pithi_block *const b = g->block;
    const struct pithi_strip strip = strip_of(b, order);
    struct pithi_tile_layout layout =
        b->out ? pithi_tile_layout_dense(b->out, g->exact.element) : b->tiled.layout;
    r->scratch = g->rest;
    if (!layout.first || b->out_dtype != b->params->dtype)
        return pithi_strip_take_parts(&strip, r, &g->quant, &(struct pithi_sink){put_part, g});
    const char *const fault = pithi_strip_take_to(&strip, r, &g->quant, &layout, b->nontemporal);
    if (!fault) pithi_exact_patch(&g->exact, &(struct pithi_sink){put_one, &layout});
    return fault;
}

static const char *take_coded(struct reading *g, unsigned order, struct pithi_reader *r) {
    const struct pithi_block *const b = g->block;
    struct pithi_unpredict u;
    struct pithi_symbols coded;
    r->scratch = g->rest;
    const char *const fault = pithi_symbols_open(&coded, r, b->kernels, b->count);
    if (fault) return fault;
    pithi_unpredict_init(&u, b->tiled.tile->extent, order,
                         (uint8_t *)g->rest + coded_bytes(b->count));
    for (size_t at = 0, n; at < b->count; at += n) {
        n = b->count - at < STRIP ? b->count - at : STRIP;
        pithi_symbols_next(&coded, n, g->words);
        b->kernels->unpredict(&u, g->words, n, (int32_t *)g->words);
        put_values(g, at, n, g->words);
    }
    return NULL;
}

/* Words of interpolation, which are read a strip at a time. */
struct feed {
    struct pithi_symbols coded;
    size_t left, most; /* words that are not read, and that a strip holds */
    uint32_t *strip;
};

static size_t next_words(void *arg, const uint32_t **words) {
    struct feed *const f = arg;
    const size_t n = f->left < f->most ? f->left : f->most;
    pithi_symbols_next(&f->coded, n, f->strip);
    f->left -= n;
    *words = f->strip;
    return n;
}

/* Rounds values of 16 bits, which come as f32, and puts them where they belong. A pithi_sink_fn of
 * a struct reading. */
static void put_rounded(void *reading, size_t at, size_t count, const void *values) {
    struct reading *const g = reading;
    const float *value = values;
    for (size_t n; count; at += n, value += n, count -= n) {
        n = count < STRIP ? count : STRIP;
        pithi_convert(g->line, g->block->params->dtype, value, PITH_F32, n);
        pithi_exact_merge(&g->exact, at, n, g->line);
        pithi_block_put(g->block, at, n, g->line);
    }
}

static const char *take_interpolated(struct reading *g, unsigned row, struct pithi_reader *r) {
    const struct pithi_block *const b = g->block;
    const bool rounded = g->exact.element < sizeof(float);
    const uint32_t *const extent = b->tiled.tile->extent;
    struct feed feed = {.strip = g->words, .most = STRIP, .left = pithi_interp_coarse(extent)};
    struct pithi_interp tile =
        interp_of(b, &g->quant, row, (uint8_t *)g->rest + interpolated_bytes(extent));
    tile.next = next_words;
    tile.next_arg = &feed;
    r->scratch = g->rest;
    const char *fault = pithi_symbols_open(&feed.coded, r, b->kernels, feed.left);
    if (fault) return fault;
    const size_t finest = b->count - feed.left;
    pithi_interp_decode_coarse(&tile);
    feed.left = finest;
    if (finest) fault = pithi_symbols_open(&feed.coded, r, b->kernels, finest);
    if (!fault)
        pithi_interp_decode_finest(&tile,
                                   &(struct pithi_sink){rounded ? put_rounded : put_part, g});
    return fault;
}

/* Reads the weights of classes that have some. */
static const char *take_weights(const struct pithi_block *b, struct pithi_reader *r,
                                struct pithi_weights *w) {
    const uint32_t *const extent = b->tiled.tile->extent;
    const uint8_t *const set = pithi_reader_take(r, PITHI_WEIGHTED_LEVELS);
    if (!set) return "the weights of a block are cut";
    for (unsigned level = PITHI_WEIGHTED_LEVELS; level--;) {
        w->set[level] = set[PITHI_WEIGHTED_LEVELS - 1 - level];
        for (unsigned k = 0; k < 8; k++) {
            if (!(w->set[level] >> k & 1)) continue;
            if (k == PITHI_WEIGHTED_CLASSES || !pithi_weighted_count(extent, k + 1))
                return "weights of elements that do not exist";
            const unsigned terms = pithi_weighted_terms(extent, k + 1);
            const uint8_t *const at = pithi_reader_take(r, (size_t)terms * PITHI_WEIGHT_BYTES);
            if (!at) return "the weights of a block are cut";
            for (unsigned i = 0; i < terms; i++)
                w->of[level][k][i] = pithi_weight_get(at + (size_t)i * PITHI_WEIGHT_BYTES);
        }
    }
    return NULL;
}

/* Opens the strings of all classes that have elements. */
static const char *open_classes(const struct reading *g, struct pithi_reader *r,
                                struct feed feeds[PITHI_WEIGHTED_CLASSES]) {
    const struct pithi_block *const b = g->block;
    const char *fault = NULL;
    struct places at = {g->rest, 0};
    for (unsigned k = 0; k < PITHI_WEIGHTED_CLASSES; k++)
        feeds[k] = (struct feed){.left = pithi_weighted_count(b->tiled.tile->extent, k + 1),
                                 .most = CLASS_STRIP,
                                 .strip = place(&at, CLASS_STRIP * sizeof(uint32_t))};
    for (unsigned k = 0; k < PITHI_WEIGHTED_CLASSES && !fault; k++) {
        r->scratch = place(&at, feeds[k].left);
        if (feeds[k].left)
            fault = pithi_symbols_open(&feeds[k].coded, r, b->kernels, feeds[k].left);
    }
    return fault;
}

static const char *take_weighted(struct reading *g, unsigned row, struct pithi_reader *r) {
    const struct pithi_block *const b = g->block;
    const bool rounded = g->exact.element < sizeof(float);
    const uint32_t *const extent = b->tiled.tile->extent;
    struct feed feed = {.strip = g->words, .most = STRIP, .left = pithi_interp_coarse(extent)};
    struct feed classes[PITHI_WEIGHTED_CLASSES];
    void *args[PITHI_WEIGHTED_CLASSES];
    struct pithi_weights weights;
    struct pithi_interp tile =
        interp_of(b, &g->quant, row, (uint8_t *)g->rest + interpolated_bytes(extent));
    tile.next = next_words;
    tile.next_arg = &feed;
    r->scratch = g->rest;
    const char *fault = take_weights(b, r, &weights);
    if (!fault) fault = pithi_symbols_open(&feed.coded, r, b->kernels, feed.left);
    if (fault) return fault;
    pithi_weighted_decode_coarse(&tile, &weights);
    fault = open_classes(g, r, classes);
    for (unsigned k = 0; k < PITHI_WEIGHTED_CLASSES; k++) args[k] = &classes[k];
    if (!fault)
        pithi_weighted_decode_finest(&tile, &weights, args,
                                     &(struct pithi_sink){rounded ? put_rounded : put_part, g});
    return fault;
}

static const char *take_body(struct reading *g, struct variant variant, struct pithi_reader *r) {
    switch (variant.method) {
    case CONSTANT: return take_constant(g, r);
    case PACKED: return take_packed(g, variant.order, r);
    case CODED: return take_coded(g, variant.order, r);
    case WEIGHTED: return take_weighted(g, variant.order, r);
    default: return take_interpolated(g, variant.order, r);
    }
}

/* Whether the variant exists for this tile and bound. */
static bool legal(const struct pithi_block *b, bool relative, struct variant variant) {
    if (variant.method == CONSTANT) return variant.order == 0;
    if (variant.method == WEIGHTED && !can_weigh(b)) return false;
    if (variant.method == INTERPOLATED || variant.method == WEIGHTED)
        return variant.order < PITHI_INTERP_ROWS && !relative;
    return variant.method < METHODS && variant.order <= dimensions(b->tiled.tile);
}

static const char *take(struct pithi_block *b) {
    size_t bytes;
    struct reading g = reading_layout(b->params, b->scratch, &bytes);
    struct pithi_reader r = pithi_block_reader(b, b->bytes, b->length, NULL);
    const uint8_t *const head = pithi_reader_take(&r, HEAD_BYTES);
    if (!quant_of(b, &g.quant)) return "a bound that the dtype cannot have";
    if (!head) return "the block is shorter than its head";
    const struct variant variant = {(enum method)head[0], head[1]};
    if (!legal(b, g.quant.relative, variant)) return "unknown coding of a block";
    g.block = b;
    const char *fault = pithi_exact_take(&r, &g.exact, element_of(b->params), b->count);
    if (!fault) fault = take_body(&g, variant, &r);
    if (fault) return fault;
    b->exact = g.exact.misses;
    return r.left ? "bytes after the end of a block" : NULL;
}

static pith_status decode(struct pithi_block *b) {
    b->detail = b->plain ? pithi_plain_take(b) : take(b);
    return b->detail ? PITH_ERR_CORRUPT : PITH_OK;
}

static struct pithi_bound_setting bound_setting(const struct pithi_params *p) {
    return (struct pithi_bound_setting){.range = p->value[RANGE],
                                        .signed_zeros = p->value[ZEROS] != 0};
}

static const struct pithi_bounded_codec bounded = {bound_setting};

/* Kernels of devices code without entropy coding, or with rANS in mode ratio; and not in f64. */
static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    d->kind = PITHI_KIND_BOUNDED;
    d->coded = p->value[MODE] == RATIO && p->value[ENTROPY] == RANS;
    if (p->dtype == PITH_F64 || !pithi_bound_describe(p, d)) return false;
    return d->coded || p->value[MODE] == FAST;
}

static const struct pithi_former former[] = {
    PITHI_BOUNDED_FORMER,
};

const struct pithi_codec pithi_codec_eb = {
    .id = 5,
    .revision = 3,
    .frame_revision = frame_revision,
    .name = "eb",
    .summary = "any values under a bound on every one of them",
    .traits = PITH_TRAIT_BOUND,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16 | 1u << PITH_F64,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .former = former,
    .former_count = sizeof former / sizeof *former,
    .needs = needs,
    .need_count = sizeof needs / sizeof needs[0],
    .preset = preset,
    .check = pithi_bounded_check,
    .fixed = pithi_bounded_fixed,
    .block_bytes = pithi_bounded_block_bytes,
    .scratch_bytes = scratch_bytes,
    .coder_bytes = coder_bytes,
    .open_coder = pithi_entropy_open,
    .encode = encode,
    .decode = decode,
    .cut = cut,
    .encode_placed = encode,
    .decode_placed = decode,
    .frame_hooks = &pithi_bounded_frame_hooks,
    .own.bounded = &bounded,
    .describe = describe,
    .described =
        "devices code eb with abs, rel or pwrel, and mode=fast or mode=ratio,entropy=rans, and not "
        "in f64",
    .described_keys = 1u << MODE | 1u << REVISION | 1u << EFFORT,
    .later_keys = 1u << ENTROPY,
};
