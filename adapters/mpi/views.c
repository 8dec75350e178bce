/* views.c - pieces of views: runs of elements in row-major order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* The distance between neighbours when all are equally far apart. */
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

/* Elements [first, first + count) as a view of one dimension; false when they are scattered. */
bool pithi_mpi_cut(const pith_view *view, uint64_t first, uint64_t count, pith_view *piece) {
    int64_t stride;
    if (!flat_stride(view, &stride)) return false;
    const int64_t bytes = (int64_t)pith_dtype_bytes(view->dtype);
    char *data = view->data;
    *piece = pith_view_flat(data + (int64_t)first * stride * bytes, view->dtype, count);
    piece->stride[0] = stride;
    return true;
}

/* The same elements, copied close together. */
void pithi_mpi_pack(const pith_view *view, uint64_t first, uint64_t count, void *to) {
    const size_t bytes = pith_dtype_bytes(view->dtype);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = first + i;
        int64_t at = 0;
        for (uint32_t k = view->ndim; k-- > 0; rest /= view->shape[k])
            at += (int64_t)(rest % view->shape[k]) * view->stride[k];
        memcpy((char *)to + i * bytes, (const char *)view->data + at * (int64_t)bytes, bytes);
    }
}
