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
#include "tile.h"
#include "tile_layout.h"

struct pithi_kernels;

/* What a tile's codes are read and written with. A tile has 1 to 2^24 elements. */
struct pithi_strip {
    const struct pithi_kernels *kernels;
    uint32_t extent[PITHI_TILE_NDIM];
    unsigned order; /* order of the differences, 0..4 */
};

/* Returns the bytes of scratch memory, 64-byte aligned, for tiles of at most count elements. */
size_t pithi_strip_scratch(size_t count);
/* Returns the bytes for reading tiles of at most this extent, which are less. */
size_t pithi_strip_take_scratch(const uint32_t extent[PITHI_TILE_NDIM]);

/* ---- Write -----------------------------------------------------------------------------------*/

/* Where codes come from: values under `quant`, or, without it, codes as int32_t. */
struct pithi_source {
    const struct pithi_quant *quant;
    struct pithi_tile_layout values;
    uint8_t *miss; /* with quant: bits of missed values, as pithi_quantize_fn sets them */
};

/* A tile between pithi_strip_begin and _finish; scratch holds its groups. */
struct pithi_packing {
    size_t misses;
    bool constant; /* all codes are equal, to `first` */
    int32_t first;
    void *scratch;
    uint32_t counts[PITHI_PACK_WIDEST + 1];
};

/* Returns the order up to `most` whose words would be shortest, judged by some of the rows; of
 * several the least. Does not read p->order, nor write source->miss. */
unsigned pithi_strip_choose(const struct pithi_strip *p, const struct pithi_source *source,
                            unsigned most);
/* Returns the same where no value is missed, sooner; else any order up to `most`. */
unsigned pithi_strip_guess(const struct pithi_strip *p, const struct pithi_source *source,
                           unsigned most);
void pithi_strip_begin(const struct pithi_strip *p, const struct pithi_source *source,
                       void *scratch, struct pithi_packing *packing);
/* Writes the tile; false when it does not fit, and then nothing was written. */
bool pithi_strip_finish(const struct pithi_strip *p, const struct pithi_packing *packing,
                        struct pithi_pen *pen);
/* Writes a tile of codes, in both steps; uses pen->scratch. */
bool pithi_strip_put(const struct pithi_strip *p, const int32_t *codes, struct pithi_pen *pen);
/* Returns about how many bytes that takes, by parts all over the tile. */
size_t pithi_strip_estimate(const struct pithi_strip *p, const int32_t *codes);

/* ---- Read ------------------------------------------------------------------------------------*/

/* Reads values of quant's dtype, or, without quant, the codes themselves as int32_t. Returns NULL,
 * or what is wrong; any bytes are safe. nontemporal: the values will not be read soon. Uses
 * r->scratch. */
const char *pithi_strip_take_to(const struct pithi_strip *p, struct pithi_reader *r,
                                const struct pithi_quant *quant,
                                const struct pithi_tile_layout *values, bool nontemporal);
/* Reads values, a part at a time, to a sink. */
const char *pithi_strip_take_parts(const struct pithi_strip *p, struct pithi_reader *r,
                                   const struct pithi_quant *quant, const struct pithi_sink *to);
/* Reads values to dense memory. */
const char *pithi_strip_take(const struct pithi_strip *p, struct pithi_reader *r,
                             const struct pithi_quant *quant, void *values, bool nontemporal);

#endif
