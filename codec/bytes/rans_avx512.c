/* rans_avx512.c - rANS strings, and their symbols counted, for AVX-512 (VBMI, VBMI2, BITALG): all
 * tables in registers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx512.h"
#include "kernels.h"

/* 32 states are two vectors of 16-bit lanes, the low and the high halves, and lane j belongs to
 * state j. */
enum { LANES = 32, VECTORS_MOST = PITHI_RANS_STATES_MOST / LANES };

struct states {
    __m512i low[VECTORS_MOST], high[VECTORS_MOST];
};

static inline __m512i all(unsigned x) { return _mm512_set1_epi16((short)x); }

static inline __m512i load(const void *from) { return _mm512_loadu_si512(from); }
static inline __m256i load_32(const void *from) { return _mm256_loadu_si256(from); }

static void states_load(struct states *x, const struct pithi_rans_states *from) {
    uint16_t low[PITHI_RANS_STATES_MOST] = {0}, high[PITHI_RANS_STATES_MOST] = {0};
    for (unsigned j = 0; j < 1u << from->log2; j++) {
        low[j] = (uint16_t)from->x[j];
        high[j] = (uint16_t)(from->x[j] >> 16);
    }
    for (unsigned v = 0; v < VECTORS_MOST; v++) {
        x->low[v] = load(low + LANES * v);
        x->high[v] = load(high + LANES * v);
    }
}

static void states_store(const struct states *x, struct pithi_rans_states *to) {
    uint16_t low[PITHI_RANS_STATES_MOST], high[PITHI_RANS_STATES_MOST];
    for (unsigned v = 0; v < VECTORS_MOST; v++) {
        _mm512_storeu_si512(low + LANES * v, x->low[v]);
        _mm512_storeu_si512(high + LANES * v, x->high[v]);
    }
    for (unsigned j = 0; j < 1u << to->log2; j++) to->x[j] = low[j] | (uint32_t)high[j] << 16;
}

/* ---- Tables of bytes -------------------------------------------------------------------------
 * Tables of 64 to 512 bytes, looked up by 64 lanes at once. */

struct bytes {
    __m512i part[8];
};

static inline struct bytes bytes_of(const uint8_t *from, unsigned size) {
    struct bytes t;
    t.part[0] = load(from);
    for (unsigned k = 1; k < size / 64; k++) t.part[k] = load(from + 64 * k);
    return t;
}

/* An index has as many bits as the table needs; higher ones are ignored, but bit 8 is a lane of
 * `above`. */
static inline __m512i look_up(const struct bytes *t, unsigned size, __m512i index,
                              __mmask64 above) {
    if (size == 64) return _mm512_permutexvar_epi8(index, t->part[0]);
    if (size == 128) return _mm512_permutex2var_epi8(t->part[0], index, t->part[1]);
    const __mmask64 upper = _mm512_movepi8_mask(index);
    __m512i x =
        _mm512_mask_blend_epi8(upper, _mm512_permutex2var_epi8(t->part[0], index, t->part[1]),
                               _mm512_permutex2var_epi8(t->part[2], index, t->part[3]));
    if (size == 256) return x;
    return _mm512_mask_blend_epi8(
        above, x,
        _mm512_mask_blend_epi8(upper, _mm512_permutex2var_epi8(t->part[4], index, t->part[5]),
                               _mm512_permutex2var_epi8(t->part[6], index, t->part[7])));
}

/* Two vectors of 16-bit lanes below 256 become one of bytes, and back; in each 128 bits lie eight
 * of either. */
static inline __m512i narrow(__m512i a, __m512i b) { return _mm512_packus_epi16(a, b); }

static inline __m512i in_order(__m512i bytes) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), bytes);
}

static inline __m512i out_of_order(__m512i bytes) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), bytes);
}

static inline void widen(__m512i to[2], __m512i low, __m512i high) {
    to[0] = _mm512_unpacklo_epi8(low, high);
    to[1] = _mm512_unpackhi_epi8(low, high);
}

/* ---- Decode ----------------------------------------------------------------------------------
 * A state 2^16 high + low becomes f floor(x / 2^12) + k = F high + c, F being 16 f and
 * c = f floor(low / 2^12) + k below 2^16. */

enum { F_SHIFT = 4, BUCKETS_MOST = 256 };

