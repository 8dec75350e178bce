/* no_zstd.c - zstd of machines that programs are only counted for: no string gets shorter.
 * SPDX-License-Identifier: Apache-2.0
 *
 * tools/instructions.py links this in place of the library when it compiles for another
 * architecture, for which distributions have headers at hand but no archive. Codecs take another
 * coder then, or none, and every frame that they make can be read again. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

/* The code of a place that is too small, as zstd returns errors. */
static size_t too_small(void) { return (size_t)-ZSTD_error_dstSize_tooSmall; }

unsigned ZSTD_isError(size_t code) { return code > (size_t)-ZSTD_error_maxCode; }

ZSTD_ErrorCode ZSTD_getErrorCode(size_t code) {
    return ZSTD_isError(code) ? (ZSTD_ErrorCode)(0 - code) : ZSTD_error_no_error;
}

ZSTD_compressionParameters ZSTD_getCParams(int level, unsigned long long size, size_t dictionary) {
    (void)level, (void)size, (void)dictionary;
    return (ZSTD_compressionParameters){0};
}

size_t ZSTD_estimateCCtxSize_usingCParams(ZSTD_compressionParameters p) {
    (void)p;
    return 8;
}

size_t ZSTD_estimateDCtxSize(void) { return 8; }

/* Contexts are the memory that they were given, and hold nothing. */
ZSTD_CCtx *ZSTD_initStaticCCtx(void *memory, size_t bytes) {
    (void)bytes;
    return memory;
}

ZSTD_DCtx *ZSTD_initStaticDCtx(void *memory, size_t bytes) {
    (void)bytes;
    return memory;
}

size_t ZSTD_CCtx_reset(ZSTD_CCtx *c, ZSTD_ResetDirective what) {
    (void)c, (void)what;
    return 0;
}

size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *c, ZSTD_cParameter name, int value) {
    (void)c, (void)name, (void)value;
    return 0;
}

size_t ZSTD_DCtx_setParameter(ZSTD_DCtx *c, ZSTD_dParameter name, int value) {
    (void)c, (void)name, (void)value;
    return 0;
}

size_t ZSTD_compress2(ZSTD_CCtx *c, void *dst, size_t cap, const void *src, size_t n) {
    (void)c, (void)dst, (void)cap, (void)src, (void)n;
    return too_small();
}

size_t ZSTD_decompressDCtx(ZSTD_DCtx *c, void *dst, size_t cap, const void *src, size_t n) {
    (void)c, (void)dst, (void)cap, (void)src, (void)n;
    return (size_t)-ZSTD_error_corruption_detected;
}

size_t ZSTD_getFrameHeader_advanced(ZSTD_frameHeader *head, const void *src, size_t n,
                                    ZSTD_format_e format) {
    (void)head, (void)src, (void)n, (void)format;
    return (size_t)-ZSTD_error_corruption_detected;
}
