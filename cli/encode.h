/* encode.h - one tensor to one frame.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_ENCODE_H
#define PITH_CLI_ENCODE_H

#include "choose.h"

struct encoder {
    const char *path; /* the input's path, for messages */
    pith_env env;
    struct scratch frame;
    struct tensor_memory values, base;
};

struct encoded {
    const uint8_t *frame; /* lies in the encoder's scratch until the next call */
    size_t bytes;
    pith_info info;
    double bound, seconds;
};

/* Sets the length of the largest frame that encode may make of the tensor, whatever becomes of a
 * lossy choice. */
int encode_bound(const char *path, const struct tensor *tensor, const struct choice *choice,
                 size_t source_bytes, uint64_t *bytes);
/* Encodes a tensor. The choice becomes lossless when the tensor, or its difference to the base,
 * holds values that a lossy codec would not keep, and raw when the codec saves nothing. Fails
 * (said) with an exit code. */
int encode(struct encoder *e, const struct tensor *tensor, struct choice *choice,
           const void *source, size_t source_bytes, struct encoded *out);
void encoder_free(struct encoder *e);

#endif
