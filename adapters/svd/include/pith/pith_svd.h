/* pith_svd.h - thin singular value decompositions, for caching latents instead of keys and values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Models with grouped queries make keys K = X Wk and values V = X Wv that are narrower than the
 * layer input X, so that caching X would cost more than caching both. XQuant (arXiv 2508.10395,
 * section 3.3.1) caches X Uk and X Uv instead, of the decompositions W = U S V^T, which are as wide
 * as K and V and bear fewer bits. Offline, for each layer and each of Wk and Wv: decompose, keep U
 * for the encoder and C = S V^T for the decoder. Then, with codec kv (pith.h):
 *   append   X Uk through "kv:preset=xquant4,axis=channel", X Uv through "kv:preset=xquant4"
 *   read     K = decoded (X Uk) times Ck, V likewise, then the position embedding of the keys
 * The latents are X U without S: what is coded then has the spread of X, and the error of a latent
 * counts by its singular value.
 *
 * The library calls LAPACK through LAPACKE, allocates memory and may use LAPACK's own threads: it
 * is not part of libpith, and meant for preparing a model. Results are the same for one LAPACK on
 * one machine, not among several: keep the U that values were encoded with.
 *
 * Threads. Any number of threads may call at once where LAPACK allows that; nothing is shared. */
#ifndef PITH_PITH_SVD_H
#define PITH_PITH_SVD_H

#include <stdint.h>

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* W = U diag(S) Vt for a matrix of so many rows and columns, with r = min(rows, columns):
 * w is rows x columns, u rows x r with orthonormal columns, s r values, descending and not
 * negative, vt r x columns with orthonormal rows. All dense, row by row, f32; computed in double
 * precision and rounded once. Nothing is truncated. The outputs overlap neither w nor each other.
 * PITH_ERR_ARG for NULL, for no rows or columns or more than 2^24 of either, and for values that
 * are not finite or so large that s would not be; PITH_ERR_UNSUPPORTED for more than 23000 of both,
 * for which LAPACK's numbers of 32 bits are too small; PITH_ERR_MEMORY; PITH_ERR_INTERNAL when
 * LAPACK does not converge. On failure the outputs are as they were. */
PITH_NODISCARD PITH_API pith_status pith_svd_thin(uint64_t rows, uint64_t columns, const float *w,
                                                  float *u, float *s, float *vt);

#ifdef __cplusplus
}
#endif

#endif
