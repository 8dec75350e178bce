/* frame_header.h - where the fields of a frame's fixed header lie (doc/FORMAT.md, Header).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_FRAME_HEADER_H
#define PITHI_FRAME_HEADER_H

enum {
    PITHI_FORMAT_VERSION = 1,
    PITHI_MAGIC_BYTES = 4,
    PITHI_HEADER_BYTES = 64,       /* up to four dimensions of 32 bits */
    PITHI_WIDE_HEADER_BYTES = 112, /* up to eight of 64 bits */
    PITHI_FLAG_WIDE = 1,
    PITHI_FLAG_KEY = 2,
    PITHI_FLAG_CHECKSUMS = 4,
};

enum {
    PITHI_AT_VERSION = 4,
    PITHI_AT_CODEC = 5,
    PITHI_AT_REVISION = 6,
    PITHI_AT_DTYPE = 7,
    PITHI_AT_BASE_DTYPE = 8,
    PITHI_AT_NDIM = 9,
    PITHI_AT_BLOCK = 10,
    PITHI_AT_FLAGS = 11,
    PITHI_AT_SECTIONS = 12,
    PITHI_AT_PARAMS = 16,
    PITHI_AT_PAYLOAD = 32,
    PITHI_AT_DIMS = 40,
};

/* A section has a type, a length and a body. The body of the stream section, which comes first, has
 * the step, the base hash, rng_stream and flags. */
enum {
    PITHI_SECTION_HEAD = 8,
    PITHI_STREAM_STEP = 0,
    PITHI_STREAM_BASE = 8,
    PITHI_STREAM_ID = 16,
    PITHI_STREAM_FLAGS = 20,
    PITHI_STREAM_BYTES = 24
};

#endif
