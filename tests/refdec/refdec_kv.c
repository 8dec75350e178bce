/* refdec_kv.c - codec 8: pages of tokens.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* ---- Shape -----------------------------------------------------------------------------------*/

static uint64_t group_of(const struct ref_frame *f) { return UINT64_C(1) << f->parameter[3]; }

/* Sequences, tokens, and a row as heads and dim. */
static void dimensions(struct ref_frame *f, uint64_t *sequences, uint64_t *tokens) {
    unsigned left = f->ndim;
    *sequences = *tokens = f->heads = f->dim_of_head = 1;
    if (left) f->dim_of_head = f->dim[--left];
    if (left > 1 && f->parameter[1] == 0) f->heads = f->dim[--left];
    if (left) *tokens = f->dim[--left];
    while (left) *sequences *= f->dim[--left];
    if (!f->base_dtype) return;
    *tokens *= *sequences;
    *sequences = 1;
}

static bool is_order(uint64_t dim) {
    if (dim != 32 && dim != 64 && dim != 128 && dim != 256) return false;
    return true;
}

static bool is_block(const struct ref_frame *f, uint64_t least_block) {
    if (f->block < least_block || (f->block > least_block && !f->parameter[10])) return false;
    return true;
}

static bool cut(struct ref_frame *f) {
    const uint64_t most = 1 << 20, page = UINT64_C(1) << f->parameter[4];
    uint64_t sequences, tokens, block = 16;
    f->tiles = 0;
    dimensions(f, &sequences, &tokens);
    if (f->n == 0) return is_block(f, block);
    if (f->heads > most || f->dim_of_head > most || f->heads * f->dim_of_head > most) return false;
    if (f->parameter[8] && !is_order(f->dim_of_head)) return false;
    const uint64_t row = f->heads * f->dim_of_head;
    const uint64_t fit = f->parameter[10] ? f->block / (page * row) : 0;
    const uint64_t extent_tokens = least(fit ? fit * page : page, tokens);
    if (least(page, tokens) * row > 1 << 24) return false;
    while (block < least(page, tokens) * row) block *= 2;
    const uint64_t pages = ceil_div(tokens, extent_tokens);
    const uint64_t shape[4] = {1, sequences, tokens, row};
    const uint64_t extent[4] = {1, 1, extent_tokens, row};
    const uint64_t grid[4] = {1, sequences, pages, 1};
    memcpy(f->shape, shape, sizeof shape);
    memcpy(f->extent, extent, sizeof extent);
    memcpy(f->grid, grid, sizeof grid);
    f->tiles = sequences * pages;
    return is_block(f, block);
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

static unsigned scale_dtype(const struct ref_frame *f) {
    static const uint8_t dtypes[3] = {F16, BF16, F32};
    return dtypes[f->parameter[6]];
}

static bool asymmetric(const struct ref_frame *f) { return f->parameter[5] == 0; }
static unsigned numbers(const struct ref_frame *f) { return asymmetric(f) ? 2 : 1; }

/* The share of a group that is kept apart; p n is exact up to what floor tells apart. */
static uint64_t outliers_of(const struct ref_frame *f) {
    const uint64_t word = ref_le(f->parameter + 12, 4), whole = group_of(f);
    const uint64_t n = f->parameter[0] ? whole : least(whole, f->dim_of_head);
    const uint64_t most = n / 8 ? n / 8 : 1;
    if (!f->parameter[11]) return 0;
    const uint64_t k = (uint64_t)floor(
        (double)(word >> 10) * (double)n * pow(10, (double)(word & 1023) - 512) + 0.5);
    return k < 1 ? 1 : least(k, most);
}

static uint64_t groups_of(const struct ref_frame *f, uint64_t tokens) {
    if (f->parameter[0]) return ceil_div(tokens, group_of(f)) * f->heads * f->dim_of_head;
    return tokens * f->heads * ceil_div(f->dim_of_head, group_of(f));
}

static uint64_t scales_bytes(const struct ref_frame *f, uint64_t tokens) {
    return ref_pad16(groups_of(f, tokens) * numbers(f) * ref_dtype_bytes(scale_dtype(f)));
}

static uint64_t head_bytes(const struct ref_frame *f) {
    return ceil_div(f->dim_of_head * f->parameter[2], 8);
}

static uint64_t page_bytes(const struct ref_frame *f, uint64_t count) {
    const uint64_t tokens = count / (f->heads * f->dim_of_head);
    const uint64_t outliers = groups_of(f, tokens) * outliers_of(f);
    return scales_bytes(f, tokens) + ref_pad16(tokens * f->heads * head_bytes(f)) +
           ref_pad16(outliers) + ref_pad16(outliers * ref_dtype_bytes(f->dtype));
}

static uint64_t block_bytes(const struct ref_frame *f, uint64_t count) {
    return f->key ? count * ref_dtype_bytes(f->base_dtype) : page_bytes(f, count);
}

/* Bytes of all pages; 2^62 or more where they are more. */
static uint64_t pages_bytes(const struct ref_frame *f) {
    const uint64_t limit = UINT64_C(1) << 62;
    if (!f->tiles) return 0;
    const uint64_t pages = f->grid[2], page = f->extent[2] * f->shape[3];
    const uint64_t whole = block_bytes(f, page);
    const uint64_t rest = f->shape[2] * f->shape[3] - (pages - 1) * page;
    const uint64_t last = block_bytes(f, rest);
    const uint64_t sequence = least(pages - 1, limit / whole + 1) * whole + last;
    return least(f->shape[1], limit / sequence + 1) * sequence;
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* Number of the entry of an element's scale, and of its zero point, of the scale dtype. */
static void entries(const struct ref_frame *f, uint64_t token, uint64_t place, uint64_t *scale,
                    uint64_t *zero) {
    const uint64_t row = f->heads * f->dim_of_head, group = group_of(f);
    if (f->parameter[0]) {
        *scale = token / group * row * numbers(f) + place;
        *zero = *scale + row;
        return;
    }
    const uint64_t head = token * f->heads + place / f->dim_of_head;
    const uint64_t number = head * ceil_div(f->dim_of_head, group) + place % f->dim_of_head / group;
    *scale = number * numbers(f);
    *zero = *scale + 1;
}

static uint32_t level_times(const struct ref_frame *f, unsigned code, uint32_t scale) {
    static const float nf[3][16] = {
        {-1, 0, 0.435818166f, 1},
        {-1, -0.535022736f, -0.246931434f, 0, 0.18333748f, 0.381993949f, 0.622985721f, 1},
        {-1, -0.696192801f, -0.525072932f, -0.394917428f, -0.284441322f, -0.1847734f, -0.091049977f,
         0, 0.079580314f, 0.160930142f, 0.246112257f, 0.337915123f, 0.44070974f, 0.562616885f,
         0.722956657f, 1}};
    static const float lloyd[3][8] = {{0.45278f, 1.5104176f},
                                      {0.2450942f, 0.7560053f, 1.3439093f, 2.1519457f},
                                      {0.128395f, 0.3880483f, 0.6567591f, 0.9423405f, 1.2562312f,
                                       1.6180464f, 2.0690172f, 2.7325896f}};
    const unsigned w = f->parameter[2], half = 1u << (w - 1);
    if (!ref_finite(scale)) return ref_canonical_nan();
    float level = nf[w - 2][code];
    if (f->parameter[9] == 2)
        level = code < half ? -lloyd[w - 2][half - 1 - code] : lloyd[w - 2][code - half];
    return ref_saturated(ref_as_bits(level * ref_as_float(scale) + 0.0f), F32);
}

/* A code of codebook trellis, with those before it in its group. */
static uint32_t path_value(const struct ref_frame *f, const uint8_t *codes, uint64_t token,
                           uint64_t place, uint32_t scale) {
    const uint64_t at =
        f->parameter[0] ? token % group_of(f) : place % f->dim_of_head % group_of(f);
    unsigned code[4] = {0};
    for (uint64_t k = 0; k < 4 && k <= at; k++) {
        const uint64_t t = f->parameter[0] ? token - k : token;
        const uint64_t d = f->parameter[0] ? place : place - k;
        const uint8_t *const string = codes + (t * f->heads + d / f->dim_of_head) * head_bytes(f);
        code[k] = ref_code_at(string, d % f->dim_of_head, f->parameter[2]);
    }
    return ref_trellis(f->parameter[2], code, scale);
}

static uint32_t value_at(const struct ref_block *b, uint64_t tokens, uint64_t token,
                         uint64_t place) {
    const struct ref_frame *f = b->frame;
    const unsigned w = f->parameter[2];
    const uint64_t head = token * f->heads + place / f->dim_of_head;
    const uint8_t *const string = b->bytes + scales_bytes(f, tokens) + head * head_bytes(f);
    const unsigned code = ref_code_at(string, place % f->dim_of_head, w);
    uint64_t scale, zero;
    entries(f, token, place, &scale, &zero);
    const uint32_t s = ref_load(b->bytes, scale, scale_dtype(f));
    if (f->parameter[9] == 3)
        return path_value(f, b->bytes + scales_bytes(f, tokens), token, place, s);
    if (f->parameter[9]) return level_times(f, code, s);
    if (!asymmetric(f)) return ref_decoded(ref_sign_extended(code, w), s);
    const uint32_t z = ref_load(b->bytes, zero, scale_dtype(f));
    if (!ref_finite(s) || !ref_finite(z)) return ref_canonical_nan();
    const float product = (float)code * ref_as_float(s);
    return ref_saturated(ref_as_bits(product + ref_as_float(z)), F32);
}

/* Element `place` of a group; false when it is not kept apart. */
static bool outlier_at(const struct ref_block *b, uint64_t tokens, uint64_t token, uint64_t place,
                       uint8_t *out) {
    const struct ref_frame *f = b->frame;
    const uint64_t k = outliers_of(f), groups = groups_of(f, tokens);
    const unsigned bytes = ref_dtype_bytes(f->dtype);
    uint64_t scale, zero;
    bool found = false;
    entries(f, token, place, &scale, &zero);
    uint64_t group = scale / numbers(f), in = place % f->dim_of_head % group_of(f);
    if (f->parameter[0]) {
        group = token / group_of(f) * f->heads * f->dim_of_head + place;
        in = token % group_of(f);
    }
    const uint8_t *const places =
        b->bytes + scales_bytes(f, tokens) + ref_pad16(tokens * f->heads * head_bytes(f));
    const uint8_t *const values = places + ref_pad16(groups * k);
    for (uint64_t i = group * k; i < (group + 1) * k; i++) {
        if (places[i] != in) continue;
        memcpy(out, values + i * bytes, bytes);
        found = true;
    }
    return found;
}

static enum ref_status decode_page(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    const uint64_t row = f->heads * f->dim_of_head, tokens = b->count / row;
    float *x = malloc(b->count * sizeof *x);
    if (!x) return REF_MEMORY;
    for (uint64_t i = 0; i < b->count; i++)
        x[i] = ref_as_float(value_at(b, tokens, i / row, i % row));
    for (uint64_t i = 0; f->parameter[8] && i < b->count; i += f->dim_of_head)
        ref_transform_back(x + i, f->dim_of_head);
    for (size_t i = 0; i < b->count; i++) {
        uint32_t u = ref_as_bits(x[i]);
        if (f->base_dtype) {
            ref_update(b->new_base, i, f->base_dtype, ref_load(b->base, i, f->base_dtype), u);
            u = ref_load(b->new_base, i, f->base_dtype);
        }
        if (!outlier_at(b, tokens, i / row, i % row, b->out + i * ref_dtype_bytes(f->dtype)))
            ref_store(b->out, i, f->dtype, u);
    }
    free(x);
    return REF_OK;
}

/* ---- Entropy ---------------------------------------------------------------------------------*/

static bool take_scales(const struct ref_frame *f, struct ref_reader *r, uint64_t tokens,
                        uint8_t *page, uint8_t *scratch) {
    const uint64_t row = f->heads * f->dim_of_head, groups = groups_of(f, tokens);
    const unsigned bytes = ref_dtype_bytes(scale_dtype(f));
    for (unsigned n = 0; n < numbers(f); n++)
        for (unsigned byte = 0; byte < bytes; byte++) {
            if (!ref_piece(r, groups, scratch)) return false;
            for (uint64_t g = 0; g < groups; g++) {
                const uint64_t entry = f->parameter[0]
                                           ? g / row * row * numbers(f) + n * row + g % row
                                           : g * numbers(f) + n;
                page[entry * bytes + byte] = scratch[g];
            }
        }
    return true;
}

/* The codes of a head: as bytes of code strings, or one in a byte. */
static bool take_head(const struct ref_frame *f, struct ref_reader *r, uint64_t tokens,
                      uint64_t part, uint8_t *symbols) {
    if (f->parameter[10] == 1) return ref_piece(r, tokens * part, symbols);
    return ref_coded_codes(r, tokens * part, tokens, f->parameter[2], symbols);
}

static bool take_codes(const struct ref_frame *f, struct ref_reader *r, uint64_t tokens,
                       uint8_t *page, uint8_t *scratch) {
    const unsigned w = f->parameter[2];
    const bool each = f->parameter[10] == 2 || w == 3 || w == 5 || w == 6;
    const uint64_t string = head_bytes(f), part = each ? f->dim_of_head : string;
    for (uint64_t head = 0; head < f->heads; head++) {
        if (!take_head(f, r, tokens, part, scratch)) return false;
        for (uint64_t t = 0; t < tokens; t++) {
            uint8_t *const to = page + scales_bytes(f, tokens) + (t * f->heads + head) * string;
            if (!each) memcpy(to, scratch + t * part, part);
            for (uint64_t i = 0; each && i < part * w; i++) {
                const uint8_t symbol = scratch[t * part + i / w];
                if (symbol >> w) return false;
                to[i / 8] |= (uint8_t)((symbol >> i % w & 1) << i % 8);
            }
        }
    }
    return true;
}

/* The page that a coded block stands for; zeros where it has padding. */
static bool take_page(const struct ref_block *b, uint64_t tokens, uint8_t *page, uint8_t *scratch) {
    const struct ref_frame *f = b->frame;
    struct ref_reader r = {b->bytes, b->length, f->parameter[10] == 2 ? REF_RANS : REF_ZSTD};
    const uint8_t *bound, *places, *values;
    const uint64_t outliers = groups_of(f, tokens) * outliers_of(f);
    uint8_t *to = page + scales_bytes(f, tokens) + ref_pad16(tokens * f->heads * head_bytes(f));
    double stated;
    if (!ref_take(&r, 8, &bound)) return false;
    memcpy(&stated, bound, sizeof stated);
    if (stated < 0 || !take_scales(f, &r, tokens, page, scratch) ||
        !take_codes(f, &r, tokens, page, scratch) || !ref_take(&r, outliers, &places) ||
        !ref_take(&r, outliers * ref_dtype_bytes(f->dtype), &values))
        return false;
    memcpy(to, places, outliers);
    memcpy(to + ref_pad16(outliers), values, outliers * ref_dtype_bytes(f->dtype));
    return r.left == 0;
}

static enum ref_status decode_coded(const struct ref_block *b, uint64_t tokens) {
    struct ref_block page = *b;
    page.length = page_bytes(b->frame, b->count);
    if ((b->length == page.length) != b->plain) return REF_CORRUPT;
    if (b->plain) return decode_page(b);
    uint8_t *const bytes = calloc(page.length, 1), *const scratch = malloc(page.length + b->count);
    enum ref_status status = bytes && scratch ? REF_OK : REF_MEMORY;
    if (status == REF_OK && !take_page(b, tokens, bytes, scratch)) status = REF_CORRUPT;
    page.bytes = bytes;
    if (status == REF_OK) status = decode_page(&page);
    free(bytes);
    free(scratch);
    return status;
}

static enum ref_status decode(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    if (f->key) return ref_key_frame(b);
    if (!f->parameter[10]) return decode_page(b);
    return decode_coded(b, b->count / (f->heads * f->dim_of_head));
}

/* ---- The codec -------------------------------------------------------------------------------*/

static enum ref_status check_share(uint64_t word) {
    TRY(ref_check_requested(0, word));
    REJECT_IF((double)(word >> 10) * pow(10, (double)(word & 1023) - 512) > 0.125);
    return REF_OK;
}

static enum ref_status check(const struct ref_frame *f) {
    const uint8_t *p = f->parameter, w = p[2];
    REJECT_IF(p[0] > 1 || p[1] > 1 || w < 2 || w == 7 || w > 8);
    REJECT_IF(p[3] < 4 || p[3] > 8 || p[4] < 4 || p[4] > 12);
    REJECT_IF(p[5] > 1 || p[6] > 2 || p[7] > 1 || p[8] > 1);
    REJECT_IF(p[9] > 3 || p[10] > 2 || p[11] > 1);
    if (p[11])
        TRY(check_share(ref_le(p + 12, 4)));
    else
        REJECT_IF(ref_le(p + 12, 4));
    REJECT_IF(p[0] && p[4] < p[3]);
    REJECT_IF(p[9] && (w > 4 || !p[5] || p[7]));
    REJECT_IF(p[11] && p[8]);
    REJECT_IF(f->base_dtype && (p[0] || p[7] || p[8] || p[9] || p[10] || p[11]));
    return REF_OK;
}

static unsigned only_revision(const struct ref_frame *f) {
    return f->parameter[9] == 3 || f->parameter[10] == 2 ? 2 : 1;
}

static bool fixed(const struct ref_frame *f) { return !f->parameter[10]; }

static void note(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    REF_CASE("kv axis and order", 0xF, 2 * p[0] + p[1]);
    REF_CASE("kv range and scale", 0x3F, 3 * p[5] + p[6]);
    REF_CASE("kv axis, range", 0xF, 2 * p[0] + p[5]);
    if (p[9])
        REF_CASE(p[9] == 1   ? "kv bits of nf"
                 : p[9] == 2 ? "kv bits of lloyd"
                             : "kv bits of trellis",
                 0x1C, p[2]);
    else if (p[10])
        REF_CASE(p[10] == 1 ? "kv bits with entropy" : "kv bits with rans", 0x17C, p[2]);
    else
        REF_CASE(p[5] ? "kv bits, symmetric" : "kv bits, asymmetric", 0x17C, p[2]);
    if (p[8]) REF_CASE("kv log2 of the rotation", 0x1E0, log2((double)f->dim_of_head));
    if (p[10])
        REF_CASE(p[10] == 1 ? "kv entropy: axis, range" : "kv rans: axis, range", 0xF,
                 2 * p[0] + p[5]);
    if (p[11]) REF_CASE("kv outliers: dtype", 0xE, f->dtype);
    if (p[11]) REF_CASE("kv outliers: axis, range", 0xF, 2 * p[0] + p[5]);
}

const struct ref_codec ref_codec_kv = {
    .name = "kv",
    .revision = 2,
    .only_revision = only_revision,
    .dtypes = 0xE,
    .bases = 0xF,
    .check = check,
    .fixed = fixed,
    .cut = cut,
    .block_bytes = block_bytes,
    .all_bytes = pages_bytes,
    .decode = decode,
    .note = note,
};
