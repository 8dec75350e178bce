/* items.h - the arguments that calls on items share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_ITEMS_H
#define PITHI_GPU_ITEMS_H

#include "plan.h"

/* Takes the caller's items, of which there is at least one, with status words. */
pith_status pithi_cuda_items_take(const pith_cuda_items *from, pith_cuda_items *to,
                                  pith_error *error);
/* Check that items have frames, and tensors where a slot has elements. */
pith_status pithi_cuda_items_frames(const pith_cuda_items *items, pith_error *error);
pith_status pithi_cuda_items_tensor(const pith_cuda_plan *c, const pith_cuda_items *items,
                                    pith_error *error);
/* Checks that items are not all of one slot where results depend on the stream: teams of an item
 * hand over what they have slot by slot, so that items of one slot would mix. Slots that lie on the
 * device are the caller's care. */
pith_status pithi_cuda_items_once(bool depends, const pith_cuda_items *items, pith_error *error);
/* Returns plan, stream and items as kernels see them. */
struct pithi_gpu_side pithi_cuda_side(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                      const pith_cuda_items *items);

#endif
