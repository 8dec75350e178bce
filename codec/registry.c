/* registry.c - the registry's table of codecs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codec.h"

#define PITH_KERNEL(folder, name, isa)
#define PITH_CODEC(id, name) extern const struct pithi_codec pithi_codec_##name;
#include "registry.def"
#undef PITH_CODEC

static const struct pithi_codec *const codecs[] = {
#define PITH_CODEC(id, name) &pithi_codec_##name,
#include "registry.def"
#undef PITH_CODEC
};
enum { CODEC_COUNT = sizeof codecs / sizeof codecs[0] };

/* Two codecs of one number make two equal cases, which do not compile. */
const struct pithi_codec *pithi_codec_by_id(uint32_t id) {
    switch (id) {
#define PITH_CODEC(id, name) \
    case id:                 \
        return &pithi_codec_##name;
#include "registry.def"
#undef PITH_CODEC
    }
    return NULL;
}

const struct pithi_codec *pithi_codec_by_index(uint32_t index) {
    return index < CODEC_COUNT ? codecs[index] : NULL;
}

const struct pithi_codec *pithi_codec_by_name(const char *name, size_t length) {
    for (uint32_t i = 0; i < CODEC_COUNT; i++)
        if (strlen(codecs[i]->name) == length && memcmp(codecs[i]->name, name, length) == 0)
            return codecs[i];
    return NULL;
}

void pithi_params_set_stream(struct pithi_params *params) {
    const struct pithi_codec *const codec = params->codec;
    params->stream = codec->stream_setting ? codec->stream_setting(params)
                                           : (struct pithi_stream_setting){.base_hash = true};
}
