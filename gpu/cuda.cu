/* cuda.cu - the host side of kernels on a CUDA device: which one, where, with what.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda_runtime.h>

#include "backend.h"
#include "device/team.h"

/* The kernels are compiled a family at a time (kernels.cu). NULL: not one of the family. A build
 * for checks alone, which nothing runs, has two families: launches of others are refused. */
#ifdef PITHI_GPU_QUICK
#define FAMILIES(X) X(predict) X(sparse)
#else
#define FAMILIES(X) \
    X(common)       \
    X(bytes)        \
    X(predict) X(sparse) X(group_encode) X(group_decode) X(trellis) X(kv_encode) X(kv_decode)
#endif
#define DECLARE(family) \
    extern "C" const void *pithi_gpu_kernel_##family(enum pithi_gpu_kernel number);
FAMILIES(DECLARE)
#undef DECLARE

static const void *kernel_of(enum pithi_gpu_kernel number) {
    const void *found = nullptr;
#define LOOK(family) \
    if (!found) found = pithi_gpu_kernel_##family(number);
    FAMILIES(LOOK)
#undef LOOK
    return found;
}

/* Makes a device current; the caller's is current again at the end. */
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

/* Takes the last failure, which the runtime keeps for whoever asks next: it is the caller of this
 * one. */
static cudaError_t taken(cudaError_t status) {
    if (status != cudaSuccess) cudaGetLastError();
    return status;
}

/* Loads every kernel by asking for its attributes, so that the first launch of each need not. */
int pithi_gpu_open(int device, uint32_t *processors) {
    const on_device guard(device);
    int count = 0;
    cudaError_t status = guard.status;
    for (int k = 0; k < PITHI_GPU_KERNELS && status == cudaSuccess; k++) {
        cudaFuncAttributes attributes;
        status = cudaFuncGetAttributes(&attributes, kernel_of((enum pithi_gpu_kernel)k));
    }
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    *processors = (uint32_t)count;
    return taken(status);
}

int pithi_gpu_launch(int device, enum pithi_gpu_kernel number, const struct pithi_gpu_call *call,
                     uint64_t teams, void *cuda_stream) {
    const on_device guard(device);
    if (guard.status != cudaSuccess) return taken(guard.status);
    void *arguments[] = {const_cast<struct pithi_gpu_call *>(call)};
    return taken(cudaLaunchKernel(kernel_of(number), dim3((unsigned)teams), dim3(PITHI_TEAM),
                                  arguments, pithi_shared_bytes(call), (cudaStream_t)cuda_stream));
}

int pithi_gpu_copy(int device, void *to, const void *from, size_t bytes, void *cuda_stream) {
    const on_device guard(device);
    if (guard.status != cudaSuccess) return taken(guard.status);
    return taken(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, (cudaStream_t)cuda_stream));
}

int pithi_gpu_clear(int device, void *p, size_t bytes, void *cuda_stream) {
    const on_device guard(device);
    if (guard.status != cudaSuccess) return taken(guard.status);
    return taken(cudaMemsetAsync(p, 0, bytes, (cudaStream_t)cuda_stream));
}

const char *pithi_gpu_error_string(int error) { return cudaGetErrorString((cudaError_t)error); }

int pithi_gpu_too_old(int error) {
    return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
}
