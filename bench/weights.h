/* weights.h - the tensors of the repository's own .safetensors files, for quality figures.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_BENCH_WEIGHTS_H
#define PITH_BENCH_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

struct weights {
    char name[64];
    uint32_t dtype; /* PITH_F32 or PITH_BF16 */
    unsigned ndim;  /* of at most 4 */
    uint64_t shape[4];
    size_t count;
    const void *data;
};

/* Tensor number index of a file that weights_load read; 0 past the last. Files of this repository
 * only: what they hold is trusted. */
int weights_at(const void *file, size_t index, struct weights *out);
/* NULL when the file cannot be read; to be freed. */
void *weights_load(const char *directory, const char *name);

#endif
