/* kv.c - codec kv: pages of tokens, for KV caches and layer inputs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: KIVI (ICML 2024): keys in groups along tokens, values along channels; XQuant (arXiv
 * 2508.10395): layer inputs, and what they add to a base that goes along; QuaRot (NeurIPS 2024):
 * heads rotated; the symmetric presets are ggml's q8_0 and q4_0 in spirit. Pages are laid out in
 * kv/page.c and quantized in group/. */
#include <string.h>

#include "bytes/entropy.h"
#include "common/convert.h"
#include "common/decimal.h"
#include "common/endian.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "device_plan.h"
#include "frame.h"
#include "group/bound_value.h"
#include "group/outliers.h"
#include "kv/page_entropy.h"
#include "predict/quant_value.h"

enum { ROW_MOST = 1 << 20, BLOCK_MOST = 1 << PITHI_BLOCK_LOG2_MAX, BOUND_BYTES = sizeof(double) };

static const struct pithi_key keys[] = {
    [PITHI_KV_PRESET] = {"preset", PITHI_KEY_WORD, 0, 0, 12, 0, PITHI_WIRE_NONE,
                         "none|kivi2|kivi4|kvquant-lite|quarot4|trellis2|trellis3|trellis4|"
                         "xquant2|xquant3|xquant4|q8|q4",
                         "the keys of a setting that has a name; others go on top", false},
    [PITHI_KV_AXIS] =
        {"axis", PITHI_KEY_WORD, 0, 0, 1, 0, 0, "token|channel",
         "groups run along the elements of a token's head, or of a channel along tokens", false},
    [PITHI_KV_ORDER] = {"order", PITHI_KEY_WORD, 0, 0, 1, 0, 1, "tokens|heads",
                        "dimensions: [..., tokens, heads, dim], or [..., heads, tokens, dim]",
                        false},
    [PITHI_KV_BITS] = {"bits", PITHI_KEY_NUMBER, 4, 2, 8, 0x17C, 2, "2,3,4,5,6,8", "bits per code",
                       false},
    [PITHI_KV_GROUP] = {"group", PITHI_KEY_POW2, 128, 16, 256, 0, 3, "16..256, a power of two",
                        "elements that share a scale; none across two heads", false},
    [PITHI_KV_PAGE] = {"page", PITHI_KEY_POW2, 128, 16, 4096, 0, 4, "16..4096, a power of two",
                       "tokens of a page, which decodes by itself", false},
    [PITHI_KV_SYMMETRIC] = {"symmetric", PITHI_KEY_WORD, 0, 0, 1, 0, 5, "off|on",
                            "off: a scale and a zero point per group; on: a scale", false},
    [PITHI_KV_SCALE_DTYPE] = {"scale_dtype", PITHI_KEY_WORD, 0, 0, 2, 0, 6, "f16|bf16|f32",
                              "dtype of scales and zero points", false},
    [PITHI_KV_SEARCH] = {"search", PITHI_KEY_WORD, 0, 0, 1, 0, 7, "none|mse",
                         "scale from the extremes, or from the part of the range of least error",
                         true},
    [PITHI_KV_ROTATE_HEADS] =
        {"rotate_heads", PITHI_KEY_WORD, 0, 0, 1, 0, 8, "off|on",
         "Hadamard transform of each head: of 32..256 elements, a power of two", false},
    [PITHI_KV_CODEBOOK] = {"codebook", PITHI_KEY_WORD, 0, 0, 3, 0, 9, "uniform|nf|lloyd|trellis",
                           "what codes mean: steps, levels for bell-shaped values, or such levels "
                           "along paths through a trellis",
                           false},
    [PITHI_KV_OUTLIERS] = {"outliers", PITHI_KEY_REAL, 0, 1, 0, 0, 12,
                           "a number up to 0.125, or none",
                           "share of a group that is kept exactly: what lies farthest out", false},
    [PITHI_KV_WINDOW] = {"window", PITHI_KEY_NUMBER, 0, 0, 1u << 20, 0, PITHI_WIRE_NONE,
                         "0..1048576", "caches: newest tokens that stay exact", false},
    [PITHI_KV_ENTROPY] = {"entropy", PITHI_KEY_WORD, PITHI_KV_NO_ENTROPY, PITHI_KV_NO_ENTROPY,
                          PITHI_KV_RANS, 0, 10, "none|zstd|rans",
                          "entropy coding of scales and codes, for files", false},
    [PITHI_KV_EFFORT] = {"effort", PITHI_KEY_NUMBER, 1, PITHI_EFFORT_MIN, PITHI_EFFORT_MAX, 0,
                         PITHI_WIRE_NONE, "1..22", "effort of entropy=zstd", false},
    [PITHI_KV_BLOCK] = {"block", PITHI_KEY_POW2, 1u << 20, 16, BLOCK_MOST, 0, PITHI_WIRE_BLOCK,
                        "16..16777216, a power of two",
                        "with entropy=zstd or rans: elements per block, in pages", false},
};

