/* trellis_avx512.c - trellis-coded groups for AVX-512: 32 sequences at a time, masks for decisions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What paths are compared by is in the order of steps, one sequence to a lane of 16 bits; which way
 * a state kept is a bit for each sequence in a mask. So going back over a path is logic on words of
 * 32 bits, and its result the lowest bits of the codes. All else that codes are follows from these
 * and the values where they lie. */
#include "common/lanes_avx512.h"
#include "common/lanes_tmpl.h"
#include "group/look_avx512.h"
#include "group/trellis_value.h"
#include "kernels.h"

enum { WIDE = 32, SEQUENCE = PITHI_TRELLIS_SEQUENCE, STATES = PITHI_TRELLIS_STATES };

/* A value is a magnitude, with all bits inverted where it is negative, so that bits 4 to 8 are a
 * sign and a cell: those of negative values are numbered from the last of SIGNED on down. */
enum { CELL = 4, SIGNED = 2 * PITHI_TRELLIS_CELLS };

/* Levels that are compared with values are one less where these are negative. The number of a
 * level, and its code without the lowest bit, are found by sign and cell in bits 0 to 4, the upper
 * bit of the subset in bit 6 and the lower one in bit 5. */
struct tables {
    struct pithi_trellis plain;
    _Alignas(64) uint32_t levels[16];     /* a bit for each magnitude: whether it is a level */
    _Alignas(64) int16_t near[4][SIGNED]; /* by subset, then by sign and cell: the level */
    _Alignas(64) uint8_t number[128], code[128];
    _Alignas(64) float value[32]; /* of a level, by its number */
};

struct paths {
    /* Values, sorted by lane, then by step. */
    _Alignas(64) uint16_t row[WIDE * SEQUENCE];
    union {
        /* Which lanes keep the upper way, for each step and each state of it. */
        _Alignas(64) uint32_t upper[SEQUENCE * STATES];
        /* Once paths are found, the lowest bits of codes, by 64 steps, then by lane. */
        uint64_t bits[WIDE * SEQUENCE / 64];
    };
    /* The lowest bits of codes of all lanes, for each step. */
    _Alignas(64) uint32_t lowest[SEQUENCE];
    uint32_t mirrored; /* the lanes whose path begins in the last state */
};

struct decoder {
    v16 gather, upper, lower;   /* bytes of windows; their upper and lower eight bits */
    __m512i of_upper, of_lower; /* what level these bits make, as matrices */
    v16 value[2];               /* of levels, by number */
};

typedef __m512i eight;
static inline eight e_low(eight x, eight y) { return _mm512_unpacklo_epi16(x, y); }
static inline eight e_high(eight x, eight y) { return _mm512_unpackhi_epi16(x, y); }

#include "group/trellis_job_tmpl.h"

static void tables_make(struct tables *t, uint32_t bits) {
    struct pithi_trellis *const p = &t->plain;
    pithi_trellis_init(p, bits);
    memset(t->levels, 0, sizeof t->levels);
    for (int k = 0; k < 32; k++) {
        const int level = p->level[k % p->levels];
        t->levels[(level < 0 ? -level : level) / 32] |= 1u << (level < 0 ? -level : level) % 32;
        t->value[k] = (float)level;
    }
    for (int cell = 0; cell < SIGNED; cell++) {
        const bool negative = cell >= PITHI_TRELLIS_CELLS;
        const int first = negative ? p->levels - 4 - p->first[SIGNED - 1 - cell] : p->first[cell];
        for (int k = 0; k < 4; k++) {
            const int number = pithi_trellis_of_subset(first, k);
            t->near[k][cell] = (int16_t)(p->level[number] - negative);
            t->number[SIGNED * k + cell] = (uint8_t)number;
            t->code[SIGNED * k + cell] = (uint8_t)(number >> 2 << 1);
        }
    }
}

/* ---- Encode: paths ----------------------------------------------------------------------------*/

/* Where it is kept which lanes took the upper way into a state: by the lowest bit of its number,
 * then by the others from the next on, so that going back chooses halves of vectors. */
#define PLACE(s) (((s)&1) << 2 | ((s)&2) | ((s)&4) >> 2)

