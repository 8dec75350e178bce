/* decode.h - one frame of a compressed file back to the bytes of the original file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_DECODE_H
#define PITH_CLI_DECODE_H

#include "options.h"
#include "packed.h"

struct decoder {
    struct packed *packed;
    const char *base_path; /* NULL: none given */
    struct tensor_set bases;
    bool bases_open;
    pith_env env;
    struct scratch values;
    struct tensor_memory base;
};

/* The item's values as the original file held them, in d->values. Opens the base when the first
 * frame asks for it. Says what is wrong and returns an exit code. */
int decode(struct decoder *d, const struct packed_item *item);
void decoder_free(struct decoder *d);

#endif
