/* bad.c - frames that break one rule each, as changes to golden frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- The table, in the order of FORMAT.md, "What a decoder must reject" -----------------------*/

#define CORRUPT(n, f, ...)                                                         \
    {                                                                              \
        .name = n, .from = f, .wanted = PITH_ERR_CORRUPT, .patch = { __VA_ARGS__ } \
    }
#define NEWER(n, f, ...)                                                         \
    {                                                                            \
        .name = n, .from = f, .wanted = PITH_ERR_NEWER, .patch = { __VA_ARGS__ } \
    }
#define GOOD(n, f, ...)                                                   \
    {                                                                     \
        .name = n, .from = f, .wanted = PITH_OK, .patch = { __VA_ARGS__ } \
    }
#define CUT(n, f, l) \
    { .name = n, .from = f, .wanted = PITH_ERR_TRUNCATED, .length = l, .unsealed = true }

/* The second word of an entry of EXEMPT. */
#define RANGE(count, how) ((uint64_t)(how) << 60 | (count))

static const struct bad table[] = {
    {.name = "magic", .from = "raw-f32", .wanted = PITH_ERR_MAGIC, .patch = {{0, 1, 0xF0}}},
    {.name = "magic-last", .from = "raw-f32", .wanted = PITH_ERR_MAGIC, .patch = {{3, 1, 'h'}}},
    CORRUPT("version-0", "raw-f32", {4, 1, 0}),
    NEWER("version-2", "raw-f32", {4, 1, 2}),
    NEWER("version-255", "raw-f32", {4, 1, 255}),
    CUT("cut-empty", "raw-f32", -84),
    CUT("cut-magic", "raw-f32", 3),
    CUT("cut-header", "raw-f32", 63),
    CUT("cut-wide-header", "raw-wide", 100),
    CUT("cut-sections", "wdiff-base-f32", 80),
    CORRUPT("sections-not-16", "wdiff-base-f32", {12, 4, 33}),
    CORRUPT("sections-too-long", "wdiff-base-f32", {12, 4, 2097168}),
    {.name = "header-checksum",
     .from = "raw-f32",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{56, 1, 0}},
     .unsealed = true},
    {.name = "section-checksum",
     .from = "raw-source",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{72, 1, 'A'}},
     .unsealed = true},

    NEWER("flags-8", "raw-f32", {11, 1, 8}),
    NEWER("flags-128", "raw-f32", {11, 1, 128}),
    NEWER("codec-0", "raw-f32", {5, 1, 0}),
    NEWER("codec-200", "raw-f32", {5, 1, 200}),
    NEWER("revision-2", "wdiff-bits4", {6, 1, 2}),
    CORRUPT("revision-0", "wdiff-bits4", {6, 1, 0}),

    CORRUPT("raw-parameter", "raw-f32", {16, 1, 1}),
    CORRUPT("wdiff-parameter-6", "wdiff-bits4", {22, 1, 1}),
    CORRUPT("wdiff-parameter-15", "wdiff-bits4", {31, 1, 1}),
    CORRUPT("wdiff-bits-5", "wdiff-bits4", {16, 1, 5}),
    CORRUPT("wdiff-bits-1", "wdiff-bits4", {16, 1, 1}),
    CORRUPT("wdiff-bits-255", "wdiff-bits4", {16, 1, 255}),
    CORRUPT("wdiff-group-8", "wdiff-bits4", {17, 1, 3}),
    CORRUPT("wdiff-group-32768", "wdiff-bits4", {17, 1, 15}),
    CORRUPT("wdiff-group-255", "wdiff-bits4", {17, 1, 255}),
    CORRUPT("wdiff-rounding", "wdiff-bits4", {18, 1, 2}),
    CORRUPT("wdiff-scale", "wdiff-bits4", {19, 1, 2}),
    CORRUPT("wdiff-entropy", "wdiff-bits4", {20, 1, 2}),
    CORRUPT("wdiff-identity", "wdiff-bits4", {21, 1, 2}),
    CORRUPT("wdiff-block-below-group", "wdiff-bits4", {10, 1, 4}),
    CORRUPT("lossless-level-0", "lossless-f32", {16, 1, 0}),
    CORRUPT("lossless-level-20", "lossless-f32", {16, 1, 20}),
    CORRUPT("block-8", "raw-f32", {10, 1, 3}),
    CORRUPT("block-2-25", "raw-f32", {10, 1, 25}),
    CORRUPT("block-255", "raw-f32", {10, 1, 255}),
    CORRUPT("dtype-0", "raw-f32", {7, 1, 0}),
    CORRUPT("dtype-16", "raw-f32", {7, 1, 16}),
    CORRUPT("dtype-255", "raw-f32", {7, 1, 255}),
    CORRUPT("wdiff-dtype-u8", "wdiff-bits4", {7, 1, PITH_U8}),
    CORRUPT("wdiff-base-f64", "wdiff-base-f32", {8, 1, PITH_F64}),
    CORRUPT("wdiff-base-200", "wdiff-base-f32", {8, 1, 200}),
    CORRUPT("lossless-base-other", "lossless-base-bf16", {8, 1, PITH_F16}),
    CORRUPT("raw-base", "raw-f32", {8, 1, PITH_F32}),
    CORRUPT("key-without-base", "wdiff-bits4", {11, 1, 2}),

    CORRUPT("ndim-5", "raw-f32", {9, 1, 5}),
    CORRUPT("ndim-9", "raw-wide", {9, 1, 9}),
    CORRUPT("ndim-255", "raw-wide", {9, 1, 255}),
    CORRUPT("unused-dim", "raw-f32", {44, 4, 1}),
    CORRUPT("unused-wide-dim", "raw-wide", {80, 8, 1}),
    CORRUPT("count-2-64", "raw-f32", {9, 1, 2}, {40, 8, UINT64_MAX}),
    CORRUPT("count-2-96", "raw-f32", {9, 1, 3}, {40, 8, UINT64_MAX}, {48, 4, UINT32_MAX}),
    CORRUPT("count-times-0", "raw-f32", {9, 1, 3}, {40, 8, UINT64_MAX}, {32, 8, 0}),
    CORRUPT("count-2-60", "raw-wide", {40, 8, UINT64_C(1) << 60}),
    CORRUPT("wide-not-needed", "raw-wide", {9, 1, 4}, {72, 8, 0}),

    CORRUPT("section-type-0", "wdiff-base-blocks", {64, 4, 0}),
    CORRUPT("section-twice", "wdiff-base-blocks", {96, 4, 1}),
    CORRUPT("sections-swapped", "wdiff-base-blocks", {64, 4, 0x80000001u}, {96, 4, 1}),
    CORRUPT("section-too-long", "wdiff-base-blocks", {100, 4, 25}),
    CORRUPT("section-length-2-32", "wdiff-base-blocks", {100, 4, UINT32_MAX}),
    CORRUPT("section-padding", "wdiff-base-blocks", {127, 1, 1}),
    NEWER("section-unknown", "wdiff-base-blocks", {96, 4, 16}),
    NEWER("section-error-bound", "wdiff-base-blocks", {96, 4, 2}),
    NEWER("section-unknown-last", "wdiff-base-blocks", {96, 4, 0x7FFFFFFF}),
    GOOD("section-optional", "wdiff-base-blocks", {96, 4, 0x80000000u}),
    GOOD("section-optional-last", "wdiff-base-blocks", {96, 4, UINT32_MAX}),
    CORRUPT("stream-length", "wdiff-base-f32", {68, 4, 16}, {88, 8, 0}),
    CORRUPT("stream-flags", "wdiff-base-f32", {92, 4, 3}),
    CORRUPT("identity-not-declared", "wdiff-base-f32", {92, 4, 0}),
    CORRUPT("identity-missing", "wdiff-base-f32", {80, 8, 0}, {92, 4, 0}),
    CORRUPT("identity-against-parameter", "wdiff-base-f32", {21, 1, 1}),
    CORRUPT("source-empty", "raw-source", {68, 4, 0}, {72, 8, 0}, {80, 8, 0}, {88, 8, 0}),
    CORRUPT("stream-missing", "wdiff-bits4", {8, 1, PITH_F32}),
    CORRUPT("stream-without-base", "wdiff-base-f32", {8, 1, PITH_NONE}),

    CORRUPT("payload-short", "raw-f32", {32, 8, 19}),
    CORRUPT("payload-long", "raw-f32", {32, 8, 21}),
    CORRUPT("payload-0", "wdiff-bits4", {32, 8, 0}),
    CORRUPT("payload-2-64", "wdiff-bits4", {32, 8, UINT64_MAX}),
    CORRUPT("payload-2-62", "raw-f64", {9, 1, 2}, {40, 8, UINT64_C(0x2000000040000000)},
            {32, 8, UINT64_C(1) << 62}),
    CORRUPT("variable-payload-0", "lossless-f32", {32, 8, 0}),
    CORRUPT("variable-payload-15", "lossless-f32", {32, 8, 15}),
    CORRUPT("variable-payload-above", "lossless-f32", {32, 8, 617}),
    CUT("cut-payload", "raw-f32", -1),
    CUT("cut-variable-payload", "lossless-f32", -1),
    {.name = "huge",
     .from = "raw-f32",
     .wanted = PITH_ERR_TRUNCATED,
     .patch = {{40, 4, UINT32_MAX}, {32, 8, UINT64_C(4) * UINT32_MAX}}},

    CORRUPT("index-padding", "lossless-f32", {68, 1, 1}),
    CORRUPT("checksum-padding", "raw-blocks", {111, 1, 1}),
    CORRUPT("block-above-bound", "lossless-f32", {64, 4, 601}),
    CORRUPT("block-overruns", "lossless-i32", {64, 4, 790}),
    CORRUPT("blocks-do-not-fill", "lossless-f32", {64, 1, 1}),
    {.name = "blocks-leave-bytes",
     .from = "lossless-i32",
     .wanted = PITH_ERR_CORRUPT,
     .patch = {{32, 8, 189}},
     .length = 253},
    {.name = "block-checksum",
     .from = "raw-blocks",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{112, 1, 0}}},
    {.name = "last-block-checksum",
     .from = "wdiff-blocks",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{104, 1, 0}}},
    {.name = "wrong-base",
     .from = "wdiff-base-f32",
     .wanted = PITH_ERR_BASE,
     .patch = {{80, 8, 12345}}},
    {.name = "wrong-lossless-base",
     .from = "lossless-base-bf16",
     .wanted = PITH_ERR_BASE,
     .patch = {{80, 8, 0}}},

    CORRUPT("lossless-plain-length", "example-lossless", {99, 1, 0x80}),
    CORRUPT("lossless-width-3", "example-lossless", {112, 1, 0x13}),
    CORRUPT("lossless-head-bit", "example-lossless", {112, 1, 0x32}),
    CORRUPT("lossless-kind-4", "example-lossless", {113, 1, 4}),
    CORRUPT("lossless-sparse-short", "example-lossless", {113, 1, 3}),
    CORRUPT("lossless-piece-cut", "example-lossless", {113, 1, 2}),
    CORRUPT("lossless-bytes-left", "example-lossless", {113, 1, 1}),
    CORRUPT("lossless-escapes", "example-lossless", {116, 1, 0x80}),

    CORRUPT("embed-row-0", "example-embed", {24, 4, 0}),
    CORRUPT("embed-row-above", "example-embed", {24, 4, 16777217}),
    CORRUPT("embed-parameter-12", "example-embed", {28, 1, 1}),
    CORRUPT("embed-plain-length", "example-embed", {99, 1, 0x80}),
    CORRUPT("embed-head-bit-3", "example-embed", {112, 1, 0x09}),
    CORRUPT("embed-head-bit-6", "example-embed", {112, 1, 0x41}),
    CORRUPT("embed-map-kind-3", "example-embed", {112, 1, 0x03}),
    CORRUPT("embed-map-missing", "example-embed", {112, 1, 0x00}),
    CORRUPT("embed-map-one-row", "example-embed", {113, 1, 0}),
    CORRUPT("embed-map-all-new", "example-embed", {113, 1, 5}),
    CORRUPT("embed-more-than-rows", "example-embed", {113, 1, 6}),
    CORRUPT("embed-map-new-rows", "example-embed", {127, 1, 0x01}),
    CORRUPT("embed-map-later-row", "example-embed", {128, 1, 0x05}),
    CORRUPT("embed-map-bitmap-rest", "example-embed", {127, 1, 0x45}),
    CORRUPT("embed-map-numbers-rest", "example-embed", {128, 1, 0x14}),
    CORRUPT("embed-exact-count", "example-embed", {116, 1, 2}),
    CORRUPT("embed-exact-above", "example-embed", {116, 1, 25}),
    CORRUPT("embed-widths-descend", "example-embed", {129, 1, 5}),
    CORRUPT("embed-bytes-left", "example-embed", {129, 1, 3}),
    CORRUPT("embed-planes-cut", "example-embed", {129, 4, 0x05050505}),
    CORRUPT("embed-centres-cut", "example-embed", {112, 1, 0x31}),
    CORRUPT("embed-not-coded", "example-embed", {112, 1, 0x05}),
    CORRUPT("wdiff-entropy-string", "wdiff-entropy-6", {96, 4, UINT32_MAX}),
    {.name = "wdiff-entropy-short",
     .from = "wdiff-entropy-6",
     .wanted = PITH_ERR_CORRUPT,
     .patch = {{64, 4, 15}, {32, 8, 31}},
     .length = 95},
    {.name = "wdiff-entropy-plain",
     .from = "wdiff-entropy-6",
     .wanted = PITH_ERR_CORRUPT,
     .patch = {{67, 1, 0x80}}},

    NEWER("grad-revision-2", "grad-bits4", {6, 1, 2}),
    CORRUPT("grad-bits-1", "grad-bits4", {16, 1, 1}),
    CORRUPT("grad-bits-7", "grad-bits4", {16, 1, 7}),
    CORRUPT("grad-bits-9", "grad-bits4", {16, 1, 9}),
    CORRUPT("grad-group-16", "grad-rotate0", {17, 1, 4}),
    CORRUPT("grad-group-8192", "grad-default", {17, 1, 13}),
    CORRUPT("grad-group-255", "grad-default", {17, 1, 255}),
    CORRUPT("grad-rotate-3", "grad-default", {18, 1, 3}),
    CORRUPT("grad-rotate-16", "grad-default", {18, 1, 4}),
    CORRUPT("grad-rotate-512", "grad-rotate256", {18, 1, 9}),
    CORRUPT("grad-rotate-above-group", "grad-bits4", {18, 1, 6}),
    CORRUPT("grad-rounding-3", "grad-bits4", {19, 1, 3}),
    CORRUPT("grad-scale-3", "grad-bits4", {20, 1, 3}),
    CORRUPT("grad-search-2", "grad-bits4", {21, 1, 2}),
    CORRUPT("grad-search-stochastic", "grad-stochastic", {21, 1, 1}),
    CORRUPT("grad-search-antithetic", "grad-mse", {19, 1, 2}),
    CORRUPT("grad-parameter-6", "grad-bits4", {22, 1, 1}),
    CORRUPT("grad-parameter-7", "grad-bits4", {23, 1, 255}),
    CORRUPT("grad-parameter-12", "grad-bits4", {28, 1, 1}),
    CORRUPT("grad-parameter-15", "grad-bits4", {31, 1, 128}),
    CORRUPT("grad-signs-without-rotation", "grad-rotate0", {27, 1, 1}),
    CORRUPT("grad-block-below-group", "grad-rotate0", {10, 1, 5}),
    CORRUPT("grad-block-16", "grad-bits4", {10, 1, 4}),
    CORRUPT("grad-block-2-25", "grad-bits4", {10, 1, 25}),
    CORRUPT("grad-dtype-f64", "grad-bits4", {7, 1, PITH_F64}),
    CORRUPT("grad-base", "grad-bits4", {8, 1, PITH_F32}),
    CORRUPT("grad-key", "grad-bits4", {11, 1, 2}),
    CORRUPT("grad-stream", "example-grad", {64, 4, 1}, {68, 4, 24}, {12, 4, 32}, {92, 4, 1}),
    CORRUPT("grad-payload-short", "grad-bits4", {32, 8, 79}),
    CORRUPT("grad-payload-long", "grad-bits4", {32, 8, 112}),
    {.name = "grad-block-checksum",
     .from = "grad-blocks",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{96, 1, 0}}},

    CORRUPT("exempt-raw", "raw-source", {64, 4, 3}),
    CORRUPT("exempt-wdiff", "wdiff-base-blocks", {96, 4, 3}),
    CORRUPT("exempt-none", "example-grad", {12, 4, 16}, {68, 4, 0}, {72, 8, 0}),
    CORRUPT("exempt-length-24", "example-grad", {12, 4, 32}, {68, 4, 24}),
    CORRUPT("exempt-length-31", "example-grad", {68, 4, 31}),
    CORRUPT("exempt-too-long", "example-grad", {68, 4, 48}),
    CORRUPT("exempt-section-padding", "example-grad", {111, 1, 1}),
    CORRUPT("exempt-empty", "example-grad", {80, 8, RANGE(0, 2)}),
    CORRUPT("exempt-overlap", "example-grad", {88, 8, 3}),
    CORRUPT("exempt-twice", "example-grad", {88, 8, 1}),
    CORRUPT("exempt-descending", "example-grad", {72, 8, 38}, {80, 8, RANGE(2, 2)}, {88, 8, 1},
            {96, 8, RANGE(4, 1)}),
    CORRUPT("exempt-outside", "example-grad", {88, 8, 39}),
    CORRUPT("exempt-outside-first", "example-grad", {88, 8, 40}),
    CORRUPT("exempt-outside-far", "example-grad", {88, 8, UINT64_MAX}),
    CORRUPT("exempt-outside-wraps", "example-grad", {88, 8, UINT64_MAX - 1}),
    CORRUPT("exempt-outside-count", "example-grad", {96, 8, RANGE((UINT64_C(1) << 60) - 1, 1)}),
    CORRUPT("exempt-kind-0", "example-grad", {103, 1, 0}),
    CORRUPT("exempt-kind-3", "example-grad", {103, 1, 0x30}),
    CORRUPT("exempt-kind-9", "example-grad", {103, 1, 0x90}),
    GOOD("exempt-adjacent", "example-grad", {88, 8, 4}),
    CORRUPT("exempt-payload-without", "example-grad", {32, 8, 64}),
    CORRUPT("exempt-payload-long", "example-grad", {32, 8, 96}),
    CUT("cut-exempt", "example-grad", -1),
    CUT("cut-exempt-section", "example-grad", 100),
    CORRUPT("exempt-padding", "grad-exempt", {362, 1, 1}),
    CORRUPT("exempt-padding-last", "grad-exempt", {367, 1, 128}),
    CORRUPT("exempt-checksum-padding", "grad-exempt-nan", {143, 1, 1}),
    {.name = "exempt-checksum",
     .from = "grad-exempt",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{191, 1, 0}}},
    {.name = "exempt-value-checksum",
     .from = "grad-exempt",
     .wanted = PITH_ERR_CHECKSUM,
     .patch = {{361, 1, 0}}},
};