static const struct pithi_need needs[] = {
    {PITHI_KV_BLOCK, PITHI_KV_ENTROPY, 0, "has no effect without entropy=zstd or rans"},
    {PITHI_KV_EFFORT, PITHI_KV_ENTROPY, PITHI_KV_ZSTD, "has no effect without entropy=zstd"},
};

/* ---- Presets ---------------------------------------------------------------------------------*/

enum { SET_MOST = 6 };
static const struct {
    uint8_t key;
    uint16_t value;
} presets[][SET_MOST] = {
    {{PITHI_KV_PRESET, 0}},
    {{PITHI_KV_AXIS, 1}, {PITHI_KV_BITS, 2}, {PITHI_KV_GROUP, 32}, {PITHI_KV_WINDOW, 128}},
    {{PITHI_KV_AXIS, 1}, {PITHI_KV_BITS, 4}, {PITHI_KV_GROUP, 32}, {PITHI_KV_WINDOW, 128}},
    {{PITHI_KV_AXIS, 1},
     {PITHI_KV_BITS, 4},
     {PITHI_KV_GROUP, 128},
     {PITHI_KV_CODEBOOK, 1},
     {PITHI_KV_OUTLIERS, PITHI_DECIMAL(1, -2)}},
    {{PITHI_KV_ROTATE_HEADS, 1},
     {PITHI_KV_BITS, 4},
     {PITHI_KV_GROUP, 128},
     {PITHI_KV_SCALE_DTYPE, 1}},
    {{PITHI_KV_ROTATE_HEADS, 1}, {PITHI_KV_BITS, 2}, {PITHI_KV_GROUP, 128}, {PITHI_KV_CODEBOOK, 3}},
    {{PITHI_KV_ROTATE_HEADS, 1}, {PITHI_KV_BITS, 3}, {PITHI_KV_GROUP, 128}, {PITHI_KV_CODEBOOK, 3}},
    {{PITHI_KV_ROTATE_HEADS, 1}, {PITHI_KV_BITS, 4}, {PITHI_KV_GROUP, 128}, {PITHI_KV_CODEBOOK, 3}},
    {{PITHI_KV_BITS, 2}, {PITHI_KV_GROUP, 128}},
    {{PITHI_KV_BITS, 3}, {PITHI_KV_GROUP, 128}},
    {{PITHI_KV_BITS, 4}, {PITHI_KV_GROUP, 128}},
    {{PITHI_KV_SYMMETRIC, 1}, {PITHI_KV_BITS, 8}, {PITHI_KV_GROUP, 32}},
    {{PITHI_KV_SYMMETRIC, 1}, {PITHI_KV_BITS, 4}, {PITHI_KV_GROUP, 32}, {PITHI_KV_SEARCH, 1}},
};

