/* survey_neon.c - a look at all values for NEON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernel/survey_tmpl.h"

void pithi_survey_bind_neon(struct pithi_kernels *k);
void pithi_survey_bind_neon(struct pithi_kernels *k) { k->extremes = extremes; }
