/* bodies.h - the bodies of the kernels of those families for which PITHI_GPU_<family> is defined;
 * kernels.def lists them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BODIES_H
#define PITHI_GPU_DEVICE_BODIES_H

#include "device/special.h"

#ifdef PITHI_GPU_common
#include "device/check.h"
#include "device/exact.h"
#include "device/key.h"
#include "device/raw.h"
#include "device/stream.h"
#define PITHI_IF_common(x) x
#else
#define PITHI_IF_common(x)
#endif

#ifdef PITHI_GPU_group_encode
#include "device/group/encode.h"
#define PITHI_IF_group_encode(x) x
#else
#define PITHI_IF_group_encode(x)
#endif

#ifdef PITHI_GPU_group_decode
#include "device/group/decode.h"
#include "device/group/recode.h"
#define PITHI_IF_group_decode(x) x
#else
#define PITHI_IF_group_decode(x)
#endif

#ifdef PITHI_GPU_trellis
#include "device/group/trellis.h"
#include "device/kv/trellis.h"
#define PITHI_IF_trellis(x) x
#else
#define PITHI_IF_trellis(x)
#endif

#ifdef PITHI_GPU_predict
#include "device/predict/coded.h"
#include "device/predict/decode.h"
#include "device/predict/encode.h"
#include "device/predict/interp_encode.h"
#include "device/predict/rows_decode.h"
#include "device/predict/rows_encode.h"
#include "device/predict/zeros.h"
#include "device/predict/zeros_encode.h"
#define PITHI_IF_predict(x) x
#else
#define PITHI_IF_predict(x)
#endif

#ifdef PITHI_GPU_sparse
#include "device/sparse/look.h"
#include "device/sparse/sets.h"
#include "device/sparse/slots.h"
#include "device/sparse/transform.h"
#define PITHI_IF_sparse(x) x
#else
#define PITHI_IF_sparse(x)
#endif

#ifdef PITHI_GPU_bytes
#include "device/bytes/rans.h"
#define PITHI_IF_bytes(x) x
#else
#define PITHI_IF_bytes(x)
#endif

#ifdef PITHI_GPU_kv_encode
#include "device/kv/pairs.h"
#define PITHI_IF_kv_encode(x) x
#else
#define PITHI_IF_kv_encode(x)
#endif

#ifdef PITHI_GPU_kv_decode
#include "device/kv/pairs.h"
#define PITHI_IF_kv_decode(x) x
#else
#define PITHI_IF_kv_decode(x)
#endif

#define PITHI_SPECIAL_BODY(body, reads, makes)                                               \
    PITHI_BODY(pithi_##body##_##reads##_##makes) {                                           \
        const struct pithi_known read = pithi_known_##reads(), made = pithi_known_##makes(); \
        struct pithi_gpu_call known = *a;                                                    \
        pithi_known_put(&read, &known, &known.from);                                         \
        pithi_known_put(&made, &known, &known.to);                                           \
        pithi_known_plainly(&known);                                                         \
        pithi_##body(&known, s, t, team, number);                                            \
    }
#define PITH_GPU_SPECIAL(family, body, reads, makes) \
    PITHI_IF_##family(PITHI_SPECIAL_BODY(body, reads, makes))
#include "device/special.def"
#undef PITH_GPU_SPECIAL

#endif