/* Tables of 32 buckets are of 16-bit lanes; else those of the second symbol follow. `end` is the
 * first slot of the second symbol, counted in 1/16, and 2^16-1 for 2^16. */
struct buckets {
    __m512i end, factor[2], bias[2];
    struct bytes split, symbol, factors[2], biases[2];
};

static void buckets_of(struct buckets *b, const struct pithi_rans_decoder *t) {
    const unsigned count = PITHI_RANS_SLOTS >> t->log2_width;
    uint8_t split[BUCKETS_MOST] = {0}, symbol[2 * BUCKETS_MOST] = {0};
    uint8_t factors[2][2 * BUCKETS_MOST] = {{0}}, biases[2][2 * BUCKETS_MOST] = {{0}};
    uint16_t end[LANES] = {0}, factor[2][LANES] = {{0}}, bias[2][LANES] = {{0}};
    for (unsigned j = 0; j < count; j++) {
        const struct pithi_rans_bucket *const from = &t->bucket[j];
        split[j] = (uint8_t)from->split;
        for (unsigned k = 0; k < 2; k++) {
            const unsigned f = (unsigned)from->frequency[k] << F_SHIFT;
            symbol[j + k * count] = from->symbol[k];
            factors[0][j + k * count] = (uint8_t)f;
            factors[1][j + k * count] = (uint8_t)(f >> 8);
            biases[0][j + k * count] = (uint8_t)from->bias[k];
            biases[1][j + k * count] = (uint8_t)(from->bias[k] >> 8);
            if (count > LANES) continue;
            factor[k][j] = (uint16_t)f;
            bias[k][j] = from->bias[k];
        }
        if (count > LANES) continue;
        const unsigned at = ((j << t->log2_width) + from->split) << F_SHIFT;
        end[j] = (uint16_t)(at < 65536 ? at : 65535);
    }
    b->split = bytes_of(split, BUCKETS_MOST);
    b->symbol = bytes_of(symbol, 2 * BUCKETS_MOST);
    for (unsigned k = 0; k < 2; k++) {
        b->factors[k] = bytes_of(factors[k], 2 * BUCKETS_MOST);
        b->biases[k] = bytes_of(biases[k], 2 * BUCKETS_MOST);
    }
    b->end = load(end);
    for (unsigned k = 0; k < 2; k++) {
        b->factor[k] = load(factor[k]);
        b->bias[k] = load(bias[k]);
    }
}

/* What 64 states look up: their symbols, F, and the bias. */
struct found {
    __m512i symbol, factor[2], bias[2];
};

static inline struct found find_in_32(const struct buckets *b, const __m512i low[2],
                                      unsigned vectors) {
    struct found found;
    __m512i index[2];
    for (unsigned h = 0; h < vectors; h++) {
        const __m512i slot = _mm512_slli_epi16(low[h], 4);
        const __m512i bucket = _mm512_srli_epi16(slot, 11);
        const __mmask32 second =
            _mm512_cmpge_epu16_mask(slot, _mm512_permutexvar_epi16(bucket, b->end));
        index[h] = _mm512_mask_add_epi16(bucket, second, bucket, all(LANES));
        found.factor[h] = _mm512_permutex2var_epi16(b->factor[0], index[h], b->factor[1]);
        found.bias[h] = _mm512_permutex2var_epi16(b->bias[0], index[h], b->bias[1]);
    }
    const __m512i bytes = narrow(index[0], index[vectors - 1]);
    found.symbol = in_order(look_up(&b->symbol, 64, bytes, 0));
    return found;
}

static inline struct found find_in(const struct buckets *b, unsigned log2_buckets,
                                   const __m512i low[2]) {
    struct found found;
    __m512i at[2], inside[2];
    const unsigned log2_width = PITHI_RANS_LOG2_SLOTS - log2_buckets, buckets = 1u << log2_buckets;
    for (unsigned h = 0; h < 2; h++) {
        at[h] = _mm512_and_si512(_mm512_srli_epi32(low[h], log2_width), all(buckets - 1));
        inside[h] = _mm512_and_si512(low[h], all((1u << log2_width) - 1));
    }
    __m512i index = narrow(at[0], at[1]);
    const __mmask64 second =
        _mm512_cmpge_epu8_mask(narrow(inside[0], inside[1]), look_up(&b->split, buckets, index, 0));
    if (buckets < 256)
        index = _mm512_mask_add_epi8(index, second, index, _mm512_set1_epi8((char)buckets));
    found.symbol = in_order(look_up(&b->symbol, 2 * buckets, index, second));
    widen(found.factor, look_up(&b->factors[0], 2 * buckets, index, second),
          look_up(&b->factors[1], 2 * buckets, index, second));
    widen(found.bias, look_up(&b->biases[0], 2 * buckets, index, second),
          look_up(&b->biases[1], 2 * buckets, index, second));
    return found;
}

