/* hashing_avx2.h - the universal hash of what is written, in registers, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_HASHING_AVX2_H
#define PITHI_GROUP_HASHING_AVX2_H

#include "common/lanes_avx2.h"
#include "common/nh_avx2.h"

enum { HASHES_RANDOM = 1, MAXIMA_FETCH = 0 };

struct hashing {
    struct nh_sums sums;
    __m256i key;
};
static inline struct hashing hashing_open(uint64_t lane) {
    const __m256i none = _mm256_setzero_si256();
    return (struct hashing){{none, none}, nh_keys(lane)};
}
/* Compilers that add terms in another order, or keep a key for each, run out of registers. */
static inline void hashing_add4(struct hashing *h, __m256i x) {
    nh_add(&h->sums, x, h->key);
    h->key = _mm256_add_epi64(h->key, nh_step(4));
    __asm__("" : "+x"(h->sums.product), "+x"(h->sums.swapped), "+x"(h->key));
}
static inline void hashing_add(struct hashing *h, v16 x) {
    hashing_add4(h, x.a);
    hashing_add4(h, x.b);
}
static inline uint64_t hashing_sum(const struct hashing *h) { return nh_total(&h->sums); }

#endif
