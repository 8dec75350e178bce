/* cuda.cu - the kernels on a CUDA device.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda_runtime.h>

#include "backend.h"
#include "device/bodies.h"

#define KERNEL(name, is_special, teams)                                     \
    static __global__ void __launch_bounds__(PITHI_TEAM, teams)             \
        kernel_##name(const __grid_constant__ struct pithi_gpu_call call) { \
        extern __shared__ struct pithi_gpu_shared shared[];                 \
        struct pithi_gpu_thread thread;                                     \
        thread.tid = threadIdx.x;                                           \
        thread.special = is_special;                                        \
        pithi_##name(&call, shared, &thread, nullptr, blockIdx.x);          \
    }
/* Teams a processor: without a number ptxas aims at one of its own, and spills for it. */
static constexpr int teams_of(int kernel) {
    return kernel == PITHI_GPU_encode_raw || kernel == PITHI_GPU_decode_raw ? 4 : 2;
}
#define PITH_GPU_KERNEL(name) KERNEL(name, false, teams_of(PITHI_GPU_##name))
/* They fit into the registers of three teams a processor: what is asked for is what hides the time
 * that memory takes. General ones would not. */
#define PITH_GPU_SPECIAL(body, from, to) KERNEL(body##_##from##_##to, true, 3)
#include "kernels.def"
#undef PITH_GPU_KERNEL

typedef void kernel(struct pithi_gpu_call);

static kernel *const kernels[PITHI_GPU_KERNELS] = {
#define PITH_GPU_KERNEL(name) kernel_##name,
#include "kernels.def"
#undef PITH_GPU_KERNEL
};

/* The caller's device is current again at the end. */
class on_device {
    int before = -1;

public:
    cudaError_t status;
    explicit on_device(int device) {
        status = cudaGetDevice(&before);
        if (status == cudaSuccess && before != device) status = cudaSetDevice(device);
        if (before == device) before = -1;
    }
    ~on_device() {
        if (before >= 0) cudaSetDevice(before);
    }
};

/* The runtime keeps the last failure for whoever asks next: it is the caller of this one. */
static cudaError_t taken(cudaError_t status) {
    if (status != cudaSuccess) cudaGetLastError();
    return status;
}

/* Asking for its attributes loads a kernel, so that the first launch of each need not. */
int pithi_gpu_open(int device, uint32_t *processors) {
    const on_device guard(device);
    int count = 0;
    cudaError_t status = guard.status;
    for (int k = 0; k < PITHI_GPU_KERNELS && status == cudaSuccess; k++) {
        cudaFuncAttributes attributes;
        status = cudaFuncGetAttributes(&attributes, (const void *)kernels[k]);
    }
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    *processors = (uint32_t)count;
    return taken(status);
}

int pithi_gpu_launch(int device, enum pithi_gpu_kernel number, const struct pithi_gpu_call *call,
                     uint64_t teams, void *stream) {
    const on_device guard(device);
    if (guard.status != cudaSuccess) return taken(guard.status);
    void *arguments[] = {const_cast<struct pithi_gpu_call *>(call)};
    return taken(cudaLaunchKernel((const void *)kernels[number], dim3((unsigned)teams),
                                  dim3(PITHI_TEAM), arguments, pithi_shared_bytes(call),
                                  (cudaStream_t)stream));
}

int pithi_gpu_copy(int device, void *to, const void *from, size_t bytes, void *stream) {
    const on_device guard(device);
    if (guard.status != cudaSuccess) return taken(guard.status);
    return taken(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, (cudaStream_t)stream));
}

int pithi_gpu_clear(int device, void *p, size_t bytes, void *stream) {
    const on_device guard(device);
    if (guard.status != cudaSuccess) return taken(guard.status);
    return taken(cudaMemsetAsync(p, 0, bytes, (cudaStream_t)stream));
}

const char *pithi_gpu_text(int error) { return cudaGetErrorString((cudaError_t)error); }

int pithi_gpu_too_old(int error) {
    return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
}