/* Takes the next words for the lanes whose state is below 2^16. */
static inline void advance(__m512i *low, __m512i *high, __m512i factor, __m512i bias,
                           const uint8_t **words) {
    const __m512i slot = _mm512_and_si512(*low, all(PITHI_RANS_SLOTS - 1));
    const __m512i rest = _mm512_andnot_si512(all(PITHI_RANS_SLOTS - 1), *low);
    const __m512i c =
        _mm512_add_epi16(_mm512_mulhi_epu16(factor, rest), _mm512_add_epi16(slot, bias));
    const __m512i top = _mm512_mulhi_epu16(factor, *high);
    const __m512i sum = _mm512_add_epi16(_mm512_mullo_epi16(factor, *high), c);
    const __mmask32 carry = _mm512_cmplt_epu16_mask(sum, c);
    const __mmask32 below = _mm512_mask_cmpge_epu16_mask(_mm512_testn_epi16_mask(top, top), sum, c);
    *high = _mm512_mask_mov_epi16(_mm512_mask_add_epi16(top, carry, top, all(1)), below, sum);
    *low = _mm512_mask_expand_epi16(sum, below, load(*words));
    *words += 2 * (size_t)_mm_popcnt_u32(below);
}

/* Rows of symbols, one of each state, while there are words for all. Returns how many symbols. */
static inline size_t decode_rows(const struct buckets *b, unsigned log2_buckets, unsigned row,
                                 struct states *x, struct pithi_rans_words *from, uint8_t *dst,
                                 size_t n) {
    const unsigned vectors = row / LANES, pair = vectors < 2 ? 1 : 2;
    const uint8_t *at = from->at, *const end = from->end;
    size_t i = 0;
    for (; n - i >= row && (size_t)(end - at) >= 2 * row; i += row) {
        for (unsigned v = 0; v < vectors; v += 2) {
            const __m512i low[2] = {x->low[v], x->low[v + pair - 1]};
            const struct found found =
                log2_buckets == 5 ? find_in_32(b, low, pair) : find_in(b, log2_buckets, low);
            if (pair == 2)
                _mm512_storeu_si512(dst + i + LANES * v, found.symbol);
            else
                _mm256_storeu_si256((__m256i *)(void *)(dst + i),
                                    _mm512_castsi512_si256(found.symbol));
            for (unsigned h = 0; h < pair; h++)
                advance(&x->low[v + h], &x->high[v + h], found.factor[h], found.bias[h], &at);
        }
    }
    from->at = at;
    return i;
}

#define DECODE_ROWS(log2_buckets)                                                        \
    static size_t decode_##log2_buckets(const struct buckets *b, unsigned states,        \
                                        struct states *x, struct pithi_rans_words *from, \
                                        uint8_t *dst, size_t n) {                        \
        if (states == 128) return decode_rows(b, log2_buckets, 128, x, from, dst, n);    \
        if (states == 64) return decode_rows(b, log2_buckets, 64, x, from, dst, n);      \
        return decode_rows(b, log2_buckets, 32, x, from, dst, n);                        \
    }
DECODE_ROWS(5)
DECODE_ROWS(6)
DECODE_ROWS(7)
DECODE_ROWS(8)

/* ---- Decode, with eight states ---------------------------------------------------------------
 * A row waits for the one before, so that steps count and lanes do not: a state is a lane of 32
 * bits. */

/* Tables of 32 buckets. The halves of a number are those of the two symbols, but `end` is the first
 * slot of the second one. */
struct wide_buckets {
    uint32_t end[LANES], factor[LANES], bias[LANES], symbol[LANES];
};

static inline __m256i look_up_8(const uint32_t table[LANES], __m256i index) {
    return _mm512_castsi512_si256(_mm512_permutex2var_epi32(
        load(table), _mm512_castsi256_si512(index), load(table + LANES / 2)));
}

