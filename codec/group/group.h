/* group.h - the group quantizer: values that share a scale.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, section Group quantizer and appendices A.2 to A.4, states the arithmetic, and
 * appendix B proves its bounds; group.c is the scalar reference; the kernels reproduce it byte for
 * byte. */
#ifndef PITHI_GROUP_GROUP_H
#define PITHI_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/group_value.h"

/* A run of an encode call: elements that lie one after another. */
struct pithi_group_run {
    const void *value;
    uint8_t *codes, *scales;
    uint64_t poisoned; /* a result, which is added to */
};

/* One call: `count` consecutive elements beginning at a group boundary.
 *
 * Encode. d = value - base (base NONE: d = value); codes and scales are written; with `update` the
 * base becomes round(base + decoded d).
 * Decode. x' from codes and scales. Without base: out = x'. With base: b' = round(base + x') to the
 * base dtype; out = b' (if out is not NULL), base = b' (if update).
 * A non-finite base element reads as +0. out and base may be the same memory only when out is NULL.
 *
 * codes: element i at bits [i*bits, (i+1)*bits) of a little-endian bit string (LSB first). The last
 * byte's unused bits are written 0 and ignored by decode.
 * scales: one per group; asymmetric: scale then zero point, interleaved. */
struct pithi_group_job {
    struct pithi_group_setting set;
    size_t count;
    union {
        /* The members below, as runs have them: a copy would wait for what was just stored. */
        struct pithi_group_run run;
        struct {
            const void *value;       /* encode: values */
            uint8_t *codes, *scales; /* decode only reads them */
            uint64_t poisoned;       /* a result, which is added to */
        };
    };
    /* Encode: the values that are read next, where they do not come right behind these or these are
     * in the cache; or NULL. prefetch_base: their base. */
    const void *prefetch;
    void *out; /* decode: values */
    void *base;
    const void *prefetch_base;
    uint32_t value_dtype, out_dtype, base_dtype; /* f32, bf16 or f16; base: or NONE */
    bool update;
    /* Decode along a trellis: values are added to the base, which is f32 and updated, as floats
     * are: what overflows or is not finite stays so. */
    bool sums;
    /* The output (out; codes and scales) is large and will not be read soon, so that non-temporal
     * stores pay. */
    bool nontemporal;
    struct pithi_random random; /* encode, stochastic */
    uint64_t first;             /* number of the first element, which random bits depend on */
    uint64_t saturated;         /* a result, which is added to */
};

/* Begins a job of nothing; the caller fills in `set` in place. Fields are set one by one: an
 * initializer becomes stores of a string, a copy of a setting loads at once what was stored in
 * pieces, and both wait until all codes of the block before are on their way to memory. */
PITHI_INLINE void pithi_group_job_open(struct pithi_group_job *job, struct pithi_random random) {
    job->count = 0;
    job->value = job->prefetch = job->prefetch_base = NULL;
    job->out = job->base = NULL;
    job->codes = job->scales = NULL;
    job->value_dtype = job->out_dtype = job->base_dtype = PITH_NONE;
    job->update = job->sums = job->nontemporal = false;
    job->random = random;
    job->first = 0;
    job->saturated = job->poisoned = 0;
}

/* Returns the address that a kernel prefetches beside the first element: what is read next, or what
 * comes so many bytes behind. */
PITHI_INLINE const uint8_t *pithi_prefetch_begin(const void *first, const void *next,
                                                 size_t distance) {
    return next ? next : (const uint8_t *)first + distance;
}

typedef void pithi_group_fn(struct pithi_group_job *job);
pithi_group_fn pithi_group_encode_c, pithi_group_decode_c;

/* Encodes runs of elements that lie apart. Each is a job like the one given, which has no base and
 * whose own run is not looked at. */
typedef void pithi_group_runs_fn(const struct pithi_group_job *like, struct pithi_group_run *run,
                                 size_t runs);
pithi_group_runs_fn pithi_group_encode_runs_c;
/* Encodes runs with any encoder of jobs. */
void pithi_group_each_run(const struct pithi_group_job *like, struct pithi_group_run *run,
                          size_t runs, pithi_group_fn *encode);

/* Encodes a job that updates its base, and adds the sum of common/nh.h over the new base to *hash;
 * lanes are numbered from element 0 of the slot on. Returns how many elements from the beginning of
 * the job, whole groups and lanes, which is 0 when it has no loop for such a job; the caller
 * encodes and hashes the others. */
typedef size_t pithi_encode_hashed_fn(struct pithi_group_job *job, uint64_t *hash);
pithi_encode_hashed_fn pithi_encode_hashed_c; /* returns 0 */

struct pithi_rotation;
/* Encodes the transform of a job's values: as many groups from its beginning as the kernel rotates
 * in registers. Returns how many elements they are, 0 when it has no loop for such a job. */
typedef size_t pithi_rotate_encode_fn(const struct pithi_rotation *r, struct pithi_group_job *job);
pithi_rotate_encode_fn pithi_rotate_encode_c; /* returns 0 */

/* A sum of frames: sum becomes x' of frame 0 (more: sum + it), + x' of frame 1, ..., each addition
 * rounded to f32. Frame k's scales and codes lie at frames[k] + scales_at and frames[k] + codes_at.
 * The setting is symmetric. */
struct pithi_sum_job {
    struct pithi_group_setting set;
    size_t count;
    const uint8_t *const *frames;
    size_t frame_count, scales_at, codes_at;
    bool more;
    float *sum;
    uint64_t saturated, poisoned; /* results, which are added to */
};
typedef void pithi_sum_fn(struct pithi_sum_job *job);
pithi_sum_fn pithi_group_sum_c;

/* Returns the largest |d - x'| over the groups of encoded scales; NaN when one is poisoned. */
double pithi_group_bound(const struct pithi_group_setting *s, const uint8_t *scales,
                         uint64_t count);

#endif
