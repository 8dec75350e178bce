/* survey_avx512.c - a look at all values for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernel/survey_tmpl.h"

void pithi_survey_bind_avx512(struct pithi_kernels *k);
void pithi_survey_bind_avx512(struct pithi_kernels *k) { k->extremes = extremes; }
