/* fused_encode.h - values to packed words of differences in one pass, where a kernel can.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same as quantize, differ, widths and pack one after the other, with no memory in between. */
#ifndef PITHI_PREDICT_FUSED_ENCODE_H
#define PITHI_PREDICT_FUSED_ENCODE_H

#include "predict/lorenzo.h"
#include "predict/quant.h"

struct pithi_fused_encode {
    const struct pithi_quant *quant;
    struct pithi_unpredict *sums; /* in the middle of a tile */
    const uint8_t *from;          /* the next value, its row with it */
    size_t pitch;                 /* from there to the next row, in bytes */
    const uint8_t *prefetch;      /* what is read later, as `from` */
    size_t count;                 /* elements */
    uint8_t *widths;              /* of groups of 16 */
    uint8_t *to;                  /* their planes */
    uint8_t *end;                 /* of what may be written */
};

/* Condenses as many values, from the first on, as there is a loop for, none of them missed: a
 * multiple of 32, 0 where there is none. Returns how many; sums, widths and to are then those of
 * the next. */
typedef size_t pithi_fused_encode_fn(struct pithi_fused_encode *c);
pithi_fused_encode_fn pithi_fused_encode_c; /* none */

#endif
