/* views.c - runs of elements of lists of tensors, in row-major order, tensor after tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* Finds the distance between neighbours, if all are equally far apart. */
static bool flat_stride(const pith_view *view, int64_t *stride) {
    bool first = true;
    int64_t inner = 1, extent = 1;
    for (uint32_t k = view->ndim; k-- > 0;) {
        if (view->shape[k] == 1) continue;
        if (!first && view->stride[k] != inner * extent) return false;
        if (first) inner = view->stride[k];
        extent *= (int64_t)view->shape[k];
        first = false;
    }
    *stride = inner;
    return true;
}

static bool cut_view(const pith_view *view, uint64_t first, uint64_t count, pith_view *run) {
    int64_t stride;
    if (!flat_stride(view, &stride)) return false;
    const int64_t bytes = (int64_t)pith_dtype_bytes(view->dtype);
    char *data = view->data;
    *run = pith_view_flat(data + (int64_t)first * stride * bytes, view->dtype, count);
    run->stride[0] = stride;
    return true;
}

/* Returns the tensor that element *first of the list is in, and sets *first to its number there.
 * Empty tensors have no elements. */
static size_t find(const struct pithi_collective_list *list, uint64_t *first) {
    size_t i = 0;
    for (uint64_t own; (own = pith_view_count(&list->views[i])) <= *first; i++) *first -= own;
    return i;
}

bool pithi_collective_cut(const struct pithi_collective_list *list, uint64_t first, uint64_t count,
                          pith_view *run) {
    const pith_view *const view = &list->views[find(list, &first)];
    return count <= pith_view_count(view) - first && cut_view(view, first, count, run);
}

/* ---- Copies ----------------------------------------------------------------------------------*/

static void copy(char *element, char *close, size_t bytes, bool pack) {
    memcpy(pack ? close : element, pack ? element : close, bytes);
}

/* Copies elements [first, first + count) of one tensor to or from memory where they lie close
 * together. */
static void copy_run(const pith_view *view, uint64_t first, uint64_t count, char *close,
                     bool pack) {
    const size_t bytes = pith_dtype_bytes(view->dtype);
    pith_view run;
    if (cut_view(view, first, count, &run) && run.stride[0] == 1) {
        copy(run.data, close, count * bytes, pack);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = first + i;
        int64_t at = 0;
        for (uint32_t k = view->ndim; k-- > 0; rest /= view->shape[k])
            at += (int64_t)(rest % view->shape[k]) * view->stride[k];
        copy((char *)view->data + at * (int64_t)bytes, close + i * bytes, bytes, pack);
    }
}

static void copy_list(const struct pithi_collective_list *list, uint64_t first, uint64_t count,
                      char *close, bool pack) {
    size_t i = find(list, &first);
    for (; count; i++, first = 0) {
        const pith_view *const view = &list->views[i];
        const uint64_t left = pith_view_count(view) - first, run = left < count ? left : count;
        if (run) copy_run(view, first, run, close, pack);
        close += run * pith_dtype_bytes(view->dtype);
        count -= run;
    }
}

void pithi_collective_pack(const struct pithi_collective_list *list, uint64_t first, uint64_t count,
                           void *to) {
    copy_list(list, first, count, to, true);
}

void pithi_collective_unpack(const struct pithi_collective_list *list, uint64_t first,
                             uint64_t count, void *from) {
    copy_list(list, first, count, from, false);
}