static void preset(uint32_t value[PITHI_KEYS_MAX], uint32_t seen) {
    for (int i = 0; i < SET_MOST; i++) {
        const uint8_t key = presets[value[PITHI_KV_PRESET]][i].key;
        if (key != PITHI_KV_PRESET && !(seen >> key & 1))
            value[key] = presets[value[PITHI_KV_PRESET]][i].value;
    }
    if (value[PITHI_KV_CODEBOOK] && !(seen >> PITHI_KV_SYMMETRIC & 1))
        value[PITHI_KV_SYMMETRIC] = 1;
    value[PITHI_KV_PRESET] = keys[PITHI_KV_PRESET].initial;
}

/* ---- Rows and pages --------------------------------------------------------------------------*/

struct rows {
    uint64_t sequences, tokens, heads, dim;
};

/* Reads a shape as sequences of tokens. With a base all tokens are one sequence: groups along a
 * head do not care where a sequence ends, and pages of one size let a base be hashed page by
 * page. */
static struct rows rows_of(const struct pithi_params *p, uint32_t ndim, const uint64_t *shape) {
    struct rows r = {1, 1, 1, 1};
    if (ndim) r.dim = shape[--ndim];
    if (ndim > 1 && !p->value[PITHI_KV_ORDER]) r.heads = shape[--ndim];
    if (ndim) r.tokens = shape[--ndim];
    while (ndim) r.sequences *= shape[--ndim];
    if (p->base_dtype == PITH_NONE) return r;
    r.tokens *= r.sequences;
    r.sequences = 1;
    return r;
}

static bool is_empty(const struct rows *r) {
    return !r->sequences || !r->tokens || !r->heads || !r->dim;
}

static bool row_fits(const struct rows *r) {
    return r->heads <= ROW_MOST && r->dim <= ROW_MOST && r->heads * r->dim <= ROW_MOST;
}

static uint64_t page_elements(const struct pithi_params *p, const struct rows *r) {
    const uint64_t page = p->value[PITHI_KV_PAGE], tokens = r->tokens < page ? r->tokens : page;
    return tokens * r->heads * r->dim;
}

static void resolve(struct pithi_params *p, uint32_t ndim, const uint64_t *shape) {
    const struct rows r = rows_of(p, ndim, shape);
    const bool known = !is_empty(&r) && row_fits(&r);
    const uint64_t page = known ? page_elements(p, &r) : 0;
    struct pithi_page_rows *const rows = &p->own.pages;
    rows->heads = known ? (uint32_t)r.heads : 1;
    rows->dim = known ? (uint32_t)r.dim : 1;
    struct pithi_kv k;
    pithi_kv_init(&k, p, NULL, rows->heads, rows->dim);
    rows->outliers = k.outliers;
    p->block = p->value[PITHI_KV_ENTROPY] ? p->value[PITHI_KV_BLOCK] : 1u << PITHI_BLOCK_LOG2_MIN;
    while (p->block < page && p->block < BLOCK_MOST) p->block *= 2;
    p->value[PITHI_KV_BLOCK] = p->value[PITHI_KV_ENTROPY] ? p->block : keys[PITHI_KV_BLOCK].initial;
}

/* Returns the tokens of a block: one page, or with entropy coding as many pages as fit. */
static uint32_t block_tokens(const struct pithi_params *p, uint64_t row) {
    const uint64_t page = p->value[PITHI_KV_PAGE], pages = row ? p->block / (page * row) : 0;
    return (uint32_t)(p->value[PITHI_KV_ENTROPY] && pages ? pages * page : page);
}

