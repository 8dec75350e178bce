/* runs.c - memory and medians of the programs that measure speed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"

/* Sets of tensors that a program holds at once: values, what came back, frames. */
enum { SETS = 3 };

void *runs_allocate(size_t bytes) {
    void *const p = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    memset(p, 1, bytes);
    return p;
}

int runs_copies(size_t bytes) {
    const size_t n = (roofline_bytes(SETS) + bytes - 1) / bytes;
    return n < 3 ? 3 : n > RUNS_COPIES ? RUNS_COPIES : (int)n;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double runs_median(double *seconds, size_t count) {
    qsort(seconds, count, sizeof *seconds, compare);
    return seconds[count / 2];
}
