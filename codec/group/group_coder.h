/* group_coder.h - which kernels code groups of a setting.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_GROUP_CODER_H
#define PITHI_GROUP_GROUP_CODER_H

#include "kernels.h"

/* Return what encodes and decodes jobs of a setting. */
PITHI_INLINE pithi_group_fn *pithi_group_encoder(const struct pithi_kernels *k,
                                                 const struct pithi_group_setting *s) {
    if (s->codebook == PITHI_CODEBOOK_TRELLIS) return k->trellis_encode;
    return s->codebook ? k->codebook_encode : k->group_encode;
}
PITHI_INLINE pithi_group_fn *pithi_group_decoder(const struct pithi_kernels *k,
                                                 const struct pithi_group_setting *s) {
    if (s->codebook == PITHI_CODEBOOK_TRELLIS) return k->trellis_decode;
    return s->codebook ? k->codebook_decode : k->group_decode;
}

#endif
