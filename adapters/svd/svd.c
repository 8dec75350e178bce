/* svd.c - thin singular value decompositions by LAPACK's divide and conquer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pith/pith_svd.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* LAPACK counts its memory in 32 bits: 4 r^2 + 7 r doubles at least, where r is the shorter side,
 * and some columns of the longer one. With more it would write past what it asked for. */
enum { SIDE_MAX = 1 << 24, RANK_MAX = 23000 };

static bool all_finite(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static void widen(double *to, const float *from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (double)from[i];
}

static void narrow(float *to, const double *from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (float)from[i];
}

/* Decomposes w. Read column by column, w is its own transpose, V S U^T: LAPACK's left vectors,
 * column by column, are the rows of Vt, and its right ones U. No matrix is ever transposed. */
static pith_status decompose(size_t rows, size_t columns, double *w, double *u, double *s,
                             double *vt) {
    const size_t r = rows < columns ? rows : columns;
    const lapack_int info =
        LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', (lapack_int)columns, (lapack_int)rows, w,
                       (lapack_int)columns, s, vt, (lapack_int)columns, u, (lapack_int)r);
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return PITH_ERR_MEMORY;
    return info ? PITH_ERR_INTERNAL : PITH_OK;
}

pith_status pith_svd_thin(uint64_t rows, uint64_t columns, const float *w, float *u, float *s,
                          float *vt) {
    if (!w || !u || !s || !vt || !rows || !columns || rows > SIDE_MAX || columns > SIDE_MAX)
        return PITH_ERR_ARG;
    const size_t m = (size_t)rows, n = (size_t)columns, r = m < n ? m : n;
    if (r > RANK_MAX) return PITH_ERR_UNSUPPORTED;
    if (rows * columns > SIZE_MAX / (4 * sizeof(double))) return PITH_ERR_MEMORY;
    if (!all_finite(w, m * n)) return PITH_ERR_ARG;
    double *const wide = malloc((m * n + m * r + r + r * n) * sizeof *wide);
    if (!wide) return PITH_ERR_MEMORY;
    double *const wide_u = wide + m * n, *const wide_s = wide_u + m * r,
                  *const wide_vt = wide_s + r;
    widen(wide, w, m * n);
    pith_status status = decompose(m, n, wide, wide_u, wide_s, wide_vt);
    if (status == PITH_OK && wide_s[0] > (double)FLT_MAX) status = PITH_ERR_ARG;
    if (status == PITH_OK) {
        narrow(u, wide_u, m * r);
        narrow(s, wide_s, r);
        narrow(vt, wide_vt, r * n);
    }
    free(wide);
    return status;
}
