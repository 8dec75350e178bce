/* gpu_clock.c - how long work takes on a CUDA device, between its own events.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gpu_clock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static cudaStream_t the_stream;
static cudaEvent_t the_start, the_end;

void gpu_check(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "gpu: %s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

/* ---- The device ------------------------------------------------------------------------------*/

/* The kernel module's version: the runtime only knows which CUDA it supports. */
static void driver_version(char *to, size_t capacity) {
    char line[256] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file && !fgets(line, sizeof line, file)) line[0] = 0;
    if (file) fclose(file);
    for (char *word = strtok(line, " \t\n"); word; word = strtok(NULL, " \t\n")) {
        if (!isdigit((unsigned char)word[0]) || !strchr(word, '.')) continue;
        snprintf(to, capacity, "%s", word);
        return;
    }
    int cuda = 0;
    GPU(cudaDriverGetVersion(&cuda));
    snprintf(to, capacity, "for CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
}

const char *gpu_open(struct gpu_device *out) {
    struct cudaDeviceProp properties;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) return cudaGetErrorString(status);
    if (!count) return "there is none";
    GPU(cudaSetDevice(0));
    GPU(cudaGetDeviceProperties(&properties, 0));
    GPU(cudaRuntimeGetVersion(&out->runtime));
    snprintf(out->name, sizeof out->name, "%s", properties.name);
    driver_version(out->driver, sizeof out->driver);
    out->cache = (uint64_t)properties.l2CacheSize;
    GPU(cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking));
    GPU(cudaEventCreate(&the_start));
    GPU(cudaEventCreate(&the_end));
    return NULL;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

cudaStream_t gpu_stream(void) { return the_stream; }
void gpu_wait(void) { GPU(cudaStreamSynchronize(the_stream)); }

void *gpu_allocate(size_t bytes) {
    void *p = NULL;
    GPU(cudaMalloc(&p, bytes ? bytes : 1));
    return p;
}

void gpu_put(void *to, const void *from, size_t bytes) {
    GPU(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, the_stream));
    gpu_wait();
}
void gpu_get(void *to, const void *from, size_t bytes) {
    GPU(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, the_stream));
    gpu_wait();
}
void gpu_copy(void *to, const void *from, size_t bytes) {
    GPU(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, the_stream));
}

/* ---- Times -----------------------------------------------------------------------------------*/

void gpu_graph_make(struct gpu_graph *g, gpu_work *work, void *of, uint32_t count) {
    cudaGraph_t graph;
    GPU(cudaStreamBeginCapture(the_stream, cudaStreamCaptureModeThreadLocal));
    for (uint32_t k = 0; k < count; k++) work(of, k);
    GPU(cudaStreamEndCapture(the_stream, &graph));
    GPU(cudaGraphGetNodes(graph, NULL, &g->nodes));
    GPU(cudaGraphInstantiateWithFlags(&g->exec, graph, 0));
    GPU(cudaGraphDestroy(graph));
}

void gpu_graph_end(struct gpu_graph *g) { GPU(cudaGraphExecDestroy(g->exec)); }

/* After what is on the CUDA stream. */
static double between(void) {
    float ms = 0;
    GPU(cudaEventSynchronize(the_end));
    GPU(cudaEventElapsedTime(&ms, the_start, the_end));
    return (double)ms * 1e-3;
}

double gpu_graph_time(const struct gpu_graph *g) {
    GPU(cudaEventRecord(the_start, the_stream));
    GPU(cudaGraphLaunch(g->exec, the_stream));
    GPU(cudaEventRecord(the_end, the_stream));
    return between();
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double gpu_call_time(gpu_work *work, void *of, double *host) {
    gpu_wait();
    GPU(cudaEventRecord(the_start, the_stream));
    const double from = now();
    work(of, 0);
    *host = now() - from;
    GPU(cudaEventRecord(the_end, the_stream));
    return between();
}
