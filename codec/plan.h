/* plan.h - a checked setting with its sizes; nothing in it changes once it is made.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PLAN_H
#define PITHI_PLAN_H

#include "caller.h"
#include "frame.h"
#include "view.h"

enum { PITHI_THREADS_MAX = 1024 };

/* Bytes of each part of a worker's memory, which stand one behind the other, 64-byte aligned. */
struct pithi_scratch {
    uint64_t values, base, floats, sums, coded, scratch, offsets, coder;
    uint64_t total;
    struct pithi_entropy *(*open_coder)(void *memory, size_t bytes); /* the codec's hook */
};

/* A header of at most this size is kept with its frame. */
enum { PITHI_HEADER_KEPT = 256 };

/* What frames of one slot have in common, and their header. */
struct pithi_frame_form {
    struct pithi_frame frame;
    uint8_t header[PITHI_HEADER_KEPT];
};

struct pith_plan {
    struct pithi_params params;
    struct pithi_kernels kernels;
    pith_env env; /* with the allocator that the plan came from */
    uint64_t shape[PITH_MAX_NDIM], count;
    uint32_t ndim, flags;
    uint64_t slots, slot_count;
    uint64_t blocks;            /* variable rate: the most that a frame has */
    const uint64_t *slot_first; /* ragged: slots + 1 offsets; else NULL */
    const void *source;
    size_t source_bytes;
    bool one_frame; /* one slot, whose frames keep the tensor's shape */
    struct pithi_exempt_map exempt;
    uint64_t stream_fingerprint; /* what saved streams of equal plans have */
    /* Ordinary and key frames of slot 0, which stand for all slots with as many elements. Plans
     * with exempt elements have none, since their slots differ. */
    struct pithi_frame_form form[2];
    bool has_forms;
    double kept[PITHI_KEPT];      /* what pithi_frame_hooks.keep computed of the setting */
    struct pithi_scratch scratch; /* scratch memory of one worker */
    uint64_t allocated;
    pith_sizes sizes;
};

static inline bool pithi_has_base(const pith_plan *p) { return p->params.base_dtype != PITH_NONE; }
/* Whether encoding needs a residual. */
bool pithi_has_residual(const pith_plan *plan);

/* Makes the one-frame plan that decodes this frame. */
pith_status pithi_plan_for_frame(const pith_plan **plan, const struct pithi_frame *frame,
                                 const pith_env *env, pith_error *error);
/* Computes the most bytes that a frame of the whole tensor has. */
pith_status pithi_one_frame_bytes(const char *spec, const pith_layout *layout, uint64_t *bytes,
                                  pith_error *error);
/* Makes a frame of the slot in which nothing that depends on data is filled in. */
void pithi_plan_frame(const pith_plan *plan, uint64_t slot, bool key, struct pithi_frame *frame);

#endif
