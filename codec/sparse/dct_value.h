/* dct_value.h - the numbers of the cosine transform: the host's and a device's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, section Cosine transform, has them. */
#ifndef PITHI_SPARSE_DCT_VALUE_H
#define PITHI_SPARSE_DCT_VALUE_H

#include <stdint.h>

#include "common/inline.h"
#include "sparse/dct.h"

PITHI_INLINE float pithi_dct_cosine(uint32_t m) {
    /* sqrt(2 / 64) cos(m pi / 128) for m of 0 to 64. */
    static const float quarter[PITHI_DCT_ORDER + 1] = {
        0x1.6a09e6p-3f, 0x1.69edfcp-3f, 0x1.699a42p-3f, 0x1.690ec6p-3f, 0x1.684b9cp-3f,
        0x1.6750e4p-3f, 0x1.661ec2p-3f, 0x1.64b568p-3f, 0x1.63150cp-3f, 0x1.613deep-3f,
        0x1.5f3056p-3f, 0x1.5cec98p-3f, 0x1.5a730cp-3f, 0x1.57c414p-3f, 0x1.54e018p-3f,
        0x1.51c78cp-3f, 0x1.4e7aeap-3f, 0x1.4afab2p-3f, 0x1.474772p-3f, 0x1.4361bap-3f,
        0x1.3f4a24p-3f, 0x1.3b0150p-3f, 0x1.3687eap-3f, 0x1.31dea2p-3f, 0x1.2d062ep-3f,
        0x1.27ff50p-3f, 0x1.22caccp-3f, 0x1.1d6972p-3f, 0x1.17dc14p-3f, 0x1.12238ep-3f,
        0x1.0c40c2p-3f, 0x1.063498p-3f, 0x1.000000p-3f, 0x1.f347dcp-4f, 0x1.e642b8p-4f,
        0x1.d8f29ap-4f, 0x1.cb598cp-4f, 0x1.bd79aap-4f, 0x1.af5516p-4f, 0x1.a0edfep-4f,
        0x1.92469cp-4f, 0x1.836132p-4f, 0x1.74400ap-4f, 0x1.64e57cp-4f, 0x1.5553e4p-4f,
        0x1.458daap-4f, 0x1.35953cp-4f, 0x1.256d12p-4f, 0x1.1517a8p-4f, 0x1.049782p-4f,
        0x1.e7de5ep-5f, 0x1.c6427ap-5f, 0x1.a4608ap-5f, 0x1.823dc8p-5f, 0x1.5fdf76p-5f,
        0x1.3d4ae0p-5f, 0x1.1a855ep-5f, 0x1.ef2894p-6f, 0x1.a8fa12p-6f, 0x1.628a08p-6f,
        0x1.1be352p-6f, 0x1.aa21a8p-7f, 0x1.1c3af6p-7f, 0x1.1c50e2p-8f, 0,
    };
    m %= 4 * PITHI_DCT_ORDER;
    if (m > 2 * PITHI_DCT_ORDER) m = 4 * PITHI_DCT_ORDER - m;
    return m > PITHI_DCT_ORDER ? -quarter[2 * PITHI_DCT_ORDER - m] : quarter[m];
}

/* The number of value i and coefficient k in an order of 64, 16 or 4. */
PITHI_INLINE float pithi_dct_number(uint32_t i, uint32_t k, uint32_t order) {
    const float first = order == 64 ? 0.125f : order == 16 ? 0.25f : 0.5f;
    return k ? pithi_dct_cosine((2 * i + 1) * k * (PITHI_DCT_ORDER / order)) * (8 * first) : first;
}

#endif
