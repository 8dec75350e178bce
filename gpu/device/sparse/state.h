/* state.h - what launches of a call on sets tell each other: of a frame, of a block, and of what
 * an encode finds of the values as a whole.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_SPARSE_STATE_H
#define PITHI_GPU_DEVICE_SPARSE_STATE_H

#include "device/predict/memory.h"
#include "device/sparse/stream.h"
#include "sparse/control_step.h"

/* A frame: values of all blocks; and, of a sum that is encoded, in the mark of its first frame,
 * what the frames have. same, encode: whether a block has the set that the slot held before. */
struct pithi_set_mark {
    uint64_t counted, saturated, poisoned;
    uint32_t same;
};
/* A block: elements of its set, where they stand in the frame's list, and how the set is coded. */
struct pithi_set_entry {
    uint32_t count, first;
    uint8_t form, low_bits;
};

/* The search for the k-th largest magnitude: its bits as far as they are known, how many magnitudes
 * are larger, and how many equal it when all bits are known. */
struct pithi_gpu_kth {
    uint64_t k, larger;
    uint32_t prefix, equal;
    uint32_t arrived[PITHI_SELECT_LEVELS]; /* teams that have counted */
    uint32_t unused;
    uint32_t bins[PITHI_SELECT_LEVELS][PITHI_SELECT_BINS];
};

struct pithi_gpu_search {
    uint32_t exact;      /* the threshold is the k-th largest magnitude */
    uint32_t threshold;  /* if not, the threshold */
    uint32_t anew;       /* past the hard limit k are sent, and the rule begins */
    uint32_t arrived;    /* teams that have counted what the rule asks for */
    uint64_t reached;    /* the same: elements that reach its threshold */
    uint64_t first, end; /* the elements that may be chosen */
    /* Elements that reach the threshold, in each round; of settings with units, which have one
     * round, all elements of units that have one. */
    uint64_t found[2];
    uint64_t most;                      /* the hard limit */
    struct pithi_control_state control; /* what the slot's next step goes on from */
    struct pithi_control_step step;     /* the rule */
    struct pithi_gpu_kth kth[2];        /* of each round */
};

#endif
