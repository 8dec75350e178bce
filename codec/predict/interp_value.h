/* interp_value.h - the normative arithmetic of interpolation for one value; interp.c and device
 * kernels are made of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Interpolation and Weighted interpolation. */
#ifndef PITHI_PREDICT_INTERP_VALUE_H
#define PITHI_PREDICT_INTERP_VALUE_H

#include "common/log2.h"
#include "predict/quant_value.h"

enum { PITHI_INTERP_ROWS = 4 }; /* sets of bounds for the levels */

/* Which neighbours a value has: a and b at its sides, c and e beyond them. */
enum pithi_interp_kind {
    PITHI_INTERP_CUBIC,  /* all four */
    PITHI_INTERP_LEFT,   /* without e */
    PITHI_INTERP_RIGHT,  /* without c */
    PITHI_INTERP_LINEAR, /* a and b */
    PITHI_INTERP_BEYOND, /* a and c */
    PITHI_INTERP_COPY    /* a */
};

/* Returns the kind of the element at odd place i among `places` of a grid. */
PITHI_INLINE enum pithi_interp_kind pithi_interp_kind(size_t i, size_t places) {
    const bool b = i + 1 < places, c = i >= 3, e = i + 3 < places;
    if (!b) return c ? PITHI_INTERP_BEYOND : PITHI_INTERP_COPY;
    if (c) return e ? PITHI_INTERP_CUBIC : PITHI_INTERP_LEFT;
    return e ? PITHI_INTERP_RIGHT : PITHI_INTERP_LINEAR;
}

/* Returns the bound of a level as a factor of the tile's bound; that of level 4 is for all coarser
 * levels. */
PITHI_INLINE float pithi_interp_factor(unsigned row, unsigned level) {
    if (level == 0) return 1;
    switch (row) {
    case 0: return 1;
    case 1:
        return level == 1   ? 0x1.99999ap-1f
               : level == 2 ? 0x1.47ae14p-1f
               : level == 3 ? 0x1.0624dep-1f
                            : 0.5f;
    case 2: return level == 1 ? 0x1.555556p-1f : level == 2 ? 0x1.c71c72p-2f : 0x1.555556p-2f;
    default: return level == 1 ? 0x1.24924ap-1f : level == 2 ? 0x1.4e5e0ap-2f : 0.25f;
    }
}

/* ---- Weighted interpolation ------------------------------------------------------------------*/

enum {
    PITHI_WEIGHTED_TERMS = 16,
    PITHI_WEIGHTED_LEVELS = 2,
    PITHI_WEIGHTED_CLASSES = 7,
    PITHI_WEIGHT_ONE = 1 << 22, /* weights are integers of so many bytes, in this unit */
    PITHI_WEIGHT_BYTES = 3
};
/* Least extents along the last dimension, so that margins are small beside rows, and along others
 * that are not 1, so that what lies outside mirrors what is inside. */
enum { PITHI_WEIGHTED_LAST_MIN = 64, PITHI_WEIGHTED_SIDE_MIN = 16 };
PITHI_INLINE bool pithi_weighted_side(uint32_t extent) {
    return extent == 1 || extent >= PITHI_WEIGHTED_SIDE_MIN;
}
/* Whether tiles of this extent can be coded so, unless they are of f64. */
PITHI_INLINE bool pithi_weighted_fits(const uint32_t extent[4]) {
    return extent[0] == 1 && pithi_weighted_side(extent[1]) && pithi_weighted_side(extent[2]) &&
           extent[3] >= PITHI_WEIGHTED_LAST_MIN;
}

/* Parts of rows all over a class, of which every other one says which weights are best, and the
 * rest whether they are. */
enum {
    PITHI_WEIGHTED_SAMPLE = 32,
    PITHI_WEIGHTED_SAMPLES_MIN = 64,
    PITHI_WEIGHTED_SAMPLES_MAX = 256,
    PITHI_WEIGHTED_SAMPLED = 512
};