/* Decodes rows of eight symbols while there are words for all. Returns how many symbols. */
static size_t decode_eights(const struct pithi_rans_decoder *t, uint32_t *state,
                            struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    enum { ROW = 8 };
    struct wide_buckets b;
    const __m256i slots = _mm256_set1_epi32(PITHI_RANS_SLOTS - 1), half = _mm256_set1_epi32(16);
    const __m256i low_half = _mm256_set1_epi32(0xFFFF);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)state);
    const uint8_t *at = from->at;
    size_t i = 0;
    for (unsigned j = 0; j < LANES; j++) {
        const struct pithi_rans_bucket *const bucket = &t->bucket[j];
        b.end[j] = (j << t->log2_width) + bucket->split;
        b.factor[j] = bucket->frequency[0] | (uint32_t)bucket->frequency[1] << 16;
        b.bias[j] = bucket->bias[0] | (uint32_t)bucket->bias[1] << 16;
        b.symbol[j] = bucket->symbol[0] | (uint32_t)bucket->symbol[1] << 16;
    }
    for (; n - i >= ROW && (size_t)(from->end - at) >= 2 * ROW; i += ROW) {
        const __m256i slot = _mm256_and_si256(x, slots);
        const __m256i bucket = _mm256_srli_epi32(slot, 7);
        const __m256i first = _mm256_cmpgt_epi32(look_up_8(b.end, bucket), slot);
        const __m256i shift = _mm256_andnot_si256(first, half);
        const __m256i f =
            _mm256_and_si256(_mm256_srlv_epi32(look_up_8(b.factor, bucket), shift), low_half);
        const __m256i k = _mm256_and_si256(
            _mm256_add_epi32(slot, _mm256_srlv_epi32(look_up_8(b.bias, bucket), shift)), low_half);
        _mm_storel_epi64((__m128i *)(void *)(dst + i), _mm256_cvtepi32_epi8(_mm256_srlv_epi32(
                                                           look_up_8(b.symbol, bucket), shift)));
        x = _mm256_add_epi32(_mm256_mullo_epi32(f, _mm256_srli_epi32(x, PITHI_RANS_LOG2_SLOTS)), k);
        const __mmask8 below = _mm256_cmple_epu32_mask(x, low_half);
        const __m256i word =
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)at));
        x = _mm256_mask_or_epi32(x, below, _mm256_slli_epi32(x, 16),
                                 _mm256_maskz_expand_epi32(below, word));
        at += 2 * (size_t)_mm_popcnt_u32(below);
    }
    _mm256_storeu_si256((__m256i *)(void *)state, x);
    from->at = at;
    return i;
}

static bool decode(const struct pithi_rans_decoder *t, struct pithi_rans_states *states,
                   struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    enum { EIGHTS_LEAST = 256 }; /* below it, as below PITHI_RANS_SLOTS, making tables is longer */
    size_t done = 0;
    if (states->log2 == 3 && t->log2_width == 7 && n >= EIGHTS_LEAST) {
        done = decode_eights(t, states->x, from, dst, n);
    } else if (pithi_rans_by_vectors(states) && n >= PITHI_RANS_SLOTS) {
        struct buckets b;
        struct states x;
        const unsigned count = 1u << states->log2;
        buckets_of(&b, t);
        states_load(&x, states);
        switch (t->log2_width) {
        case 7: done = decode_5(&b, count, &x, from, dst, n); break;
        case 6: done = decode_6(&b, count, &x, from, dst, n); break;
        case 5: done = decode_7(&b, count, &x, from, dst, n); break;
        default: done = decode_8(&b, count, &x, from, dst, n);
        }
        states_store(&x, states);
    }
    return pithi_rans_decode_c(t, states, from, dst + done, n - done);
}

/* ---- Encode ----------------------------------------------------------------------------------
 * The slots of a symbol that fills no bucket are neighbours: slot k is its first slot + k. Those of
 * the other, main symbols together are slots 0 .. 4095 less those of rare symbols. So number P of
 * main symbols' slots is slot P + the slots of the rare symbols before, which a bit for each rare
 * symbol tells, at the first P after it. */

enum { BLOCK = 16, BLOCKS = PITHI_RANS_SLOTS / BLOCK, RARE = PITHI_RANS_SLOTS };

/* Symbols whose tables are of 16-bit lanes, by symbol mod 64: all of them where they differ mod 64;
 * else those of a window of 64, where most rows of symbols lie in it, or none. */
