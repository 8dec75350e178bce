/* status.c - names, versions and dtypes: the parts of the API that know no tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "frame.h"
#include "pith/pith.h"

const char *pith_status_name(pith_status status) {
    switch (status) {
#define NAME(s) \
    case s: return #s
        NAME(PITH_OK);
        NAME(PITH_ERR_ARG);
        NAME(PITH_ERR_SPEC);
        NAME(PITH_ERR_DTYPE);
        NAME(PITH_ERR_SHAPE);
        NAME(PITH_ERR_SPACE);
        NAME(PITH_ERR_LIMIT);
        NAME(PITH_ERR_UNSUPPORTED);
        NAME(PITH_ERR_STATE);
        NAME(PITH_ERR_TRUNCATED);
        NAME(PITH_ERR_MAGIC);
        NAME(PITH_ERR_NEWER);
        NAME(PITH_ERR_CORRUPT);
        NAME(PITH_ERR_CHECKSUM);
        NAME(PITH_ERR_BASE);
        NAME(PITH_ERR_STEP);
        NAME(PITH_ERR_MISMATCH);
        NAME(PITH_ERR_MEMORY);
        NAME(PITH_ERR_RUNNER);
        NAME(PITH_ERR_DEVICE);
        NAME(PITH_ERR_INTERNAL);
#undef NAME
    }
    return "PITH_ERR_UNKNOWN";
}

uint32_t pith_version(void) {
    return PITH_VERSION_MAJOR * 1000000u + PITH_VERSION_MINOR * 1000u + PITH_VERSION_PATCH;
}

uint32_t pith_format_version(void) { return PITHI_FORMAT_VERSION; }

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    {"none", 0}, {"f32", 4},  {"bf16", 2},   {"f16", 2},    {"f64", 8}, {"u8", 1},
    {"i8", 1},   {"u16", 2},  {"i16", 2},    {"u32", 4},    {"i32", 4}, {"u64", 8},
    {"i64", 8},  {"bool", 1}, {"f8e4m3", 1}, {"f8e5m2", 1},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

size_t pith_dtype_bytes(uint32_t dtype) { return dtype < DTYPE_COUNT ? dtypes[dtype].bytes : 0; }

const char *pith_dtype_name(uint32_t dtype) {
    return dtypes[dtype < DTYPE_COUNT ? dtype : PITH_NONE].name;
}

uint32_t pith_dtype_from_name(const char *name) {
    for (uint32_t d = 1; name && d < DTYPE_COUNT; d++)
        if (strcmp(name, dtypes[d].name) == 0) return d;
    return PITH_NONE;
}
