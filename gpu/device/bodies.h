/* bodies.h - the text of every kernel; kernels.def lists them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BODIES_H
#define PITHI_GPU_DEVICE_BODIES_H

#include "device/check.h"
#include "device/group/decode.h"
#include "device/group/encode.h"
#include "device/group/recode.h"
#include "device/group/special.h"
#include "device/key.h"
#include "device/kv/pairs.h"
#include "device/predict/decode.h"
#include "device/predict/encode.h"
#include "device/predict/rows_decode.h"
#include "device/predict/rows_encode.h"
#include "device/raw.h"
#include "device/state.h"

#define PITH_GPU_SPECIAL(body, reads, makes)                                                 \
    PITHI_BODY(pithi_##body##_##reads##_##makes) {                                           \
        const struct pithi_known read = pithi_known_##reads(), made = pithi_known_##makes(); \
        struct pithi_gpu_call known = *a;                                                    \
        pithi_known_put(&read, &known, &known.from);                                         \
        pithi_known_put(&made, &known, &known.to);                                           \
        pithi_known_plainly(&known);                                                         \
        pithi_##body(&known, s, t, team, number);                                            \
    }
#include "device/group/special.def"
#undef PITH_GPU_SPECIAL

#endif
