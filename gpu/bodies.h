/* bodies.h - the text of every kernel; kernels.def lists them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_BODIES_H
#define PITHI_GPU_BODIES_H

#include "bounded_decode.h"
#include "bounded_encode.h"
#include "check.h"
#include "decode.h"
#include "encode.h"
#include "key.h"
#include "kv_pairs.h"
#include "raw.h"
#include "recode.h"
#include "rows_decode.h"
#include "rows_encode.h"
#include "special.h"
#include "state.h"

#define PITH_GPU_SPECIAL(body, reads, makes)                                                 \
    PITHI_BODY(pithi_##body##_##reads##_##makes) {                                           \
        const struct pithi_known read = pithi_known_##reads(), made = pithi_known_##makes(); \
        struct pithi_gpu_call known = *a;                                                    \
        pithi_known_put(&read, &known, &known.from);                                         \
        pithi_known_put(&made, &known, &known.to);                                           \
        pithi_known_plainly(&known);                                                         \
        pithi_##body(&known, s, t, team, number);                                            \
    }
#include "special.def"
#undef PITH_GPU_SPECIAL

#endif
