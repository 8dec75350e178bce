/* common_avx2.c - the universal hash, copies by non-temporal stores and sums for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/lanes_avx2.h"
#include "common/nh_avx2.h"
#include "kernels.h"

/* ---- Universal hash ---------------------------------------------------------------------------*/

/* Four keys of four lanes each, advanced together. */
static uint64_t sum128(const uint8_t *p, size_t rounds, uint64_t lane) {
    const __m256i step = nh_step(16);
    __m256i key[4];
    struct nh_sums s[4] = {0};
    for (unsigned k = 0; k < 4; k++) key[k] = nh_keys(lane + 4 * k);
    for (; rounds; rounds--, p += 128) {
        for (int k = 0; k < 4; k++) {
            nh_add(&s[k], _mm256_loadu_si256((const __m256i *)(p + 32 * k)), key[k]);
            key[k] = _mm256_add_epi64(key[k], step);
        }
    }
    uint64_t all = 0;
    for (int k = 0; k < 4; k++) all += nh_total(&s[k]);
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