/* The best path into a state, of two: the better one's metric, and which lanes took the upper. */
#define STEP(low, high, s, straight, crossed)                                                \
    do {                                                                                     \
        const __m512i a0 = _mm512_adds_epu16(low, straight);                                 \
        const __m512i b0 = _mm512_adds_epu16(high, crossed);                                 \
        const __m512i a1 = _mm512_adds_epu16(low, crossed);                                  \
        const __m512i b1 = _mm512_adds_epu16(high, straight);                                \
        to[s] = _mm512_min_epu16(a0, b0);                                                    \
        to[s + 1] = _mm512_min_epu16(a1, b1);                                                \
        _store_mask32((__mmask32 *)(upper + PLACE(s)), _mm512_cmplt_epu16_mask(b0, a0));     \
        _store_mask32((__mmask32 *)(upper + PLACE(s + 1)), _mm512_cmplt_epu16_mask(b1, a1)); \
    } while (0)

ALWAYS void forward_step(__m512i m[STATES], const __m512i near[4], __m512i value,
                         uint32_t upper[STATES]) {
    const __m512i cell = _mm512_srli_epi16(value, CELL);
    __m512i d[4], to[STATES];
    PITHI_UNROLL for (int k = 0; k < 4; k++) {
        const __m512i e = _mm512_sub_epi16(value, _mm512_permutexvar_epi16(cell, near[k]));
        d[k] = _mm512_mullo_epi16(e, e);
    }
    STEP(m[0], m[4], 0, d[0], d[2]);
    STEP(m[1], m[5], 2, d[2], d[0]);
    STEP(m[2], m[6], 4, d[1], d[3]);
    STEP(m[3], m[7], 6, d[3], d[1]);
    PITHI_UNROLL for (int s = 0; s < STATES; s++) m[s] = to[s];
}
#undef STEP
#undef PLACE

ALWAYS void lower(__m512i m[STATES]) {
    const __m512i a = _mm512_min_epu16(m[0], m[1]), b = _mm512_min_epu16(m[2], m[3]);
    const __m512i c = _mm512_min_epu16(m[4], m[5]), d = _mm512_min_epu16(m[6], m[7]);
    const __m512i least = _mm512_min_epu16(_mm512_min_epu16(a, b), _mm512_min_epu16(c, d));
    PITHI_UNROLL for (int s = 0; s < STATES; s++) m[s] = _mm512_sub_epi16(m[s], least);
}

/* Returns the states of the least metrics, the lowest ones of equals. */
ALWAYS __m512i best_states(const __m512i m[STATES]) {
    __m512i best = m[0], state = _mm512_setzero_si512();
    PITHI_UNROLL for (int s = 1; s < STATES; s++) {
        const __mmask32 less = _mm512_cmplt_epu16_mask(m[s], best);
        state = _mm512_mask_mov_epi16(state, less, _mm512_set1_epi16((short)s));
        best = _mm512_min_epu16(best, m[s]);
    }
    return state;
}

