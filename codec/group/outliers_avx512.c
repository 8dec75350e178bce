/* outliers_avx512.c - the outliers of columns, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/lanes_avx512.h"
#include "group/outliers_tmpl.h"
#include "kernels.h"

void pithi_outliers_bind_avx512(struct pithi_kernels *k);
void pithi_outliers_bind_avx512(struct pithi_kernels *k) { k->outliers_take = outliers_take; }
