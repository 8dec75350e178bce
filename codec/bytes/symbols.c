/* symbols.c - choose low bits and form, write and read symbols.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/symbols.h"

#include <string.h>

#include "bytes/symbols_choice.h"
#include "codec.h"
#include "common/endian.h"
#include "common/minmax.h"
#include "common/numeric.h"
#include "common/pad.h"

enum { ESCAPE = PITHI_SYMBOLS_ESCAPE };
/* Words that are cut or joined together, so that they stay in the first-level cache. */
enum { BATCH_GROUPS = 64, BATCH = BATCH_GROUPS * PITHI_BITPLANE_GROUP };
static const char damaged[] = "coded words are damaged";

/* ---- Memory: symbols, gaps, symbols that are not 0, then a piece's ---------------------------*/

struct memory {
    uint8_t *symbols, *gaps, *others;
    void *piece;
};

static struct memory memory_of(void *scratch, size_t max_count) {
    const size_t bytes = pithi_pad64(max_count + PITHI_BITPLANE_GROUP);
    struct memory r = {.symbols = scratch};
    r.gaps = r.symbols + bytes;
    r.others = r.gaps + bytes;
    r.piece = r.others + bytes;
    return r;
}

/* Memory for reading: gaps, then symbols; a bitmap of the symbols that are not 0; scratch of
 * pieces. */
struct read_memory {
    uint8_t *symbols, *bitmap;
    void *piece;
};

static size_t bitmap_bytes(size_t count) { return (count + 7) / 8; }

static struct read_memory read_memory_of(void *scratch, size_t count) {
    struct read_memory r = {.symbols = scratch};
    r.bitmap = r.symbols + pithi_pad64(count);
    r.piece = r.bitmap + pithi_pad64(bitmap_bytes(count));
    return r;
}

size_t pithi_symbols_take_scratch(size_t max_count) {
    return pithi_pad64(max_count) + pithi_pad64(bitmap_bytes(max_count)) +
           pithi_piece_take_scratch(max_count);
}

size_t pithi_symbols_scratch(size_t max_count) {
    return 3 * pithi_pad64(max_count + PITHI_BITPLANE_GROUP) + pithi_piece_scratch(max_count);
}

static size_t groups_of(size_t count) {
    return count / PITHI_BITPLANE_GROUP + (count % PITHI_BITPLANE_GROUP > 0);
}

/* ---- Choice ----------------------------------------------------------------------------------*/

/* The source of words that are an array. */
static const uint32_t *words_at(const void *words, size_t at, size_t n, uint32_t *to) {
    (void)n, (void)to;
    return (const uint32_t *)words + at;
}

/* A loop that compilers make vectors of: of a word as a float, where one of which no two
 * neighbouring bits are ones is not rounded up to more bits. */
void pithi_symbols_lengths_c(const uint32_t *words, size_t count, uint8_t *lengths) {
    for (size_t i = 0; i < count; i++) {
        const float top = (float)(int32_t)(words[i] & ~(words[i] >> 1)); /* 32 bits: below 0 */
        const int32_t bits = (int32_t)pithi_bits(top), length = (bits >> 23) - 126;
        lengths[i] = (uint8_t)(bits < 0 ? 32 : length > 0 ? length : 0);
    }
}

/* Counts the lengths of all words, or of evenly spread runs of them. */
static struct pithi_symbol_lengths range(const struct pithi_kernels *kernels,
                                         const struct pithi_word_source *from, size_t count) {
    enum { RUN = PITHI_SYMBOLS_RUN, PART = 64 * RUN };
    struct pithi_symbol_lengths s = {0};
    uint32_t buffer[RUN], counted[PITHI_RANS_TABLES][256];
    uint8_t lengths[PART];
    const size_t step = (size_t)pithi_symbols_step(count);
    for (size_t at = 0, held = 0; at < count; at += step) {
        const size_t n = (size_t)pithi_min(count - at, RUN);
        kernels->symbols_lengths(from->make(from->arg, at, n, buffer), n, lengths + held);
        held += n;
        if (held < PART && count - at > step) continue;
        kernels->symbol_count(counted, lengths, held);
        for (unsigned b = 0; b < 33; b++) s.of[b] += counted[0][b];
        s.total += (uint32_t)held;
        held = 0;
    }
    return s;
}