/* Rows of eight steps become eight vectors of a step each: 128 bits of four rows at a time. */
ALWAYS void transpose_steps(const uint16_t *row, __m512i x[8]) {
    __m512i y[8];
    PITHI_UNROLL for (size_t i = 0; i < 8; i++) {
        const uint16_t *const p = row + i * SEQUENCE;
        x[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
        x[i] = _mm512_mask_broadcast_i64x2(x[i], 0x0C,
                                           _mm_loadu_si128((const __m128i *)(p + 8 * SEQUENCE)));
        x[i] = _mm512_mask_broadcast_i64x2(x[i], 0x30,
                                           _mm_loadu_si128((const __m128i *)(p + 16 * SEQUENCE)));
        x[i] = _mm512_mask_broadcast_i64x2(x[i], 0xC0,
                                           _mm_loadu_si128((const __m128i *)(p + 24 * SEQUENCE)));
    }
    transpose_rows(x, y);
    PITHI_UNROLL for (size_t i = 0; i < 8; i++) x[i] = y[i];
}

/* Goes forward over all steps; returns the best last states. `next` is read after this, so much of
 * it for a step, and fetched meanwhile. */
static __attribute__((noinline)) __m512i go_forward(const struct tables *t, struct paths *p,
                                                    size_t steps, bool mirrored,
                                                    const uint8_t *next, size_t step_bytes) {
    __m512i m[STATES], near[4];
    PITHI_UNROLL for (int k = 0; k < 4; k++) near[k] = _mm512_load_si512(t->near[k]);
    PITHI_UNROLL for (int s = 1; s < STATES; s++) m[s] =
        _mm512_set1_epi16((short)PITHI_TRELLIS_WORST);
    m[0] = _mm512_setzero_si512();
    if (mirrored) m[STATES - 1] = m[0];
    for (size_t i = 0; i < steps; i += 8) {
        __m512i value[8];
        transpose_steps(p->row + i, value);
        uint32_t *const upper = p->upper + i * STATES;
        for (size_t k = 0; k < 8 * step_bytes; k += 64)
            __builtin_prefetch(next + i * step_bytes + k, 0, 3);
        PITHI_UNROLL for (size_t k = 0; k < 8; k += PITHI_TRELLIS_UNSURE) {
            PITHI_UNROLL for (size_t j = k; j < k + PITHI_TRELLIS_UNSURE; j++)
                forward_step(m, near, value[j], upper + j * STATES);
            lower(m);
        }
    }
    return best_states(m);
}

/* Returns a bit of b where the mask has one, else of a. */
ALWAYS __m128i choose(__m128i mask, __m128i a, __m128i b) {
    return _mm_ternarylogic_epi32(mask, a, b, 0xAC);
}

/* What a state kept is chosen among that of all by one bit of the state after the other: among four
 * pairs, then two, then one. Every vector has the bits of all sequences in each of its lanes. */
static __attribute__((noinline)) void go_backward(struct paths *p, size_t steps, __m512i state) {
    __m128i s0 = _mm_set1_epi32((int)_mm512_test_epi16_mask(state, _mm512_set1_epi16(1)));
    __m128i s1 = _mm_set1_epi32((int)_mm512_test_epi16_mask(state, _mm512_set1_epi16(2)));
    __m128i s2 = _mm_set1_epi32((int)_mm512_test_epi16_mask(state, _mm512_set1_epi16(4)));
    for (size_t i = steps; i-- > 0;) {
        const __m128i *const upper = (const __m128i *)(p->upper + i * STATES);
        const __m128i four = choose(s0, _mm_load_si128(upper), _mm_load_si128(upper + 1));
        const __m128i two = choose(s1, four, _mm_unpackhi_epi64(four, four));
        const __m128i one = choose(s2, two, _mm_shuffle_epi32(two, 1));
        p->lowest[i] = (uint32_t)_mm_cvtsi128_si32(s0);
        s0 = s1;
        s1 = s2;
        s2 = _mm_broadcastd_epi32(one);
    }
    const __m128i any = _mm_or_si128(s0, _mm_or_si128(s1, s2));
    p->mirrored = (uint32_t)_mm_cvtsi128_si32(any);
}

/* The lowest bits by lanes, 64 steps at a time. */
static __attribute__((noinline)) void turn_bits(struct paths *p, size_t steps) {
    const __m512i order = _mm512_set_epi8(
        63, 59, 55, 51, 47, 43, 39, 35, 31, 27, 23, 19, 15, 11, 7, 3, 62, 58, 54, 50, 46, 42, 38,
        34, 30, 26, 22, 18, 14, 10, 6, 2, 61, 57, 53, 49, 45, 41, 37, 33, 29, 25, 21, 17, 13, 9, 5,
        1, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    for (size_t i = 0; i < steps; i += 64) {
        __m512i x[4], byte[4];
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) x[k] =
            _mm512_permutexvar_epi8(order, _mm512_load_si512(p->lowest + i + 16 * k));
        const __m512i a = _mm512_shuffle_i64x2(x[0], x[1], 0x44);
        const __m512i b = _mm512_shuffle_i64x2(x[2], x[3], 0x44);
        const __m512i c = _mm512_shuffle_i64x2(x[0], x[1], 0xEE);
        const __m512i d = _mm512_shuffle_i64x2(x[2], x[3], 0xEE);
        byte[0] = _mm512_shuffle_i64x2(a, b, 0x88);
        byte[1] = _mm512_shuffle_i64x2(a, b, 0xDD);
        byte[2] = _mm512_shuffle_i64x2(c, d, 0x88);
        byte[3] = _mm512_shuffle_i64x2(c, d, 0xDD);
        uint64_t *const bits = p->bits + i / 64 * WIDE;
        PITHI_UNROLL for (size_t k = 0; k < WIDE; k++) bits[k] =
            _mm512_test_epi8_mask(byte[k / 8], _mm512_set1_epi8((char)(1 << k % 8)));
    }
}

/* ---- Encode: values ---------------------------------------------------------------------------*/

static bool decoded_before(const struct tables *t, const struct values *x, float unit) {
    const float limit = (float)t->plain.most;
    const v16 v = f_limit(f_mul(values_at(x, 0), v_spread(&unit)), v_spread(&limit));
    const v16 size = _mm512_abs_epi32(f_round_to_i(v));
    const v16 bits = look16(v_load((const uint8_t *)t->levels), v_shr(size, 5));
    const v16 bit = _mm512_srlv_epi32(bits, v_and(size, v_set(31)));
    return _mm512_testn_epi32_mask(bit, v_set(1)) == 0;
}

/* Rounds values to integers. They are within 16 bits before they are clamped: no reach of a group
 * is 512. */
ALWAYS void round_row(const struct tables *t, const struct values *x, float unit, size_t n,
                      uint16_t *row) {
    const v16 by = v_spread(&unit);
    const __m512i most = _mm512_set1_epi16((short)t->plain.most),
                  least = _mm512_set1_epi16((short)-t->plain.most);
    const __m512i even =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    for (size_t k = 0; k < n; k += 32) {
        const v16 a = f_round_to_i(f_mul(values_at(x, k), by));
        const v16 b = k + 16 < n ? f_round_to_i(f_mul(values_at(x, k + 16), by)) : a;
        const __m512i y = _mm512_permutex2var_epi16(a, even, b);
        const __m512i within = _mm512_max_epi16(_mm512_min_epi16(y, most), least);
        _mm512_storeu_si512(row + k, _mm512_add_epi16(within, _mm512_srai_epi16(within, 15)));
    }
}

/* Joins 64 codes of a byte each, of three or four bits: neighbours, then neighbours of these. */
ALWAYS void put_codes(uint8_t *to, size_t n, __m512i code, unsigned bits) {
    static const uint8_t places[2][32] = {
        {0, 1, 2, 8, 9, 10, 16, 17, 18, 24, 25, 26, 32, 33, 34, 40, 41, 42, 48, 49, 50, 56, 57, 58},
        {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
         32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62}};
    const __m512i place =
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)places[bits - 3]));
    __m512i x = _mm512_maddubs_epi16(code, _mm512_set1_epi16((short)(1 | 1 << bits << 8)));
    if (bits == 3) {
        x = _mm512_madd_epi16(x, _mm512_set1_epi32(1 | 1 << 2 * bits << 16));
        x = _mm512_or_si512(x, _mm512_srli_epi64(x, 20));
    }
    const __m256i all = _mm512_castsi512_si256(_mm512_permutexvar_epi8(place, x));
    if (n < UNIT) {
        uint8_t bytes[32];
        _mm256_storeu_si256((__m256i *)bytes, all);
        memcpy(to, bytes, n * bits / 8);
    } else if (bits == 4) {
        _mm256_storeu_si256((__m256i *)to, all);
    } else {
        _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(all));
        _mm_storel_epi64((__m128i *)(to + 16), _mm256_extracti128_si256(all, 1));
    }
}