enum lanes { ALL, WINDOW, NONE };

/* By symbol: F, its first P or RARE + its first slot, and the halves of 1 / f, in 16-bit lanes and
 * in bytes. By block of P: its bits, and how many there are before. By number of rare symbols:
 * their slots. */
struct symbols {
    enum lanes lanes;
    uint8_t window; /* the upper two bits of its symbols */
    __m512i factor[2], first[2];
    __m512i inverse[2][2];
    struct bytes factors[2], firsts[2], inverses[4];
    struct bytes bits[2], before, passed[2];
};

/* Returns the bits of the largest f32 number that is not above 1 / f. */
static uint32_t inverse_of(unsigned f) {
    enum { DOWN = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
    const __m128 divisor = _mm_set_ss((float)(f + (f == 0)));
    return (uint32_t)_mm_cvtsi128_si32(
        _mm_castps_si128(_mm_div_round_ss(_mm_set_ss(1.0f), divisor, DOWN)));
}

/* Returns the symbols that are not in a window. */
static inline __mmask64 outside_of(uint8_t window, __m512i symbols) {
    return _mm512_test_epi8_mask(_mm512_xor_si512(symbols, _mm512_set1_epi8((char)window)),
                                 _mm512_set1_epi8((char)0xC0));
}

/* Whether most of a sample of rows, each of 64 symbols, lie in a window. */
static bool lie_within(uint8_t window, const uint8_t *src, size_t n) {
    enum { ROW = 64, ROWS = 32, COUNT_LEAST = ROW * ROWS };
    unsigned inside = 0;
    if (n < COUNT_LEAST) return false;
    for (size_t i = 0; i < ROWS; i++) inside += !outside_of(window, load(src + n / ROWS * i));
    return inside >= ROWS - ROWS / 4;
}

static void symbols_of(struct symbols *t, const struct pithi_rans_encoder *from, const uint8_t *src,
                       size_t n) {
    uint16_t factor[64] = {0}, first[64] = {0}, inverse[2][64] = {{0}}, bits[BLOCKS] = {0};
    uint8_t inverses[4][256];
    uint8_t factors[2][256], firsts[2][256], block[2][BLOCKS], before[BLOCKS], passed[2][256];
    unsigned kinds = 0, main = 0, rares = 0, slots = 0, share[4] = {0}, most = 0;
    uint64_t lanes = 0;
    t->lanes = ALL;
    for (unsigned s = 0; s < 256; s++) {
        if (!from->frequency[s]) continue;
        kinds++;
        share[s / 64] += from->frequency[s];
        if (lanes >> s % 64 & 1) t->lanes = WINDOW;
        lanes |= UINT64_C(1) << s % 64;
    }
    for (unsigned k = 1; k < 4; k++)
        if (share[k] > share[most]) most = k;
    t->window = (uint8_t)(64 * most);
    if (t->lanes == WINDOW && !lie_within(t->window, src, n)) t->lanes = NONE;
    unsigned width = PITHI_RANS_SLOTS / 32;
    while (kinds > PITHI_RANS_SLOTS / width) width /= 2;
    passed[0][0] = passed[1][0] = 0;
    for (unsigned s = 0; s < 256; s++) {
        const unsigned f = from->frequency[s];
        unsigned at = main;
        if (f >= width) {
            main += f;
        } else if (f) {
            const unsigned slot = from->slot[from->start[s]], p = slot - slots;
            at = RARE + slot;
            bits[p / BLOCK] |= (uint16_t)(1u << p % BLOCK);
            slots += f;
            rares++;
            passed[0][rares] = (uint8_t)slots;
            passed[1][rares] = (uint8_t)(slots >> 8);
        }
        factors[0][s] = (uint8_t)(f << F_SHIFT);
        factors[1][s] = (uint8_t)(f << F_SHIFT >> 8);
        firsts[0][s] = (uint8_t)at;
        firsts[1][s] = (uint8_t)(at >> 8);
        const uint32_t inverted = inverse_of(f);
        for (unsigned k = 0; k < 4; k++) inverses[k][s] = (uint8_t)(inverted >> 8 * k);
        if (!f || (t->lanes != ALL && s / 64 != most)) continue;
        inverse[0][s % 64] = (uint16_t)inverted;
        inverse[1][s % 64] = (uint16_t)(inverted >> 16);
        factor[s % 64] = (uint16_t)(f << F_SHIFT);
        first[s % 64] = (uint16_t)at;
    }
    memset(passed[0] + rares + 1, 0, 255 - rares);
    memset(passed[1] + rares + 1, 0, 255 - rares);
    for (unsigned k = 0, count = 0; k < BLOCKS; k++) {
        before[k] = (uint8_t)count;
        block[0][k] = (uint8_t)bits[k];
        block[1][k] = (uint8_t)(bits[k] >> 8);
        count += (unsigned)_mm_popcnt_u32(bits[k]);
    }
    t->before = bytes_of(before, BLOCKS);
    for (unsigned k = 0; k < 2; k++) {
        t->factor[k] = load(factor + LANES * k);
        for (unsigned h = 0; h < 2; h++) t->inverse[h][k] = load(inverse[h] + LANES * k);
        for (unsigned h = 0; h < 2; h++)
            t->inverses[2 * h + k] = bytes_of(inverses[2 * h + k], 256);
        t->first[k] = load(first + LANES * k);
        t->factors[k] = bytes_of(factors[k], 256);
        t->firsts[k] = bytes_of(firsts[k], 256);
        t->bits[k] = bytes_of(block[k], BLOCKS);
        t->passed[k] = bytes_of(passed[k], 256);
    }
}

/* What a row looks up of its symbols: F, the first P, and the low and high halves of 1 / f. */
struct row_symbols {
    __m512i factor[VECTORS_MOST], first[VECTORS_MOST];
    __m512i inverse[2][VECTORS_MOST];
};

/* Looks up the symbols of vectors v and, unless there is one alone, v + 1. */
static inline void find_two(const struct symbols *t, enum lanes lanes, unsigned row, unsigned v,
                            const uint8_t *src, struct row_symbols *to) {
    const unsigned vectors = row < 2 * LANES ? 1 : 2;
    src += LANES * v;
    if (lanes == ALL || (lanes == WINDOW && !outside_of(t->window, load(src)))) {
        for (const unsigned end = v + vectors; v < end; v++, src += LANES) {
            const __m512i s = _mm512_cvtepu8_epi16(load_32(src));
            to->factor[v] = _mm512_permutex2var_epi16(t->factor[0], s, t->factor[1]);
            to->first[v] = _mm512_permutex2var_epi16(t->first[0], s, t->first[1]);
            for (unsigned k = 0; k < 2; k++)
                to->inverse[k][v] =
                    _mm512_permutex2var_epi16(t->inverse[k][0], s, t->inverse[k][1]);
        }
        return;
    }
    const __m512i s = out_of_order(vectors == 2 ? load(src) : _mm512_zextsi256_si512(load_32(src)));
    widen(to->factor + v, look_up(&t->factors[0], 256, s, 0), look_up(&t->factors[1], 256, s, 0));
    widen(to->first + v, look_up(&t->firsts[0], 256, s, 0), look_up(&t->firsts[1], 256, s, 0));
    for (unsigned k = 0; k < 2; k++)
        widen(to->inverse[k] + v, look_up(&t->inverses[2 * k], 256, s, 0),
              look_up(&t->inverses[2 * k + 1], 256, s, 0));
}

/* The 32-bit numbers of the even lanes, and of the odd lanes, of two halves. */
static inline __m512i even_of(__m512i low, __m512i high) {
    return _mm512_mask_mov_epi16(low, 0xAAAAAAAA, _mm512_slli_epi32(high, 16));
}

static inline __m512i odd_of(__m512i low, __m512i high) {
    return _mm512_mask_mov_epi16(_mm512_srli_epi32(low, 16), 0xAAAAAAAA, high);
}

/* Returns the product of an integer and a positive number, each rounded down, as an integer. */
static inline __m512i multiply(__m512i x, __m512i number) {
    enum { DOWN = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
    return _mm512_cvttps_epu32(
        _mm512_mul_round_ps(_mm512_cvt_roundepu32_ps(x, DOWN), _mm512_castsi512_ps(number), DOWN));
}

/* Stores the lanes of the mask, the last lane's last. */
static inline uint8_t *store_words(__m512i x, __mmask32 mask, uint8_t *end) {
    static const uint16_t rotation[2 * LANES] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
        12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    const size_t count = (size_t)_mm_popcnt_u32(mask);
    x = _mm512_permutexvar_epi16(load(rotation + count), _mm512_maskz_compress_epi16(mask, x));
    _mm512_storeu_si512(end - 2 * LANES, x);
    return end - 2 * count;
}

/* Makes of states x, below 2^20 f, 2^12 floor(x / f), and returns x % f. A quotient below 2^20 of
 * which three factors are rounded down, by less than 2^-23 each, is at most 1 too small. */
static inline __m512i divide(__m512i *low, __m512i *high, __m512i f, __m512i inverse_low,
                             __m512i inverse_high) {
    const __mmask32 odd = 0xAAAAAAAA;
    const __m512i even_q = multiply(even_of(*low, *high), even_of(inverse_low, inverse_high));
    const __m512i odd_q = multiply(odd_of(*low, *high), odd_of(inverse_low, inverse_high));
    const __m512i q = _mm512_mask_mov_epi16(even_q, odd, _mm512_slli_epi32(odd_q, 16));
    const __m512i k = _mm512_sub_epi16(*low, _mm512_mullo_epi16(q, f));
    const __mmask32 above = _mm512_cmpge_epu16_mask(k, f);
    *low = _mm512_slli_epi16(q, 12);
    *high = _mm512_mask_mov_epi16(_mm512_srli_epi32(even_q, 4), odd, _mm512_slli_epi32(odd_q, 12));
    *low = _mm512_mask_add_epi16(*low, above, *low, all(PITHI_RANS_SLOTS));
    const __mmask32 carry = _mm512_mask_testn_epi16_mask(above, *low, *low);
    *high = _mm512_mask_add_epi16(*high, carry, *high, all(1));
    return _mm512_min_epu16(k, _mm512_sub_epi16(k, f));
}

/* Makes slots of numbers P. Only where symbols are of all lanes are rare ones fewer than 64. */
static inline void slots_of(const struct symbols *t, enum lanes lanes, __m512i p[2],
                            const __m512i first[2]) {
    const unsigned passed = lanes == ALL ? 64 : 256;
    const __m512i block = narrow(_mm512_srli_epi16(p[0], 4), _mm512_srli_epi16(p[1], 4));
    const __m512i inside =
        narrow(_mm512_and_si512(p[0], all(BLOCK - 1)), _mm512_and_si512(p[1], all(BLOCK - 1)));
    const __m512i up_to[2] = {_mm512_broadcast_i32x4(_mm_setr_epi8(1, 3, 7, 15, 31, 63, 127, -1, -1,
                                                                   -1, -1, -1, -1, -1, -1, -1)),
                              _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 7,
                                                                   15, 31, 63, 127, -1))};
    __m512i rares = look_up(&t->before, BLOCKS, block, 0);
    for (unsigned k = 0; k < 2; k++) {
        const __m512i bits = look_up(&t->bits[k], BLOCKS, block, 0);
        rares = _mm512_add_epi8(rares, _mm512_popcnt_epi8(_mm512_and_si512(
                                           bits, _mm512_shuffle_epi8(up_to[k], inside))));
    }
    __m512i slots[2];
    widen(slots, look_up(&t->passed[0], passed, rares, 0),
          look_up(&t->passed[1], passed, rares, 0));
    for (unsigned h = 0; h < 2; h++)
        p[h] = _mm512_mask_add_epi16(p[h], _mm512_cmplt_epu16_mask(first[h], all(RARE)), p[h],
                                     slots[h]);
}

