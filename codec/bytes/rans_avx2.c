/* rans_avx2.c - rANS strings, and their symbols counted, for AVX2: tables in registers where
 * symbols are few, else in memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx2.h"
#include "bytes/rans_lookup.h"
#include "common/endian.h"
#include "common/rans_avx2.h"
#include "kernels.h"

enum { MOST = PITHI_RANS_STATES_MOST / 8 };

/* ---- Tables in memory ------------------------------------------------------------------------
 * Read element by element: on processors whose widest vectors are these, a gather takes longer. */

static inline __m256i join(__m128i low, __m128i high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
static inline __m128i two_words(const uint32_t *table, uint64_t at) {
    return _mm_insert_epi32(_mm_cvtsi32_si128((int)table[(uint32_t)at]), (int)table[at >> 32], 1);
}
static inline __m128i four_words(const uint32_t *table, __m128i at) {
    return _mm_unpacklo_epi64(two_words(table, (uint64_t)_mm_cvtsi128_si64(at)),
                              two_words(table, (uint64_t)_mm_extract_epi64(at, 1)));
}
/* The words at eight places. */
static inline __m256i words_at(const uint32_t *table, __m256i at) {
    return join(four_words(table, _mm256_castsi256_si128(at)),
                four_words(table, _mm256_extracti128_si256(at, 1)));
}
static inline __m128i four_halves(const uint16_t *table, __m128i at) {
    const uint64_t a = (uint64_t)_mm_cvtsi128_si64(at), b = (uint64_t)_mm_extract_epi64(at, 1);
    __m128i x = _mm_cvtsi32_si128(table[(uint32_t)a]);
    x = _mm_insert_epi16(x, table[a >> 32], 2);
    x = _mm_insert_epi16(x, table[(uint32_t)b], 4);
    return _mm_insert_epi16(x, table[b >> 32], 6);
}
/* The numbers of 16 bits at eight places, in lanes of 32. */
static inline __m256i halves_at(const uint16_t *table, __m256i at) {
    return join(four_halves(table, _mm256_castsi256_si128(at)),
                four_halves(table, _mm256_extracti128_si256(at, 1)));
}

/* ---- Tables of bytes -------------------------------------------------------------------------*/

/* A table of 16 * parts bytes, looked up by 32 lanes at once. Of an index, part k keeps the low
 * four bits where the index is in it, and otherwise sets bit 7, for which a shuffle gives 0. */
enum { PARTS_MOST = 4 };

struct bytes {
    __m256i part[PARTS_MOST];
};

static inline void table_of(struct bytes *t, const uint8_t *from, unsigned parts) {
    for (unsigned k = 0; k < parts; k++)
        t->part[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(from + 16 * k)));
}

static inline void index_of(struct bytes *to, __m256i index, unsigned parts) {
    for (unsigned k = 0; k < parts; k++)
        to->part[k] = _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8((char)(16 * k))),
                                       _mm256_set1_epi8(0x70));
}

static inline __m256i look_up(const struct bytes *t, const struct bytes *index, unsigned parts) {
    __m256i x = _mm256_shuffle_epi8(t->part[0], index->part[0]);
    for (unsigned k = 1; k < parts; k++)
        x = _mm256_or_si256(x, _mm256_shuffle_epi8(t->part[k], index->part[k]));
    return x;
}

/* ---- Order of lanes --------------------------------------------------------------------------
 * Four vectors of eight states become one of 32 bytes: in either half, four bytes of each. */

