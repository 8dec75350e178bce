/* common_neon.c - the universal hash and sums for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "kernels.h"

/* Two lanes at p: product of the halves into one sum, the halves exchanged into the other. */
static inline void add2(uint64x2_t *product, uint64x2_t *swapped, const uint8_t *p,
                        uint64x2_t key) {
    const uint64x2_t x = veorq_u64(vreinterpretq_u64_u8(vld1q_u8(p)), key);
    *product = vmlal_u32(*product, vmovn_u64(x), vshrn_n_u64(x, 32));
    *swapped = vaddq_u64(*swapped, vreinterpretq_u64_u32(vrev64q_u32(vreinterpretq_u32_u64(x))));
}

/* Four keys of two lanes each, advanced together. */
static uint64_t sum64(const uint8_t *p, size_t rounds, uint64_t lane) {
    const uint64_t w = PITHI_NH_WEYL, first = (lane + 1) * w;
    const uint64x2_t step = vdupq_n_u64(8 * w);
    uint64x2_t key[4], product[4], swapped[4];
    for (unsigned k = 0; k < 4; k++) {
        key[k] = vcombine_u64(vcreate_u64(first + 2 * k * w), vcreate_u64(first + (2 * k + 1) * w));
        product[k] = swapped[k] = vdupq_n_u64(0);
    }
    for (; rounds; rounds--, p += 64) {
        for (unsigned k = 0; k < 4; k++) {
            add2(&product[k], &swapped[k], p + 16 * k, key[k]);
            key[k] = vaddq_u64(key[k], step);
        }
    }
    uint64_t all = 0;
    for (unsigned k = 0; k < 4; k++) all += vaddvq_u64(vaddq_u64(product[k], swapped[k]));
    return all;
}

static uint64_t nh(const void *p, size_t bytes, uint64_t lane) {
    const uint8_t *s = p;
    const size_t whole = bytes & ~(size_t)63;
    const uint64_t sum = whole ? sum64(s, whole / 64, lane) : 0;
    return sum + (whole < bytes ? pithi_nh_c(s + whole, bytes - whole, lane + whole / 8) : 0);
}

/* ---- Sums -------------------------------------------------------------------------------------*/

#include "common/add_tmpl.h"

void pithi_common_bind_neon(struct pithi_kernels *k);
void pithi_common_bind_neon(struct pithi_kernels *k) {
    k->nh = nh;
    k->add = add_values;
}
