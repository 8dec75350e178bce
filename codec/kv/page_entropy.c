/* page_entropy.c - pages of codec kv through an entropy coder, for files and networks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Codes of a head have a distribution of their own, so each head is a string; scales and zero
 * points are strings of their bytes by significance. A string's table serves all of its tokens. */
#include "kv/page_entropy.h"

#include <string.h>

#include "group/code_symbols.h"

/* ---- Strings of a page -----------------------------------------------------------------------*/

static size_t numbers_of(const struct pithi_kv *k) { return k->set.asymmetric ? 2 : 1; }

static size_t planes_of(const struct pithi_kv *k) {
    return numbers_of(k) * pithi_scale_width(k->set.scale_dtype);
}

static size_t heads_codes(const struct pithi_kv *k) {
    return pithi_group_code_bytes(&k->set, k->dim);
}

/* Returns the codes of a head, a string for each token. */
static struct pithi_code_strings head_strings(const struct pithi_kv *k, uint8_t *page,
                                              uint32_t tokens, uint32_t head) {
    const size_t bytes = heads_codes(k);
    return (struct pithi_code_strings){.at = page + pithi_kv_areas(k, tokens).codes + head * bytes,
                                       .count = tokens,
                                       .codes = k->dim,
                                       .stride = k->heads * bytes,
                                       .bits = k->set.bits};
}

static bool one_to_a_byte(const struct pithi_kv *k) {
    return pithi_codes_take_bytes(k->rans, k->set.bits);
}

static size_t head_symbols(const struct pithi_kv *k) {
    return one_to_a_byte(k) ? k->dim : heads_codes(k);
}

/* Returns where byte `plane` of a group's numbers is. */
static size_t plane_byte(const struct pithi_kv *k, size_t plane, size_t group) {
    const size_t width = pithi_scale_width(k->set.scale_dtype), row = (size_t)k->heads * k->dim;
    const size_t numbers = numbers_of(k), number = plane / width, byte = plane % width;
    if (!k->channel) return (group * numbers + number) * width + byte;
    return ((group / row * numbers + number) * row + group % row) * width + byte;
}

size_t pithi_kv_symbols(const struct pithi_kv *k, uint32_t tokens) {
    const size_t groups = pithi_kv_groups(k, tokens), symbols = tokens * head_symbols(k);
    return groups > symbols ? groups : symbols;
}

/* ---- Symbols ---------------------------------------------------------------------------------*/

static bool put_head(const struct pithi_kv *k, const struct pithi_code_strings *s, size_t most,
                     struct pithi_pen *pen, uint8_t *symbols) {
    const size_t step = head_symbols(k);
    if (k->rans) return pithi_codes_put(pen, s, symbols);
    for (size_t i = 0; i < s->count; i++)
        if (one_to_a_byte(k))
            pithi_codes_to_symbols(s->bits, s->at + i * s->stride, s->codes, symbols + i * step);
        else
            memcpy(symbols + i * step, s->at + i * s->stride, step);
    return pithi_piece_put(pen, most, symbols, s->count * step);
}

static const char *take_head(const struct pithi_kv *k, const struct pithi_code_strings *s,
                             struct pithi_reader *r, uint8_t *buffer) {
    const size_t step = head_symbols(k);
    if (k->rans) return pithi_codes_take(r, s, buffer);
    const uint8_t *const symbols = pithi_piece_take(r, s->count * step, buffer);
    uint32_t all = 0;
    if (!symbols) return "the codes of a head are damaged";
    for (size_t i = 0; i < s->count; i++)
        if (one_to_a_byte(k))
            all |= pithi_symbols_to_codes(s->bits, symbols + i * step, s->codes,
                                          s->at + i * s->stride);
        else
            memcpy(s->at + i * s->stride, symbols + i * step, step);
    return all >> s->bits ? "a code is out of range" : NULL;
}

/* ---- Pages -----------------------------------------------------------------------------------*/

/* Returns the bytes of places (width 1) or values of outliers, which are stored as they are: both
 * are as good as noise. */
static size_t outliers_bytes(const struct pithi_kv *k, uint32_t tokens, size_t width) {
    return pithi_kv_groups(k, tokens) * k->outliers * width;
}

bool pithi_kv_pack(const struct pithi_kv *k, uint8_t *page, uint32_t tokens, struct pithi_pen *pen,
                   uint8_t *symbols) {
    const struct pithi_kv_areas at = pithi_kv_areas(k, tokens);
    const size_t most = pithi_kv_symbols(k, tokens), groups = pithi_kv_groups(k, tokens);
    for (size_t p = 0; p < planes_of(k); p++) {
        for (size_t g = 0; g < groups; g++) symbols[g] = page[plane_byte(k, p, g)];
        if (!pithi_piece_put(pen, most, symbols, groups)) return false;
    }
    for (uint32_t head = 0; head < k->heads; head++) {
        const struct pithi_code_strings s = head_strings(k, page, tokens, head);
        if (!put_head(k, &s, most, pen, symbols)) return false;
    }
    const size_t width = pith_dtype_bytes(k->dtype);
    return pithi_pen_put(pen, page + at.places, outliers_bytes(k, tokens, 1)) &&
           pithi_pen_put(pen, page + at.exact, outliers_bytes(k, tokens, width));
}

static bool take_bytes(struct pithi_reader *r, uint8_t *to, size_t bytes) {
    const uint8_t *const from = pithi_reader_take(r, bytes);
    if (from) memcpy(to, from, bytes);
    return from != NULL;
}

const char *pithi_kv_unpack(const struct pithi_kv *k, struct pithi_reader *r, uint32_t tokens,
                            uint8_t *page, uint8_t *symbols) {
    const struct pithi_kv_areas at = pithi_kv_areas(k, tokens);
    const size_t groups = pithi_kv_groups(k, tokens);
    const char *fault = NULL;
    for (size_t p = 0; p < planes_of(k); p++) {
        const uint8_t *const plane = pithi_piece_take(r, groups, symbols);
        if (!plane) return "the scales are damaged";
        for (size_t g = 0; g < groups; g++) page[plane_byte(k, p, g)] = plane[g];
    }
    for (uint32_t head = 0; head < k->heads && !fault; head++) {
        const struct pithi_code_strings s = head_strings(k, page, tokens, head);
        fault = take_head(k, &s, r, symbols);
    }
    if (fault) return fault;
    const size_t width = pith_dtype_bytes(k->dtype);
    if (!take_bytes(r, page + at.places, outliers_bytes(k, tokens, 1)) ||
        !take_bytes(r, page + at.exact, outliers_bytes(k, tokens, width)))
        return "the outliers are cut";
    return r->left ? "bytes after the end of a block" : NULL;
}
