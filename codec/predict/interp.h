/* interp.h - values predicted from reconstructed neighbours, level by level, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tile's first element, then grids of ever finer spacing: each value is predicted by its
 * neighbours along one dimension, and the difference quantized with the bound of its level.
 * doc/FORMAT.md, Interpolation and appendix A.7, is normative. Bounds are absolute. */
#ifndef PITHI_PREDICT_INTERP_H
#define PITHI_PREDICT_INTERP_H

#include "predict/interp_value.h"
#include "predict/quant.h"
#include "tile.h"

#define PITHI_INTERP_MISS 0xFFFFFFFFu /* instead of a word: the value is stored exactly */

/* A run of values that are neighbours in memory and predicted alike (f32, bf16 and f16 tiles, in
 * f32). */
struct pithi_interp_run {
    enum pithi_interp_kind kind;
    const float *a, *b, *c, *e; /* reconstructed neighbours, those that the kind has */
    uint32_t dtype;
    bool signed_zeros;
    float bound;         /* bound of the tile */
    float step, inverse; /* step size of the level, and its inverse */
    unsigned apart;      /* encode: values are next to each other, 1, or every other one, 2 */
};
/* Makes the words of n values x, f32 at any address, and their reconstruction y, which no input
 * overlaps; nothing is read behind the last value. True when a word is PITHI_INTERP_MISS. Kernels
 * do the same. */
typedef bool pithi_interp_encode_fn(const struct pithi_interp_run *run, const void *x, size_t n,
                                    float *y, uint32_t *words);
/* Makes the reconstruction y of any words. */
typedef void pithi_interp_decode_fn(const struct pithi_interp_run *run, const uint32_t *words,
                                    size_t n, float *y);
pithi_interp_encode_fn pithi_interp_encode_c;
pithi_interp_decode_fn pithi_interp_decode_c;

/* Terms of a prediction: a weight each, and 2, 4 or 8 neighbours. */
enum { PITHI_WEIGHTED_POINTS = 64 };
struct pithi_interp_terms {
    size_t terms;
    float weight[PITHI_WEIGHTED_TERMS];
    uint8_t points[PITHI_WEIGHTED_TERMS]; /* how many neighbours a term has */
    const float *from;
    ptrdiff_t distance[PITHI_WEIGHTED_POINTS]; /* theirs from there, one term behind the other */
};
/* Predicts n values y, which no neighbour overlaps: the sum, in order, of the weight of each term
 * times the sum, in order, of its neighbours. Where that is NaN, its bits are any NaN's. */
typedef void pithi_interp_weigh_fn(const struct pithi_interp_terms *t, size_t n, float *y);
pithi_interp_weigh_fn pithi_interp_weigh_c;

/* Neighbours in a row, of which weights are found: their values, and of each its terms. */
struct pithi_interp_sample {
    size_t count, terms;
    float value[PITHI_WEIGHTED_SAMPLE], term[PITHI_WEIGHTED_TERMS][PITHI_WEIGHTED_SAMPLE];
    float weight[PITHI_WEIGHTED_TERMS]; /* which the terms have now */
    float step;
};
/* Adds what a sample says of changes of the weights to equations, value by value: of any two terms
 * the product, and of a term and what its weights leave of the value, in f64 and each times what
 * the value counts. Values of which 1e30 or more is left do not. */
typedef void pithi_interp_fit_fn(const struct pithi_interp_sample *s, struct pithi_equations *e);
pithi_interp_fit_fn pithi_interp_fit_c;

/* A tile of q->dtype, dense. */
struct pithi_interp {
    const struct pithi_quant *quant;
    uint32_t extent[PITHI_TILE_NDIM];
    unsigned row; /* the row of level bounds */
    pithi_interp_encode_fn *encode;
    pithi_interp_decode_fn *decode;
    pithi_interp_weigh_fn *weigh; /* weighted interpolation */
    pithi_interp_fit_fn *fit;
    /* Decode: sets *words to the next words, and returns how many they are, at least 1. */
    size_t (*next)(void *arg, const uint32_t **words);
    void *next_arg;
    /* 64-byte aligned: bytes of pithi_interp_scratch, or of pithi_interp_decode_scratch. */
    void *scratch;
};
/* Returns how many words come before those of the finest level, which are unlike them. */
size_t pithi_interp_coarse(const uint32_t extent[PITHI_TILE_NDIM]);
size_t pithi_interp_scratch(size_t max_count, uint32_t dtype);
/* Makes one word per element, in the order of coding. Bit i of miss (the tile's order; the rest of
 * the last byte 0) is set where element i must be stored exactly. Returns how many they are. */
size_t pithi_interp_encode(const struct pithi_interp *t, const void *values, uint32_t *words,
                           uint8_t *miss);
/* Make values of words, in two steps that take words of two strings: first the coarse ones into
 * scratch, which must stay as it is; then those of the finest level, if there are more, and all
 * values, in order, to a sink. Any words decode to something. Values come before they are rounded
 * to the dtype: as f32, or f64 for that dtype. */
void pithi_interp_decode_coarse(const struct pithi_interp *t);
void pithi_interp_decode_finest(const struct pithi_interp *t, const struct pithi_sink *to);
/* Returns the bytes for tiles of at most this extent: about half of the values and those of a
 * coarse grid. */
size_t pithi_interp_decode_scratch(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype);

/* ---- Weighted interpolation ------------------------------------------------------------------
 * The two finest levels go by classes of elements, of the parities of their places along dimensions
 * 1 to 3: each is predicted by neighbours in all directions, whose weights the encoder may choose
 * for each level and class (doc/FORMAT.md, Weighted interpolation). */

/* Whether tiles of this extent can be coded so. */
bool pithi_weighted_can(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype);
/* Returns how many elements of the finest level a class has, and how many weights. */
size_t pithi_weighted_count(const uint32_t extent[PITHI_TILE_NDIM], unsigned parities);
unsigned pithi_weighted_terms(const uint32_t extent[PITHI_TILE_NDIM], unsigned parities);
/* Returns the bytes of scratch memory for tiles of at most this extent, 0 where none can be. */
size_t pithi_weighted_scratch(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype);
size_t pithi_weighted_decode_scratch(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype);
/* Encodes as pithi_interp_encode does; words of the finest level come last, those of one class
 * after those of another. */
size_t pithi_weighted_encode(const struct pithi_interp *t, const void *values, uint32_t *words,
                             uint8_t *miss, struct pithi_weights *weights);
/* Make values of words: the coarse ones; then those of the finest level, which t->next gives for
 * each class that has elements, with an argument of its own, and all values, in order and in f32,
 * to a sink. The scratch memory must stay as it is. */
void pithi_weighted_decode_coarse(const struct pithi_interp *t,
                                  const struct pithi_weights *weights);
void pithi_weighted_decode_finest(const struct pithi_interp *t, const struct pithi_weights *weights,
                                  void *const next_args[PITHI_WEIGHTED_CLASSES],
                                  const struct pithi_sink *to);

#endif
