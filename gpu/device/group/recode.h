/* recode.h - sums of frames, encoded as groups again: nothing goes to memory in between.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_RECODE_H
#define PITHI_GPU_DEVICE_GROUP_RECODE_H

#include "device/pair.h"

PITHI_BODY(pithi_recode) {
    if (!pithi_pair_begin(a, s, t, team, number)) return;
    pithi_encode_groups(a, s, t, team, PITHI_OF_FRAMES);
    PITHI_RUN(pithi_encode_padding, (uint64_t)1 << a->to.plan.block_log2);
    pithi_pair_close(a, s, t, team, number);
}

#endif
