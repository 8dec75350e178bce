/* device.c - copies of streams between the CPU and a device.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include "marks.h"

int pithpy_cuda_pack(const pith_cuda_plan *cuda, pith_work *work, const pith_stream *host,
                     intptr_t *mark, void *bytes, size_t size, pith_error *error) {
    if (!enter(mark, false)) return PITH_ERR_BUSY;
    const pith_status status = pith_cuda_stream_pack(cuda, work, host, bytes, size, error);
    leave(mark, false);
    return status;
}

int pithpy_cuda_unpack(const pith_cuda_plan *cuda, pith_work *work, pith_stream *host,
                       intptr_t *mark, const void *bytes, size_t size, pith_error *error) {
    if (!enter(mark, false)) return PITH_ERR_BUSY;
    const pith_status status = pith_cuda_stream_unpack(cuda, work, host, bytes, size, error);
    leave(mark, false);
    return status;
}
