/* nh.c - scalar text of the hash; kernels reproduce pithi_nh_c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stage/nh.h"

#include <string.h>

#include "stage/endian.h"

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
