/* status.c - names, versions and dtypes: the parts of the API that know no tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/dtype.h"
#include "frame.h"
#include "pith/pith.h"

/* Every status and what it means. */
#define STATUSES(X)                                                             \
    X(PITH_OK, "success")                                                       \
    X(PITH_ERR_ARG, "an argument is outside what its text allows")              \
    X(PITH_ERR_SPEC, "the codec spec does not parse")                           \
    X(PITH_ERR_DTYPE, "the codec or the call does not take this dtype")         \
    X(PITH_ERR_SHAPE, "a view does not have the shape or count the call needs") \
    X(PITH_ERR_SPACE, "the memory given is too small")                          \
    X(PITH_ERR_LIMIT, "the frame declares more output than the limit")          \
    X(PITH_ERR_UNSUPPORTED, "valid, but this codec or build cannot do it")      \
    X(PITH_ERR_STATE, "the stream or channel cannot do this now")               \
    X(PITH_ERR_TRUNCATED, "the bytes end before the frame does")                \
    X(PITH_ERR_MAGIC, "not a pith frame")                                       \
    X(PITH_ERR_NEWER, "needs a newer pith")                                     \
    X(PITH_ERR_CORRUPT, "the frame is damaged")                                 \
    X(PITH_ERR_CHECKSUM, "a checksum differs")                                  \
    X(PITH_ERR_BASE, "the base is not the encoder's")                           \
    X(PITH_ERR_STEP, "the frame is of another step")                            \
    X(PITH_ERR_MISMATCH, "a valid frame of another plan")                       \
    X(PITH_ERR_MEMORY, "the allocator returned NULL")                           \
    X(PITH_ERR_RUNNER, "the caller's runner reported failure")                  \
    X(PITH_ERR_DEVICE, "the device's runtime reported failure")                 \
    X(PITH_ERR_TIMEOUT, "not all ranks took part in time")                      \
    X(PITH_ERR_TRANSPORT, "the transport of a channel failed")                  \
    X(PITH_ERR_BROKEN, "the channel failed before")                             \
    X(PITH_ERR_BUSY, "another call uses this work, stream, cache or channel")   \
    X(PITH_ERR_INTERNAL, "a bug in pith")

const char *pith_status_name(pith_status status) {
    switch (status) {
#define NAME(s, text) \
    case s: return #s;
        STATUSES(NAME)
#undef NAME
    }
    return "PITH_ERR_UNKNOWN";
}

const char *pith_status_text(pith_status status) {
    switch (status) {
#define TEXT(s, text) \
    case s: return text;
        STATUSES(TEXT)
#undef TEXT
    }
    return "a status that this pith does not know";
}

uint32_t pith_version(void) {
    return PITH_VERSION_MAJOR * 1000000u + PITH_VERSION_MINOR * 1000u + PITH_VERSION_PATCH;
}

uint32_t pith_format_version(void) { return PITHI_FORMAT_VERSION; }

static const char *const dtypes[] = {"none", "f32",  "bf16",   "f16",   "f64", "u8",
                                     "i8",   "u16",  "i16",    "u32",   "i32", "u64",
                                     "i64",  "bool", "f8e4m3", "f8e5m2"};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

size_t pith_dtype_bytes(uint32_t dtype) { return pithi_dtype_bytes(dtype); }

const char *pith_dtype_name(uint32_t dtype) {
    return dtypes[dtype < DTYPE_COUNT ? dtype : PITH_NONE];
}

uint32_t pith_dtype_from_name(const char *name) {
    for (uint32_t d = 1; name && d < DTYPE_COUNT; d++)
        if (strcmp(name, dtypes[d]) == 0) return d;
    return PITH_NONE;
}
