/* common_avx512.c - the universal hash, copies by non-temporal stores and sums for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codec.h"
#include "common/lanes_avx512.h"

/* ---- Universal hash ---------------------------------------------------------------------------*/

/* Bytes. A caller that hashes small pieces as it writes them goes on behind the piece, so that is
 * what the prefetch is for. */
enum { PREFETCH = 32768 };

struct sums {
    __m512i product, swapped;
};

/* Eight lanes at p; the two parts of a term are summed apart. */
static inline void add8(struct sums *s, const uint8_t *p, __m512i key) {
    const __m512i x = _mm512_xor_si512(_mm512_loadu_si512(p), key);
    const __m512i swapped = _mm512_shuffle_epi32(x, _MM_PERM_CDAB);
    s->product = _mm512_add_epi64(s->product, _mm512_mul_epu32(x, swapped));
    s->swapped = _mm512_add_epi64(s->swapped, swapped);
}

/* Four keys of eight lanes each, advanced together. */
static uint64_t sum256(const uint8_t *p, size_t rounds, uint64_t lane, size_t prefetch_bytes) {
    const uint64_t w = PITHI_NH_WEYL;
    const __m512i eight = _mm512_set1_epi64((long long)(8 * w));
    const __m512i step = _mm512_set1_epi64((long long)(32 * w));
    __m512i key[4];
    struct sums s[4] = {0};
    key[0] = _mm512_add_epi64(_mm512_set1_epi64((long long)(lane * w)),
                              _mm512_mullo_epi64(_mm512_set1_epi64((long long)w),
                                                 _mm512_setr_epi64(1, 2, 3, 4, 5, 6, 7, 8)));
    for (int k = 1; k < 4; k++) key[k] = _mm512_add_epi64(key[k - 1], eight);
    for (; rounds; rounds--, p += 256) {
        for (int k = 0; k < 4; k++) {
            __builtin_prefetch(p + prefetch_bytes + 64 * k);
            add8(&s[k], p + 64 * k, key[k]);
            key[k] = _mm512_add_epi64(key[k], step);
        }
    }
    __m512i all = _mm512_setzero_si512();
    for (int k = 0; k < 4; k++)
        all = _mm512_add_epi64(all, _mm512_add_epi64(s[k].product, s[k].swapped));
    uint64_t lanes[8], sum = 0; /* the reduction intrinsic adds as signed integers */
    _mm512_storeu_si512(lanes, all);
    for (int k = 0; k < 8; k++) sum += lanes[k];
    return sum;
}

static uint64_t nh(const void *p, size_t bytes, uint64_t lane) {
    const uint8_t *s = p;
    const size_t whole = bytes & ~(size_t)255;
    const uint64_t sum =
        whole ? sum256(s, whole / 256, lane, whole < PREFETCH ? whole : PREFETCH) : 0;
    return sum + (whole < bytes ? pithi_nh_c(s + whole, bytes - whole, lane + whole / 8) : 0);
}

/* ---- Copies by non-temporal stores ------------------------------------------------------------*/

static inline void stream_line(uint8_t *to, const uint8_t *from) {
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}

#include "common/nontemporal_tmpl.h"

/* ---- Sums -------------------------------------------------------------------------------------*/

#include "common/add_tmpl.h"

void pithi_common_bind_avx512(struct pithi_kernels *k);
void pithi_common_bind_avx512(struct pithi_kernels *k) {
    k->nh = nh;
    k->move_nontemporal = move_nontemporal;
    k->add = add_values;
}
