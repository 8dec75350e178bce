/* call.h - what kernels of entropy-coded frames are given besides.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_CALL_H
#define PITHI_GPU_DEVICE_BYTES_CALL_H

#include <stdint.h>

/* The part of a call on frames of entropy-coded codes. Groups, pages and exact values are coded in
 * frames of fixed rate, as if all blocks were plain. These lie in the workspace, `staged` behind
 * the beginning of each frame's part, of which the first begins at `memory` and the next `each`
 * bytes after it; `spare` is where an encode puts strings before their places are known. frames:
 * for each frame, which one kernels of groups take. */
struct pithi_gpu_coding {
    uint8_t *memory;
    uint8_t **frames;
    uint64_t each, staged, spare;
    /* Codecs whose blocks have several strings: how many, where what is known of them lies, their
     * symbols, and the bytes of these and of the room for strings that a block has. */
    uint64_t strings, pieces, symbols, symbols_each, spare_each;
    /* Exact values: strings of a part of a block; where what is known of blocks lies, and the
     * values that the base had before; how many forms of a block are tried, and of these, how many
     * by the launch, from which on. */
    uint64_t levels, blocks, before;
    uint32_t forms, tried, form;
};

#endif
