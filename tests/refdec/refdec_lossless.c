/* refdec_lossless.c - codec 2: pieces, words and the maps between words and values.
 * SPDX-License-Identifier: Apache-2.0 */
#define ZSTD_STATIC_LINKING_ONLY
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "refdec.h"

bool ref_take(struct ref_reader *r, size_t count, const uint8_t **bytes) {
    if (count > r->left) return false;
    *bytes = r->bytes;
    r->bytes += count;
    r->left -= count;
    return true;
}

/* ---- Coded strings ---------------------------------------------------------------------------*/

bool ref_unzstd(const uint8_t *bytes, size_t length, uint8_t *out, size_t n) {
    static const uint8_t magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
    if (!length) return false;
    uint8_t *frame = malloc(length + 4);
    if (!frame) return false;
    memcpy(frame, magic, 4);
    memcpy(frame + 4, bytes, length);
    const bool checksum = bytes[0] & 4;
    ZSTD_frameHeader head;
    const bool good = !checksum && ZSTD_getFrameHeader(&head, frame, length + 4) == 0 &&
                      head.windowSize <= 1 << 24 &&
                      ZSTD_getFrameContentSize(frame, length + 4) == n &&
                      ZSTD_getDictID_fromFrame(frame, length + 4) == 0 &&
                      ZSTD_findFrameCompressedSize(frame, length + 4) == length + 4 &&
                      ZSTD_decompress(out, n, frame, length + 4) == n;
    free(frame);
    return good;
}

/* ---- Pieces ----------------------------------------------------------------------------------*/

static bool piece(struct ref_reader *r, size_t n, bool may_be_sparse, uint8_t *out);

static bool sparse(struct ref_reader *r, size_t n, uint8_t *out) {
    size_t m = 0, next = 0;
    if (n < 64) return false;
    uint8_t *bitmap = malloc((n + 7) / 8), *rest = malloc(n);
    bool good = bitmap && rest && piece(r, (n + 7) / 8, true, bitmap);
    if (good) {
        for (size_t i = 0; i < n; i++) m += ref_bit(bitmap, i);
        for (size_t i = n; i % 8; i++) good = good && !ref_bit(bitmap, i);
    }
    good = good && m && piece(r, m, false, rest);
    for (size_t i = 0; good && i < n; i++) out[i] = ref_bit(bitmap, i) ? rest[next++] : 0;
    free(bitmap);
    free(rest);
    return good;
}

static bool piece(struct ref_reader *r, size_t n, bool may_be_sparse, uint8_t *out) {
    const uint8_t *kind, *bytes, *u24;
    if (!ref_take(r, 1, &kind)) return false;
    if (*kind == 0) {
        if (!ref_take(r, n, &bytes)) return false;
        memcpy(out, bytes, n);
        return true;
    }
    if (*kind == 1) {
        if (!ref_take(r, 1, &bytes)) return false;
        memset(out, *bytes, n);
        return true;
    }
    if (*kind == 4 && r->coders == REF_ZSTD) return false;
    if (*kind == 2 && r->coders == REF_RANS) return false;
    if (*kind == 2 || *kind == 4) {
        if (!ref_take(r, 3, &u24) || !ref_take(r, ref_le(u24, 3), &bytes)) return false;
        if (*kind == 4) return ref_rans(bytes, ref_le(u24, 3), out, n);
        return ref_unzstd(bytes, ref_le(u24, 3), out, n);
    }
    if (*kind != 3 || !may_be_sparse) return false;
    return sparse(r, n, out);
}

bool ref_piece(struct ref_reader *r, size_t n, uint8_t *out) { return piece(r, n, true, out); }

/* ---- Words -----------------------------------------------------------------------------------*/

static uint64_t mask(unsigned w) { return w == 64 ? ~UINT64_C(0) : (UINT64_C(1) << w) - 1; }

static bool is_float(unsigned dtype) { return dtype <= F64 || dtype == F8E4M3 || dtype == F8E5M2; }

static bool is_signed(unsigned dtype) {
    return dtype == I8 || dtype == I16 || dtype == I32 || dtype == I64;
}

static uint64_t unzigzag(uint64_t z, unsigned w) {
    if (z % 2 == 0) return z / 2;
    return mask(w) - z / 2; /* 2^w - (z + 1) / 2 */
}

static uint64_t order(uint64_t u, unsigned w) {
    const uint64_t half = UINT64_C(1) << (w - 1);
    return u & half ? mask(w) - u : u + half;
}

static uint64_t from_order(uint64_t o, unsigned w) {
    const uint64_t half = UINT64_C(1) << (w - 1);
    return o < half ? ~o & mask(w) : o - half;
}