/* Weights of classes 1 to 7, at index 0 to 6, of levels 0 and 1, as far as they are set. */
struct pithi_weights {
    uint8_t set[PITHI_WEIGHTED_LEVELS]; /* bit k: those of class k + 1 */
    int32_t of[PITHI_WEIGHTED_LEVELS][PITHI_WEIGHTED_CLASSES][PITHI_WEIGHTED_TERMS];
};

/* Returns where the neighbours of term k are: at plus and minus so many places along dimension
 * side + 1. */
PITHI_INLINE uint32_t pithi_weighted_offset(uint32_t k, uint32_t side) {
    const uint32_t of = side == 0 ? 0x2250D141u : side == 1 ? 0x85231444u : 0x588C1510u;
    return of >> 2 * k & 3;
}
/* Returns the weight of term k for data of which nothing is known, where elements are odd along
 * `odd` dimensions: cubic interpolation along each of these, and the mean of these. */
PITHI_INLINE float pithi_weighted_usual(uint32_t k, uint32_t odd) {
    if (k < 3) return odd == 1 ? 0.5625f : odd == 2 ? 0.28125f : 0.1875f;
    if (k < 7 || k > 9) return 0;
    return odd == 1 ? -0.0625f : odd == 2 ? -0.03125f : -0x1.555556p-6f;
}

/* Returns the weight that a stored number of PITHI_WEIGHT_BYTES means, in that unit. */
PITHI_INLINE int32_t pithi_weight_get(const uint8_t *p) {
    const uint32_t u = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return (int32_t)(u ^ 0x800000u) - 0x800000;
}

/* ---- Weights that fit a tile -----------------------------------------------------------------*/

/* The normal equations of a class's weights: of the symmetric matrix the lower half is set. */
struct pithi_equations {
    double matrix[PITHI_WEIGHTED_TERMS][PITHI_WEIGHTED_TERMS], vector[PITHI_WEIGHTED_TERMS];
};

/* Solves the first n equations, in e->vector. False where there is no solution. */
PITHI_INLINE bool pithi_equations_solve(struct pithi_equations *e, uint32_t n) {
    double trace = 0;
    for (uint32_t k = 0; k < n; k++) trace += e->matrix[k][k];
    for (uint32_t k = 0; k < n; k++) e->matrix[k][k] += trace * 1e-9;
    for (uint32_t k = 0; k < n; k++) {
        if (!(e->matrix[k][k] > 0)) return false;
        for (uint32_t i = k + 1; i < n; i++) {
            const double factor = e->matrix[i][k] / e->matrix[k][k];
            for (uint32_t j = k + 1; j <= i; j++) e->matrix[i][j] -= factor * e->matrix[j][k];
            e->vector[i] -= factor * e->vector[k];
        }
    }
    for (uint32_t k = n; k-- > 0;) {
        e->vector[k] /= e->matrix[k][k];
        for (uint32_t i = 0; i < k; i++) e->vector[i] -= e->matrix[k][i] * e->vector[k];
    }
    return true;
}

