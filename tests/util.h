/* util.h - what every test program uses: checks with context, reference conversions, streams.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_UTIL_H
#define PITH_TESTS_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pith/pith.h"

/* ---- Checks: the context that a table-driven loop has set is printed with a failure ---------- */
void context(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check_failed(const char *what, const char *file, int line);
void check_status(pith_status got, pith_status wanted, const char *what, const char *file,
                  int line);

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) check_failed(#condition, __FILE__, __LINE__); \
    } while (0)
#define CHECK_STATUS(wanted, call) check_status((call), (wanted), #call, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_STATUS(PITH_OK, call)

/* ---- Memory ----------------------------------------------------------------------------------*/
/* Never NULL. Exactly `bytes`, so that a sanitizer sees the first byte beyond. */
void *allocate(size_t bytes);
void *copy_of(const void *bytes, size_t count);
bool all_bytes(const void *p, size_t count, uint8_t value);

/* ---- Environment -----------------------------------------------------------------------------*/
/* Zero, with the CPU mask of the environment variable PITH_TEST_CPU_MASK. */
pith_env test_env(void);
/* The environment variable PITH_TEST_STEP, or `otherwise`: what is damaged in every place, or tried
 * in every way, is so in one of so many. Sanitizers and CPU masks show with a sample what they are
 * for. */
size_t test_step(size_t otherwise);
/* Whether case `number` of a product belongs to the sample: one in `of` where PITH_TEST_STEP is
 * set, and fewer where it is some times 193 (of 1: only there); else all. Scattered, so that every
 * row and every column of the product is met. */
bool is_sampled(uint64_t number, uint64_t of);
/* How many of `all` random cases are tried: where PITH_TEST_STEP is set, one in eight. */
size_t sample_of(size_t all);
/* Runs jobs last to first on the calling thread; `user` is not used. */
int run_backwards(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count);

/* ---- Numbers, written apart from the library -------------------------------------------------*/
uint32_t bits_of(float x);
float float_of(uint32_t bits);
/* Element i of a float array, widened to f32 bits; exact. */
uint32_t load_float(const void *p, uint32_t dtype, size_t i);
/* Round f32 bits to the dtype (nearest even, overflow to infinity, NaN canonical) and store. */
void store_float(void *p, uint32_t dtype, size_t i, uint32_t bits);
bool nonfinite(uint32_t f32_bits);
/* Element i of an array of f32, bf16, f16 or f64; exact but for payloads of NaN. */
double load_real(const void *p, uint32_t dtype, size_t i);
/* |x - y| <= bound in exact arithmetic; without rounding on the way. */
bool within_bound(double x, double y, double bound);
/* |x - y| <= share |x|, as exact. */
bool within_share(double x, double y, double share);
/* Largest finite value of the dtype as f32 bits. */
uint32_t largest_of(uint32_t dtype);
/* "Updating a base" of FORMAT.md on widened bits. */
uint32_t reference_update(uint32_t base, uint32_t x, uint32_t base_dtype, uint64_t *saturated);

/* ---- Layouts, frames, streams ----------------------------------------------------------------*/
pith_layout flat_layout(uint32_t dtype, uint32_t base_dtype, uint64_t count);

struct frame {
    uint8_t *bytes; /* from allocate() */
    size_t length;
};
/* pith_compress with a fresh buffer cut to the exact length; must succeed. */
struct frame compress(const char *spec, const pith_view *view, const pith_view *base,
                      uint32_t flags);
size_t header_of(const struct frame *frame);

/* ---- Lists of one item, argument by argument -------------------------------------------------*/
pith_status encode_one(pith_work *work, pith_stream *stream, const pith_view *view, uint64_t slot,
                       uint32_t flags, void *dst, size_t cap, size_t *written);
/* view may be NULL: only the base is wanted. */
pith_status decode_one(pith_work *work, pith_stream *stream, uint64_t slot, const void *frame,
                       size_t bytes, const pith_view *view, uint32_t flags);
pith_status reduce_one(pith_work *work, pith_stream *stream, uint64_t slot,
                       const void *const *frames, const size_t *lengths, size_t count, float scale,
                       const pith_view *view);
pith_status reduce_encode_one(pith_work *work, pith_stream *stream, uint64_t slot,
                              const void *const *frames, const size_t *lengths, size_t count,
                              float scale, pith_stream *out, uint64_t out_slot, void *dst,
                              size_t cap, size_t *written);

/* ---- One end of a sequence of frames ---------------------------------------------------------*/
/* A work for `count` plans with env's threads; test_env() where env is NULL. To be freed: *memory.
 * */
pith_work *work_for(const pith_plan *const *plans, size_t count, const pith_env *env,
                    void **memory);
/* A plan, a work, and a stream. */
struct stream {
    const pith_plan *plan;
    pith_work *work;
    pith_stream *stream;
    void *memory, *work_memory;
    pith_sizes sizes;
    bool borrowed; /* the plan is another's */
};
void stream_open(struct stream *s, const char *spec, const pith_layout *layout,
                 const pith_env *env);
/* The same with options of the stream (may be NULL), and another end with the plan of `s`. */
void stream_open_with(struct stream *s, const char *spec, const pith_layout *layout,
                      const pith_env *env, const pith_stream_options *options);
void stream_open_end(struct stream *end, const struct stream *s,
                     const pith_stream_options *options);
void stream_close(struct stream *s);
/* Encode into a fresh buffer of exactly the slot's bound; must succeed. */
struct frame stream_encode(struct stream *s, const pith_view *view, uint64_t slot, bool key);

/* A whole file, or NULL. */
void *read_file(const char *path, size_t *length);

#endif