/* Puts 64 codes of two bits, whose lower and upper ones these are. */
ALWAYS void put_pairs(uint8_t *to, size_t n, uint64_t low, uint64_t high) {
    const uint64_t even = UINT64_C(0x5555555555555555);
    const uint64_t first = _pdep_u64(low, even) | _pdep_u64(high, even << 1);
    const uint64_t second = _pdep_u64(low >> 32, even) | _pdep_u64(high >> 32, even << 1);
    memcpy(to, &first, n < 32 ? 4 : 8);
    if (n == UNIT) memcpy(to + 8, &second, 8);
}

/* The low bits of a number count. */
ALWAYS v16 value_of(const struct tables *t, v16 number, unsigned bits) {
    const v16 low = v_load((const uint8_t *)t->value);
    if (bits < 4) return _mm512_permutexvar_epi32(number, low);
    return _mm512_permutex2var_epi32(low, number, v_load((const uint8_t *)(t->value + 16)));
}

/* Byte j of a lane of 32 bits is that of value 16 * j + lane. */
static const _Alignas(64) uint8_t columns[64] = {
    0,  16, 32, 48, 1,  17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51, 4,  20, 36, 52, 5,  21,
    37, 53, 6,  22, 38, 54, 7,  23, 39, 55, 8,  24, 40, 56, 9,  25, 41, 57, 10, 26, 42, 58,
    11, 27, 43, 59, 12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};

