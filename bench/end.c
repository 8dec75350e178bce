/* end.c - one end of a sequence of frames: a plan, a work, a stream, and calls with one item.
 * SPDX-License-Identifier: Apache-2.0 */
#include "end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Written to, so that no page is made while times are taken. */
static void *memory_of(uint64_t bytes) {
    void *const p = aligned_alloc(64, ((size_t)bytes + 64) & ~(size_t)63);
    if (p) memset(p, 1, (size_t)bytes);
    return p;
}

static pith_status say(const char *spec, pith_status status, const char *text) {
    if (status != PITH_OK) fprintf(stderr, "%s: %s: %s\n", spec, pith_status_name(status), text);
    return status;
}

pith_status end_said(const struct end *e, pith_status status) {
    return say(e->spec, status, pith_work_error(e->work)->text);
}

static int no_memory(const char *spec) {
    fprintf(stderr, "%s: no memory\n", spec);
    return 1;
}

/* ---- Opening ---------------------------------------------------------------------------------*/

static int open_work(struct end *e, const pith_plan *const *plans, size_t count,
                     const pith_env *env) {
    pith_error error = {.size = sizeof error};
    const uint64_t bytes = pith_work_bytes(plans, count, env ? env->threads : 1);
    free(e->work_memory);
    e->work_memory = memory_of(bytes);
    if (!e->work_memory) return no_memory(e->spec);
    return say(e->spec, pith_work_init(e->work_memory, (size_t)bytes, env, &e->work, &error),
               error.text) != PITH_OK;
}

static int open_rest(struct end *e, const pith_env *env, const pith_stream_options *options) {
    pith_error error = {.size = sizeof error};
    e->sizes.size = sizeof e->sizes;
    if (pith_plan_sizes(e->plan, &e->sizes) != PITH_OK || open_work(e, &e->plan, 1, env)) return 1;
    const size_t bytes = (size_t)e->sizes.stream_bytes;
    e->memory = memory_of(bytes);
    if (!e->memory) return no_memory(e->spec);
    return say(e->spec, pith_stream_init(e->plan, e->memory, bytes, options, &e->stream, &error),
               error.text) != PITH_OK;
}

int end_open(struct end *e, const char *spec, const pith_layout *layout, const pith_env *env,
             const pith_stream_options *options) {
    pith_error error = {.size = sizeof error};
    *e = (struct end){.spec = spec};
    if (say(spec, pith_plan_create(&e->plan, spec, layout, env, &error), error.text)) return 1;
    return open_rest(e, env, options);
}

int end_open_other(struct end *e, const struct end *of, const pith_stream_options *options) {
    *e = (struct end){.plan = of->plan, .spec = of->spec, .borrowed = 1};
    return open_rest(e, NULL, options);
}

int end_widen(struct end *e, const struct end *other) {
    const pith_plan *const plans[] = {e->plan, other->plan};
    return open_work(e, plans, 2, NULL);
}

void end_close(struct end *e) {
    if (!e->borrowed) pith_plan_destroy(e->plan);
    free(e->work_memory);
    free(e->memory);
    *e = (struct end){.spec = e->spec};
}

/* ---- Calls -----------------------------------------------------------------------------------*/

pith_status end_encode(struct end *e, const pith_view *view, void *frame, size_t capacity,
                       size_t *length) {
    pith_item item = {.size = sizeof item,
                      .stream = e->stream,
                      .view = *view,
                      .frame = frame,
                      .capacity = capacity};
    const pith_status status = pith_encode(e->work, &item, 1, 0);
    *length = item.length;
    return end_said(e, status);
}

pith_status end_decode(struct end *e, const void *frame, size_t length, const pith_view *view) {
    pith_item item = {.size = sizeof item,
                      .stream = e->stream,
                      .frame = (void *)(uintptr_t)frame,
                      .length = length};
    if (view) item.view = *view;
    return end_said(e, pith_decode(e->work, &item, 1, 0));
}

static pith_sum sum_of(const struct end *e, const void *const *frames, const size_t *lengths,
                       size_t count) {
    return (pith_sum){.size = sizeof(pith_sum),
                      .stream = e->stream,
                      .frames = frames,
                      .lengths = lengths,
                      .count = count};
}

pith_status end_reduce(struct end *e, const void *const *frames, const size_t *lengths,
                       size_t count, const pith_view *view) {
    pith_sum sum = sum_of(e, frames, lengths, count);
    sum.view = *view;
    return end_said(e, pith_reduce(e->work, &sum, 1));
}

pith_status end_reduce_encode(struct end *e, const void *const *frames, const size_t *lengths,
                              size_t count, struct end *out, void *frame, size_t capacity,
                              size_t *length) {
    const pith_sum sum = sum_of(e, frames, lengths, count);
    pith_item item = {
        .size = sizeof item, .stream = out->stream, .frame = frame, .capacity = capacity};
    const pith_status status = pith_reduce_encode(e->work, &sum, &item, 1);
    *length = item.length;
    return end_said(e, status);
}
