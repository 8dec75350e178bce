/* plan.h - a checked setting with its sizes and its workspace.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PLAN_H
#define PITHI_PLAN_H

#include "frame.h"
#include "view.h"

enum { PITHI_THREADS_MAX = 1024 };

/* What one worker has to itself, also of cache lines: what is read, what a run leaves, the rest.
 * Results are added up after a run, in worker order. */
struct pithi_worker {
    /* One block of values, or of output, when the view is not dense. */
    _Alignas(64) uint8_t *values;
    uint8_t *base;    /* one block of a strided base */
    uint8_t *floats;  /* one block of f32, for reductions */
    uint8_t *sums;    /* another */
    uint8_t *coded;   /* one encoded block of a variable-rate codec */
    uint8_t *scratch; /* the codec's */
    struct pithi_entropy *coder;
    _Alignas(64) uint64_t hash;
    uint64_t saturated, poisoned, exact, nonzero;
    uint64_t block; /* the first that failed */
    const char *detail;
    pith_status status;
    bool plain;
    bool advanced;              /* a block of a base of which sums are kept */
    _Alignas(64) size_t length; /* of the block in `coded` */
    struct pithi_range range;   /* of one block */
};

/* A header up to this size is kept with its frame. */
enum { PITHI_HEADER_KEPT = 256 };

/* What frames of one slot have in common, and their header. */
struct pithi_frame_form {
    struct pithi_frame frame;
    uint8_t header[PITHI_HEADER_KEPT];
};

struct pith_plan {
    struct pithi_params params;
    struct pithi_kernels kernels;
    pith_env env;
    uint64_t shape[PITH_MAX_NDIM], count;
    uint32_t ndim, flags;
    uint64_t slots, slot_count;
    uint64_t blocks;            /* variable rate: the most that a frame has */
    const uint64_t *slot_first; /* ragged: slots + 1 offsets; else NULL */
    const void *source;
    size_t source_bytes;
    bool one_frame; /* keeps its shape */
    struct pithi_exempt_map exempt;
    uint64_t fingerprint;       /* of states */
    uint64_t paged_fingerprint; /* of caches; 0: none */
    struct pithi_random random; /* without a base */
    uint32_t workers;
    struct pithi_worker *worker;
    /* Ordinary and key frames of slot 0 and of all with as many elements; none of plans with exempt
     * elements, whose slots differ. */
    struct pithi_frame_form form[2];
    bool has_forms;
    /* Bounded codecs: the value of the target, the given range, the first bound of a schedule. */
    double bound_value, bound_range, bound_start;
    uint64_t *block_offset; /* variable rate: room for the largest slot's blocks + 1 */
    uint64_t workspace_bytes, allocated;
    pith_sizes sizes;
    pith_error error;
};

/* Grow or cut a sized struct of the caller to the library's; see pith_env.size. */
pith_status pithi_take(void *dst, size_t size, const void *src, pith_error *error);
/* Of memory as well: alloc and release come together. */
pith_status pithi_env_take(pith_env *dst, const pith_env *src, pith_error *error);
/* Memory for the duration of a plan or call, 64-byte aligned; NULL when there is none. */
void *pithi_env_alloc(const pith_env *env, size_t bytes);
void pithi_env_release(const pith_env *env, void *memory, size_t bytes);

static inline bool pithi_has_base(const pith_plan *p) { return p->params.base_dtype != PITH_NONE; }
/* Whether encoding needs a residual. */
bool pithi_has_residual(const pith_plan *plan);

/* The one-frame plan that decodes this frame. */
pith_status pithi_plan_for_frame(pith_plan **plan, const struct pithi_frame *frame,
                                 const pith_env *env, pith_error *error);
/* A frame of the slot with nothing data-dependent filled in. */
void pithi_plan_frame(const pith_plan *plan, uint64_t slot, bool key, struct pithi_frame *frame);
uint64_t pithi_frame_total(struct pithi_frame *frame);

static inline uint64_t pithi_slot_first(const pith_plan *p, uint64_t slot) {
    if (p->slot_first) return p->slot_first[slot];
    return slot > p->count / (p->slot_count ? p->slot_count : 1) ? p->count : slot * p->slot_count;
}
static inline uint64_t pithi_slot_count(const pith_plan *p, uint64_t slot) {
    if (p->slot_first) return p->slot_first[slot + 1] - p->slot_first[slot];
    const uint64_t first = pithi_slot_first(p, slot), left = p->count - first;
    return left < p->slot_count ? left : p->slot_count;
}

#endif
