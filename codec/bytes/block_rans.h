/* block_rans.h - which kernels of rANS strings a block's frames have.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BYTES_BLOCK_RANS_H
#define PITHI_BYTES_BLOCK_RANS_H

#include "codec.h"

/* Return the kernels of rANS strings, which pieces have from revision 2 on; before it NULL. */
static inline pithi_rans_encode_fn *pithi_block_rans_encode(const struct pithi_block *b) {
    return pithi_frame_revision(b->params) >= 2 ? b->kernels->rans_encode : NULL;
}
static inline pithi_rans_decode_fn *pithi_block_rans_decode(const struct pithi_block *b) {
    return pithi_frame_revision(b->params) >= 2 ? b->kernels->rans_decode : NULL;
}

#endif
