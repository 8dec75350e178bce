/* device.h - copies of streams between the CPU and a device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_PYTHON_DEVICE_H
#define PITH_PYTHON_DEVICE_H

#include "pith/pith_cuda.h"

/* pith_cuda_stream_pack and _unpack; mark is that of the stream on the CPU, as in helpers.h. */
int pithpy_cuda_pack(const pith_cuda_plan *cuda, pith_work *work, const pith_stream *host,
                     intptr_t *mark, void *bytes, size_t size, pith_error *error);
int pithpy_cuda_unpack(const pith_cuda_plan *cuda, pith_work *work, pith_stream *host,
                       intptr_t *mark, const void *bytes, size_t size, pith_error *error);

#endif
