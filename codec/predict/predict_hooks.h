/* predict_hooks.h - the hooks of quantization, prediction and ranges, which every instruction set
 * has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer has included quant_tmpl.h, lorenzo_tmpl.h and interp_tmpl.h, and has `extremes`. */

static inline void bind_prediction(struct pithi_kernels *k) {
    k->quantize = quantize;
    k->dequantize = dequantize;
    k->predict = predict;
    k->differ = differ;
    k->unpredict = unpredict;
    k->interp_encode = interp_encode;
    k->interp_weigh = interp_weigh;
    k->interp_fit = interp_fit;
    k->interp_decode = interp_decode;
    k->extremes = extremes;
}
