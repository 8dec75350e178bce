/* oneshot.h - checks of decoding that streams and one-shot calls share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_ONESHOT_H
#define PITHI_ONESHOT_H

#include "frame_codec.h"

/* PITH_ERR_BASE unless c->base has the frame's base hash. Reads all of the base. */
pith_status pithi_check_base_hash(struct pithi_coding *c);
/* Checks that a key frame, decoded to its end with `update`, brought the base whose hash it
 * carries. */
pith_status pithi_check_key(const struct pithi_coding *c);

#endif
