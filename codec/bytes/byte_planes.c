/* byte_planes.c - loops over whole planes, one per word width, that compilers turn into vectors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/byte_planes.h"

#include <string.h>

static void take16(uint8_t *plane, const uint16_t *words, size_t index, size_t count) {
    for (size_t i = 0; i < count; i++) plane[i] = (uint8_t)(words[i] >> 8 * index);
}

static void take32(uint8_t *plane, const uint32_t *words, size_t index, size_t count) {
    for (size_t i = 0; i < count; i++) plane[i] = (uint8_t)(words[i] >> 8 * index);
}

static void take64(uint8_t *plane, const uint64_t *words, size_t index, size_t count) {
    for (size_t i = 0; i < count; i++) plane[i] = (uint8_t)(words[i] >> 8 * index);
}

void pithi_plane_take(uint8_t *plane, const void *words, size_t width, size_t index, size_t count) {
    switch (width) {
    case 2: take16(plane, words, index, count); break;
    case 4: take32(plane, words, index, count); break;
    case 8: take64(plane, words, index, count); break;
    default: memcpy(plane, words, count); break;
    }
}

static void merge16(uint16_t *words, const uint8_t *const *planes, size_t count) {
    const uint8_t *a = planes[0], *b = planes[1];
    for (size_t i = 0; i < count; i++) words[i] = (uint16_t)(a[i] | b[i] << 8);
}

static void merge32(uint32_t *words, const uint8_t *const *planes, size_t count) {
    const uint8_t *a = planes[0], *b = planes[1], *c = planes[2], *d = planes[3];
    for (size_t i = 0; i < count; i++)
        words[i] = a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 | (uint32_t)d[i] << 24;
}

static void merge64(uint64_t *words, const uint8_t *const *planes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t word = 0;
        for (size_t k = 0; k < 8; k++) word |= (uint64_t)planes[k][i] << 8 * k;
        words[i] = word;
    }
}

void pithi_planes_merge(void *words, const uint8_t *const *planes, size_t width, size_t count) {
    switch (width) {
    case 2: merge16(words, planes, count); break;
    case 4: merge32(words, planes, count); break;
    case 8: merge64(words, planes, count); break;
    default: memcpy(words, planes[0], count); break;
    }
}
