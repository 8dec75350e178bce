/* end.h - one end of a sequence of frames: a plan, a work, a stream, and calls with one item.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_BENCH_END_H
#define PITH_BENCH_END_H

#include <stddef.h>
#include <stdint.h>

#include "pith/pith.h"

struct end {
    const pith_plan *plan;
    pith_work *work;
    pith_stream *stream;
    pith_sizes sizes;
    void *work_memory, *memory;
    const char *spec;
    int borrowed; /* the plan is another end's */
};
/* Memory is aligned to 64 bytes, with pages of its own. env and options may be NULL, and spec must
 * stay. Returns 0, or 1 after a line on stderr that says why; end_close is right either way. */
int end_open(struct end *e, const char *spec, const pith_layout *layout, const pith_env *env,
             const pith_stream_options *options);
/* Another end with the plan of `of`, which is closed last, and one thread. */
int end_open_other(struct end *e, const struct end *of, const pith_stream_options *options);
void end_close(struct end *e);
/* Make e's work, of one thread, large enough for calls that take streams of both. Returns 0 on
 * success. */
int end_widen(struct end *e, const struct end *other);

/* Slot 0. view NULL: only the base is wanted. A line on stderr says why a call failed. */
pith_status end_encode(struct end *e, const pith_view *view, void *frame, size_t capacity,
                       size_t *length);
pith_status end_decode(struct end *e, const void *frame, size_t length, const pith_view *view);
/* Slot 0, scale 1. Before end_reduce_encode: end_widen(e, out). */
pith_status end_reduce(struct end *e, const void *const *frames, const size_t *lengths,
                       size_t count, const pith_view *view);
pith_status end_reduce_encode(struct end *e, const void *const *frames, const size_t *lengths,
                              size_t count, struct end *out, void *frame, size_t capacity,
                              size_t *length);
/* The status; a line on stderr where it is not PITH_OK. */
pith_status end_said(const struct end *e, pith_status status);

#endif
