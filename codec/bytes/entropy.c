/* entropy.c - zstd in caller's memory, with settings for the noise that tensors are made of.
 * SPDX-License-Identifier: Apache-2.0 */
#define ZSTD_STATIC_LINKING_ONLY
#include "bytes/entropy.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "bytes/rans.h"
#include "common/minmax.h"
#include "common/pad.h"

/* ---- Settings --------------------------------------------------------------------------------*/

/* Symbols of numbers are almost noise: short matches cost more than the literals that they
 * replace, and a large table is cleared for nothing. So the first attempt at any effort is Huffman
 * coding with a quick look for long matches. */
static ZSTD_compressionParameters noise(size_t n) {
    ZSTD_compressionParameters p = ZSTD_getCParams(1, n, 0);
    p.strategy = ZSTD_fast;
    p.minMatch = 7;
    p.targetLength = 1;
    if (p.hashLog > 13) p.hashLog = 13;
    return p;
}

/* Settings for strings in which neighbours say nothing: a table of 64 places finds what repeats
 * anyway. */
static ZSTD_compressionParameters bare(size_t n) {
    ZSTD_compressionParameters p = noise(n);
    p.targetLength = 8;
    p.hashLog = 6;
    return p;
}

/* ---- Memory: this, with tables of rANS strings, then the context -----------------------------*/

enum made { NOTHING, READER, WRITER };
struct pithi_entropy {
    enum made made; /* what the memory holds and can be used again */
    size_t capacity;
    struct pithi_rans rans;
};
enum { HEAD = (sizeof(struct pithi_entropy) + 63) / 64 * 64 };

static void *context_of(struct pithi_entropy *e) { return (uint8_t *)e + HEAD; }

static size_t context_bytes(size_t n, int effort) {
    const size_t quick = ZSTD_estimateCCtxSize_usingCParams(noise(n));
    if (effort < PITHI_EFFORT_SEARCH) return quick;
    return pithi_max(quick, ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(effort, n, 0)));
}

/* Returns the memory that every string of at most max_bytes suffices with. zstd has one table of
 * settings for each class of sizes; within a class they grow with the size. */
size_t pithi_entropy_bytes(size_t max_bytes, int effort) {
    static const size_t classes[] = {16u << 10, 128u << 10, 256u << 10};
    if (effort == PITHI_EFFORT_RANS) return HEAD;
    size_t most = ZSTD_estimateDCtxSize();
    if (effort == PITHI_EFFORT_NONE) return HEAD + (size_t)pithi_pad64(most);
    most = pithi_max(most, context_bytes(max_bytes, effort));
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (classes[i] < max_bytes) most = pithi_max(most, context_bytes(classes[i], effort));
    return HEAD + (size_t)pithi_pad64(most);
}

struct pithi_entropy *pithi_entropy_open(void *memory, size_t bytes) {
    struct pithi_entropy *const e = memory;
    e->made = NOTHING;
    e->capacity = bytes - HEAD;
    return e;
}

struct pithi_rans *pithi_entropy_rans(struct pithi_entropy *e) {
    return &e->rans;
}

/* ---- Write -----------------------------------------------------------------------------------*/

