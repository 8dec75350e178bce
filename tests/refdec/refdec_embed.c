/* refdec_embed.c - codec 6: distinct rows, and which of them each row is.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "refdec.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Elements of a row. */
static uint64_t row_of(const struct ref_frame *f) {
    return least(ref_le(f->parameter + 8, 4), f->block);
}

struct block {
    uint64_t r, rows, distinct;
    uint32_t *which, *words;
    int64_t *centre;
};

static uint64_t bits_at(const uint8_t *bytes, uint64_t at, unsigned count) {
    uint64_t x = 0;
    for (unsigned t = 0; t < count; t++) x |= (uint64_t)ref_bit(bytes, at + t) << t;
    return x;
}

static bool ends(const uint8_t *bytes, uint64_t bits) {
    for (; bits % 8; bits++)
        if (ref_bit(bytes, bits)) return false;
    return true;
}

/* Row i is new, or distinct row `number`. */
static bool add(struct block *x, uint64_t i, bool is_new, uint64_t number, uint64_t *seen) {
    if (is_new) number = (*seen)++;
    x->which[i] = (uint32_t)number;
    if (number >= *seen || *seen > x->distinct) return false;
    return true;
}

static bool plain_map(struct ref_reader *r, struct block *x) {
    const uint64_t others = x->rows - x->distinct;
    const uint8_t *fresh, *numbers;
    unsigned width = 0;
    uint64_t seen = 0, next = 0;
    while ((x->distinct - 1) >> width) width++;
    if (!ref_take(r, (x->rows + 7) / 8, &fresh) || !ends(fresh, x->rows)) return false;
    for (uint64_t i = 0; i < x->rows; i++) seen += ref_bit(fresh, i);
    if (seen != x->distinct || !ref_take(r, (others * width + 7) / 8, &numbers)) return false;
    if (!ends(numbers, others * width)) return false;
    seen = 0;
    for (uint64_t i = 0; i < x->rows; i++) {
        const bool is_new = ref_bit(fresh, i);
        const uint64_t number = is_new ? 0 : bits_at(numbers, width * next++, width);
        if (!add(x, i, is_new, number, &seen)) return false;
    }
    return true;
}

static bool coded_map(struct ref_reader *r, struct block *x, uint8_t *symbols) {
    const uint8_t *open;
    uint64_t bits = 0, at = 0, seen = 0;
    if (!ref_piece(r, x->rows, symbols)) return false;
    for (uint64_t i = 0; i < x->rows; i++) {
        if (symbols[i] > 88) return false;
        bits += symbols[i] ? (symbols[i] - 1u) / 4 : 0;
    }
    if (!ref_take(r, (bits + 7) / 8, &open) || !ends(open, bits)) return false;
    for (uint64_t i = 0; i < x->rows; i++) {
        const unsigned s = symbols[i], k = s ? (s - 1) / 4 : 0;
        const uint64_t low = bits_at(open, at, k);
        at += k;
        const uint64_t number = s ? ((UINT64_C(4) + (s - 1) % 4) << k) - 4 + low : 0;
        if (!add(x, i, s == 0, number, &seen)) return false;
    }
    return seen == x->distinct;
}

static bool read_map(struct ref_reader *r, unsigned kind, struct block *x) {
    const bool simple = x->distinct == 1 || x->distinct == x->rows;
    if (kind > 2 || simple != (kind == 0)) return false;
    for (uint64_t i = 0; kind == 0 && i < x->rows; i++)
        x->which[i] = x->distinct == 1 ? 0 : (uint32_t)i;
    if (kind == 0) return true;
    if (kind == 1) return plain_map(r, x);
    uint8_t *const symbols = malloc(x->rows);
    const bool good = symbols && coded_map(r, x, symbols);
    free(symbols);
    return good;
}

