/* spec.h - codec settings as text and as the parameter bytes of a frame.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPEC_H
#define PITHI_SPEC_H

#include "codec.h"

/* Sets every key to its default. */
void pithi_params_default(struct pithi_params *params, const struct pithi_codec *codec);
/* Gives block=whole its size. */
void pithi_params_set_block(struct pithi_params *params, uint32_t block);
/* Checks the codec's rules across keys and dtypes. *detail is set on failure. */
pith_status pithi_params_check(const struct pithi_params *params, const char **detail);
/* Parses text into params (dtypes are left PITH_NONE). */
pith_status pithi_spec_parse(const char *text, struct pithi_params *params, pith_error *error);
/* Writes the canonical text, always ended by 0, cut when cap is too small. */
void pithi_spec_print(const struct pithi_params *params, char *text, size_t cap);

/* Write and read the parameter bytes and block size of a frame header. Keys that frames do not
 * record keep their defaults. unpack refuses values that a spec could not have and unused bytes
 * that are not 0. */
void pithi_params_pack(const struct pithi_params *params, uint8_t bytes[PITHI_PARAM_BYTES],
                       uint8_t *block_log2);
bool pithi_params_unpack(const struct pithi_codec *codec, const uint8_t bytes[PITHI_PARAM_BYTES],
                         uint8_t block_log2, struct pithi_params *params);
/* Sets the key of revisions so that the setting makes frames of this one, which is at most the
 * codec's; false when it never does. */
bool pithi_params_set_revision(struct pithi_params *params, uint8_t revision);
/* Whether two ends must agree on the key. Decoders take frames of every revision. */
static inline bool pithi_key_matters(const struct pithi_key *key) {
    return key->wire != PITHI_WIRE_NONE && key->wire != PITHI_WIRE_REVISION && !key->informative;
}
/* Whether two settings make frames of one kind: they are equal in all that decoding depends on. */
bool pithi_params_same(const struct pithi_params *a, const struct pithi_params *b);

#endif