static bool apply(ZSTD_CCtx *context, const ZSTD_compressionParameters *p) {
    const struct {
        ZSTD_cParameter name;
        int value;
    } rows[] = {
        {ZSTD_c_format, ZSTD_f_zstd1_magicless},
        {ZSTD_c_contentSizeFlag, 1},        /* is off in a static context that was not reset */
        {ZSTD_c_literalCompressionMode, 1}, /* tries Huffman always, also with ZSTD_fast */
        {ZSTD_c_windowLog, (int)p->windowLog},
        {ZSTD_c_hashLog, (int)p->hashLog},
        {ZSTD_c_chainLog, (int)p->chainLog},
        {ZSTD_c_searchLog, (int)p->searchLog},
        {ZSTD_c_minMatch, (int)p->minMatch},
        {ZSTD_c_targetLength, (int)p->targetLength},
        {ZSTD_c_strategy, (int)p->strategy},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (ZSTD_isError(ZSTD_CCtx_setParameter(context, rows[i].name, rows[i].value)))
            return false;
    return true;
}

/* Opens a context for writing. The tables of the string before stay in it: with ZSTD_fast they hold
 * positions, and one that lies before the string counts for nothing; what other strategies keep
 * might change the bytes, so that they get a new context. */
static ZSTD_CCtx *writer(struct pithi_entropy *e, const ZSTD_compressionParameters *p) {
    const bool again = e->made == WRITER && p->strategy == ZSTD_fast;
    ZSTD_CCtx *const context =
        again ? context_of(e) : ZSTD_initStaticCCtx(context_of(e), e->capacity);
    e->made = NOTHING;
    /* Without the reset a context that ran out of space would go on there. */
    if (!context || ZSTD_isError(ZSTD_CCtx_reset(context, ZSTD_reset_session_only)) ||
        !apply(context, p))
        return NULL;
    if (p->strategy == ZSTD_fast) e->made = WRITER;
    return context;
}

/* Returns the length, or an error of zstd. */
static size_t compress(struct pithi_entropy *e, const ZSTD_compressionParameters *p,
                       const uint8_t *src, size_t n, uint8_t *dst, size_t cap) {
    ZSTD_CCtx *const context = writer(e, p);
    return context ? ZSTD_compress2(context, dst, cap, src, n) : (size_t)-ZSTD_error_GENERIC;
}

/* Returns the length; 0 when it would be more than cap bytes. */
static size_t press(struct pithi_entropy *e, const ZSTD_compressionParameters *p,
                    const uint8_t *src, size_t n, uint8_t *dst, size_t cap) {
    size_t length = compress(e, p, src, n, dst, cap);
    if (ZSTD_isError(length) && ZSTD_getErrorCode(length) != ZSTD_error_dstSize_tooSmall) {
        e->made = NOTHING; /* some versions tire of memory that is far more than they need */
        length = compress(e, p, src, n, dst, cap);
    }
    return ZSTD_isError(length) ? 0 : length;
}

size_t pithi_entropy_pack(struct pithi_entropy *e, int effort, const uint8_t *src, size_t n,
                          uint8_t *dst, size_t cap) {
    if (cap >= n) cap = n - (n > 0);
    if (cap == 0 || effort <= PITHI_EFFORT_NONE) return 0;
    const ZSTD_compressionParameters quick = effort & PITHI_ENTROPY_BARE ? bare(n) : noise(n);
    effort &= ~PITHI_ENTROPY_BARE;
    const size_t length = press(e, &quick, src, n, dst, cap);
    if (effort < PITHI_EFFORT_SEARCH) return length;
    const ZSTD_compressionParameters slow = ZSTD_getCParams(effort, n, 0);
    const size_t better = press(e, &slow, src, n, dst, length ? length - 1 : cap);
    if (better || !length) return better;
    return press(e, &quick, src, n, dst, cap);
}

/* ---- Read ------------------------------------------------------------------------------------*/

/* A reader takes what any version and build of zstd writes; no string is longer than this
 * window. */
enum { WINDOW_MOST = 1 << 24 };

/* Whether the blocks of the frame whose header has `at` bytes end exactly at len. */
static bool single_frame(const uint8_t *src, size_t len, size_t at) {
    for (;;) {
        if (len - at < 3) return false;
        const uint32_t head = src[at] | (uint32_t)src[at + 1] << 8 | (uint32_t)src[at + 2] << 16;
        const size_t body = (head >> 1 & 3) == 1 ? 1 : head >> 3; /* 1: one byte, repeated */
        at += 3;
        if (body > len - at) return false;
        at += body;
        if (head & 1) return at == len;
    }
}

/* Opens a context for reading, which keeps nothing of the strings before. */
static ZSTD_DCtx *reader(struct pithi_entropy *e) {
    if (e->made == READER) return context_of(e);
    ZSTD_DCtx *const context = ZSTD_initStaticDCtx(context_of(e), e->capacity);
    e->made = NOTHING;
    if (!context ||
        ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_format, ZSTD_f_zstd1_magicless)))
        return NULL;
    e->made = READER;
    return context;
}

bool pithi_entropy_unpack(struct pithi_entropy *e, const uint8_t *src, size_t len, uint8_t *dst,
                          size_t n) {
    ZSTD_frameHeader head;
    if (!e->capacity) return false; /* opened for rANS strings only */
    if (ZSTD_getFrameHeader_advanced(&head, src, len, ZSTD_f_zstd1_magicless) != 0) return false;
    if (head.frameContentSize != n || head.dictID || head.checksumFlag) return false;
    if (head.windowSize > WINDOW_MOST) return false;
    if (!single_frame(src, len, head.headerSize)) return false;
    ZSTD_DCtx *const context = reader(e);
    return context && ZSTD_decompressDCtx(context, dst, n, src, len) == n;
}
