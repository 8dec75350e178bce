/* fused.h - values to packed words of differences and back, in one pass each, where a kernel can.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel does what quantize, differ, widths and pack do one after the other, or unpack, unpredict
 * and dequantize, with no memory in between. */
#ifndef PITHI_PREDICT_FUSED_H
#define PITHI_PREDICT_FUSED_H

#include "predict/lorenzo.h"
#include "predict/quant.h"

struct pithi_fused_encode {
    const struct pithi_quant *quant;
    struct pithi_unpredict *sums; /* the sums of the tile so far */
    const uint8_t *from;          /* the next value, with the rest of its row */
    size_t pitch;                 /* bytes from there to the next row */
    size_t at;                    /* elements of the row before it, where rows lie apart */
    const uint8_t *prefetch;      /* values that are read later, as `from` */
    size_t count;                 /* elements to encode */
    uint8_t *widths;              /* widths of groups of 16 */
    uint8_t *to;                  /* where their planes go */
    uint8_t *end;                 /* end of what may be written */
};

/* Encodes as many values, from the first on, as the kernel has a loop for, as long as none must be
 * stored exactly: a multiple of 32, 0 where it has none. Returns how many; sums, widths and to are
 * then those of the next value. */
typedef size_t pithi_fused_encode_fn(struct pithi_fused_encode *c);
pithi_fused_encode_fn pithi_fused_encode_c; /* returns 0 */

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
