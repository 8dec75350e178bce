/* nonzero_value.h - codes that are not 0 as numbers, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: nonzero.c, and the CUDA kernels. Arithmetic is mod 2^32. */
#ifndef PITHI_PREDICT_NONZERO_VALUE_H
#define PITHI_PREDICT_NONZERO_VALUE_H

#include <stdbool.h>

#include "predict/lorenzo.h"

PITHI_INLINE uint32_t pithi_nonzero_number(bool positive, uint32_t code) {
    return positive ? pithi_unzigzag(code - 1) : code - (code && !(code >> 31));
}
PITHI_INLINE uint32_t pithi_nonzero_code(bool positive, uint32_t number) {
    return positive ? pithi_zigzag(number) + 1 : number + !(number >> 31);
}

/* Returns what a code is expected to be: the neighbour to the left or above when the other one is 0
 * or outside, else what a plane through the three says, kept between those two. corner: the code to
 * the left of the one above. */
PITHI_INLINE uint32_t pithi_nonzero_expected(int64_t left, int64_t up, int64_t corner) {
    if (!left || !up) return (uint32_t)(left + up);
    const int64_t low = left < up ? left : up, high = left < up ? up : left;
    const int64_t plane = left + up - corner;
    return (uint32_t)(plane < low ? low : plane > high ? high : plane);
}

#endif