static const char *cut(struct pithi_params *p, uint32_t ndim, const uint64_t *shape,
                       struct pithi_tiling *tiling) {
    const struct rows r = rows_of(p, ndim, shape);
    resolve(p, ndim, shape);
    const bool order = r.dim >= 32 && r.dim <= 256 && (r.dim & (r.dim - 1)) == 0;
    const uint64_t row = is_empty(&r) ? 0 : r.heads * r.dim;
    if (!is_empty(&r) && !row_fits(&r))
        return ndim > 1 ? "a token has more than 1048576 elements"
                        : "one dimension is one token of kv, of at most 1048576 elements";
    if (row && page_elements(p, &r) > BLOCK_MOST) return "a page has more than 16777216 elements";
    if (row && p->value[PITHI_KV_ROTATE_HEADS] && !order)
        return "heads of 32, 64, 128 or 256 elements are rotated: others take rotate_heads=off";
    pithi_tiling_pages(tiling, r.sequences, r.tokens, row, block_tokens(p, row));
    return NULL;
}

/* Fills in k in its final place: a copy at once would wait for what was stored in parts. */
static void kv_of(struct pithi_kv *k, const struct pithi_params *p,
                  const struct pithi_kernels *kernels) {
    pithi_kv_init(k, p, kernels, p->own.pages.heads, p->own.pages.dim);
}