static inline __m256i in_order(__m256i bytes) {
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline __m256i out_of_order(__m256i bytes) {
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/* The 32-bit lanes of vector k, from the low and the high bytes of 16-bit numbers. */
static inline __m256i widen(__m256i low, __m256i high, unsigned k) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i x = k < 2 ? _mm256_unpacklo_epi8(low, high) : _mm256_unpackhi_epi8(low, high);
    return k % 2 ? _mm256_unpackhi_epi16(x, zero) : _mm256_unpacklo_epi16(x, zero);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

enum { PARTS = 2 * BUCKETS / 16 };

struct buckets {
    struct bytes split, symbol, frequency[2], bias[2];
};

static void buckets_of(struct buckets *b, const struct pithi_rans_decoder *t) {
    struct bucket_bytes table;
    bucket_bytes_of(&table, t);
    table_of(&b->split, table.split, PARTS / 2);
    table_of(&b->symbol, table.symbol, PARTS);
    for (unsigned k = 0; k < 2; k++) {
        table_of(&b->frequency[k], table.frequency[k], PARTS);
        table_of(&b->bias[k], table.bias[k], PARTS);
    }
}

/* Decodes the symbols of 32 states and leaves what the states are before they are renormalised. */
static inline void decode_32(const struct buckets *b, __m256i x[4], uint8_t *dst) {
    const __m256i slots = _mm256_set1_epi32(PITHI_RANS_SLOTS - 1);
    __m256i slot[2], bucket[2], inside[2];
    for (unsigned h = 0; h < 2; h++) {
        slot[h] = _mm256_packus_epi32(_mm256_and_si256(x[2 * h], slots),
                                      _mm256_and_si256(x[2 * h + 1], slots));
        bucket[h] = _mm256_srli_epi16(slot[h], LOG2_WIDTH);
        inside[h] = _mm256_and_si256(slot[h], _mm256_set1_epi16((1 << LOG2_WIDTH) - 1));
    }
    struct bytes index;
    const __m256i at = _mm256_packus_epi16(inside[0], inside[1]);
    __m256i number = _mm256_packus_epi16(bucket[0], bucket[1]);
    index_of(&index, number, PARTS / 2);
    const __m256i split = look_up(&b->split, &index, PARTS / 2);
    const __m256i is_second = _mm256_cmpeq_epi8(_mm256_max_epu8(at, split), at);
    number = _mm256_add_epi8(number, _mm256_and_si256(is_second, _mm256_set1_epi8(BUCKETS)));
    index_of(&index, number, PARTS);
    _mm256_storeu_si256((__m256i *)(void *)dst, in_order(look_up(&b->symbol, &index, PARTS)));
    const __m256i f0 = look_up(&b->frequency[0], &index, PARTS);
    const __m256i f1 = look_up(&b->frequency[1], &index, PARTS);
    const __m256i b0 = look_up(&b->bias[0], &index, PARTS);
    const __m256i b1 = look_up(&b->bias[1], &index, PARTS);
    const __m256i zero = _mm256_setzero_si256();
    const __m256i number16[2] = {_mm256_add_epi16(slot[0], _mm256_unpacklo_epi8(b0, b1)),
                                 _mm256_add_epi16(slot[1], _mm256_unpackhi_epi8(b0, b1))};
    for (unsigned k = 0; k < 4; k++) {
        const __m256i high =
            _mm256_mullo_epi32(_mm256_srli_epi32(x[k], PITHI_RANS_LOG2_SLOTS), widen(f0, f1, k));
        const __m256i low = k % 2 ? _mm256_unpackhi_epi16(number16[k / 2], zero)
                                  : _mm256_unpacklo_epi16(number16[k / 2], zero);
        x[k] = _mm256_add_epi32(high, low);
    }
}

/* Rows of symbols, one of each state, while there are words for all. Returns how many symbols. */
static inline size_t decode_rows(const struct buckets *b, unsigned vectors, __m256i *x,
                                 struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    const __m256i all = _mm256_set1_epi32(-1);
    const size_t row = 8 * vectors;
    const uint8_t *at = from->at;
    size_t i = 0;
    for (; n - i >= row && (size_t)(from->end - at) >= 2 * row; i += row) {
        for (unsigned v = 0; v < vectors; v += 4) decode_32(b, x + v, dst + i + 8 * v);
        for (unsigned v = 0; v < vectors; v++) x[v] = renormalise(x[v], all, &at);
    }
    from->at = at;
    return i;
}

/* ---- Decode, with more symbols ----------------------------------------------------------------*/

static inline __m256i decode_8(const uint32_t *slot, __m256i x, uint8_t *dst) {
    const __m256i entry =
        words_at(slot, _mm256_and_si256(x, _mm256_set1_epi32(PITHI_RANS_SLOTS - 1)));
    const __m256i symbols =
        _mm256_shuffle_epi8(entry, _mm256_set1_epi64x((long long)UINT64_C(0x808080800C080400)));
    const uint64_t low = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(symbols));
    const uint64_t high = (uint64_t)_mm_cvtsi128_si64(_mm256_extracti128_si256(symbols, 1));
    pithi_put64(dst, low | high << 32);
    const __m256i f =
        _mm256_and_si256(_mm256_srli_epi32(entry, 8), _mm256_set1_epi32(PITHI_RANS_SLOTS - 1));
    return _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srli_epi32(x, PITHI_RANS_LOG2_SLOTS), f),
                            _mm256_srli_epi32(entry, 20));
}

