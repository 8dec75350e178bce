/* end.c - works, streams and lists of items of fuzz targets.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"

void fuzz_end_new(struct fuzz_end *e, const pith_plan *plan, const pith_env *env,
                  const pith_stream_options *options) {
    pith_env own = *env;
    pith_sizes sizes = {.size = sizeof sizes};
    pith_error error = {.size = sizeof error};
    FUZZ_CHECK(pith_plan_sizes(plan, &sizes) == PITH_OK && sizes.stream_bytes > 0);
    *e = (struct fuzz_end){.work_bytes = (size_t)pith_work_bytes(&plan, 1, env->threads),
                           .bytes = (size_t)sizes.stream_bytes};
    e->work_memory = guard_new(e->work_bytes);
    e->memory = guard_new(e->bytes);
    memset(e->work_memory, 0xA5, e->work_bytes); /* the library must not count on zeros */
    memset(e->memory, 0xA5, e->bytes);
    pith_status status = pith_work_init(e->work_memory, e->work_bytes, &own, &e->work, &error);
    FUZZ_CHECK(fuzz_error_fits(&error, status));
    if (status == PITH_ERR_UNSUPPORTED && own.threads > 1 && !own.run) {
        own.run = fuzz_run_backwards;
        status = pith_work_init(e->work_memory, e->work_bytes, &own, &e->work, &error);
    }
    FUZZ_CHECK(status == PITH_OK);
    FUZZ_CHECK(pith_stream_init(plan, e->memory, e->bytes, options, &e->stream, &error) == PITH_OK);
    FUZZ_CHECK(pith_stream_plan(e->stream) == plan);
}

void fuzz_end_free(struct fuzz_end *e) {
    guard_free(e->work_memory, e->work_bytes);
    guard_free(e->memory, e->bytes);
}

/* ---- Lists -----------------------------------------------------------------------------------*/

bool fuzz_is_argument(pith_status status) { return status <= -1 && status >= -19; }

bool fuzz_list_done(const pith_work *work, const pith_item *items, size_t count,
                    pith_status status) {
    size_t first = 0;
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(pith_work_error(work), status));
    if (fuzz_is_argument(status)) return false;
    while (first < count && items[first].status == PITH_OK) first++;
    FUZZ_CHECK(status == (first < count ? items[first].status : PITH_OK));
    FUZZ_CHECK(pith_work_error(work)->item == (first < count ? first : 0));
    return true;
}

static pith_status answer(const pith_work *work, const pith_item *item, pith_status status) {
    FUZZ_CHECK(item->status == status && pith_work_error(work)->item == 0);
    (void)fuzz_list_done(work, item, 1, status);
    return status;
}

pith_status fuzz_encode(pith_work *work, pith_stream *stream, uint64_t slot, const pith_view *view,
                        uint32_t flags, void *frame, size_t capacity, size_t *length) {
    pith_item item = {.size = sizeof item,
                      .stream = stream,
                      .slot = slot,
                      .view = *view,
                      .frame = frame,
                      .capacity = capacity,
                      .length = SIZE_MAX,
                      .status = PITH_ERR_INTERNAL};
    const pith_status status = answer(work, &item, pith_encode(work, &item, 1, flags));
    FUZZ_CHECK((item.length == 0) == (status != PITH_OK) && item.length <= capacity);
    *length = item.length;
    return status;
}

pith_status fuzz_decode(pith_work *work, pith_stream *stream, uint64_t slot, const void *frame,
                        size_t length, const pith_view *view, uint32_t flags) {
    pith_item item = {.size = sizeof item,
                      .stream = stream,
                      .slot = slot,
                      .frame = (void *)(uintptr_t)frame,
                      .length = length,
                      .status = PITH_ERR_INTERNAL};
    if (view) item.view = *view;
    return answer(work, &item, pith_decode(work, &item, 1, flags));
}

/* ---- Answers ---------------------------------------------------------------------------------*/

bool fuzz_stream_holds(pith_work *work, const pith_stream *stream) {
    const pith_status status = pith_stream_verify(work, stream);
    pith_sizes sizes = {.size = sizeof sizes};
    FUZZ_CHECK(pith_plan_sizes(pith_stream_plan(stream), &sizes) == PITH_OK);
    if (!sizes.key_bytes) return status == PITH_ERR_STATE;
    return status == (pith_stream_base_hash(stream, 0) ? PITH_OK : PITH_ERR_UNSUPPORTED);
}

bool fuzz_error_fits(const pith_error *error, pith_status status) {
    return memchr(error->text, 0, sizeof error->text) &&
           (status == PITH_OK) == (error->text[0] == 0);
}