/* Encodes a row, one symbol of each state, in passes whose operations do not wait for each other.
 */
static inline uint8_t *encode_row(const struct symbols *t, enum lanes lanes, unsigned row,
                                  struct states *x, const uint8_t *src, uint8_t *end) {
    const unsigned vectors = row / LANES;
    struct row_symbols s;
    __m512i p[VECTORS_MOST];
    for (unsigned v = 0; v < vectors; v += 2) find_two(t, lanes, row, v, src, &s);
    for (unsigned v = vectors; v--;) {
        const __mmask32 full = _mm512_cmpge_epu16_mask(x->high[v], s.factor[v]);
        end = store_words(x->low[v], full, end);
        x->low[v] = _mm512_mask_mov_epi16(x->low[v], full, x->high[v]);
        x->high[v] = _mm512_mask_mov_epi16(x->high[v], full, _mm512_setzero_si512());
    }
    for (unsigned v = 0; v < vectors; v++) {
        const __m512i f = _mm512_srli_epi16(s.factor[v], F_SHIFT);
        p[v] = _mm512_add_epi16(
            s.first[v], divide(&x->low[v], &x->high[v], f, s.inverse[0][v], s.inverse[1][v]));
    }
    if (vectors == 1) p[1] = s.first[1] = p[0];
    for (unsigned v = 0; v < vectors; v += 2) slots_of(t, lanes, p + v, s.first + v);
    for (unsigned v = 0; v < vectors; v++)
        x->low[v] = _mm512_or_si512(x->low[v], _mm512_and_si512(p[v], all(PITHI_RANS_SLOTS - 1)));
    return end;
}

