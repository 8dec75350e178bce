/* backend.h - what carries kernels out: a CUDA device (cuda.cu), or the host (runner.c).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Numbers returned are those of the CUDA runtime, 0 for success. */
#ifndef PITHI_GPU_BACKEND_H
#define PITHI_GPU_BACKEND_H

#include "device/call.h"

#ifdef __cplusplus
extern "C" {
#endif

enum pithi_gpu_kernel {
#define PITH_GPU_KERNEL(family, name) PITHI_GPU_##name,
#include "kernels.def"
#undef PITH_GPU_KERNEL
    PITHI_GPU_KERNELS
};

/* Loads the kernels; *processors: how many teams run at once, in multiples. */
int pithi_gpu_open(int device, uint32_t *processors);
int pithi_gpu_launch(int device, enum pithi_gpu_kernel kernel, const struct pithi_gpu_call *call,
                     uint64_t teams, void *cuda_stream);
/* Copies from host to device. */
int pithi_gpu_copy(int device, void *to, const void *from, size_t bytes, void *cuda_stream);
int pithi_gpu_clear(int device, void *p, size_t bytes, void *cuda_stream);
/* Returns what the number means; static text. */
const char *pithi_gpu_error_string(int error);
/* Whether the number says that the device is older than the build. */
int pithi_gpu_too_old(int error);

#ifdef __cplusplus
}
#endif

#endif
