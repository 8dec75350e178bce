/* gpu_clock.h - how long work takes on a CUDA device, between its own events.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Work that is repeated is captured into a graph once and replayed, so that what is measured is
 * the device, not how fast the host can launch. What fails here ends the program. */
#ifndef PITH_BENCH_GPU_CLOCK_H
#define PITH_BENCH_GPU_CLOCK_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

void gpu_check(cudaError_t status, const char *what);
#define GPU(call) gpu_check((call), #call)

struct gpu_device {
    char name[256], driver[64];
    int runtime;    /* as CUDART_VERSION */
    uint64_t cache; /* bytes of the last level on the device */
};
/* Device 0; returns why there is none, or NULL. */
const char *gpu_open(struct gpu_device *out);

/* The one CUDA stream that everything is put on; it does not wait for the default one. */
cudaStream_t gpu_stream(void);
void gpu_wait(void);
void *gpu_allocate(size_t bytes); /* aligned to 256 */
void gpu_put(void *to, const void *from, size_t bytes);
void gpu_get(void *to, const void *from, size_t bytes);
void gpu_copy(void *to, const void *from, size_t bytes); /* on the device; does not wait */

/* Puts the k-th piece of work on the CUDA stream. */
typedef void gpu_work(void *of, uint32_t k);

struct gpu_graph {
    cudaGraphExec_t exec;
    size_t nodes; /* launches, copies and fills in it */
};
void gpu_graph_make(struct gpu_graph *g, gpu_work *work, void *of, uint32_t count);
void gpu_graph_end(struct gpu_graph *g);
/* Seconds of one replay. */
double gpu_graph_time(const struct gpu_graph *g);
/* Seconds of one piece of work from launch to end on an idle device, and that the host spent. */
double gpu_call_time(gpu_work *work, void *of, double *host);

#endif