static uint64_t value_of(uint64_t word, unsigned dtype, unsigned w) {
    if (is_float(dtype)) return (word >> 1 | word << (w - 1)) & mask(w);
    return is_signed(dtype) ? unzigzag(word, w) : word;
}

static uint64_t updated(uint64_t word, uint64_t base, unsigned dtype, unsigned w) {
    const uint64_t d = unzigzag(word, w);
    if (is_float(dtype)) return from_order((order(base, w) + d) & mask(w), w);
    return (base + d) & mask(w);
}

/* The words of a block, W bytes each. */
struct words {
    size_t c, e;
    unsigned k, bytes;
    uint8_t *symbols; /* one byte each */
    uint8_t *escaped; /* bytes planes of e */
};

static bool read_symbols(struct ref_reader *r, struct words *x) {
    const size_t length = (x->c * x->k + 7) / 8;
    uint8_t *string = malloc(length);
    bool good = string && piece(r, length, true, string);
    x->e = 0;
    for (size_t i = 0; good && i < x->c; i++) {
        unsigned symbol = 0;
        for (unsigned t = 0; t < x->k; t++) symbol |= (unsigned)ref_bit(string, i * x->k + t) << t;
        x->symbols[i] = (uint8_t)symbol;
        x->e += symbol == (1u << x->k) - 1;
    }
    for (size_t i = x->c * x->k; good && i < length * 8; i++) good = !ref_bit(string, i);
    free(string);
    return good;
}

static uint64_t escaped(const struct words *x, size_t j) {
    uint64_t word = 0;
    for (unsigned t = x->bytes; t--;) word = word << 8 | x->escaped[t * x->e + j];
    return word;
}

static void put(uint8_t *at, uint64_t value, unsigned bytes) {
    for (unsigned t = 0; t < bytes; t++, value >>= 8) at[t] = (uint8_t)value;
}

static void write_values(const struct ref_block *b, const struct words *x, bool update) {
    const unsigned dtype = b->frame->dtype, w = x->bytes * 8;
    const uint64_t top = (UINT64_C(1) << x->k) - 1;
    size_t j = 0;
    for (size_t i = 0; i < x->c; i++) {
        uint64_t word = x->k && x->symbols[i] < top
                            ? x->symbols[i]
                            : ((x->k ? top : 0) + escaped(x, j++)) & mask(w);
        const uint64_t value =
            update ? updated(word, ref_le(b->base + i * x->bytes, x->bytes), dtype, w)
                   : value_of(word, dtype, w);
        put(b->out + i * x->bytes, value, x->bytes);
    }
}

static bool read_words(struct ref_reader *r, struct words *x) {
    if (x->k && !read_symbols(r, x)) return false;
    for (unsigned t = 0; x->e && t < x->bytes; t++)
        if (!piece(r, x->e, true, x->escaped + t * x->e)) return false;
    return r->left == 0;
}

/* Offsets of rows, then of columns, in memory for two numbers for each element of the block. */
static bool read_offsets(struct ref_reader *r, const struct ref_block *b, uint8_t *offsets) {
    const uint64_t dim = ref_le(b->frame->parameter + 4, 4);
    if (dim > b->count) return false;
    const uint64_t rows = (b->first % dim + b->count + dim - 1) / dim;
    if (!piece(r, rows, true, offsets)) return false;
    return piece(r, dim, true, offsets + rows);
}

/* The symbol of element i without its offsets. */
static uint8_t unshifted(const struct ref_block *b, const uint8_t *offsets, size_t i,
                         unsigned symbol) {
    const uint64_t dim = ref_le(b->frame->parameter + 4, 4), before = b->first % dim;
    const uint8_t *const columns = offsets + (before + b->count + dim - 1) / dim;
    if (symbol == 0 || symbol == 255) return (uint8_t)symbol;
    symbol += offsets[(before + i) / dim] + (unsigned)columns[(before + i) % dim];
    return (uint8_t)(1 + (symbol - 1) % 254);
}