/* Rows of symbols, the last first, while there is space for a word of each. Returns how many
 * symbols are left. */
static inline size_t encode_rows(const struct symbols *t, enum lanes lanes, unsigned row,
                                 struct states *x, const uint8_t *src, size_t n,
                                 struct pithi_rans_space *to) {
    uint8_t *end = to->end;
    for (; n >= row && (size_t)(end - to->begin) >= 2 * row; n -= row)
        end = encode_row(t, lanes, row, x, src + n - row, end);
    to->end = end;
    return n;
}

/* 64 or 128 states. */
#define ENCODE_ROWS(lanes)                                                                    \
    static size_t encode_##lanes(const struct symbols *t, unsigned states, struct states *x,  \
                                 const uint8_t *src, size_t n, struct pithi_rans_space *to) { \
        if (states == 64) return encode_rows(t, lanes, 64, x, src, n, to);                    \
        return encode_rows(t, lanes, 128, x, src, n, to);                                     \
    }
ENCODE_ROWS(ALL)
ENCODE_ROWS(WINDOW)
ENCODE_ROWS(NONE)

static bool encode(const struct pithi_rans_encoder *from, const uint8_t *src, size_t n,
                   struct pithi_rans_states *states, struct pithi_rans_space *to) {
    if (pithi_rans_by_vectors(states)) {
        struct symbols t;
        struct states x;
        const unsigned count = 1u << states->log2;
        const size_t last = n & (count - 1);
        if (!pithi_rans_encode_c(from, src + n - last, last, states, to)) return false;
        n -= last;
        symbols_of(&t, from, src, n);
        states_load(&x, states);
        if (count == 32)
            n = encode_rows(&t, NONE, 32, &x, src, n, to);
        else if (t.lanes == ALL)
            n = encode_ALL(&t, count, &x, src, n, to);
        else if (t.lanes == WINDOW)
            n = encode_WINDOW(&t, count, &x, src, n, to);
        else
            n = encode_NONE(&t, count, &x, src, n, to);
        states_store(&x, states);
    }
    return pithi_rans_encode_c(from, src, n, states, to);
}

