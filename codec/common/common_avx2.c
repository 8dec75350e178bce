/* common_avx2.c - the universal hash, copies by non-temporal stores and sums for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codec.h"
#include "common/lanes_avx2.h"

/* ---- Universal hash ---------------------------------------------------------------------------*/

struct sums {
    __m256i product, swapped;
};

/* Four lanes at p; the two parts of a term are summed apart. */
static inline void add4(struct sums *s, const uint8_t *p, __m256i key) {
    const __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)p), key);
    const __m256i swapped = _mm256_shuffle_epi32(x, 0xB1);
    s->product = _mm256_add_epi64(s->product, _mm256_mul_epu32(x, swapped));
    s->swapped = _mm256_add_epi64(s->swapped, swapped);
}

static uint64_t across(__m256i v) {
    uint64_t w[4];
    _mm256_storeu_si256((__m256i *)w, v);
    return w[0] + w[1] + w[2] + w[3];
}

/* Four keys of four lanes each, advanced together. */
static uint64_t sum128(const uint8_t *p, size_t rounds, uint64_t lane) {
    const uint64_t w = PITHI_NH_WEYL, first = (lane + 1) * w;
    const __m256i four = _mm256_set1_epi64x((long long)(4 * w));
    const __m256i step = _mm256_set1_epi64x((long long)(16 * w));
    __m256i key[4];
    struct sums s[4] = {0};
    key[0] = _mm256_setr_epi64x((long long)first, (long long)(first + w),
                                (long long)(first + 2 * w), (long long)(first + 3 * w));
    for (int k = 1; k < 4; k++) key[k] = _mm256_add_epi64(key[k - 1], four);
    for (; rounds; rounds--, p += 128) {
        for (int k = 0; k < 4; k++) {
            add4(&s[k], p + 32 * k, key[k]);
            key[k] = _mm256_add_epi64(key[k], step);
        }
    }
    uint64_t all = 0;
    for (int k = 0; k < 4; k++) all += across(_mm256_add_epi64(s[k].product, s[k].swapped));
    return all;
}

static uint64_t nh(const void *p, size_t bytes, uint64_t lane) {
    const uint8_t *s = p;
    const size_t whole = bytes & ~(size_t)127;
    const uint64_t sum = whole ? sum128(s, whole / 128, lane) : 0;
    return sum + (whole < bytes ? pithi_nh_c(s + whole, bytes - whole, lane + whole / 8) : 0);
}

/* ---- Copies by non-temporal stores ------------------------------------------------------------*/

static inline void stream_line(uint8_t *to, const uint8_t *from) {
    const __m256i a = _mm256_loadu_si256((const __m256i *)from);
    const __m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
    _mm256_stream_si256((__m256i *)to, a);
    _mm256_stream_si256((__m256i *)(to + 32), b);
}

#include "common/nontemporal_tmpl.h"

/* ---- Sums -------------------------------------------------------------------------------------*/

#include "common/add_tmpl.h"

void pithi_common_bind_avx2(struct pithi_kernels *k);
void pithi_common_bind_avx2(struct pithi_kernels *k) {
    k->nh = nh;
    k->move_nontemporal = move_nontemporal;
    k->add = add_values;
}
