/* kernelcheck.h - what the parts of kernelcheck share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNELCHECK_H
#define TESTS_KERNELCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "codec.h"

/* ---- Results ---------------------------------------------------------------------------------*/

/* Name of what runs now: printed when a comparison fails or the kernel crashes. */
void check_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check_end(void); /* counts one passed or failed case */
/* Prints the case and `what` when ok is false. */
void check_that(bool ok, const char *what);
static inline bool same(const void *a, const void *b, size_t n) {
    return n == 0 || memcmp(a, b, n) == 0;
}

/* ---- Random numbers --------------------------------------------------------------------------*/

uint64_t check_random(void);
static inline size_t check_below(size_t n) { return (size_t)(check_random() % n); }
void check_seed(uint64_t seed);
/* How far it is to the next of many cases: 1, and 3 on average, by chance, where PITH_TEST_STEP is
 * more than 193, as it is under sanitizers. */
size_t check_step(void);

/* ---- Buffers between two pages that must not be touched --------------------------------------*/

struct guarded {
    uint8_t *pages, *p;
    size_t capacity, size;
};

enum { PLACE_END = 64, PLACE_COUNT = 65 }; /* 0..63: so many bytes after the first page's end */

struct guarded guarded_new(size_t capacity);
/* size bytes at a place, copied from `from`; canaries around them. */
uint8_t *guarded_place(struct guarded *g, size_t place, const void *from, size_t size);
/* No byte around the buffer has changed. */
bool guarded_intact(const struct guarded *g);

/* ---- Values ----------------------------------------------------------------------------------*/

enum fill {
    FILL_ZERO,
    FILL_ONES,
    FILL_NAN,
    FILL_INFINITY,
    FILL_MINUS_ZERO,
    FILL_SUBNORMAL,
    FILL_MAX,
    FILL_TIES,
    FILL_EQUAL,
    FILL_TINY,
    FILL_EXTREMES,
    FILL_BITS,
    FILL_GAUSS,
    FILL_SCALES,
    FILL_HUGE,
    FILL_OFFSET,
    FILL_COUNT
};
extern const char *const fill_names[FILL_COUNT];
/* Bytes of a value; none of PITH_NONE. */
static inline size_t width(uint32_t dtype) {
    return dtype == PITH_NONE ? 0 : dtype == PITH_F64 ? 8 : dtype == PITH_F32 ? 4 : 2;
}
/* levels: largest code, for ties. */
void fill_values(void *to, uint32_t dtype, size_t count, enum fill fill, int levels);

/* ---- Kernels ---------------------------------------------------------------------------------*/

struct level {
    const char *isa;
    uint32_t cpu;
    struct pithi_kernels kernels;
};

/* One function per row of kernels.def: check, and time. `bound` says whether the kernel table of
 * this level holds something else than the scalar reference. */
#define PITH_CHECK(name, source, file, missing)   \
    bool bound_##name(const struct level *level); \
    void check_##name(const struct level *level); \
    void bench_##name(const struct level *level);
#include "kernels.def"
#undef PITH_CHECK
void check_sum(const struct level *level);      /* a part of group */
void check_rotated(const struct level *level);  /* a part of group */
void check_channels(const struct level *level); /* a part of group */
void check_runs(const struct level *level);     /* likewise */
void bench_sum(const struct level *level);      /* a part of group */
void bench_channels(const struct level *level); /* a part of group */
extern const char *bench_only;                  /* part of the names of the rows to time */

/* A call as an entry point of the library makes it: the control word of a host is saved, which left
 * its own: perhaps FTZ and DAZ, and any rounding mode. */
struct host_fp {
    uint64_t before, host;
};
struct host_fp host_fp_enter(void);
void host_fp_leave(struct host_fp fp);

/* ---- Times -----------------------------------------------------------------------------------*/

double median(double *times, size_t n); /* which are sorted */
/* Prints a row: seconds that so many GB take. */
void print_speed(const struct level *level, const char *name, uint32_t group, double gb,
                 double scalar, double kernel, double roofline);

#endif
