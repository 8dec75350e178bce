/* hashing_avx512.h - the universal hash of what is written, in registers, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_HASHING_AVX512_H
#define PITHI_GROUP_HASHING_AVX512_H

#include "common/lanes_avx512.h"
#include "common/nh_avx512.h"

/* Memory waits for one pass. */
enum { HASHES_RANDOM = 0, MAXIMA_FETCH = 1 };

struct hashing {
    struct nh_sums sums;
    v16 key;
};
static inline struct hashing hashing_open(uint64_t lane) {
    const v16 none = _mm512_setzero_si512();
    return (struct hashing){{none, none}, nh_keys(lane)};
}
static inline void hashing_add(struct hashing *h, v16 x) {
    nh_add(&h->sums, x, h->key);
    h->key = _mm512_add_epi64(h->key, nh_step(8));
}
static inline uint64_t hashing_sum(const struct hashing *h) { return nh_total(&h->sums); }

#endif