static inline size_t word_rows(const uint32_t *slot, unsigned vectors, __m256i *states,
                               struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    const __m256i all = _mm256_set1_epi32(-1);
    const size_t row = 8 * vectors;
    const uint8_t *at = from->at;
    __m256i x[MOST];
    size_t i = 0;
    for (unsigned v = 0; v < vectors; v++) x[v] = states[v];
    for (; n - i >= row && (size_t)(from->end - at) >= 2 * row; i += row) {
        for (unsigned v = 0; v < vectors; v++) x[v] = decode_8(slot, x[v], dst + i + 8 * v);
        for (unsigned v = 0; v < vectors; v++) x[v] = renormalise(x[v], all, &at);
    }
    for (unsigned v = 0; v < vectors; v++) states[v] = x[v];
    from->at = at;
    return i;
}

static size_t decode_by_words(const struct pithi_rans_decoder *t, unsigned vectors, __m256i *x,
                              struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    uint32_t slot[PITHI_RANS_SLOTS];
    slots_of(slot, t);
    if (vectors == 8) return word_rows(slot, 8, x, from, dst, n);
    return word_rows(slot, vectors, x, from, dst, n);
}

static size_t decode_by_shuffles(const struct pithi_rans_decoder *t, unsigned vectors, __m256i *x,
                                 struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    struct buckets b;
    buckets_of(&b, t);
    if (vectors == 8) return decode_rows(&b, 8, x, from, dst, n);
    return decode_rows(&b, vectors, x, from, dst, n);
}

static void states_load(__m256i *x, const struct pithi_rans_states *states, unsigned vectors) {
    for (unsigned v = 0; v < vectors; v++)
        x[v] = _mm256_loadu_si256((const __m256i *)(const void *)(states->x + 8 * v));
}

static void states_store(const __m256i *x, struct pithi_rans_states *states, unsigned vectors) {
    for (unsigned v = 0; v < vectors; v++)
        _mm256_storeu_si256((__m256i *)(void *)(states->x + 8 * v), x[v]);
}

static bool decode(const struct pithi_rans_decoder *t, struct pithi_rans_states *states,
                   struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    size_t done = 0;
    if (pithi_rans_by_vectors(states) && n >= PITHI_RANS_SLOTS) { /* else making tables is longer */
        __m256i x[MOST];
        const unsigned vectors = 1u << (states->log2 - 3);
        states_load(x, states, vectors);
        done = (t->log2_width == LOG2_WIDTH ? decode_by_shuffles : decode_by_words)(t, vectors, x,
                                                                                    from, dst, n);
        states_store(x, states, vectors);
    }
    return pithi_rans_decode_c(t, states, from, dst + done, n - done);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Frequencies and starts by symbol: tables of bytes for symbols from `first` on, when these are
 * few, else pairs. */
struct symbols {
    struct bytes frequency[2], start[2];
    unsigned parts; /* 0: too many symbols */
    __m256i first;
    uint32_t pair[256];
    const uint16_t *slot;
};

static void symbols_of(struct symbols *t, const struct pithi_rans_encoder *from) {
    struct symbol_bytes table;
    t->slot = from->slot;
    t->parts = 0;
    if (!symbol_bytes_of(&table, from)) {
        symbol_pairs_of(t->pair, from);
        return;
    }
    t->parts = table.last - table.first < 32 ? 2 : PARTS_MOST;
    for (unsigned k = 0; k < 2; k++) {
        table_of(&t->frequency[k], table.frequency[k], PARTS_MOST);
        table_of(&t->start[k], table.start[k], PARTS_MOST);
    }
    t->first = _mm256_set1_epi8((char)table.first);
}

/* Looks up the frequencies and starts of 32 symbols in tables of bytes. */
static inline void look_up_32(const struct symbols *t, unsigned parts, const uint8_t *src,
                              __m256i f[4], __m256i start[4]) {
    const __m256i symbol = _mm256_loadu_si256((const __m256i *)(const void *)src);
    struct bytes index;
    index_of(&index, out_of_order(_mm256_sub_epi8(symbol, t->first)), parts);
    const __m256i f0 = look_up(&t->frequency[0], &index, parts);
    const __m256i f1 = look_up(&t->frequency[1], &index, parts);
    const __m256i s0 = look_up(&t->start[0], &index, parts);
    const __m256i s1 = look_up(&t->start[1], &index, parts);
    for (unsigned k = 0; k < 4; k++) {
        f[k] = widen(f0, f1, k);
        start[k] = widen(s0, s1, k);
    }
}

static inline void look_up_8(const struct symbols *t, const uint8_t *src, __m256i *f,
                             __m256i *start) {
    const uint32_t *const p = t->pair;
    const __m256i pair =
        join(_mm_setr_epi32((int)p[src[0]], (int)p[src[1]], (int)p[src[2]], (int)p[src[3]]),
             _mm_setr_epi32((int)p[src[4]], (int)p[src[5]], (int)p[src[6]], (int)p[src[7]]));
    *f = _mm256_and_si256(pair, _mm256_set1_epi32(0xFFFF));
    *start = _mm256_srli_epi32(pair, 16);
}

/* Encodes a row, one symbol of each state. */
static inline uint8_t *encode_row(const struct symbols *t, unsigned parts, unsigned vectors,
                                  __m256i *x, const uint8_t *src, uint8_t *end) {
    __m256i f[MOST], start[MOST];
    for (unsigned v = 0; parts && v < vectors; v += 4)
        look_up_32(t, parts, src + 8 * v, f + v, start + v);
    for (unsigned v = vectors; v--;) {
        __m256i rest;
        if (!parts) look_up_8(t, src + 8 * v, &f[v], &start[v]);
        const __m256i fits =
            _mm256_cmpgt_epi32(f[v], _mm256_srli_epi32(x[v], 32 - PITHI_RANS_LOG2_SLOTS));
        const unsigned mask = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(fits)) & 0xFFu;
        end = store_words(x[v], mask, end);
        x[v] = _mm256_blendv_epi8(_mm256_srli_epi32(x[v], 16), x[v], fits);
        const __m256i high = _mm256_slli_epi32(divide(x[v], f[v], &rest), PITHI_RANS_LOG2_SLOTS);
        x[v] = _mm256_or_si256(high, halves_at(t->slot, _mm256_add_epi32(rest, start[v])));
    }
    return end;
}

