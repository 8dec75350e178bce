/* outliers_neon.c - the outliers of columns, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/lanes_neon.h"
#include "group/outliers_tmpl.h"
#include "kernels.h"

void pithi_outliers_bind_neon(struct pithi_kernels *k);
void pithi_outliers_bind_neon(struct pithi_kernels *k) { k->outliers_take = outliers_take; }
