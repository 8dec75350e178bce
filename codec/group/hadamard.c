/* hadamard.c - the Walsh-Hadamard transform in scalar C: the specification of its kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/hadamard.h"

/* The order is Sylvester's, with strides 1, 2, 4, ...: every stage is one rounded operation per
 * value. */
static void butterflies(float *x, size_t order) {
    for (size_t half = 1; half < order; half *= 2)
        for (size_t i = 0; i < order; i += 2 * half)
            for (size_t j = i; j < i + half; j++) {
                const float a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
}

static void flip_signs(uint32_t key, float *x, size_t count, uint64_t first) {
    uint32_t word = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t e = first + i;
        if (e % 32 == 0 || i == 0) word = pithi_sign_word(key, e / 32);
        x[i] = pithi_float(pithi_bits(x[i]) ^ (word >> e % 32) << 31);
    }
}

/* Transforms whole runs of the order, then the rest, of fewer values, in ever smaller ones. */
static void transform_all(const struct pithi_rotation *r, float *x, size_t count, bool inverse) {
    for (size_t order = r->order; order; order /= 2)
        for (; count >= order; x += order, count -= order) {
            for (size_t i = 0; inverse && i < order; i++) x[i] *= 1.0f / (float)order;
            butterflies(x, order);
        }
}

void pithi_rotate_c(const struct pithi_rotation *r, float *to, const void *from, uint32_t dtype,
                    size_t count, uint64_t first) {
    for (size_t i = 0; i < count; i++) to[i] = pithi_float(pithi_load(from, dtype, i));
    if (r->order && r->signs) flip_signs(r->signs, to, count, first);
    transform_all(r, to, count, false);
}

void pithi_unrotate_c(const struct pithi_rotation *r, void *to, uint32_t dtype, float *x,
                      size_t count, uint64_t first, float scale) {
    transform_all(r, x, count, true);
    if (r->order && r->signs) flip_signs(r->signs, x, count, first);
    for (size_t i = 0; i < count; i++) {
        const float v = scale == 1.0f ? x[i] : x[i] * scale;
        pithi_store(to, dtype, i, pithi_bits(v));
    }
}