/* Rows of symbols, the last first, while there is space for a word of each. Returns how many
 * symbols are left. */
static inline size_t encode_rows(const struct symbols *t, unsigned parts, unsigned vectors,
                                 __m256i *x, const uint8_t *src, size_t n,
                                 struct pithi_rans_space *to) {
    const size_t row = 8 * vectors;
    uint8_t *end = to->end;
    for (; n >= row && (size_t)(end - to->begin) >= 2 * row; n -= row)
        end = encode_row(t, parts, vectors, x, src + n - row, end);
    to->end = end;
    return n;
}

static bool encode(const struct pithi_rans_encoder *from, const uint8_t *src, size_t n,
                   struct pithi_rans_states *states, struct pithi_rans_space *to) {
    if (pithi_rans_by_vectors(states)) {
        struct symbols t;
        __m256i x[MOST];
        const unsigned vectors = 1u << (states->log2 - 3);
        const size_t last = n & (8 * vectors - 1);
        if (!pithi_rans_encode_c(from, src + n - last, last, states, to)) return false;
        n -= last;
        symbols_of(&t, from);
        states_load(x, states, vectors);
        if (t.parts == 2 && vectors == 8)
            n = encode_rows(&t, 2, 8, x, src, n, to);
        else if (t.parts)
            n = encode_rows(&t, 4, vectors, x, src, n, to);
        else if (vectors == 8)
            n = encode_rows(&t, 0, 8, x, src, n, to);
        else
            n = encode_rows(&t, 0, vectors, x, src, n, to);
        states_store(x, states, vectors);
    }
    return pithi_rans_encode_c(from, src, n, states, to);
}

/* ---- Counts -----------------------------------------------------------------------------------*/

static inline vec load(const void *from) { return _mm256_loadu_si256(from); }
static inline void store(void *to, vec x) { _mm256_storeu_si256(to, x); }
static inline vec all8(uint8_t x) { return _mm256_set1_epi8((char)x); }
static inline vec add8(vec a, vec b) { return _mm256_add_epi8(a, b); }
static inline vec sub8(vec a, vec b) { return _mm256_sub_epi8(a, b); }
static inline vec add_most(vec a, vec b) { return _mm256_adds_epu8(a, b); }
static inline vec look_up_16(const uint8_t table[16], vec at) {
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table)), at);
}
static inline vec odd(vec a, vec b, vec c) { return v_xor(v_xor(a, b), c); }
static inline vec majority(vec a, vec b, vec c) { return v_or(v_and(a, b), v_and(v_xor(a, b), c)); }
static inline vec min8(vec a, vec b) { return _mm256_min_epu8(a, b); }
static inline vec sum(vec x) { return _mm256_sad_epu8(x, _mm256_setzero_si256()); }
static inline uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at) {
    for (uint32_t found = (uint32_t)_mm256_movemask_epi8(at); found; found &= found - 1)
        *to++ = from[__builtin_ctz(found)];
    return to;
}

#define BYTES 32
#define WINDOWS 1
#include "bytes/symbol_count_tmpl.h"

void pithi_rans_bind_avx2(struct pithi_kernels *k);
void pithi_rans_bind_avx2(struct pithi_kernels *k) {
    k->rans_encode = encode;
    k->rans_decode = decode;
    k->symbol_count = count_symbols;
}
