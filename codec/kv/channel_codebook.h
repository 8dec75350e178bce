/* channel_codebook.h - rows of a page whose groups run along tokens and have a codebook.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KV_CHANNEL_CODEBOOK_H
#define PITHI_KV_CHANNEL_CODEBOOK_H

#include "kv/page.h"

/* Decodes as channel_decode does, for settings with a codebook. `before` rows of codes of the same
 * groups lie before the job's. */
void pithi_kv_levels(const struct pithi_kv *k, struct pithi_channel_job *job, size_t before);

#endif