/* Sets the number that is stored for a weight. False where none means it. */
PITHI_INLINE bool pithi_weight_of(double weight, int32_t *stored) {
    const double x = weight * (double)PITHI_WEIGHT_ONE;
    if (!(x < 0x7FFFFF && x > -0x7FFFFF)) return false;
    *stored = (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
    return true;
}
PITHI_INLINE float pithi_weight_value(int32_t stored) {
    return (float)stored * (1.0f / (float)PITHI_WEIGHT_ONE);
}

/* About what words take, as a product of numbers of which only the logarithm matters: a logarithm
 * of each would take longer. */
struct pithi_word_cost {
    uint64_t top, shifted; /* the product's 32 highest bits, and how many bits are below these */
};
PITHI_INLINE struct pithi_word_cost pithi_word_cost_none(void) {
    const struct pithi_word_cost none = {UINT64_C(1) << 31, 0};
    return none;
}
/* Adds a value that is predicted so many steps off. */
PITHI_INLINE void pithi_word_cost_add(struct pithi_word_cost *c, float steps) {
    const bool within = steps < PITHI_QUANT_LIMIT && steps > -PITHI_QUANT_LIMIT;
    const int32_t fine = within ? (int32_t)(steps * 16) : 1 << 26;
    const uint32_t factor = 8 + (uint32_t)(fine < 0 ? -fine : fine);
    /* The product has 32 bits more than the factor, or 31: the next one waits for little else. */
    const uint32_t most = pithi_bit_length(factor) - 1;
    const uint64_t product = c->top * factor >> most;
    c->top = product >> (product >> 32);
    c->shifted += most + (product >> 32);
}
/* Returns the cost in 1/256 bit. */
PITHI_INLINE uint64_t pithi_word_cost_sum(const struct pithi_word_cost *c) {
    return c->shifted * 256 + pithi_log2_256((uint32_t)c->top) - 31 * 256;
}

/* ---- Choices of the encoder ------------------------------------------------------------------*/

/* Blocks of fewer elements are too small for the tables of many strings, unless all methods are
 * tried. */
enum { PITHI_WEIGHTED_MIN = 16384 };
/* Interpolation is near where it takes less than a quarter of a bit more than what suits best, in
 * 1/256 bit: noise, which it does not help, takes more. Weights pay where they take a hundredth
 * less. Interpolation is given up where more than one value in PITHI_INTERP_FEW is stored exactly
 * that no difference would. */
enum { PITHI_INTERP_NEAR = 64, PITHI_WEIGHTED_PAYS = 65536 / 100 * 99, PITHI_INTERP_FEW = 64 };

/* Boxes of a tile that are coded to see what their words take, and how far from their sides words
 * count: nearer, neighbours are missing that most elements of the tile have. */
enum { PITHI_BOXES = 3, PITHI_BOX_OF = 1 << 19, PITHI_BOX_INNER = 3, PITHI_BOX_INNER_LAST = 4 };

struct pithi_box {
    uint32_t extent[4], at[4]; /* at: of its first element, in the tile */
};

/* Returns box number i of a tile of these extents along dimensions 1 to 3. */
PITHI_INLINE struct pithi_box pithi_box_of(uint32_t e1, uint32_t e2, uint32_t e3, uint32_t i) {
    const uint32_t dimensions = 1u + (e1 > 1) + (e2 > 1);
    const uint32_t side = dimensions == 3 ? 24 : 96;
    const uint32_t row = dimensions == 3 ? 64 : dimensions == 2 ? 256 : 16384;
    struct pithi_box b;
    b.extent[0] = 1;
    b.extent[1] = e1 < side ? e1 : side;
    b.extent[2] = e2 < side ? e2 : side;
    b.extent[3] = e3 < row ? e3 : row;
    /* Places by steps that have nothing in common, so that boxes differ along all dimensions. */
    b.at[0] = 0;
    b.at[1] = (uint32_t)((uint64_t)(e1 - b.extent[1]) * (1 + 2 * (i * 2 % 5)) / 10);
    b.at[2] = (uint32_t)((uint64_t)(e2 - b.extent[2]) * (1 + 2 * (i * 4 % 5)) / 10);
    b.at[3] = (uint32_t)((uint64_t)(e3 - b.extent[3]) * (1 + 2 * (i * 3 % 5)) / 10);
    return b;
}
/* Whether row j of n counts. */
PITHI_INLINE bool pithi_box_inner(size_t j, size_t n) {
    return n == 1 || (j >= PITHI_BOX_INNER && j + PITHI_BOX_INNER < n);
}

/* Chooses a row of level bounds, by what a word takes in 1/256 bit and the tile in bits. Exact
 * coarse levels do not pay in noise, and pay most in tiles that take next to nothing. */
PITHI_INLINE uint32_t pithi_interp_row_of(uint32_t per_word, uint64_t bits) {
    if (per_word >= 5 * 256 / 4) return 0;
    return bits < 3500 ? 3 : bits < 12000 ? 2 : 1;
}

#endif