static unsigned choose_low(struct pithi_symbol_lengths *s) {
    uint64_t cost[PITHI_SYMBOLS_LOW_MOST + 1];
    s->whole = s->total ? pithi_log2_256(s->total) : 0;
    for (unsigned b = 0; b < 33; b++) s->cost[b] = pithi_symbols_cost_of(s->of[b], s->whole);
    for (unsigned k = 0; k <= PITHI_SYMBOLS_LOW_MOST; k++) cost[k] = pithi_symbols_cost(s, k);
    return pithi_symbols_low(cost);
}

/* ---- Write -----------------------------------------------------------------------------------*/

size_t pithi_symbols_cut_c(const uint32_t *words, size_t count, unsigned low, uint8_t *symbols,
                           uint32_t *bits) {
    size_t escapes = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t high = words[i] >> low;
        symbols[i] = (uint8_t)(high < ESCAPE ? high : ESCAPE);
        escapes += high >= ESCAPE;
    }
    for (size_t i = 0; low && i < count; i++) bits[i] = words[i] & ((1u << low) - 1);
    return escapes;
}

/* Makes symbols, and writes the low bits, for which there is space. Returns how many symbols are
 * escapes. */
static size_t put_low_bits(struct pithi_pen *pen, const struct pithi_kernels *kernels,
                           const struct pithi_word_source *from, size_t count, unsigned low,
                           uint8_t *symbols) {
    uint32_t bits[BATCH], buffer[BATCH];
    uint8_t widths[BATCH_GROUPS];
    size_t escapes = 0;
    memset(widths, (int)low, sizeof widths);
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < BATCH ? count - at : BATCH;
        const uint32_t *const words = from->make(from->arg, at, n, buffer);
        escapes += kernels->symbols_cut(words, n, low, symbols + at, bits);
        if (!low) continue;
        const size_t groups = groups_of(n), bytes = groups * 2 * low;
        memset(bits + n, 0, (groups * PITHI_BITPLANE_GROUP - n) * sizeof *bits);
        kernels->pack(bits, groups, widths, pen->at, pen->capacity);
        pen->at += bytes;
        pen->capacity -= bytes;
    }
    return escapes;
}

size_t pithi_symbols_estimate(const struct pithi_kernels *kernels, const uint32_t *words,
                              size_t count, size_t total) {
    /* In 1/256 bit: what a kind of symbol takes in a table of frequencies; and what a sample hides
     * of its cost, being short, 1 / (2 ln 2) bit. */
    enum { TABLE = 6 * 256, SHORT = 185 };
    const struct pithi_word_source from = {words_at, words};
    struct pithi_symbol_lengths s = range(kernels, &from, count);
    const unsigned low = choose_low(&s);
    const uint32_t whole = pithi_log2_256((uint32_t)count);
    uint32_t counted[256] = {0}, kinds = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t high = words[i] >> low;
        counted[high < ESCAPE ? high : ESCAPE]++;
    }
    uint64_t sum = ((uint64_t)count * low + (uint64_t)counted[ESCAPE] * 32) << 8;
    for (unsigned k = 0; k < 256; k++) {
        if (!counted[k]) continue;
        sum += pithi_symbols_cost_of(counted[k], whole) + SHORT;
        kinds++;
    }
    return (size_t)((sum * total / count + (uint64_t)kinds * TABLE) >> 11);
}

/* Sets bit 7 of each byte of x that is not 0, and no other bits. */
static uint64_t nonzero_bytes(uint64_t x) {
    const uint64_t most = UINT64_C(0x7F7F7F7F7F7F7F7F);
    return (((x & most) + most) | x) & ~most;
}

/* Writes symbols that are not 0 to others, and the number of zeros before each to gaps. The 8 bytes
 * behind the symbols are set to 0. */
static size_t part(uint8_t *symbols, size_t count, uint8_t *gaps, uint8_t *others,
                   size_t *gap_count) {
    uint8_t *gap = gaps, *other = others;
    size_t next = 0; /* the place after the last symbol that is not 0 */
    memset(symbols + count, 0, 8);
    for (size_t at = 0; at < count; at += 8)
        for (uint64_t m = nonzero_bytes(pithi_get64(symbols + at)); m; m &= m - 1) {
            const size_t i = at + (size_t)__builtin_ctzll(m) / 8;
            size_t zeros = i - next;
            for (; zeros >= ESCAPE; zeros -= ESCAPE) *gap++ = ESCAPE;
            *gap++ = (uint8_t)zeros;
            *other++ = symbols[i];
            next = i + 1;
        }
    *gap_count = (size_t)(gap - gaps);
    return (size_t)(other - others);
}