/* Sums levels, and writes their codes. */
ALWAYS void close_row(const struct tables *t, const struct paths *p, struct coded *g, size_t lane,
                      const struct values *x, size_t n, unsigned bits, uint8_t *to) {
    const __m512i number0 = _mm512_load_si512(t->number),
                  number1 = _mm512_load_si512(t->number + 64), code0 = _mm512_load_si512(t->code),
                  code1 = _mm512_load_si512(t->code + 64);
    static const uint8_t evens[64] = {
        0,  2,  4,   6,   8,   10,  12,  14,  16,  18,  20,  22,  24,  26,  28,  30,
        32, 34, 36,  38,  40,  42,  44,  46,  48,  50,  52,  54,  56,  58,  60,  62,
        64, 66, 68,  70,  72,  74,  76,  78,  80,  82,  84,  86,  88,  90,  92,  94,
        96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126};
    const __m512i even = _mm512_loadu_si512(evens), column = _mm512_load_si512(columns);
    const v16 by = v_spread(&g->unit);
    const uint16_t *const row = p->row + lane * SEQUENCE;
    const uint64_t begin = p->mirrored >> lane & 1 ? 7 : 0, flip = begin ? ~UINT64_C(0) : 0;
    v16 with_value = v_load(g->with_value), with_itself = v_load(g->with_itself);
    uint64_t last = begin << 61;
    g->mirrored = begin != 0;
    for (size_t k = 0; k < n; k += UNIT, to += 8 * bits) {
        const uint64_t low = p->bits[k / 64 * WIDE + lane];
        const uint64_t back1 = low << 1 | last >> 63, back2 = low << 2 | last >> 62,
                       back3 = low << 3 | last >> 61;
        last = low;
        const __m512i a = _mm512_srli_epi16(_mm512_loadu_si512(row + k), CELL);
        const __m512i b = _mm512_srli_epi16(_mm512_loadu_si512(row + k + 32), CELL);
        const __m512i cell = _mm512_permutex2var_epi8(a, even, b);
        const __m512i upper = _mm512_maskz_set1_epi8(low ^ back1 ^ back3, 2 * SIGNED);
        const __m512i subset = _mm512_mask_add_epi8(upper, back2, upper, _mm512_set1_epi8(SIGNED));
        const __m512i place = _mm512_ternarylogic_epi32(cell, _mm512_set1_epi8(SIGNED - 1), subset,
                                                        0xEA); /* cell & (SIGNED - 1) | subset */
        const __m512i number = _mm512_permutex2var_epi8(number0, place, number1);
        const size_t count = n - k < UNIT ? n - k : UNIT;
        if (bits == 2) {
            const uint64_t high = _mm512_test_epi8_mask(number, _mm512_set1_epi8(4));
            put_pairs(to, count, low ^ flip, high ^ flip);
        } else {
            const __m512i high = _mm512_permutex2var_epi8(code0, place, code1);
            const __m512i code = _mm512_mask_add_epi8(high, low, high, _mm512_set1_epi8(1));
            const __m512i all = _mm512_set1_epi8((char)(flip & ((1u << bits) - 1)));
            put_codes(to, count, _mm512_xor_si512(code, all), bits);
        }
        const v16 numbers = _mm512_permutexvar_epi8(column, number);
        PITHI_UNROLL for (unsigned j = 0; j < 4; j++) {
            if (16 * j >= count) break;
            const v16 l = value_of(t, j ? v_shr(numbers, 8 * j) : numbers, bits);
            const v16 v = f_mul(values_at(x, k + 16 * j), by);
            with_value = f_add(with_value, f_mul(v, l));
            with_itself = f_add(with_itself, f_mul(l, l));
        }
    }
    v_store(g->with_value, with_value);
    v_store(g->with_itself, with_itself);
}

ALWAYS void encode_bits(struct pithi_group_job *job, const struct tables *t, struct batch *b,
                        size_t i, size_t n, size_t count, unsigned bits) {
    const size_t shift = (size_t)__builtin_ctz(job->set.group);
    struct paths *const p = &b->paths;
    for (size_t k = 0; k < count; k++) {
        struct coded *const g = &b->group[k * n >> shift];
        if (g->blank) {
            memset(p->row + k * SEQUENCE, 0, n * sizeof *p->row);
            continue;
        }
        const struct values v = stage(job, i + k * n, n, b->differences);
        round_row(t, &v, g->unit, n, p->row + k * SEQUENCE);
    }
    for (size_t k = count; k < WIDE; k++) memset(p->row + k * SEQUENCE, 0, n * sizeof *p->row);
    const size_t size = width(job->value_dtype);
    const uint8_t *const next = (const uint8_t *)job->value + (i + count * n) * size;
    const bool single = job->set.group <= SEQUENCE;
    go_backward(p, n, go_forward(t, p, n, single, next, count * size));
    turn_bits(p, n);
    for (size_t k = 0; k < count; k++) {
        struct coded *const g = &b->group[k * n >> shift];
        uint8_t *const to = job->codes + (i + k * n) * bits / 8;
        if (g->blank) {
            memset(to, 0, n * bits / 8);
            continue;
        }
        const struct values v = stage(job, i + k * n, n, b->differences);
        close_row(t, p, g, k, &v, n, bits, to);
    }
}

