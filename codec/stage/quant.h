/* quant.h - values to integers by a bound on every one of them, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Quantization under a bound, is normative. The encoder decodes each value with the
 * decoder's own arithmetic; where that misses the bound the value is marked, to be stored as it
 * is (stage/exact.h). */
#ifndef PITHI_QUANT_H
#define PITHI_QUANT_H

#include "stage/numeric.h"

enum pithi_bound_kind { PITHI_BOUND_ABSOLUTE = 1, PITHI_BOUND_RELATIVE = 2 };

/* What a frame says of its error. */
struct pithi_bound {
    uint32_t kind;
    double value;   /* ABSOLUTE: of |x - x'|; RELATIVE: of |x - x'| / |x| */
    double largest; /* of |x - x'| over the frame */
};

enum { PITHI_QUANT_LIMIT = 1 << 22 }; /* of |code| with an absolute bound */

struct pithi_quant {
    uint32_t dtype;    /* f32, bf16, f16, f64 */
    bool relative;     /* codes count units in the last place, else multiples of 2 * bound */
    bool signed_zeros; /* -0 is not +0 */
    float bound, step, inverse;        /* absolute: f32, bf16, f16 */
    double bound64, step64, inverse64; /* absolute: f64 */
    uint64_t width, half;              /* relative: bins of width = 2 * half + 1 units */
};
/* False for a bound that no frame of the dtype may have. */
bool pithi_quant_init(struct pithi_quant *q, uint32_t dtype, const struct pithi_bound *bound,
                      bool signed_zeros);
/* The largest absolute bound not above `bound`, 0 or more, that frames of the dtype may have. */
double pithi_quant_floor(uint32_t dtype, double bound);
/* r of a step of 0 or more: 0 for 0; f32: the largest finite number not above 1 / step; f64: the
 * number before 1 / step. Codes of r are +-1 only for values of at least half a step. */
float pithi_quant_inverse(float step);
double pithi_quant_inverse64(double step);

/* Codes of count dense values. Bit i of miss (count bits, rest of the last byte 0) is set where
 * element i must be stored exactly; its code is then that of the last element before it in its
 * group of 16 that is not, or 0. Returns how many they are. Kernels do the same. */
typedef size_t pithi_quantize_fn(const struct pithi_quant *q, const void *values, size_t count,
                                 int32_t *codes, uint8_t *miss);
/* Values of codes, of q->dtype. Any codes: every one decodes to something finite. stream: the
 * values will not be read soon. */
typedef void pithi_dequantize_fn(const struct pithi_quant *q, const int32_t *codes, size_t count,
                                 void *values, bool stream);
pithi_quantize_fn pithi_quantize_c;
pithi_dequantize_fn pithi_dequantize_c;

#endif