static bool put_piece(struct pithi_pen *pen, void *scratch, size_t max_count, const uint8_t *src,
                      size_t n) {
    struct pithi_pen inner = *pen;
    inner.scratch = scratch;
    if (n && !pithi_piece_put(&inner, max_count, src, n)) return false;
    pen->at = inner.at;
    pen->capacity = inner.capacity;
    return true;
}

static bool put_sparse(struct pithi_pen *pen, const struct memory *r, size_t max_count,
                       size_t count) {
    size_t gaps;
    const size_t others = part(r->symbols, count, r->gaps, r->others, &gaps);
    uint8_t head[PITHI_SYMBOLS_SPARSE_HEAD];
    pithi_put32(head, (uint32_t)gaps);
    pithi_put32(head + 4, (uint32_t)others);
    return pithi_pen_put(pen, head, sizeof head) &&
           put_piece(pen, r->piece, max_count, r->gaps, gaps) &&
           put_piece(pen, r->piece, max_count, r->others, others);
}

static bool put_escapes(struct pithi_pen *pen, const uint8_t *symbols,
                        const struct pithi_word_source *from, size_t count, unsigned low) {
    uint32_t buffer[BATCH];
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < BATCH ? count - first : BATCH;
        const uint8_t *const begin = symbols + first, *const end = begin + n, *at = begin;
        const uint32_t *words = NULL;
        for (; (at = memchr(at, ESCAPE, (size_t)(end - at))); at++) {
            uint8_t bytes[4];
            if (!words) words = from->make(from->arg, first, n, buffer);
            pithi_put32(bytes, (words[at - begin] >> low) - ESCAPE);
            if (!pithi_pen_put(pen, bytes, 4)) return false;
        }
    }
    return true;
}

bool pithi_symbols_put_from(struct pithi_pen *pen, size_t max_count,
                            const struct pithi_kernels *kernels,
                            const struct pithi_word_source *from, size_t count) {
    const struct memory r = memory_of(pen->scratch, max_count);
    struct pithi_symbol_lengths s = range(kernels, from, count);
    const unsigned low = choose_low(&s);
    const bool sparse = pithi_symbols_thin(&s, low);
    const uint8_t head[PITHI_SYMBOLS_HEAD] = {(uint8_t)low,
                                              sparse ? PITHI_SYMBOLS_SPARSE : PITHI_SYMBOLS_DENSE};
    uint8_t *const escapes = pen->at + 4;
    if (!pithi_pen_put(pen, head, sizeof head)) return false;
    if (groups_of(count) * 2 * low > pen->capacity) return false;
    pithi_put32(escapes, (uint32_t)put_low_bits(pen, kernels, from, count, low, r.symbols));
    if (!(sparse ? put_sparse(pen, &r, max_count, count)
                 : put_piece(pen, r.piece, max_count, r.symbols, count)))
        return false;
    return !pithi_get32(escapes) || put_escapes(pen, r.symbols, from, count, low);
}

bool pithi_symbols_put(struct pithi_pen *pen, size_t max_count, const struct pithi_kernels *kernels,
                       const uint32_t *words, size_t count) {
    const struct pithi_word_source from = {words_at, words};
    return pithi_symbols_put_from(pen, max_count, kernels, &from, count);
}

/* ---- Read ------------------------------------------------------------------------------------*/

static const uint8_t *take_piece(struct pithi_reader *reader, void *scratch, size_t n,
                                 uint8_t *buffer) {
    struct pithi_reader inner = *reader;
    inner.scratch = scratch;
    const uint8_t *const bytes = n ? pithi_piece_take(&inner, n, buffer) : buffer;
    reader->at = inner.at;
    reader->left = inner.left;
    return bytes;
}

static size_t count_escapes(const uint8_t *symbols, size_t count) {
    enum { PART = 128 }; /* its count is a byte, so that vectors count many at once */
    size_t escapes = 0;
    for (; count >= PART; symbols += PART, count -= PART) {
        uint8_t part = 0;
        for (size_t i = 0; i < PART; i++) part = (uint8_t)(part + (symbols[i] == ESCAPE));
        escapes += part;
    }
    for (size_t i = 0; i < count; i++) escapes += symbols[i] == ESCAPE;
    return escapes;
}

/* Sets a one where each gap ends; false unless the last one does, there are as many as other
 * symbols, and each has its place. */
