/* quant.h - values to integers by a bound on every one of them, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Quantization under a bound, is normative; appendix A.6 has encoders. The encoder
 * decodes each value with the decoder's own arithmetic; where that misses the bound the value is
 * marked, to be stored as it is (predict/exact_values.h). */
#ifndef PITHI_PREDICT_QUANT_H
#define PITHI_PREDICT_QUANT_H

#include "predict/quant_value.h"

/* Makes codes of count dense values. Bit i of miss (count bits, rest of the last byte 0) is set
 * where element i must be stored exactly; its code is then that of the last element before it in
 * its group of 16 that is not, or 0. Returns how many they are. Kernels do the same. */
typedef size_t pithi_quantize_fn(const struct pithi_quant *q, const void *values, size_t count,
                                 int32_t *codes, uint8_t *miss);
/* Makes values of q->dtype. Any code decodes to something finite. nontemporal: the values will not
 * be read soon. */
typedef void pithi_dequantize_fn(const struct pithi_quant *q, const int32_t *codes, size_t count,
                                 void *values, bool nontemporal);
pithi_quantize_fn pithi_quantize_c;
pithi_dequantize_fn pithi_dequantize_c;

#endif