static bool read_centre(struct ref_reader *r, unsigned code, struct block *x) {
    const unsigned bytes = code == 3 ? 4 : code;
    REF_CASE("embed bytes of a centre", 0x17, bytes);
    const uint8_t *from;
    if (!ref_take(r, bytes * x->r, &from)) return false;
    for (uint64_t j = 0; j < x->r; j++) {
        const int64_t u = (int64_t)ref_le(from + j * bytes, bytes);
        const int64_t top = bytes ? INT64_C(1) << (8 * bytes - 1) : 1;
        x->centre[j] = u >= top ? u - 2 * top : u;
    }
    return true;
}

static void put_rows(const struct ref_block *b, const struct block *x) {
    for (uint64_t i = 0; i < b->count; i++) {
        const uint64_t j = i % x->r;
        const uint32_t word = x->words[x->which[i / x->r] * x->r + j];
        const uint32_t code = (uint32_t)ref_number(word) + (uint32_t)x->centre[j];
        ref_put_value(b->frame, (int32_t)code, b->out, i);
    }
}

static bool read_block(const struct ref_block *b, struct block *x) {
    struct ref_reader r = {b->bytes, b->length,
                           b->frame->revision >= 2 ? REF_ZSTD_AND_RANS : REF_ZSTD};
    struct ref_exact exact;
    const uint8_t *head;
    if (!ref_take(&r, 4, &head) || head[0] & 0xC8) return false;
    x->distinct = ref_le(head + 1, 3) + 1;
    if (x->distinct > x->rows) return false;
    if (!ref_take_exact(&r, b, &exact) || !read_map(&r, head[0] & 3, x)) return false;
    if (!read_centre(&r, head[0] >> 4 & 3, x)) return false;
    const uint64_t n = x->distinct * x->r;
    if (!(head[0] & 4 ? ref_coded(&r, n, x->words) : ref_packed(&r, n, x->words)) || r.left)
        return false;
    put_rows(b, x);
    ref_put_exact(b, &exact);
    return true;
}

static enum ref_status decode(const struct ref_block *b) {
    if (b->plain) return ref_plain(b);
    struct block x = {.r = row_of(b->frame)};
    if (x.r > b->count) x.r = b->count;
    x.rows = (b->count + x.r - 1) / x.r;
    x.which = malloc(4 * x.rows);
    x.words = malloc(4 * x.rows * x.r);
    x.centre = malloc(8 * x.r);
    const bool allocated = x.which && x.words && x.centre, good = allocated && read_block(b, &x);
    free(x.which);
    free(x.words);
    free(x.centre);
    return good ? REF_OK : allocated ? REF_CORRUPT : REF_MEMORY;
}

/* ---- The codec -------------------------------------------------------------------------------*/

static void rows(struct ref_frame *f) {
    const uint64_t r = row_of(f);
    if (f->shape[3] != r) {
        for (int d = 0; d < 3; d++) f->shape[d] = 1;
        f->shape[3] = f->n;
        f->extent[3] = least(f->n, f->block / r * r);
        return;
    }
    f->extent[3] = r;
    f->extent[2] = least(f->shape[2], f->block / r);
    uint64_t n = r * f->extent[2];
    for (int d = 1; d >= 0 && f->extent[d + 1] == f->shape[d + 1]; d--) {
        const uint64_t most = least(f->block, 16384) / n;
        f->extent[d] = least(f->shape[d], most ? most : 1);
        n *= f->extent[d];
    }
}

static bool cut(struct ref_frame *f) { return ref_cut_tiles(f, rows); }

static enum ref_status check(const struct ref_frame *f) {
    TRY(ref_check_bounded(f, 2, 2, 12));
    REJECT_IF(ref_le(f->parameter + 8, 4) < 1 || ref_le(f->parameter + 8, 4) > 16777216);
    return REF_OK;
}

static unsigned only_revision(const struct ref_frame *f) {
    return f->parameter[1] == 0 ? 1 : 0; /* mode fast has no strings to code */
}

const struct ref_codec ref_codec_embed = {
    .name = "embed",
    .revision = 2,
    .dtypes = 0x1E,
    .bases = 1,
    .section = BOUND,
    .read_section = ref_read_bound,
    .check = check,
    .only_revision = only_revision,
    .cut = cut,
    .block_bytes = ref_plain_bytes,
    .decode = decode,
};
