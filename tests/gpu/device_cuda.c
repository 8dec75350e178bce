/* device_cuda.c - a CUDA device as the device under test.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, GUARD = 0xC7 };

/* Guard bytes lie around every allocation: `offset` before it, ALIGNMENT behind. */
struct memory {
    struct memory *next;
    uint8_t *at;
    size_t offset, bytes;
};
static struct memory *memories;

static void check(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "device: %s: %s\n", what, cudaGetErrorString(status));
    abort();
}

void *device_stream(void) {
    static cudaStream_t stream;
    if (!stream) {
        check(cudaSetDevice(DEVICE), "no device");
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "no stream");
    }
    return stream;
}

void device_wait(void) { check(cudaStreamSynchronize(device_stream()), "work failed"); }

static void copy(void *to, const void *from, size_t bytes) {
    if (bytes)
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device_stream()), "no copy");
    device_wait();
}
void device_put(void *to, const void *from, size_t bytes) { copy(to, from, bytes); }
void device_get(void *to, const void *from, size_t bytes) { copy(to, from, bytes); }

void device_fill(void *p, int byte, size_t bytes) {
    if (bytes) check(cudaMemsetAsync(p, byte, bytes, device_stream()), "no fill");
    device_wait();
}

void *device_alloc_at(size_t bytes, size_t offset) {
    struct memory *const m = malloc(sizeof *m);
    void *place;
    if (!m) abort();
    device_stream();
    check(cudaMalloc(&place, offset + bytes + ALIGNMENT), "no memory");
    *m = (struct memory){memories, place, offset, bytes};
    memories = m;
    device_fill(m->at, GUARD, offset);
    device_fill(m->at + offset + bytes, GUARD, ALIGNMENT);
    return m->at + offset;
}

void *device_alloc(size_t bytes) { return device_alloc_at(bytes, 0); }

static void check_guard(const uint8_t *from, size_t bytes) {
    uint8_t got[ALIGNMENT];
    device_get(got, from, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] == GUARD) continue;
        fprintf(stderr, "device: a byte beside device memory was written\n");
        abort();
    }
}

void device_free(void *p) {
    struct memory **at = &memories;
    if (!p) return;
    while (*at && (*at)->at + (*at)->offset != (uint8_t *)p) at = &(*at)->next;
    struct memory *const m = *at;
    if (!m) abort();
    check_guard(m->at, m->offset);
    check_guard(m->at + m->offset + m->bytes, ALIGNMENT);
    *at = m->next;
    check(cudaFree(m->at), "memory not freed");
    free(m);
}

int device_orders(void) { return 1; }
void device_order(int k) { (void)k; }
