/* bodies.h - the text of every kernel; kernels.def lists them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_BODIES_H
#define PITHI_GPU_BODIES_H

#include "check.h"
#include "decode.h"
#include "encode.h"
#include "key.h"
#include "raw.h"
#include "recode.h"
#include "state.h"

#endif
