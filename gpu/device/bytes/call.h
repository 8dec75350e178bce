/* call.h - what kernels of entropy-coded frames are given besides.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_CALL_H
#define PITHI_GPU_DEVICE_BYTES_CALL_H

#include <stdint.h>

/* The part of a call on frames of entropy-coded codes. Groups, pages and exact values are coded in
 * frames of fixed rate, as if all blocks were plain. Each lies in the staging buffer of its frame's
 * part of the workspace, `staging` bytes behind the beginning of the part; the first part begins at
 * `memory` and the next `each` bytes after it. `unplaced` is where in a part an encode puts strings
 * before their places in the frame are known. frames: for each frame, which one kernels of groups
 * take. */
struct pithi_gpu_coding {
    uint8_t *memory;
    uint8_t **frames;
    uint64_t each, staging, unplaced;
    /* Codecs whose blocks have several strings: how many, where what is known of them lies, their
     * symbols, and the bytes of these and of unplaced strings that a block has. */
    uint64_t strings, pieces, symbols, symbols_each, unplaced_each;
    /* Exact values: strings of a part of a block; where what is known of blocks lies, and the
     * values that the base had before; how many forms of a block are tried, and of these, how many
     * by the launch, from which on. Sequences of words of a block with a bound are its forms. */
    uint64_t levels, blocks, before;
    uint32_t forms, tried, form;
};

#endif
