/* reduce.h - sums of decoded frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_REDUCE_H
#define PITHI_REDUCE_H

#include "stream.h"

/* view := view + decoded, in f32, rounded once. */
pith_status pithi_add_values(struct pithi_coding *c, const struct pithi_span *view);

/* A sum of frames. The work is attached to the plan of the output, with the plan of the stream as
 * its second; without an output to encode, to the plan of the stream alone. */
struct pithi_reduction {
    pith_work *work;
    pith_stream *stream; /* the stream of the frames, which counts them */
    uint64_t slot;
    const void *const *frames;
    const size_t *lengths;
    size_t count;
    float scale;
};
pith_status pithi_reduce_view(const struct pithi_reduction *r, const struct pithi_span *view);
/* Encodes the sum. `out` is an encoding of which all but the values is set; its results are filled
 * in. */
pith_status pithi_reduce_frame(const struct pithi_reduction *r, struct pithi_coding *out,
                               uint8_t *dst, size_t cap, size_t *written);

#endif