/* ---- Counts -----------------------------------------------------------------------------------*/

static inline void store(uint64_t *p, vec x) { _mm512_storeu_si512(p, x); }
static inline vec all8(uint8_t x) { return _mm512_set1_epi8((char)x); }
static inline vec add8(vec a, vec b) { return _mm512_add_epi8(a, b); }
static inline vec sub8(vec a, vec b) { return _mm512_sub_epi8(a, b); }
static inline vec add_most(vec a, vec b) { return _mm512_adds_epu8(a, b); }
static inline vec look_up_16(const uint8_t table[16], vec at) {
    return _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)), at);
}
static inline vec odd(vec a, vec b, vec c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
static inline vec majority(vec a, vec b, vec c) { return _mm512_ternarylogic_epi64(a, b, c, 0xE8); }
static inline vec min8(vec a, vec b) { return _mm512_min_epu8(a, b); }
static inline vec sum(vec x) { return _mm512_sad_epu8(x, _mm512_setzero_si512()); }
static inline uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at) {
    const __mmask64 found = _mm512_movepi8_mask(at);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(found, load(from)));
    return to + _mm_popcnt_u64(found);
}

#define BYTES 64
#define WINDOWS 2
#include "bytes/symbol_count_tmpl.h"

void pithi_rans_bind_avx512(struct pithi_kernels *k);
void pithi_rans_bind_avx512(struct pithi_kernels *k) {
    k->rans_encode = encode;
    k->rans_decode = decode;
    k->symbol_count = count_symbols;
}
