/* strip.h - a tile's codes as packed words of their differences, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Packed words: the table of widths, the groups' widths, the groups. The table
 * follows from all groups, so writing has two parts: groups with widths of their own into scratch
 * memory, values being read once; then the table, and the groups as wide as it says. */
#ifndef PITHI_PREDICT_STRIP_H
#define PITHI_PREDICT_STRIP_H

#include "bytes/piece.h"
#include "predict/bitplane.h"
#include "predict/quant.h"
#include "predict/tile.h"
#include "predict/tile_layout.h"

struct pithi_kernels;

/* What a tile's codes are read or written by. It has 1 to 2^24 elements, all extents multiplied. */
struct pithi_strip {
    const struct pithi_kernels *kernels;
    uint32_t extent[PITHI_TILE_NDIM];
    unsigned order; /* of the differences, 0..4 */
};

/* Bytes of scratch, 64-byte aligned, for tiles of at most count elements. */
size_t pithi_strip_scratch(size_t count);
/* The same to read tiles of at most this extent; less. */
size_t pithi_strip_take_scratch(const uint32_t extent[PITHI_TILE_NDIM]);

/* ---- Write -----------------------------------------------------------------------------------*/

/* Where codes come from: values under `quant`, or, without it, themselves as int32_t. */
struct pithi_source {
    const struct pithi_quant *quant;
    struct pithi_tile_layout values;
    uint8_t *miss; /* with quant: set as by pithi_quantize_fn */
};

/* A tile between the two parts; scratch holds its groups. */
struct pithi_packing {
    size_t misses;
    bool constant; /* every code is the first */
    int32_t first;
    void *scratch;
    uint32_t counts[PITHI_PACK_WIDEST + 1];
};

/* The order up to `most` whose words would be shortest, judged by some of the rows; the least of
 * several. p->order is not read, source->miss not written. */
unsigned pithi_strip_choose(const struct pithi_strip *p, const struct pithi_source *source,
                            unsigned most);
void pithi_strip_begin(const struct pithi_strip *p, const struct pithi_source *source,
                       void *scratch, struct pithi_packing *packing);
/* False when there is no room; then nothing was written. */
bool pithi_strip_finish(const struct pithi_strip *p, const struct pithi_packing *packing,
                        struct pithi_pen *pen);
/* Both, of codes; uses pen->scratch. */
bool pithi_strip_put(const struct pithi_strip *p, const int32_t *codes, struct pithi_pen *pen);

/* ---- Read ------------------------------------------------------------------------------------*/

/* NULL, or what is wrong; any bytes are safe. The values that the codes mean under `quant`, of its
 * dtype; without it the codes themselves, int32_t. nontemporal: they will not be read soon. Uses
 * r->scratch. */
const char *pithi_strip_take_to(const struct pithi_strip *p, struct pithi_reader *r,
                                const struct pithi_quant *quant,
                                const struct pithi_tile_layout *values, bool nontemporal);
/* The same values, part by part. */
const char *pithi_strip_take_parts(const struct pithi_strip *p, struct pithi_reader *r,
                                   const struct pithi_quant *quant, const struct pithi_sink *to);
/* The same, dense. */
const char *pithi_strip_take(const struct pithi_strip *p, struct pithi_reader *r,
                             const struct pithi_quant *quant, void *values, bool nontemporal);

#endif
