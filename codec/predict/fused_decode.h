/* fused_decode.h - packed words of differences to values in one pass, where a kernel can.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel does what unpack, unpredict and dequantize do one after the other, with no memory in
 * between. */
#ifndef PITHI_PREDICT_FUSED_DECODE_H
#define PITHI_PREDICT_FUSED_DECODE_H

#include "predict/lorenzo.h"
#include "predict/quant.h"

struct pithi_fused_decode {
    const struct pithi_quant *quant;
    struct pithi_unpredict *sums; /* the sums of the tile so far */
    const uint8_t *planes;        /* planes of groups of 16 */
    size_t left;                  /* bytes of planes that may be read */
    const uint8_t *widths;        /* widths of the groups */
    size_t count;                 /* elements to decode */
    uint8_t *to;                  /* where the next value goes, with the rest of its row */
    size_t pitch;                 /* bytes from there to the next row */
    size_t at;                    /* elements of the row before it, where rows lie apart */
    bool nontemporal;             /* values will not be read soon */
};

/* Decodes as many values, from the first on, as the kernel has a loop for: a multiple of 32, 0
 * where it has none. Returns how many; sums, planes, left and widths are then those of the next
 * value. */
typedef size_t pithi_fused_decode_fn(struct pithi_fused_decode *r);
pithi_fused_decode_fn pithi_fused_decode_c; /* returns 0 */

#endif
