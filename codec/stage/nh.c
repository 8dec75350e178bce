/* nh.c - scalar text of the hash; kernels reproduce pithi_nh_c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stage/nh.h"

#include <string.h>

#include "stage/endian.h"

/* With a = low and b = high half of (lane xor key) the term is a*b + (a << 32) + b. Changing only
 * a by d changes it by d * (b + 2^32), changing only b by e by e * (a + 1); neither product can
 * hold 64 factors of two, so an error within one 32-bit word is never missed. */
static uint64_t term(uint64_t lane, uint64_t number) {
    const uint64_t x = lane ^ ((number + 1) * PITHI_NH_WEYL);
    return (x & 0xFFFFFFFFu) * (x >> 32) + (x << 32 | x >> 32);
}

uint64_t pithi_nh_c(const void *p, size_t bytes, uint64_t lane) {
    const uint8_t *s = p;
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8) sum += term(pithi_get64(s + i), lane++);
    if (i < bytes) {
        uint8_t last[8] = {0};
        memcpy(last, s + i, bytes - i);
        sum += term(pithi_get64(last), lane);
    }
    return sum;
}

/* A bijection of sum for fixed bytes and tag: what the sum distinguishes stays distinguished. */
uint64_t pithi_nh_finish(uint64_t sum, uint64_t bytes, uint64_t tag) {
    uint64_t x = sum + bytes * PITHI_NH_WEYL + tag * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}
