/* rig.h - a plan on the CPU and on the device under test, and the memory of a call on items.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_RIG_H
#define PITH_TESTS_RIG_H

#include "device.h"
#include "pith/pith_cuda.h"
#include "util.h"

/* ---- Memory on both sides --------------------------------------------------------------------*/

/* Memory of one content on the host and on the device, of its exact size on both. */
struct mirror {
    uint8_t *host, *device;
    size_t bytes;
};
void mirror_open(struct mirror *m, size_t bytes, size_t offset); /* filled with UNTOUCHED */
void mirror_push(const struct mirror *m);                        /* host to device */
void mirror_pull(struct mirror *m);
void mirror_close(struct mirror *m);
enum { UNTOUCHED = 0x5A };

/* ---- Plans and streams -----------------------------------------------------------------------*/

struct rig {
    struct stream cpu;
    pith_layout layout;
    uint64_t count, slots;
    const pith_cuda_plan *plan;
    pith_cuda_sizes sizes;
    void *plan_memory;
    pith_cuda_stream *stream;
    uint8_t *base_host, *base_device; /* external ones */
};
/* False where devices do not code so. */
bool rig_open(struct rig *r, const char *spec, const pith_layout *layout);
bool rig_open_in(struct rig *r, const char *spec, const pith_layout *layout, const pith_env *env);
void rig_close(struct rig *r);
/* On both sides. */
void rig_set_base(struct rig *r, const void *base, uint32_t dtype, uint64_t step);
void rig_set_step(struct rig *r, uint64_t slot, uint64_t step);
/* Sets seed, rng_stream and, where there is no base, the step of all slots. */
void rig_set_random(struct rig *r, uint64_t seed, uint32_t rng_stream, uint64_t step);
void rig_set_options(struct rig *r, const pith_stream_options *options);
/* The bytes of the device's stream, sizes.stream_bytes of them. To be freed. */
uint8_t *rig_stream_image(const struct rig *r);
/* The device's stream is the CPU's: base or residual, steps, base hashes, counters, seed, rank. */
void rig_check_stream(struct rig *r);
/* The counters of the device's stream. */
pith_stats rig_stats(struct rig *r);

/* ---- Calls -----------------------------------------------------------------------------------*/

/* A call on `count` items: a whole tensor, and `frames` frames at a stride. The tensor and the
 * frames lie `offset` bytes off their alignment. */
struct job {
    pith_cuda_items items;
    struct mirror tensor, frame, lengths, status;
    void *work;
    uint64_t frames;
    size_t stride;
};
void job_open(struct job *j, const struct rig *r, uint64_t count, uint64_t frames, uint32_t dtype,
              size_t offset);
/* One frame, in memory of exactly its length. */
void job_set_frame(struct job *j, const void *bytes, size_t length);
/* Everything to the device; status words are anything else than what a call leaves there. */
void job_push(struct job *j);
void job_pull(struct job *j);
void job_close(struct job *j);
uint8_t *job_frame(const struct job *j, uint64_t i);
pith_status job_status(const struct job *j, uint64_t i);
uint64_t *job_length(const struct job *j, uint64_t i);

/* push, call, pull; the call must return PITH_OK. */
#define JOB_RUN(j, call) \
    do {                 \
        job_push(j);     \
        CHECK_OK(call);  \
        job_pull(j);     \
    } while (0)

/* Any bytes as the frame of slot 0, to both decoders: one status (a device may also say MISMATCH or
 * UNSUPPORTED), one result, and nothing written by a decoder that refuses. Returns the device's
 * status; the streams stay as they were before. */
pith_status rig_try(struct rig *r, const void *bytes, size_t length, size_t offset);

#endif