/* Words as tops and lower bits, straight to values. */
static bool read_tops(struct ref_reader *r, const struct ref_block *b, bool shifted) {
    const unsigned bytes = ref_dtype_bytes(b->frame->dtype), w = 8 * bytes;
    const uint8_t *head, *rest, *tops;
    if (!ref_take(r, 3, &head)) return false;
    const unsigned v = head[0];
    if (!is_float(b->frame->dtype) || bytes == 1 || v >= w || w - v > 16) return false;
    uint8_t *const symbols = malloc(b->count), *const planes = malloc(b->count * 8),
                   *const offsets = malloc(b->count * 2);
    size_t e = 0;
    bool good = symbols && planes && offsets && (!shifted || read_offsets(r, b, offsets)) &&
                piece(r, b->count, true, symbols);
    for (size_t i = 0; good && shifted && i < b->count; i++)
        symbols[i] = unshifted(b, offsets, i, symbols[i]);
    for (unsigned k = 0; good && k < v / 8; k++)
        good = piece(r, b->count, true, planes + k * b->count);
    for (size_t i = 0; good && i < b->count; i++) e += symbols[i] == 255;
    good = good && ref_take(r, v % 8 * ((b->count + 7) / 8), &rest) && ref_take(r, 2 * e, &tops);
    for (size_t i = 0; good && i < b->count; i++) {
        uint64_t top = symbols[i] ? (ref_le(head + 1, 2) + symbols[i]) & mask(w - v) : 0;
        if (symbols[i] == 255) {
            top = ref_le(tops, 2);
            tops += 2;
        }
        uint64_t word = top << v;
        for (unsigned k = 0; k < v / 8; k++) word |= (uint64_t)planes[k * b->count + i] << 8 * k;
        for (unsigned k = 0; k < v % 8; k++)
            word |= (uint64_t)ref_bit(rest, i * (v % 8) + k) << (v / 8 * 8 + k);
        put(b->out + i * bytes, value_of(word, b->frame->dtype, w), bytes);
        good = top <= mask(w - v);
    }
    if (good) REF_CASE("lossless bytes of words with tops", 0x114, bytes);
    free(symbols);
    free(planes);
    free(offsets);
    return good && r->left == 0;
}

static enum ref_status decode_words(const struct ref_block *b) {
    const unsigned bytes = ref_dtype_bytes(b->frame->dtype);
    const uint8_t *head;
    struct ref_reader r = {b->bytes, b->length,
                           b->frame->revision >= 2 ? REF_ZSTD_AND_RANS : REF_ZSTD};
    if (!ref_take(&r, 1, &head)) return REF_CORRUPT;
    if (*head == 10 && b->frame->revision < 3) return REF_CORRUPT;
    if (*head == 10 || (*head == 9 && r.coders == REF_ZSTD_AND_RANS))
        return read_tops(&r, b, *head == 10) ? REF_OK : REF_CORRUPT;
    const bool update = *head & 16;
    struct words x = {.c = b->count, .e = b->count, .k = *head & 15, .bytes = bytes};
    if (*head >> 5 || (x.k != 0 && x.k != 1 && x.k != 2 && x.k != 4 && x.k != 8))
        return REF_CORRUPT;
    if (update && (!b->frame->base_dtype || b->frame->key)) return REF_CORRUPT;
    x.symbols = malloc(x.c);
    x.escaped = malloc(x.c * bytes);
    const bool allocated = x.symbols && x.escaped;
    const bool good = allocated && read_words(&r, &x);
    if (good) REF_CASE(update ? "lossless width of updates" : "lossless width", 0x117, x.k);
    if (good) write_values(b, &x, update);
    free(x.symbols);
    free(x.escaped);
    return good ? REF_OK : allocated ? REF_CORRUPT : REF_MEMORY;
}

static enum ref_status decode(const struct ref_block *b) {
    TRY(b->plain ? ref_plain(b) : decode_words(b));
    if (b->frame->base_dtype) memcpy(b->new_base, b->out, ref_plain_bytes(b->frame, b->count));
    return REF_OK;
}

static enum ref_status check(const struct ref_frame *f) {
    const uint8_t *p = f->parameter;
    REJECT_IF(p[0] < 1 || p[0] > 22 || p[1] > 1 || p[3] || !ref_zeros(p, 8, 16));
    REJECT_IF(p[2] > (f->revision >= 2));
    REJECT_IF(f->base_dtype && f->base_dtype != f->dtype);
    const uint64_t dim = ref_le(p + 4, 4);
    REJECT_IF(dim > 16777216 || (dim && f->base_dtype) || (dim != 0) != (f->revision == 3));
    return REF_OK;
}

static bool base_hash(const struct ref_frame *f) { return !f->parameter[1]; }

const struct ref_codec ref_codec_lossless = {
    .name = "lossless",
    .revision = 3,
    .dtypes = 0xFFFE,
    .bases = 0xFFFF,
    .check = check,
    .only_revision = ref_any_revision,
    .base_hash = base_hash,
    .block_bytes = ref_plain_bytes,
    .decode = decode,
};
