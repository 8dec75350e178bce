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

/* What weighted interpolation, and differences of an order, take of a tile's boxes, in bits per
 * element, in units of 1/256. */
struct pithi_estimate_pair {
    uint32_t weighted, lorenzo;
};
/* Memory for as many words, values of the dtype and bits as the tile has elements. */
struct pithi_estimate_memory {
    uint32_t *words;
    void *values;
    uint8_t *miss;
};
/* Estimates from a tile that can be coded by weighted interpolation, its dense values and their
 * codes; t is what it would be coded with. Takes as long as coding a few ten thousand elements. */
struct pithi_estimate_pair pithi_estimate_weighted(const struct pithi_interp *t, const void *values,
                                                   const int32_t *codes, unsigned order,
                                                   const struct pithi_estimate_memory *memory);

#endif