static bool map_gaps(const uint8_t *gaps, size_t gap_count, size_t other_count, uint8_t *bitmap,
                     size_t count) {
    size_t at = 0, used = 0;
    memset(bitmap, 0, bitmap_bytes(count));
    for (size_t i = 0; i < gap_count; i++) {
        at += gaps[i];
        if (gaps[i] == ESCAPE) continue;
        if (at >= count) return false;
        bitmap[at / 8] = (uint8_t)(bitmap[at / 8] | 1u << at % 8);
        at++, used++;
    }
    return used == other_count && (!gap_count || gaps[gap_count - 1] != ESCAPE);
}

static const uint8_t *take_sparse(struct pithi_reader *reader, const struct read_memory *r,
                                  size_t count) {
    const uint8_t *const head = pithi_reader_take(reader, PITHI_SYMBOLS_SPARSE_HEAD);
    if (!head) return NULL;
    const size_t gap_count = pithi_get32(head), other_count = pithi_get32(head + 4);
    if (gap_count > count || other_count > count) return NULL;
    const uint8_t *const gaps = take_piece(reader, r->piece, gap_count, r->symbols);
    if (!gaps || !map_gaps(gaps, gap_count, other_count, r->bitmap, count)) return NULL;
    const uint8_t *const others =
        take_piece(reader, r->piece, other_count, r->symbols + (count - other_count));
    if (!others) return NULL;
    pithi_piece_scatter(r->symbols, r->bitmap, count, others);
    return r->symbols;
}

const char *pithi_symbols_open(struct pithi_symbols *c, struct pithi_reader *r,
                               const struct pithi_kernels *kernels, size_t count) {
    const struct read_memory memory = read_memory_of(r->scratch, count);
    const uint8_t *const head = pithi_reader_take(r, PITHI_SYMBOLS_HEAD);
    if (!head || head[0] > PITHI_SYMBOLS_LOW_MOST || head[1] > PITHI_SYMBOLS_SPARSE || head[2] ||
        head[3])
        return damaged;
    *c = (struct pithi_symbols){.kernels = kernels, .low = head[0], .left = r->left};
    c->bits = pithi_reader_take(r, groups_of(count) * 2 * c->low);
    if (!c->bits) return damaged;
    c->symbols = head[1] == PITHI_SYMBOLS_SPARSE
                     ? take_sparse(r, &memory, count)
                     : take_piece(r, memory.piece, count, memory.symbols);
    if (!c->symbols) return damaged;
    const size_t escapes = pithi_get32(head + 4);
    if (escapes > count || escapes != count_escapes(c->symbols, count)) return damaged;
    c->escapes = pithi_reader_take(r, escapes * 4);
    c->escaped = escapes > 0;
    return c->escapes ? NULL : damaged;
}

void pithi_symbols_join_c(const uint8_t *symbols, size_t count, unsigned low, uint32_t *words) {
    if (low)
        for (size_t i = 0; i < count; i++) words[i] |= (uint32_t)symbols[i] << low;
    else
        for (size_t i = 0; i < count; i++) words[i] = symbols[i];
}

static void add_escapes(struct pithi_symbols *c, uint32_t *words, size_t count) {
    const uint8_t *at = c->symbols, *const end = at + count;
    for (; (at = memchr(at, ESCAPE, (size_t)(end - at))); c->escapes += 4)
        words[at++ - c->symbols] += pithi_get32(c->escapes) << c->low;
}

void pithi_symbols_next(struct pithi_symbols *c, size_t count, uint32_t *words) {
    uint8_t widths[BATCH_GROUPS];
    memset(widths, (int)c->low, sizeof widths);
    for (size_t n; count; count -= n, words += n) {
        n = count < BATCH ? count : BATCH;
        const size_t bytes = groups_of(n) * 2 * c->low;
        if (c->low) c->kernels->unpack(c->bits, c->left, groups_of(n), widths, words);
        c->kernels->symbols_join(c->symbols, n, c->low, words);
        if (c->escaped) add_escapes(c, words, n);
        c->bits += bytes, c->left -= bytes;
        c->symbols += n;
    }
}

const char *pithi_symbols_take(struct pithi_reader *r, const struct pithi_kernels *kernels,
                               uint32_t *words, size_t count) {
    struct pithi_symbols c;
    const char *const fault = pithi_symbols_open(&c, r, kernels, count);
    if (!fault) pithi_symbols_next(&c, count, words);
    return fault;
}
