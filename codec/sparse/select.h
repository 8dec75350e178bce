/* select.h - which elements of a tensor are sent: those whose magnitude reaches a threshold.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Magnitudes are compared as integers: the bits of |x| as f32, but every NaN has that of the least
 * one, since which NaN a sum or a conversion gives depends on the machine. So infinities exceed all
 * finite values and NaNs exceed infinities, -0 equals +0, and subnormals are numbers like others. x
 * is the value widened to f32 or, with error feedback, RN(residual + value), which overflows to
 * infinity.
 *
 * A set of elements is a map: bit i of word i / 64 says whether element i belongs to it. Bits
 * behind the last element are 0. */
#ifndef PITHI_SPARSE_SELECT_H
#define PITHI_SPARSE_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/numeric.h"

#define PITHI_SELECT_NAN (PITHI_F32_INF + 1)

/* Returns the magnitude of x, of which u are the f32 bits. */
PITHI_INLINE uint32_t pithi_select_magnitude(uint32_t u) {
    const uint32_t a = u & 0x7FFFFFFFu;
    return a < PITHI_SELECT_NAN ? a : PITHI_SELECT_NAN;
}

/* Values that a kernel looks at: dense, f32, bf16 or f16, of any alignment. */
struct pithi_select_values {
    const void *value;
    uint32_t dtype;
    size_t count;
    const float *residual; /* NULL: x is the value itself */
};

/* Chooses elements with |x| >= threshold, a magnitude; one above that of NaN chooses none. */
struct pithi_select_job {
    struct pithi_select_values from;
    uint32_t threshold;
    uint64_t *set; /* ceil(count / 64) words, all of which are written */
    /* NULL or, with a residual: after[i] = x, but residual[i] where x is not finite. Overlaps
     * nothing that is read. */
    float *after;
    bool nontemporal; /* `after` is large and will not be read soon */
    bool sent;        /* after[i] = +0 where x is chosen and finite */
};
/* Returns how many elements are chosen. */
typedef size_t pithi_select_fn(const struct pithi_select_job *job);
pithi_select_fn pithi_select_c;

/* Counts elements in bins: where low <= |x| < high, bins[(|x| - low) >> shift] grows by one. */
struct pithi_histogram_job {
    struct pithi_select_values from;
    uint32_t low, high, shift;
    uint32_t *bins;
};
/* Returns how many elements have |x| >= high. */
typedef uint64_t pithi_histogram_fn(const struct pithi_histogram_job *job);
pithi_histogram_fn pithi_histogram_c;

/* The k-th largest magnitude, how many are larger and how many equal it. */
struct pithi_kth {
    uint64_t k, larger, equal;
    uint32_t t;
};
/* Finds it among n numbers, 1 <= k <= n. */
void pithi_kth_of(const float *x, size_t n, size_t k, struct pithi_kth *found);

/* Sums over the finite x of at most PITHI_MOMENTS_CHUNK elements, in f64 and in one order on every
 * machine: element i belongs to lane i mod 16, a lane adds its elements in order beginning with +0,
 * and the lanes are added as ((0 + 8) + (4 + 12)) + ((2 + 10) + (6 + 14)), the same of lanes 1, 3,
 * ..., and the even lanes' sum + the odd lanes'. Squares are exact products in f64 of two f32. */
enum { PITHI_MOMENTS_CHUNK = 4096 };
struct pithi_moments {
    double sum, squares, magnitudes; /* of x, x * x, |x| */
    uint64_t finite;                 /* how many x are finite */
    uint32_t largest;                /* bits of the largest finite |x|; 0: none */
};
/* Adds the moments of the next chunk to those of the chunks before. */
PITHI_INLINE void pithi_moments_add(struct pithi_moments *m, const struct pithi_moments *next) {
    m->sum += next->sum;
    m->squares += next->squares;
    m->magnitudes += next->magnitudes;
    m->finite += next->finite;
    if (next->largest > m->largest) m->largest = next->largest;
}
typedef void pithi_moments_fn(const struct pithi_select_values *from, struct pithi_moments *m);
pithi_moments_fn pithi_moments_c;

/* Lists the elements of a set of `words` words in ascending order and returns how many there are.
 * The kernels may write up to PITHI_INDEX_SLACK numbers behind the last one. */
enum { PITHI_INDEX_SLACK = 64 };
typedef size_t pithi_set_list_fn(const uint64_t *set, size_t words, uint32_t *index);
pithi_set_list_fn pithi_set_list_c;

#endif