const struct bad *bad_at(size_t index) {
    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;
}

/* ---- Making ----------------------------------------------------------------------------------*/

void bad_seal(struct frame *f) {
    const size_t fixed = f->bytes[11] & 1 ? 112 : 64;
    uint32_t sections;
    memcpy(&sections, f->bytes + 12, 4);
    if (f->length < fixed + sections) return;
    const uint64_t hash = XXH64(f->bytes + fixed, sections, XXH64(f->bytes, fixed - 8, 0));
    memcpy(f->bytes + fixed - 8, &hash, 8);
}

struct frame bad_make(const struct bad *b, const struct frame *from) {
    const size_t length = b->length > 0 ? (size_t)b->length : 0;
    struct frame f = {room(from->length + length), from->length};
    memset(f.bytes, 0, from->length + length);
    memcpy(f.bytes, from->bytes, from->length);
    for (int i = 0; i < 4; i++) {
        const struct patch *p = &b->patch[i];
        uint8_t *at = f.bytes + p->at;
        CHECK(p->at + (size_t)p->width <= f.length);
        CHECK(p->width == 0 || memcmp(at, &p->value, (size_t)p->width) != 0);
        memcpy(at, &p->value, (size_t)p->width);
    }
    if (length) f.length = length;
    if (b->length < 0) f.length -= (size_t)-b->length;
    if (!b->unsealed) bad_seal(&f);
    return f;
}
