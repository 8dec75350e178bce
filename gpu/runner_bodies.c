/* runner_bodies.c - the bodies of all kernels as the host runner calls them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"
#include "runner.h"

/* All families are wanted: on the host they are compiled at once. */
#define PITHI_GPU_common
#define PITHI_GPU_group_encode
#define PITHI_GPU_group_decode
#define PITHI_GPU_trellis
#define PITHI_GPU_predict
#define PITHI_GPU_sparse
#define PITHI_GPU_bytes
#define PITHI_GPU_kv_encode
#define PITHI_GPU_kv_decode
#include "device/bodies.h"

pithi_runner_body *const pithi_runner_bodies[] = {
#define PITH_GPU_KERNEL(family, name) pithi_##name,
#include "kernels.def"
#undef PITH_GPU_KERNEL
};
