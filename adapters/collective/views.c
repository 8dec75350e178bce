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

/* ---- What is not finite ----------------------------------------------------------------------*/

enum { CHUNK = 256 }; /* elements */

static bool floats_finite(const void *values, uint64_t count) {
    const uint32_t *const x = values;
    uint32_t any = 0;
    for (uint64_t i = 0; i < count; i++) any |= (x[i] & 0x7F800000u) == 0x7F800000u;
    return !any;
}

/* infinity: the bits of +infinity, which are those of the exponent. */
static bool halves_finite(const void *values, uint64_t count, uint16_t infinity) {
    const uint16_t *const x = values;
    uint16_t any = 0;
    for (uint64_t i = 0; i < count; i++) any |= (x[i] & infinity) == infinity;
    return !any;
}

static bool run_finite(const void *values, uint64_t count, uint32_t dtype) {
    if (dtype == PITH_F32) return floats_finite(values, count);
    return halves_finite(values, count, dtype == PITH_BF16 ? 0x7F80 : 0x7C00);
}

bool pithi_collective_is_finite(const struct pithi_collective_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const pith_view *const view = &list->views[i];
        const uint64_t count = pith_view_count(view);
        const uint64_t width = pith_dtype_bytes(view->dtype);
        uint32_t close[CHUNK];
        pith_view run;
        bool finite = true;
        /* Elements that may be read as numbers where they lie are. */
        if (count && cut_view(view, 0, count, &run) && run.stride[0] == 1 &&
            (uintptr_t)run.data % width == 0) {
            if (!run_finite(run.data, count, view->dtype)) return false;
            continue;
        }
        for (uint64_t at = 0; at < count && finite; at += CHUNK) {
            const uint64_t n = count - at < CHUNK ? count - at : CHUNK;
            copy_run(view, at, n, (char *)close, true);
            finite = run_finite(close, n, view->dtype);
        }
        if (!finite) return false;
    }
    return true;
}

void pithi_collective_make_nan(const struct pithi_collective_list *list) {
    uint32_t close[CHUNK];
    for (size_t i = 0; i < list->count; i++) {
        const pith_view *const view = &list->views[i];
        const uint64_t count = pith_view_count(view);
        const uint32_t half = view->dtype == PITH_BF16 ? 0x7FC0u : 0x7E00u;
        for (int k = 0; k < CHUNK; k++)
            close[k] = view->dtype == PITH_F32 ? 0x7FC00000u : half << 16 | half;
        for (uint64_t at = 0; at < count; at += CHUNK)
            copy_run(view, at, count - at < CHUNK ? count - at : CHUNK, (char *)close, false);
    }
}
