/* cuda_only.h - what tests of things that only a CUDA device has share: streams and graphs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_CUDA_ONLY_H
#define PITH_TESTS_CUDA_ONLY_H

#include <cuda_runtime_api.h>

#include "gen.h"
#include "rig.h"

#define CUDA_OK(call) CHECK((call) == cudaSuccess)

/* Global mode: a call that is not to be captured fails here, whatever thread makes it. */
static inline void capture_begin(void *stream) {
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

static inline cudaGraphExec_t capture_end(void *stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    return exec;
}

/* One replay, complete on return. */
static inline void replay(cudaGraphExec_t exec, void *stream) {
    CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
}

#endif
