/* survey_avx512.c - a look at all values for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"

/* Elements at once, in accumulators of their own; bytes that are fetched ahead, to the second-level
 * cache: prefetchers in hardware end with a page. */
enum { STEP = 32, AHEAD = 8192 };

struct range {
    v16 low, high;
};

static inline void look(struct range *r, const uint8_t *p) {
    const v16 u = v_load(p), order = v_ordered(u), inf = v_set(PITHI_F32_INF);
    const __mmask16 finite = _mm512_cmpneq_epi32_mask(v_and(u, inf), inf);
    __builtin_prefetch(p + AHEAD, 0, 2);
    r->low = _mm512_mask_min_epi32(r->low, finite, r->low, order);
    r->high = _mm512_mask_max_epi32(r->high, finite, r->high, order);
}

static void extremes(const void *values, size_t count, struct pithi_extremes *e) {
    const uint8_t *const from = values;
    const struct range given = {v_set((uint32_t)e->low), v_set((uint32_t)e->high)};
    struct range a = given, b = given;
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        look(&a, from + 4 * i);
        look(&b, from + 4 * i + 64);
    }
    e->low = _mm512_reduce_min_epi32(v_mini(a.low, b.low));
    e->high = _mm512_reduce_max_epi32(v_maxi(a.high, b.high));
    pithi_extremes_c(from + 4 * i, count - i, e);
}

void pithi_survey_bind_avx512(struct pithi_kernels *k);
void pithi_survey_bind_avx512(struct pithi_kernels *k) { k->extremes = extremes; }
