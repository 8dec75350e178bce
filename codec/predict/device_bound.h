/* device_bound.h - what device kernels know of a codec that keeps a bound.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_DEVICE_BOUND_H
#define PITHI_PREDICT_DEVICE_BOUND_H

#include "predict/bound_value.h"

/* The part of struct pithi_device that kinds with a bound have: what a setting requests of it.
 * range is 0 when it is that of the values. */
struct pithi_requested {
    uint32_t target; /* enum pithi_target */
    bool signed_zeros;
    double request, range;
};

#endif
