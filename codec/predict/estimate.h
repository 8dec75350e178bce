/* estimate.h - how many bits a tile's words would take, by predictor, from a sample.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_ESTIMATE_H
#define PITHI_PREDICT_ESTIMATE_H

#include "predict/interp.h"
#include "predict/lorenzo.h"
#include "predict/quant.h"

/* Bits per element, in units of 1/256: with words of Lorenzo order 0 (none) to 4 (an order above
 * the number of dimensions is as good as that number), and with words of interpolation, which codes
 * of a relative bound do without (UINT32_MAX). */
struct pithi_estimate {
    uint32_t lorenzo[PITHI_TILE_NDIM + 1];
    uint32_t interp;
    unsigned interp_row; /* the row of level bounds that suits */
};
/* Estimates from a tile's dense values and their codes, the same on every machine. */
struct pithi_estimate pithi_estimate_tile(const struct pithi_quant *q, pithi_predict_fn *difference,
                                          const void *values, const int32_t *codes,
                                          const uint32_t extent[PITHI_TILE_NDIM]);

/* Memory for as many words, values of the dtype and bits as the tile has elements. */
struct pithi_estimate_memory {
    uint32_t *words;
    void *values;
    uint8_t *miss;
};
/* Return what boxes of a tile that can be coded by weighted interpolation take, in bits per
 * element, in units of 1/256: coded so, where t is what the tile would be coded with, and by
 * differences of its codes. Values and codes are dense. The former takes as long as coding a few
 * ten thousand elements. */
uint32_t pithi_estimate_weighted(const struct pithi_interp *t, const void *values,
                                 const struct pithi_estimate_memory *memory);
uint32_t pithi_estimate_differences(const uint32_t extent[PITHI_TILE_NDIM], const int32_t *codes,
                                    unsigned order, uint32_t *words);

#endif
