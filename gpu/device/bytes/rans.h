/* rans.h - codes in rANS strings, a warp a string: made, and read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_RANS_H
#define PITHI_GPU_DEVICE_BYTES_RANS_H

#include "device/bytes/act_decode.h"
#include "device/bytes/act_encode.h"
#include "device/bytes/eb_decode.h"
#include "device/bytes/eb_encode.h"
#include "device/bytes/embed_decode.h"
#include "device/bytes/embed_encode.h"
#include "device/bytes/lossless_decode.h"
#include "device/bytes/lossless_encode.h"
#include "device/bytes/page_decode.h"
#include "device/bytes/page_encode.h"

#endif