static void encode_sequences(struct pithi_group_job *job, const struct tables *t, struct batch *b,
                             size_t i, size_t n, size_t count) {
    if (job->set.bits == 2)
        encode_bits(job, t, b, i, n, count, 2);
    else if (job->set.bits == 3)
        encode_bits(job, t, b, i, n, count, 3);
    else
        encode_bits(job, t, b, i, n, count, 4);
}

/* ---- Decode -----------------------------------------------------------------------------------*/

/* 64 codes are eight words of 64 bits with the three codes before each; the code of byte i of a
 * word begins in its bit 16 + i * bits. What a level's number is, is linear in a code's bits and in
 * the lowest ones of the three codes before it (trellis_value.h). */
static void decoder_make(struct decoder *d, uint32_t bits) {
    struct pithi_trellis t;
    _Alignas(64) uint8_t gather[64], upper[64], lower[64];
    _Alignas(64) float value[32];
    pithi_trellis_init(&t, bits);
    for (uint32_t i = 0; i < 64; i++) {
        gather[i] = (uint8_t)(i / 8 * bits + i % 8);
        upper[i] = (uint8_t)(16 + (i % 8 + 1) * bits - 8);
        lower[i] = (uint8_t)(16 + i % 8 * bits - 3 * bits);
    }
    for (int k = 0; k < 32; k++) value[k] = (float)t.level[k % t.levels] / PITHI_TRELLIS_UNIT;
    d->gather = v_load(gather);
    d->upper = v_load(upper);
    d->lower = v_load(lower);
    d->value[0] = v_load((const uint8_t *)value);
    d->value[1] = v_load((const uint8_t *)(value + 16));
    /* Bits of each bit of the number: that of two codes before; the parity; those of the code. */
    const uint32_t code = 8 - bits;
    uint64_t of_upper = (uint64_t)(1u << code | 1u << (code - bits)) << 48, of_lower = 0;
    for (uint32_t k = 1; k < bits; k++) of_upper |= (uint64_t)(1u << (code + k)) << 8 * (6 - k);
    uint64_t *const rest = bits == 2 ? &of_upper : &of_lower;
    *rest |= (uint64_t)(1u << bits) << 56 | UINT64_C(1) << 48;
    d->of_upper = each(of_upper);
    d->of_lower = each(of_lower);
}

/* Returns the numbers of the levels of 64 codes. */
ALWAYS __m512i numbers_of(const struct decoder *d, __m512i codes, uint64_t inside, unsigned bits) {
    const __m512i windows = _mm512_maskz_permutexvar_epi8(inside, d->gather, codes);
    const __m512i upper = _mm512_gf2p8affine_epi64_epi8(
        _mm512_multishift_epi64_epi8(d->upper, windows), d->of_upper, 0);
    if (bits == 2) return upper;
    const __m512i lower = _mm512_gf2p8affine_epi64_epi8(
        _mm512_multishift_epi64_epi8(d->lower, windows), d->of_lower, 0);
    return _mm512_xor_si512(upper, lower);
}

/* Which bytes of windows are in sequences of n values, the first of which begins at a unit. */
static uint64_t inside_of(size_t n) {
    return n == 16   ? ~UINT64_C(0x0003000300030003)
           : n == 32 ? ~UINT64_C(0x0000000300000003)
                     : ~UINT64_C(3);
}

/* Returns the codes from a byte on and the two bytes before, as far as a job has these. */
ALWAYS __m512i codes_from(const struct pithi_group_job *job, size_t at, size_t bytes) {
    const uint8_t *const from = job->codes + at - 2;
    if (__builtin_expect(at >= 2 && bytes - at >= 62, 1)) return _mm512_loadu_si512(from);
    const uint64_t begun = at >= 2 ? ~UINT64_C(0) : ~UINT64_C(3);
    const uint64_t left = bytes - at >= 62 ? ~UINT64_C(0) : (UINT64_C(4) << (bytes - at)) - 1;
    return _mm512_maskz_loadu_epi8(begun & left, from); /* no other byte is touched */
}

