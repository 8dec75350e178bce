/* common_avx512.c - the universal hash, copies by non-temporal stores and sums for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/lanes_avx512.h"
#include "common/nh_avx512.h"
#include "kernels.h"

/* ---- Universal hash ---------------------------------------------------------------------------*/

/* Bytes. A caller that hashes small pieces as it writes them goes on behind the piece, so that is
 * what the prefetch is for. */
enum { PREFETCH = 32768 };

/* Four keys of eight lanes each, advanced together. */
static uint64_t sum256(const uint8_t *p, size_t rounds, uint64_t lane, size_t prefetch_bytes) {
    const __m512i eight = nh_step(8), step = nh_step(32);
    __m512i key[4];
    struct nh_sums s[4] = {0};
    key[0] = nh_keys(lane);
    for (int k = 1; k < 4; k++) key[k] = _mm512_add_epi64(key[k - 1], eight);
    for (; rounds; rounds--, p += 256) {
        for (int k = 0; k < 4; k++) {
            __builtin_prefetch(p + prefetch_bytes + 64 * k);
            nh_add(&s[k], _mm512_loadu_si512(p + 64 * k), key[k]);
            key[k] = _mm512_add_epi64(key[k], step);
        }
    }
    for (int k = 1; k < 4; k++) {
        s[0].product = _mm512_add_epi64(s[0].product, s[k].product);
        s[0].swapped = _mm512_add_epi64(s[0].swapped, s[k].swapped);
    }
    return nh_total(&s[0]);
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
