/* measure.h - how well a codec keeps real weights: chains of training steps, and exact updates.
 * SPDX-License-Identifier: Apache-2.0
 *
 * w(t) are the f32 weights after step t, b(t) the base that sender and receivers hold after the
 * frame of step t; b(0) is w(0) in the base's dtype.
 *
 * NMSE of the update: sum (b(t) - w(t))^2 / sum (w(t) - w(t-1))^2. The loop is closed: the frame
 * carries the quantized w(t) - b(t-1), so b(t) - w(t) is all of the error that any step up to now
 * has left, and it is compared with what this one training step moved.
 * NMSE of the weights: the same error over sum w(t)^2. */
#ifndef PITH_BENCH_MEASURE_H
#define PITH_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

enum { MEASURE_STEPS = 8 };

struct measure_step {
    double bits; /* frame bits per weight, header included */
    double update_nmse;
    double weight_nmse;
    double cast_nmse; /* NMSE of the weights when they are only cast to the base's dtype */
    int identical;    /* sender and receiver hold the same base */
};
/* Eight steps over wo_t0 .. wo_t8 in `directory`, all tensors of a file as one. values_dtype is
 * what is encoded: PITH_F32 masters, or PITH_BF16 for their cast. Returns 0 on success. */
int measure_chain(const char *directory, const char *spec, uint32_t values_dtype,
                  uint32_t base_dtype, struct measure_step steps[MEASURE_STEPS]);

struct measure_pair {
    size_t weights, raw_bytes, bytes;
    double entropy_bytes; /* zero-order entropy of the ordered-integer update, one table for all */
    int identical;
};
/* ckpt_next_bf16 against ckpt_prev_bf16, every tensor a frame. Returns 0 on success. */
int measure_pair(const char *directory, const char *spec, struct measure_pair *out);

#endif
