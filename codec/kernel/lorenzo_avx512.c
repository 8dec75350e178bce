/* lorenzo_avx512.c - differences in a tile for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"

static inline v16 minus(v16 a, v16 b) { return _mm512_sub_epi32(a, b); }
static inline v16 before(v16 x, v16 last) { return _mm512_alignr_epi32(x, last, 15); }
static inline v16 last_of(v16 x) { return _mm512_permutexvar_epi32(v_set(15), x); }

static inline v16 sums(v16 x) {
    const v16 zero = _mm512_setzero_si512();
    x = v_add(x, _mm512_alignr_epi32(x, zero, 15));
    x = v_add(x, _mm512_alignr_epi32(x, zero, 14));
    x = v_add(x, _mm512_alignr_epi32(x, zero, 12));
    return v_add(x, _mm512_alignr_epi32(x, zero, 8));
}

#include "kernel/lorenzo_tmpl.h"

void pithi_lorenzo_bind_avx512(struct pithi_kernels *k);
void pithi_lorenzo_bind_avx512(struct pithi_kernels *k) {
    k->predict = predict;
    k->differ = differ;
    k->unpredict = unpredict;
}
