/* nh.c - scalar reference of the hash; kernels reproduce pithi_nh_c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/nh.h"

#include <string.h>

#include "common/endian.h"

uint64_t pithi_nh_c(const void *p, size_t bytes, uint64_t lane) {
    const uint8_t *s = p;
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8) sum += pithi_nh_term(pithi_get64(s + i), lane++);
    if (i < bytes) {
        uint8_t last[8] = {0};
        memcpy(last, s + i, bytes - i);
        sum += pithi_nh_term(pithi_get64(last), lane);
    }
    return sum;
}

/* Samples are not whole pages apart: lines that are would push each other out of the cache. */
enum { LINE = 64, APART = 3 * 4096 + LINE };

uint64_t pithi_nh_sample(const void *p, size_t bytes, uint64_t lane) {
    uint64_t sum = 0;
    for (size_t at = 0; at < bytes; at += APART) {
        const size_t n = bytes - at < LINE ? bytes - at : (size_t)LINE;
        sum += pithi_nh_c((const uint8_t *)p + at, n, lane + at / 8);
    }
    return sum;
}

void pithi_nh_sample_prefetch(const void *p, size_t bytes) {
    for (size_t at = 0; at < bytes; at += APART) __builtin_prefetch((const uint8_t *)p + at);
}
