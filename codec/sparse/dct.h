/* dct.h - the cosine transform of short runs of values, of which coefficients are chosen.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, section Cosine transform, states the arithmetic. */
#ifndef PITHI_SPARSE_DCT_H
#define PITHI_SPARSE_DCT_H

#include <stddef.h>

enum { PITHI_DCT_ORDER = 64 };

/* Transform values to coefficients and back, in place. x begins a run of the slot; what is left
 * behind the last whole run is the slot's end. */
void pithi_dct(float *x, size_t count);
void pithi_dct_inverse(float *x, size_t count);

#endif
