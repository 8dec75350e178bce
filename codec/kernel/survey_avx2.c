/* survey_avx2.c - a look at all values for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernel/survey_tmpl.h"

void pithi_survey_bind_avx2(struct pithi_kernels *k);
void pithi_survey_bind_avx2(struct pithi_kernels *k) { k->extremes = extremes; }