/* Levels of one scale, by number: as f32, or as 32 words of a narrower dtype. */
struct scaled {
    v16 value[2];
};
ALWAYS struct scaled scale_levels(const struct decoder *d, const float *scale, unsigned bits,
                                  uint32_t ot, bool narrow) {
    struct scaled l = {{f_add(f_mul(d->value[0], v_spread(scale)), v_set(0))}}; /* never -0 */
    l.value[1] = bits == 4 ? f_add(f_mul(d->value[1], v_spread(scale)), v_set(0)) : l.value[0];
    if (!narrow) return l;
    if (ot == PITH_F16) {
        const __m256i a = _mm512_cvtps_ph(F(l.value[0]), _MM_FROUND_TO_NEAREST_INT);
        const __m256i b = _mm512_cvtps_ph(F(l.value[1]), _MM_FROUND_TO_NEAREST_INT);
        l.value[0] = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    } else {
        const __m512i odd =
            _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29,
                             27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
        l.value[0] = _mm512_permutex2var_epi16(round_loosely(PITH_BF16, l.value[0]), odd,
                                               round_loosely(PITH_BF16, l.value[1]));
    }
    return l;
}

/* Decodes 64 values of one group to 16 bits each. `inside`: see inside_of. */
ALWAYS void narrow_unit(v16 x[2], const struct decoder *d, const struct pithi_group_job *job,
                        size_t i, size_t bytes, uint64_t inside, const float *scale, unsigned bits,
                        uint32_t ot) {
    const __m512i number = numbers_of(d, codes_from(job, i * bits / 8, bytes), inside, bits);
    const struct scaled l = scale_levels(d, scale, bits, ot, true);
    const __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(number));
    const __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(number, 1));
    x[0] = _mm512_permutexvar_epi16(low, l.value[0]);
    x[1] = _mm512_permutexvar_epi16(high, l.value[0]);
}

/* Values of 16 bits written by non-temporal stores go to two places in turn, each half of a job,
 * when a half is so many elements: stores then wait for two pages of memory at once. Codes for them
 * are prefetched at this distance in bytes. */
enum { HALF = 4096, PREFETCH_CODES = 4096 };

ALWAYS void put_narrow(const struct decoder *d, const struct pithi_group_job *job, size_t i,
                       size_t bytes, uint64_t inside, const float *scale, unsigned bits,
                       uint32_t ot) {
    uint8_t *const out = (uint8_t *)job->out + 2 * i;
    v16 x[2];
    __builtin_prefetch(job->codes + i * bits / 8 + PREFETCH_CODES, 0, 2);
    narrow_unit(x, d, job, i, bytes, inside, scale, bits, ot);
    v_stream_line(out, x[0]);
    v_stream_line(out + 64, x[1]);
}

ALWAYS size_t decode_halved(struct pithi_group_job *job, unsigned bits, uint32_t ot) {
    const size_t group = job->set.group, shift = (size_t)__builtin_ctz(job->set.group);
    const size_t sequence = group < SEQUENCE ? group : SEQUENCE,
                 half = job->count / 2 / PART * PART;
    const size_t bytes = pithi_group_code_bytes(&job->set, job->count);
    const uint64_t begin = inside_of(sequence);
    struct decoder d;
    float scale[2][PART / UNIT + 16];
    decoder_make(&d, bits);
    const struct decoder copy = d; /* a copy that no store can alias */
    for (size_t i = 0; i < half; i += PART) {
        const uint32_t a = read_scales(job, i / group, PART / group, scale[0]);
        const uint32_t b = read_scales(job, (half + i) / group, PART / group, scale[1]);
        if (a >= PITHI_SCALE_LIMIT || b >= PITHI_SCALE_LIMIT) {
            scalar_part(job, i, PART, pithi_trellis_decode_c);
            scalar_part(job, half + i, PART, pithi_trellis_decode_c);
            continue;
        }
        for (size_t k = 0; k < PART; k += UNIT) {
            const uint64_t inside = (k & (sequence - 1)) == 0 ? begin : ~UINT64_C(0);
            put_narrow(&copy, job, i + k, bytes, inside, &scale[0][k >> shift], bits, ot);
            put_narrow(&copy, job, half + i + k, bytes, inside, &scale[1][k >> shift], bits, ot);
        }
    }
    return 2 * half;
}

