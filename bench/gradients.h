/* gradients.h - how well codec grad keeps sums of gradients: simulated ranks, and real ones.
 * SPDX-License-Identifier: Apache-2.0
 *
 * NMSE of a sum: sum (S' - S)^2 / sum S^2 over its elements; S is the exact sum of what the ranks
 * sent in all steps, S' the sum of what arrived. Calls that return a double return a negative
 * number on failure. */
#ifndef PITH_BENCH_GRADIENTS_H
#define PITH_BENCH_GRADIENTS_H

#include <stddef.h>

struct gradients {
    size_t rows, count;
    float *values; /* row r's at values + r * count */
};
/* Heavy-tailed noise around one heavy-tailed signal: each value is a Student t of 3 degrees of
 * freedom for the row plus one for the element. The same on every machine but for the last digits
 * of its libm. Returns 0 on success. */
int gradients_simulate(struct gradients *g, size_t rows, size_t count);
/* The tensors of directory/name.safetensors, one for each row, all of one element count. */
enum gradients_load { GRADIENTS_GOOD, GRADIENTS_UNREAD, GRADIENTS_UNEQUAL };
enum gradients_load gradients_load(struct gradients *g, const char *directory, const char *name);
void gradients_free(struct gradients *g);

/* Ranks 0 .. per_node - 1 are node 0, and so on. Every rank sends `intra` frames inside its node,
 * where they are summed and sent to the other nodes as `inter` frames. In step t rank r of R has
 * row (t (R + 1) + r) mod rows: others sit together each time. */
struct gradients_levels {
    size_t per_node, nodes;
    const char *intra, *inter;
    size_t steps;
};
double gradients_two_level(const struct gradients *g, const struct gradients_levels *levels);
/* One step in which every row is a rank, and all frames are summed at once. */
double gradients_one_level(const struct gradients *g, const char *spec);

#endif