static uint32_t row_of(const struct pithi_params *p) {
    return p->own.pages.heads * p->own.pages.dim;
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

static pith_status check(const struct pithi_params *p, const char **detail) {
    const bool base = p->base_dtype != PITH_NONE;
    pith_status status = PITH_ERR_SPEC;
    if (base && !pithi_is_float16_32(p->base_dtype)) {
        *detail = "kv takes a base of dtype f32, bf16 or f16";
        status = PITH_ERR_DTYPE;
    } else if (base && (p->value[PITHI_KV_AXIS] || p->value[PITHI_KV_SEARCH] ||
                        p->value[PITHI_KV_ROTATE_HEADS] || p->value[PITHI_KV_CODEBOOK] ||
                        p->value[PITHI_KV_OUTLIERS] || p->value[PITHI_KV_ENTROPY])) {
        *detail = "a base needs plain groups along axis=token";
        status = PITH_ERR_UNSUPPORTED; /* the spec is good without a base */
    } else if (p->value[PITHI_KV_CODEBOOK] &&
               (p->value[PITHI_KV_BITS] > 4 || !p->value[PITHI_KV_SYMMETRIC])) {
        *detail = "a codebook, as of presets trellis2 to 4, has 2 to 4 bits and a symmetric range";
    } else if (p->value[PITHI_KV_CODEBOOK] && p->value[PITHI_KV_SEARCH]) {
        *detail = "search=mse needs codebook=uniform";
    } else if (p->value[PITHI_KV_OUTLIERS] && p->value[PITHI_KV_ROTATE_HEADS]) {
        *detail = "outliers need rotate_heads=off";
    } else if (p->value[PITHI_KV_OUTLIERS] &&
               pithi_decimal_floor(p->value[PITHI_KV_OUTLIERS]) > 0.125) {
        *detail = "outliers is at most 0.125";
    } else if (p->value[PITHI_KV_AXIS] && p->value[PITHI_KV_PAGE] < p->value[PITHI_KV_GROUP]) {
        *detail = "page is smaller than group";
    } else {
        return PITH_OK;
    }
    return status;
}

static bool fixed(const struct pithi_params *p) { return !p->value[PITHI_KV_ENTROPY]; }

static uint64_t block_bytes(const struct pithi_params *p, uint64_t count) {
    if (p->key_frame) return count * pithi_dtype_bytes(p->base_dtype);
    struct pithi_kv k;
    kv_of(&k, p, NULL);
    return pithi_kv_areas(&k, (uint32_t)(count / row_of(p))).bytes;
}

/* Memory of a block with entropy coding: the block as it would be without, and what coding
 * takes. */
struct coding {
    uint8_t *page, *symbols;
    void *pieces;
    uint32_t tokens;
};

static struct coding coding_of(const struct pithi_params *p, const struct pithi_kv *k, size_t count,
                               void *scratch, size_t *bytes) {
    struct coding c = {.tokens = (uint32_t)(count / row_of(p))};
    const size_t symbols = pithi_kv_symbols(k, c.tokens);
    size_t at = pithi_kv_scratch(k);
    uint8_t *const memory = scratch;
    if (memory) c.page = memory + at;
    at += (size_t)pithi_pad64(pithi_kv_areas(k, c.tokens).bytes);
    if (memory) c.symbols = memory + at;
    at += (size_t)pithi_pad64(symbols);
    if (memory) c.pieces = memory + at;
    *bytes = at + pithi_piece_scratch(symbols);
    return c;
}

static size_t scratch_bytes(const struct pithi_params *p) {
    struct pithi_kv k;
    kv_of(&k, p, NULL);
    size_t bytes = pithi_kv_scratch(&k);
    if (p->value[PITHI_KV_ENTROPY]) coding_of(p, &k, p->most, NULL, &bytes);
    return bytes;
}

static size_t coder_bytes(const struct pithi_params *p) {
    struct pithi_kv k;
    kv_of(&k, p, NULL);
    const int effort = k.rans           ? PITHI_EFFORT_RANS
                       : p->decode_only ? PITHI_EFFORT_NONE
                                        : (int)p->value[PITHI_KV_EFFORT];
    if (!p->value[PITHI_KV_ENTROPY]) return 0;
    return pithi_entropy_bytes(pithi_kv_symbols(&k, (uint32_t)(p->most / row_of(p))), effort);
}

/* ---- Bound -----------------------------------------------------------------------------------*/

/* Returns the bound of a group. With `order` it includes what rounding inside the transform and its
 * inverse may add to the error of a value, which is a mean of errors of codes. */
static double one_bound(const struct pithi_kv *k, const uint8_t *scale, const uint8_t *zero) {
    const size_t width = pithi_scale_width(k->set.scale_dtype);
    uint8_t pair[2 * sizeof(float)] = {0};
    memcpy(pair, scale, width);
    if (k->set.asymmetric) memcpy(pair + width, zero, width);
    const double group = pithi_group_bound(&k->set, pair, 1);
    const float s = pithi_float(pithi_scale_load(pair, k->set.scale_dtype, 0));
    const float z =
        k->set.asymmetric ? pithi_float(pithi_scale_load(pair, k->set.scale_dtype, 1)) : 0;
    const double clamped = k->outliers ? pithi_outliers_bound(&k->set, k->dtype, (double)s) : 0;
    return group + clamped + pithi_rotated_bound(&k->set, k->rotation, s, z);
}

static double page_bound(const struct pithi_params *p, const uint8_t *page, size_t tokens) {
    struct pithi_kv k;
    kv_of(&k, p, NULL);
    const size_t width = pithi_scale_width(k.set.scale_dtype);
    const size_t groups = pithi_kv_groups(&k, (uint32_t)tokens), row = row_of(p);
    double largest = 0;
    for (size_t g = 0; g < groups; g++) {
        const size_t pairs = k.set.asymmetric ? 2 : 1;
        const size_t at = k.channel ? g / row * row * pairs + g % row : g * pairs;
        const uint8_t *const scale = page + at * width;
        const double one = one_bound(&k, scale, scale + (k.channel ? row : 1) * width);
        if (one != one || one > largest) largest = one;
        if (one != one) break;
    }
    return largest;
}

/* Returns the bound with which a coded block begins: its scales cannot be read without memory. -1
 * where a block is too short to state it or states a number below 0, which decode refuses as well.
 * The number is looked at by its bits, because a host that flushes subnormals takes small ones for
 * 0. */
static double stated_bound(const struct pithi_block *b) {
    const uint64_t sign = UINT64_C(1) << 63;
    if (b->length < BOUND_BYTES) return -1;
    const uint64_t u = pithi_get64(b->bytes);
    if (u > sign && u <= (sign | PITHI_F64_INF)) return -1;
    return pithi_double(u);
}

static double bound(const struct pithi_block *b) {
    const struct pithi_params *p = b->params;
    const bool whole = b->length == block_bytes(p, b->count);
    if (p->key_frame) return 0;
    if (p->value[PITHI_KV_ENTROPY] && b->plain != whole) return -1;
    if (whole) return page_bound(p, b->bytes, b->count / row_of(p));
    return p->value[PITHI_KV_ENTROPY] ? stated_bound(b) : -1;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Returns how many tokens are coded before the hash of their base: their part of the base stays in
 * the first-level cache. It is a multiple of 8, so that every part begins at a whole lane of the
 * hash. */
static uint32_t step_of(const struct pithi_block *b) {
    const uint32_t tokens = 4096 / row_of(b->params) & ~7u;
    if (!b->base) return b->params->value[PITHI_KV_PAGE];
    return tokens ? tokens : 8;
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint64_t hash_base(const struct pithi_block *b, size_t at, size_t count) {
    const size_t element = pithi_dtype_bytes(b->params->base_dtype);
    if (!b->base) return 0;
    return b->kernels->nh((const uint8_t *)b->base + at * element, count * element,
                          (b->first + at) * element / 8);
}

static void *at_element(const void *p, uint32_t dtype, size_t i) {
    return p ? (uint8_t *)(uintptr_t)p + i * pithi_dtype_bytes(dtype) : NULL;
}

static void encode_page(struct pithi_block *b, const struct pithi_kv *k, uint8_t *page) {
    const struct pithi_params *p = b->params;
    const uint32_t row = row_of(p), step = step_of(b);
    struct pithi_kv_rows rows = {.tokens = (uint32_t)(b->count / row),
                                 .update = b->update,
                                 .nontemporal = b->nontemporal,
                                 .scratch = b->scratch};
    pithi_kv_clear(k, page, rows.tokens);
    for (; rows.first < rows.tokens; rows.first += rows.count) {
        const size_t at = (size_t)rows.first * row;
        rows.count = smaller(step, rows.tokens - rows.first);
        rows.value = at_element(b->value, p->dtype, at);
        rows.base = at_element(b->base, p->base_dtype, at);
        rows.more = b->paged.more || rows.first + rows.count < rows.tokens;
        pithi_kv_put(k, page, &rows);
        b->hash += hash_base(b, at, (size_t)rows.count * row);
    }
    b->saturated += rows.saturated;
    b->poisoned += rows.poisoned;
}

static void encode_coded(struct pithi_block *b, const struct pithi_kv *k) {
    const struct pithi_params *p = b->params;
    size_t ignored;
    const struct coding c = coding_of(p, k, b->count, b->scratch, &ignored);
    encode_page(b, k, c.page);
    const double bound = page_bound(p, c.page, c.tokens);
    const int effort = (int)p->value[PITHI_KV_EFFORT] | PITHI_ENTROPY_BARE;
    struct pithi_pen pen = {.at = b->bytes,
                            .capacity = b->length - 1,
                            .effort = k->rans ? PITHI_EFFORT_RANS : effort,
                            .scratch = c.pieces,
                            .coder = b->coder,
                            .rans = k->rans ? b->kernels->rans_encode : NULL,
                            .count = b->kernels->symbol_count};
    pithi_pen_put(&pen, (const uint8_t *)&bound, BOUND_BYTES); /* fits: a page has more bytes */
    b->plain = !pithi_kv_pack(k, c.page, c.tokens, &pen, c.symbols);
    if (b->plain)
        memcpy(b->bytes, c.page, b->length);
    else
        b->length = (size_t)(pen.at - b->bytes);
}

static pith_status encode(struct pithi_block *b) {
    const struct pithi_params *p = b->params;
    if (!p->key_frame) {
        struct pithi_kv k;
        kv_of(&k, p, b->kernels);
        b->length = pithi_kv_areas(&k, (uint32_t)(b->count / row_of(p))).bytes;
        if (p->value[PITHI_KV_ENTROPY])
            encode_coded(b, &k);
        else
            encode_page(b, &k, b->bytes);
        return PITH_OK;
    }
    b->length = (size_t)block_bytes(p, b->count);
    b->saturated += pithi_convert_finite(b->bytes, p->base_dtype, b->value, p->dtype, b->count);
    if (b->update) memcpy(b->base, b->bytes, b->length);
    b->hash += hash_base(b, 0, b->count);
    return PITH_OK;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static void decode_page(struct pithi_block *b, const uint8_t *page) {
    const struct pithi_params *p = b->params;
    struct pithi_kv k;
    kv_of(&k, p, b->kernels);
    const uint32_t row = row_of(p), step = step_of(b);
    const uint32_t last = (uint32_t)((b->paged.until + row - 1) / row);
    struct pithi_kv_part part = {.tokens = (uint32_t)(b->count / row),
                                 .first = (uint32_t)(b->paged.from / row),
                                 .heads = p->own.pages.heads,
                                 .out_dtype = b->out_dtype,
                                 .token_stride = row,
                                 .update = b->update,
                                 .nontemporal = b->nontemporal,
                                 .scratch = b->scratch};
    for (; part.first < last; part.first += part.count) {
        const size_t at = (size_t)part.first * row;
        part.count = smaller(step, last - part.first);
        part.out = at_element(b->out, b->out_dtype, at);
        part.base = at_element(b->base, p->base_dtype, at);
        pithi_kv_get(&k, page, &part);
        b->hash += hash_base(b, at, (size_t)part.count * row);
    }
    b->saturated += part.saturated;
    b->poisoned += part.poisoned;
}

static pith_status decode_coded(struct pithi_block *b) {
    const struct pithi_params *p = b->params;
    struct pithi_kv k;
    kv_of(&k, p, b->kernels);
    size_t ignored;
    const struct coding c = coding_of(p, &k, b->count, b->scratch, &ignored);
    if (b->plain) {
        if (b->length != block_bytes(p, b->count)) {
            b->detail = "a plain block of a wrong length";
            return PITH_ERR_CORRUPT;
        }
        decode_page(b, b->bytes);
        return PITH_OK;
    }
    struct pithi_reader r = {b->bytes, b->length, c.pieces, b->coder,
                             k.rans ? b->kernels->rans_decode : NULL};
    if (!pithi_reader_take(&r, BOUND_BYTES) || b->length == block_bytes(p, b->count))
        b->detail = "a coded block of a wrong length";
    else if (stated_bound(b) < 0)
        b->detail = "a block states a bound below 0";
    else
        b->detail = pithi_kv_unpack(&k, &r, c.tokens, c.page, c.symbols);
    if (b->detail) return PITH_ERR_CORRUPT;
    decode_page(b, c.page);
    return PITH_OK;
}

static pith_status decode(struct pithi_block *b) {
    const uint32_t base_dtype = b->params->base_dtype;
    if (b->params->value[PITHI_KV_ENTROPY]) return decode_coded(b);
    if (!b->params->key_frame) {
        if (b->out || b->base) decode_page(b, b->bytes);
        return PITH_OK;
    }
    if (b->update) memcpy(b->base, b->bytes, b->length);
    if (b->out) pithi_convert(b->out, b->out_dtype, b->bytes, base_dtype, b->count);
    b->hash += hash_base(b, 0, b->count);
    return PITH_OK;
}

static const char *refuse_pages(const struct pithi_params *p) {
    if (!fixed(p)) return "caches and pages need entropy=none";
    if (p->value[PITHI_KV_ORDER]) return "caches and pages need order=tokens: give a permuted view";
    return p->base_dtype ? "caches and pages take no base" : NULL;
}

static uint8_t frame_revision(const struct pithi_params *p) {
    const bool rans = p->value[PITHI_KV_ENTROPY] == PITHI_KV_RANS;
    return rans || p->value[PITHI_KV_CODEBOOK] == PITHI_CODEBOOK_TRELLIS ? 2 : 1;
}

static bool describe(const struct pithi_params *p, struct pithi_device *d) {
    struct pithi_kv k;
    pithi_kv_init(&k, p, NULL, p->own.pages.heads, p->own.pages.dim);
    d->kind = PITHI_KIND_PAGES;
    d->groups.set = k.set;
    d->groups.set.group = p->value[PITHI_KV_GROUP]; /* short heads are cut by the kernels */
    d->pages = (struct pithi_pages){.tokens = p->value[PITHI_KV_PAGE],
                                    .channel = k.channel,
                                    .rotated = k.rotation != 0,
                                    .outliers = p->value[PITHI_KV_OUTLIERS] != 0};
    d->coded = k.rans;
    if (d->groups.set.codebook == PITHI_CODEBOOK_TRELLIS)
        pithi_trellis_init(&d->groups.trellis, d->groups.set.bits);
    else if (d->groups.set.codebook)
        pithi_codebook_init(&d->pages.book, &d->groups.set);
    const bool plain = !p->value[PITHI_KV_CODEBOOK] && !p->value[PITHI_KV_OUTLIERS];
    return !p->value[PITHI_KV_ENTROPY] || (k.rans && plain && k.heads <= PITHI_CODED_HEADS);
}

/* Of the largest page no more tokens count than the slot has. */
static void describe_slot(const struct pithi_frame *f, struct pithi_device_plan_slot *slot,
                          struct pithi_device *device) {
    const struct pithi_tiling *const t = &slot->tiling;
    const uint64_t tokens = t->shape[2] < t->extent[2] ? t->shape[2] : t->extent[2];
    const struct pithi_device_plan_form *const form = &slot->form[0];
    const struct pithi_page_rows *const rows = &f->params.own.pages;
    struct pithi_pages *const pages = &device->pages;
    slot->pages = (struct pithi_pages_slot){rows->heads, rows->dim, rows->outliers, 0};
    if (!t->runs || !slot->blocks) return;
    pages->most_bytes =
        pithi_max(pages->most_bytes, t->grid[2] > 1 ? form->block_bytes : form->run_bytes);
    pages->most_elements = pithi_max(pages->most_elements, tokens * t->shape[3]);
    pages->most_heads = pithi_max(pages->most_heads, rows->heads);
}

static const struct pithi_former former[] = {
    {"range", "symmetric", ", with the values off and on"},
    {"rotate", "rotate_heads", ", with the values off and on"},
    {"scale", "scale_dtype", ""},
    {"level", "effort", ""},
};

const struct pithi_codec pithi_codec_kv = {
    .id = 8,
    .revision = 2,
    .frame_revision = frame_revision,
    .name = "kv",
    .summary = "KV caches and layer inputs: low-bit pages of tokens (KIVI, XQuant, QuaRot)",
    .traits = PITH_TRAIT_FIXED_RATE | PITH_TRAIT_BASE,
    .dtypes = 1u << PITH_F32 | 1u << PITH_BF16 | 1u << PITH_F16,
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .former = former,
    .former_count = sizeof former / sizeof *former,
    .needs = needs,
    .need_count = sizeof needs / sizeof needs[0],
    .stream_keys = 1u << PITHI_KV_WINDOW,
    .preset = preset,
    .resolve = resolve,
    .check = check,
    .fixed = fixed,
    .block_bytes = block_bytes,
    .scratch_bytes = scratch_bytes,
    .coder_bytes = coder_bytes,
    .open_coder = pithi_entropy_open,
    .encode = encode,
    .decode = decode,
    .bound = bound,
    .describe = describe,
    .describe_slot = describe_slot,
    .described =
        "devices code kv without entropy=zstd, and with entropy=rans at most 256 heads, without "
        "codebook and outliers",
    .described_keys = 1u << PITHI_KV_SEARCH,
    .cut = cut,
    .refuse_pages = refuse_pages,
};
