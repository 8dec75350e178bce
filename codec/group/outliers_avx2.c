/* outliers_avx2.c - the outliers of columns, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/lanes_avx2.h"
#include "group/outliers_tmpl.h"
#include "kernels.h"

void pithi_outliers_bind_avx2(struct pithi_kernels *k);
void pithi_outliers_bind_avx2(struct pithi_kernels *k) { k->outliers_take = outliers_take; }
