/* act.c - codec act: saved activations under a bound on every value; zeros stay zeros.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Values become codes (predict/quant.h); which of them are 0 is a map (predict/zero_map.h), and
 * only the others are coded (predict/nonzero.h), as packed or coded words. */
#include <string.h>

#include "bytes/block_pieces.h"
#include "bytes/entropy.h"
#include "bytes/symbols.h"
#include "common/convert.h"
#include "common/decimal.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "predict/bounded.h"
#include "predict/bounded_keys.h"
#include "predict/exact_values.h"
#include "predict/nonzero.h"
#include "predict/strip.h"
#include "predict/zero_map.h"

enum { MODE, ABS, REL, PWREL, RANGE, ZEROS, EFFORT, BLOCK, REVISION, ENTROPY };
enum { FAST, RATIO };
enum { ANY, RANS }; /* values of ENTROPY */

static const struct pithi_key keys[] = {
    [MODE] = {"mode", PITHI_KEY_WORD, FAST, 0, RATIO, 0, PITHI_BOUNDED_AT_MODE, "fast|ratio",
              "fast: fixed cost; ratio: predicted and coded where that is shorter", true},
    [ABS] = PITHI_BOUNDED_ABS,
    [REL] = PITHI_BOUNDED_REL("0.001 when nothing is requested"),
    [PWREL] = PITHI_BOUNDED_PWREL,
    [RANGE] = PITHI_BOUNDED_RANGE("for rel: the range, where ranks must agree"),
    [ZEROS] = PITHI_BOUNDED_ZEROS,
    [EFFORT] = PITHI_BOUNDED_EFFORT,
    [BLOCK] = PITHI_BOUNDED_BLOCK,
    [REVISION] = {"revision", PITHI_KEY_NUMBER, 3, 1, 3, 0, PITHI_WIRE_REVISION, "1,2,3",
                  "newest revision of frames to make: 1 and 2 are for older readers", true},
    [ENTROPY] = PITHI_BOUNDED_ENTROPY,
};

static const struct pithi_need needs[] = {
    PITHI_BOUNDED_NEEDS,
    {ENTROPY, REVISION, 3, "needs revision=3"},
};

/* The head of a block: the form of its numbers, and how they are coded. */
enum { HEAD_FORM = 0x03, HEAD_CODED = 0x04, HEAD_BYTES = 1 };

static size_t element_of(const struct pithi_params *p) { return pith_dtype_bytes(p->dtype); }

/* ---- Settings --------------------------------------------------------------------------------*/

static uint8_t frame_revision(const struct pithi_params *p) {
    return p->value[MODE] == FAST ? 1 : (uint8_t)p->value[REVISION];
}

static void preset(uint32_t value[PITHI_KEYS_MAX], uint32_t seen) {
    (void)seen;
    if (!(value[ABS] | value[REL] | value[PWREL])) value[REL] = PITHI_DECIMAL(1, -3);
}

