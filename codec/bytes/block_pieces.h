/* block_pieces.h - where the pieces of a block are written to and read from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * From revision 2 of a frame on they may be rANS strings. */
#ifndef PITHI_BYTES_BLOCK_PIECES_H
#define PITHI_BYTES_BLOCK_PIECES_H

#include "bytes/piece.h"
#include "codec.h"

static inline struct pithi_pen pithi_block_pen(const struct pithi_block *b, uint8_t *to, size_t cap,
                                               int effort, void *scratch) {
    const bool rans = pithi_frame_revision(b->params) >= 2;
    return (struct pithi_pen){.at = to,
                              .capacity = cap,
                              .effort = effort,
                              .scratch = scratch,
                              .coder = b->coder,
                              .rans = rans ? b->kernels->rans_encode : NULL,
                              .count = b->kernels->symbol_count};
}

static inline struct pithi_reader pithi_block_reader(const struct pithi_block *b,
                                                     const uint8_t *from, size_t length,
                                                     void *scratch) {
    const bool rans = pithi_frame_revision(b->params) >= 2;
    return (struct pithi_reader){.at = from,
                                 .left = length,
                                 .scratch = scratch,
                                 .coder = b->coder,
                                 .rans = rans ? b->kernels->rans_decode : NULL};
}

#endif