ALWAYS size_t decode_halved_to(struct pithi_group_job *job, uint32_t ot) {
    if (job->set.bits == 2) return decode_halved(job, 2, ot);
    return job->set.bits == 3 ? decode_halved(job, 3, ot) : decode_halved(job, 4, ot);
}

static __attribute__((noinline)) size_t decode_first(struct pithi_group_job *job) {
    const bool fits = job->nontemporal && job->set.group >= UNIT && job->set.group <= PART &&
                      job->count >= 2 * HALF && (uintptr_t)job->out % 64 == 0;
    if (!fits) return 0;
    return job->out_dtype == PITH_F16 ? decode_halved_to(job, PITH_F16)
                                      : decode_halved_to(job, PITH_BF16);
}

/* Returns values 16 * j to 16 * j + 15 of 64 whose numbers are in columns. */
ALWAYS v16 level_at(const struct scaled *l, v16 numbers, unsigned j, unsigned bits) {
    const v16 at = j ? v_shr(numbers, 8 * j) : numbers; /* the low bits count */
    return bits < 4 ? _mm512_permutexvar_epi32(at, l->value[0])
                    : _mm512_permutex2var_epi32(l->value[0], at, l->value[1]);
}

/* Decodes 64 values; `inside`: see inside_of. Their groups' scales are from `scale` on. */
ALWAYS void decode_unit(v16 x[4], const struct decoder *d, const struct pithi_group_job *job,
                        size_t i, size_t bytes, uint64_t inside, const float *scale,
                        unsigned bits) {
    const size_t group = job->set.group, shift = (size_t)__builtin_ctz(job->set.group);
    const __m512i number = numbers_of(d, codes_from(job, i * bits / 8, bytes), inside, bits);
    const v16 numbers = _mm512_permutexvar_epi8(_mm512_load_si512(columns), number);
    if (group >= UNIT) {
        const struct scaled l = scale_levels(d, scale, bits, PITH_F32, false);
        PITHI_UNROLL for (unsigned j = 0; j < 4; j++) x[j] = level_at(&l, numbers, j, bits);
        return;
    }
    PITHI_UNROLL for (unsigned j = 0; j < 4; j++) {
        const struct scaled l = scale_levels(d, &scale[(16 * j) >> shift], bits, PITH_F32, false);
        x[j] = level_at(&l, numbers, j, bits);
    }
}

ALWAYS void decode_part(const struct decoder *d, struct pithi_group_job *job, size_t i, size_t n,
                        const float *scale, unsigned bits, uint32_t bt, uint32_t ot,
                        struct streamer *stream) {
    const struct decoder copy = *d; /* a copy that no store can alias */
    const size_t group = job->set.group, shift = (size_t)__builtin_ctz(job->set.group);
    const size_t bytes = pithi_group_code_bytes(&job->set, job->count);
    const size_t sequence = group < SEQUENCE ? group : SEQUENCE;
    const uint64_t begin = inside_of(sequence);
    const bool narrow = bt == PITH_NONE && ot != PITH_F32;
    size_t k = 0;
    for (; k + UNIT <= n; k += UNIT) {
        const uint64_t inside = (k & (sequence - 1)) == 0 ? begin : ~UINT64_C(0);
        const float *const own = &scale[k >> shift];
        v16 x[4];
        if (narrow && group >= UNIT) {
            uint8_t *const out = (uint8_t *)job->out + 2 * (i + k);
            narrow_unit(x, &copy, job, i + k, bytes, inside, own, bits, ot);
            v_store(out, x[0]);
            v_store(out + 64, x[1]);
            continue;
        }
        decode_unit(x, &copy, job, i + k, bytes, inside, own, bits);
        put_unit(job, i + k, x, bt, ot, stream);
    }
    if (k == n) return;
    v16 x[4];
    const uint64_t inside = (k & (sequence - 1)) == 0 ? begin : ~UINT64_C(0);
    decode_unit(x, &copy, job, i + k, bytes, inside, &scale[k >> shift], bits);
    if (stream) v_stream_end(stream, (uint8_t *)job->out + (i + k) * width(ot));
    put_end(job, i + k, n - k, x);
}

void pithi_trellis_bind_avx512(struct pithi_kernels *k);
void pithi_trellis_bind_avx512(struct pithi_kernels *k) {
    k->trellis_encode = trellis_encode;
    k->trellis_decode = trellis_decode;
}