static const char *cut(struct pithi_params *p, uint32_t ndim, const uint64_t *shape,
                       struct pithi_tiling *tiling) {
    pithi_tiling_runs(tiling, shape, ndim, p->block);
    return NULL;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

struct work {
    int32_t *codes;   /* all codes of a block */
    int32_t *nonzero; /* the codes that are not 0, then their numbers; capacity: a group more */
    uint32_t *words;  /* words of numbers, capacity: a group more; values not yet converted */
    uint8_t *map, *miss;
    uint8_t *attempt; /* encode: coded words that may turn out longer */
    void *pieces;
    size_t most;
};

/* Returns the effort of entropy coding, or none when the mode does without. */
static int effort_of(const struct pithi_params *p) {
    if (p->decode_only || p->value[MODE] == FAST) return PITHI_EFFORT_NONE;
    return p->value[ENTROPY] == RANS ? PITHI_EFFORT_RANS : (int)p->value[EFFORT];
}

static size_t pieces_bytes(const struct pithi_params *p) {
    const size_t words = pithi_max(pithi_strip_scratch(p->most), pithi_symbols_scratch(p->most));
    return pithi_max(words, pithi_zeros_scratch(p->most));
}

/* Lays the parts of scratch memory one behind the other; with scratch NULL only counts their
 * bytes. */
static struct work layout(const struct pithi_params *p, uint8_t *scratch, size_t *bytes) {
    struct work w = {.most = p->most};
    const size_t codes = pithi_pad64((p->most + PITHI_BITPLANE_GROUP) * sizeof(int32_t));
    const size_t bits = pithi_pad64(p->most / 8 + 1);
    const size_t attempt = p->decode_only ? 0 : pithi_pad64(p->most * element_of(p));
    *bytes = 3 * codes + 2 * bits + attempt + pieces_bytes(p);
    if (!scratch) return w;
    w.codes = (int32_t *)(void *)scratch;
    w.nonzero = (int32_t *)(void *)(scratch + codes);
    w.words = (uint32_t *)(void *)(scratch + 2 * codes);
    w.map = scratch + 3 * codes;
    w.miss = w.map + bits;
    w.attempt = w.miss + bits;
    w.pieces = w.attempt + attempt;
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
    return pithi_entropy_bytes(p->most, effort);
}

static struct work work_of(const struct pithi_block *b) {
    size_t bytes;
    return layout(b->params, b->scratch, &bytes);
}

static bool quant_of(const struct pithi_block *b, struct pithi_quant *q) {
    return pithi_quant_init(q, b->params->dtype, &b->said->bound, b->params->value[ZEROS]);
}

/* Returns the kernels for maps in lanes, which frames have from revision 3 on. */
static const struct pithi_kernels *lanes_of(const struct pithi_block *b) {
    return pithi_frame_revision(b->params) >= 3 ? b->kernels : NULL;
}

/* Returns the numbers as a tile of one row. */
static struct pithi_strip row_of(const struct pithi_block *b, size_t used) {
    return (struct pithi_strip){b->kernels, {1, 1, 1, (uint32_t)used}, 0};
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static size_t put_packed(const struct pithi_block *b, const struct work *w, size_t used,
                         const struct pithi_pen *pen) {
    const struct pithi_strip row = row_of(b, used);
    struct pithi_pen inner = *pen;
    return pithi_strip_put(&row, w->nonzero, &inner) ? (size_t)(inner.at - pen->at) : 0;
}

/* Writes numbers as coded words and returns their bytes, if they are fewer than `limit`; else
 * returns 0. Fewer than `limit` bytes at `to` are written in any case. */
static size_t put_coded(const struct pithi_block *b, const struct work *w, size_t used,
                        const struct pithi_pen *pen, uint8_t *to, size_t limit) {
    struct pithi_pen inner = *pen;
    inner.at = to;
    inner.capacity = limit - 1;
    b->kernels->predict(w->nonzero, row_of(b, used).extent, 0, 0, used, w->words);
    if (!pithi_symbols_put(&inner, w->most, b->kernels, w->words, used)) return 0;
    return (size_t)(inner.at - to);
}

/* Returns about how many bytes the numbers take as coded words in this form. */
static size_t estimate(const struct pithi_block *b, const struct work *w, size_t used,
                       enum pithi_nonzero_form form) {
    const size_t count =
        pithi_nonzero_sample(form, w->codes, w->map, b->tiled.tile->extent, w->words);
    return count ? pithi_symbols_estimate(b->kernels, w->words, count, used) : 0;
}

/* What is worth trying: packed words, and coded words of each form. */
struct attempts {
    bool packed, coded[PITHI_NONZERO_FORMS];
};

/* Says by samples what is likely to be shortest: of the forms of coded words those within a 64th of
 * the better one, and packed words where they take no 32nd more. With entropy=rans all are
 * tried. */
static struct attempts choose(const struct pithi_block *b, const struct work *w, size_t used,
                              enum pithi_nonzero_form plain) {
    struct attempts t = {.packed = true};
    if (b->params->value[MODE] == FAST) return t;
    t.coded[plain] = t.coded[PITHI_NONZERO_MEDIAN] = true;
    const int effort = effort_of(b->params);
    if (effort == PITHI_EFFORT_RANS || effort >= PITHI_EFFORT_SEARCH) return t;
    const size_t bytes = estimate(b, w, used, plain);
    const size_t median = estimate(b, w, used, PITHI_NONZERO_MEDIAN);
    if (!bytes) return t; /* few ones, and none in the sample */
    t.coded[plain] = bytes <= median + median / 64;
    t.coded[PITHI_NONZERO_MEDIAN] = median <= bytes + bytes / 64;
    if (used <= PITHI_NONZERO_SAMPLE) return t; /* packing takes little time */
    const struct pithi_strip row = row_of(b, used);
    const size_t coded = bytes < median ? bytes : median;
    t.packed = pithi_strip_estimate(&row, w->nonzero) < coded + coded / 32;
    return t;
}

/* Writes numbers in the shortest of the forms that are tried; *head says which. */
static bool put_numbers(const struct pithi_block *b, const struct work *w, size_t used,
                        struct pithi_pen *pen, unsigned *head) {
    const enum pithi_nonzero_form plain = pithi_nonzero_plain(w->nonzero, used);
    pithi_nonzero_numbers(plain, w->nonzero, used);
    const struct attempts tried = choose(b, w, used, plain);
    *head = plain;
    size_t length = tried.packed ? put_packed(b, w, used, pen) : 0;
    for (unsigned form = 0; form < PITHI_NONZERO_FORMS; form++) {
        if (!tried.coded[form]) continue;
        if (form == PITHI_NONZERO_MEDIAN)
            b->kernels->median(w->codes, w->map, b->tiled.tile->extent, w->nonzero);
        uint8_t *const to = length ? w->attempt : pen->at;
        const size_t limit = length ? length : pen->capacity + 1;
        const size_t shorter = put_coded(b, w, used, pen, to, limit);
        if (!shorter) continue;
        if (length) memcpy(pen->at, to, shorter);
        *head = HEAD_CODED | form;
        length = shorter;
    }
    pen->at += length;
    pen->capacity -= length;
    return length > 0;
}

/* Encodes the block; returns its bytes, 0 when they would be more than cap. */
static size_t code(struct pithi_block *b, size_t cap) {
    const struct work w = work_of(b);
    struct pithi_quant quant;
    unsigned head = 0;
    if (cap < HEAD_BYTES || !quant_of(b, &quant)) return 0;
    struct pithi_pen pen =
        pithi_block_pen(b, b->bytes + HEAD_BYTES, cap - HEAD_BYTES, effort_of(b->params), w.pieces);
    const struct pithi_tile_layout values =
        pithi_tile_layout_dense(b->value, element_of(b->params));
    b->exact = b->kernels->quantize(&quant, b->value, b->count, w.codes, w.miss);
    b->nonzero = b->kernels->split(w.codes, b->count, w.map, w.nonzero);
    if (!pithi_exact_put(&pen, w.miss, b->exact, &values, b->count) ||
        !pithi_zeros_put(&pen, lanes_of(b), w.most, w.map, b->tiled.tile->extent) ||
        (b->nonzero && !put_numbers(b, &w, b->nonzero, &pen, &head)))
        return 0;
    b->bytes[0] = (uint8_t)head;
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

/* Reads the words of numbers, and makes codes of them, of form MEDIAN numbers. */
static const char *take_numbers(const struct pithi_block *b, const struct work *w, size_t used,
                                unsigned head, struct pithi_reader *r) {
    const enum pithi_nonzero_form form = (enum pithi_nonzero_form)(head & HEAD_FORM);
    const struct pithi_strip row = row_of(b, used);
    struct pithi_unpredict u;
    if (!(head & HEAD_CODED)) {
        const char *const fault = pithi_strip_take(&row, r, NULL, w->nonzero, false);
        if (!fault && form != PITHI_NONZERO_MEDIAN) pithi_nonzero_codes(form, w->nonzero, used);
        return fault;
    }
    const char *const fault = pithi_symbols_take(r, b->kernels, w->words, used);
    if (fault) return fault;
    if (form != PITHI_NONZERO_MEDIAN) {
        pithi_nonzero_from_words(form, w->words, used, w->nonzero);
    } else {
        pithi_unpredict_init(&u, row.extent, 0, NULL);
        b->kernels->unpredict(&u, w->words, used, w->nonzero);
    }
    return NULL;
}

static void deliver(struct pithi_block *b, const struct work *w, const struct pithi_quant *q,
                    const struct pithi_exact *exact) {
    const uint32_t dtype = b->params->dtype;
    if (b->out_dtype == dtype) {
        b->kernels->dequantize(q, w->codes, b->count, b->out, b->nontemporal);
    } else {
        b->kernels->dequantize(q, w->codes, b->count, w->words, false);
        pithi_convert(b->out, b->out_dtype, w->words, dtype, b->count);
    }
    pithi_exact_patch(exact, &(struct pithi_sink){pithi_block_put, b});
}

static const char *take_block(struct pithi_block *b, const struct work *w) {
    struct pithi_reader r = pithi_block_reader(b, b->bytes, b->length, w->pieces);
    const uint8_t *const head = pithi_reader_take(&r, HEAD_BYTES);
    struct pithi_quant quant;
    struct pithi_exact exact;
    if (!head) return "the block is empty";
    const unsigned form = *head & HEAD_FORM;
    if (*head & ~(HEAD_FORM | HEAD_CODED) || form >= PITHI_NONZERO_FORMS)
        return "unknown coding of a block";
    if (!quant_of(b, &quant)) return "a bound that the dtype cannot have";
    const char *fault = pithi_exact_take(&r, &exact, element_of(b->params), b->count);
    if (fault) return fault;
    const uint8_t *const map =
        pithi_zeros_take(&r, lanes_of(b), w->most, w->map, b->tiled.tile->extent);
    if (!map) return "the zero map is damaged";
    const size_t used = pithi_zeros_count(map, b->count);
    if (used) fault = take_numbers(b, w, used, *head, &r);
    if (fault) return fault;
    if (r.left) return "bytes after the end of a block";
    b->exact = exact.misses;
    b->nonzero = used;
    if (form == PITHI_NONZERO_MEDIAN)
        pithi_nonzero_from_median(w->nonzero, map, b->tiled.tile->extent, w->codes);
    else
        b->kernels->spread(w->nonzero, map, b->count, w->codes);
    deliver(b, w, &quant, &exact);
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
    return (struct pithi_bound_setting){.range = p->value[RANGE],
                                        .signed_zeros = p->value[ZEROS] != 0};
}

static const struct pithi_bounded_codec bounded = {bound_setting};

/* Kernels of devices make no strings of zstd, and do not code in f64. */
static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    const bool fast = p->value[MODE] == FAST;
    d->kind = PITHI_KIND_ZEROS;
    d->coded = !fast;
    return (fast || p->value[ENTROPY] == RANS) && p->dtype != PITH_F64 &&
           pithi_bound_describe(p, d);
}

static const struct pithi_former former[] = {
    PITHI_BOUNDED_FORMER,
};

const struct pithi_codec pithi_codec_act = {
    .id = 7,
    .revision = 3,
    .frame_revision = frame_revision,
    .name = "act",
    .summary = "saved activations under a bound; zeros stay zeros",
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
    .frame_hooks = &pithi_bounded_frame_hooks,
    .own.bounded = &bounded,
    .describe = describe,
    .described = "devices code act with mode=fast or mode=ratio,entropy=rans, and not in f64",
    .described_keys = 1u << MODE | 1u << REVISION | 1u << EFFORT,
    .later_keys = 1u << ENTROPY,
};
