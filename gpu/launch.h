/* launch.h - calls that take several launches, and the workspace in which one leaves what the next
 * ones need.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_LAUNCH_H
#define PITHI_GPU_LAUNCH_H

#include "plan.h"

/* A call, and its launches so far: behind one that failed there are no more. */
struct pithi_cuda_launches {
    const pith_cuda_plan *cuda;
    struct pithi_gpu_call *call;
    uint64_t items; /* of a launch: those of the call, or all frames of these */
    void *cuda_stream;
    pith_error *error;
    pith_status status;
};
/* Launches so many teams, but at least one, for every item. */
void pithi_launch_teams(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel,
                        uint64_t teams);
/* Launch a team for every block of the slot that has most, or for every part of those. */
void pithi_launch_blocks(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel);
void pithi_launch_parts(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel);
/* Launches teams for runs of tiles, which are independent. */
void pithi_launch_tiles(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel);

/* Returns the bytes of the workspace that a frame has, of codecs whose launches work on blocks:
 * those with a bound, and those of sets. */
uint64_t pithi_cuda_blocks_bytes(const struct pithi_device_plan *plan);
/* Begins a call on such items: its workspace is there, and marks of frames are 0. */
struct pithi_cuda_launches pithi_cuda_blocks_open(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                                  const pith_cuda_items *items, void *cuda_stream,
                                                  pith_error *error);

/* Returns how many shares of so many things n of them are. */
static inline uint64_t pithi_cuda_shares(uint64_t n, uint64_t share) {
    return n / share + (n % share != 0);
}

#endif
