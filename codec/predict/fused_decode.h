/* fused_decode.h - packed words of differences to values in one pass, where a kernel can.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same as unpack, unpredict and dequantize one after the other, with no memory in between. */
#ifndef PITHI_PREDICT_FUSED_DECODE_H
#define PITHI_PREDICT_FUSED_DECODE_H

#include "predict/lorenzo.h"
#include "predict/quant.h"

struct pithi_fused_decode {
    const struct pithi_quant *quant;
    struct pithi_unpredict *sums; /* in the middle of a tile */
    const uint8_t *planes;        /* of groups of 16 */
    size_t left;                  /* bytes that may be read */
    const uint8_t *widths;        /* of the groups */
    size_t count;                 /* elements */
    uint8_t *to;                  /* where the next value goes, and its row with it */
    size_t pitch;                 /* from there to the next row, in bytes */
    bool nontemporal;             /* values will not be read soon */
};

/* Restores as many values, from the first on, as there is a loop for: a multiple of 32, 0 where
 * there is none. Returns how many; sums, planes, left and widths are then those of the next. */
typedef size_t pithi_fused_decode_fn(struct pithi_fused_decode *r);
pithi_fused_decode_fn pithi_fused_decode_c; /* none */

#endif
