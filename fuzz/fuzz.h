/* fuzz.h - what the fuzz targets share: parameters from bytes, guarded memory, an environment.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An input is payload first, parameters last: a target takes what it decides from the end and
 * uses what is left as bytes, so that an input can be a file of the format under test with a few
 * bytes behind it. */
#ifndef PITH_FUZZ_H
#define PITH_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pith/pith.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                        \
    do {                                                             \
        if (!(condition)) fuzz_fail(#condition, __FILE__, __LINE__); \
    } while (0)
_Noreturn void fuzz_fail(const char *condition, const char *file, int line);

/* ---- Parameters ------------------------------------------------------------------------------*/
struct fuzz_source {
    const uint8_t *bytes;
    size_t length;
};
/* Zeros when the bytes are used up. */
uint8_t fuzz_u8(struct fuzz_source *s);
uint32_t fuzz_u32(struct fuzz_source *s);
/* The last bytes, cut off: they alone serve what is drawn from the result. */
struct fuzz_source fuzz_split(struct fuzz_source *s, size_t length);
/* 0..n-1. */
uint32_t fuzz_below(struct fuzz_source *s, uint32_t n);

/* ---- Memory whose end is guarded: ASan's red zone, else an inaccessible page -----------------*/
void *guard_new(size_t bytes);
void *guard_copy(const void *bytes, size_t length);
void guard_free(void *memory, size_t bytes);

/* ---- An environment that counts what it hands out, and may fail to ---------------------------*/
enum { FUZZ_OUTPUT_LIMIT = 1 << 20, FUZZ_HEAP_BLOCKS = 64 };
struct fuzz_env {
    pith_env env;
    uint32_t fail_at; /* this allocation fails; 0: none does */
    uint32_t allocations;
    size_t live;
    struct {
        void *memory;
        size_t bytes;
    } block[FUZZ_HEAP_BLOCKS];
};
/* Allocator and output limit; nothing fails. The struct must stay where it is. */
void fuzz_env_init(struct fuzz_env *e);
/* The same, with threads, CPU mask, runner and failing allocation drawn. */
void fuzz_env_draw(struct fuzz_env *e, struct fuzz_source *s);
/* Check that all memory came back. */
void fuzz_env_done(const struct fuzz_env *e);
/* A status that the arguments of the call can have caused. */
bool fuzz_is_status(pith_status status);
/* Runs the jobs last to first. */
int fuzz_run_backwards(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count);

/* ---- Specs and layouts, drawn from what the library says of its codecs -----------------------*/
enum { FUZZ_SLOTS_MAX = 5, FUZZ_COUNT_MAX = 6000, FUZZ_SOURCE_MAX = 40, FUZZ_EXEMPT_MAX = 5 };
struct fuzz_layout {
    char spec[PITH_SPEC_MAX];
    uint32_t traits;
    pith_layout layout;
    uint64_t slot_counts[FUZZ_SLOTS_MAX];
    uint8_t source[FUZZ_SOURCE_MAX];
    pith_exempt exempt[FUZZ_EXEMPT_MAX];
    uint64_t count;
};
/* The struct must stay where it is. Ranges of exempt elements are sometimes bad. */
void fuzz_draw_layout(struct fuzz_layout *l, struct fuzz_source *s);

/* ---- Views with strides, and values for them -------------------------------------------------*/
struct fuzz_tensor {
    pith_view view;
    uint64_t count;
    uint8_t *memory;
    size_t bytes;
};
/* dense: no padding and no negative strides. Memory is filled with a pattern. */
void fuzz_tensor_new(struct fuzz_tensor *t, struct fuzz_source *s, bool dense, uint32_t dtype,
                     uint32_t ndim, const uint64_t *shape);
void fuzz_tensor_free(struct fuzz_tensor *t);
/* Element number i in logical order. */
uint8_t *fuzz_at(const struct fuzz_tensor *t, uint64_t i);
/* Any bits, or floats of moderate size, made from s->bytes, which are not used up. */
void fuzz_fill(struct fuzz_tensor *t, struct fuzz_source *s);
bool fuzz_same(const struct fuzz_tensor *a, const struct fuzz_tensor *b);

/* ---- Frames ----------------------------------------------------------------------------------*/
/* Make the header checksum right, where there is a header, so that what it guards is reached. */
void fuzz_fix_frame(uint8_t *frame, size_t length);
/* Change some bytes as s says. */
void fuzz_patch(uint8_t *bytes, size_t length, struct fuzz_source *s);

/* ---- One end of a sequence of frames ---------------------------------------------------------*/
struct fuzz_end {
    pith_work *work;
    pith_stream *stream;
    void *work_memory, *memory;
    size_t work_bytes, bytes;
};
/* A work and a stream of the plan, in guarded memory of exactly the bytes that the library asks
 * for. options may be NULL. A build without OpenMP runs what threads were to run last to first. */
void fuzz_end_new(struct fuzz_end *e, const pith_plan *plan, const pith_env *env,
                  const pith_stream_options *options);
void fuzz_end_free(struct fuzz_end *e);

/* Lists of one item, whose status and error are compared with the call's. view may be NULL: only
 * the base is wanted. */
pith_status fuzz_encode(pith_work *work, pith_stream *stream, uint64_t slot, const pith_view *view,
                        uint32_t flags, void *frame, size_t capacity, size_t *length);
pith_status fuzz_decode(pith_work *work, pith_stream *stream, uint64_t slot, const void *frame,
                        size_t length, const pith_view *view, uint32_t flags);
/* What a list may answer: the status of the lowest item that failed, which the work's error names.
 * False after an argument that keeps the whole list from being worked on. */
bool fuzz_list_done(const pith_work *work, const pith_item *items, size_t count,
                    pith_status status);
/* Whether the status is one of the caller's arguments. */
bool fuzz_is_argument(pith_status status);

/* The base is what its hash says; settings without hashes have nothing to compare, nor have streams
 * without a base. */
bool fuzz_stream_holds(pith_work *work, const pith_stream *stream);
/* A sentence where a call failed, none where it succeeded. */
bool fuzz_error_fits(const pith_error *error, pith_status status);

#endif
