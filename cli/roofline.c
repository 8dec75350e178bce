/* roofline.c - plain reading, filling and moving with the widest vectors of the machine.
 * SPDX-License-Identifier: Apache-2.0 */
#include "roofline.h"

#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATTERN 0x3C003C00u

/* What the reads add up to lands here, so that no compiler can leave them out. */
static volatile uint64_t witness;

struct ops {
    uint64_t (*read)(const uint8_t *p, size_t bytes);
    void (*fill)(uint8_t *p, size_t bytes, bool nontemporal);
};

double roofline_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t system_bytes(int name, size_t unit) {
    const long v = sysconf(name);
    return v > 0 ? (size_t)v * unit : 0;
}

size_t roofline_bytes(size_t arrays) {
    const size_t least = (size_t)256 << 20, most = (size_t)1 << 30, page = 4096;
    size_t cache = 0, bytes = least;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = system_bytes(_SC_LEVEL3_CACHE_SIZE, 1);
#endif
    const size_t memory = system_bytes(_SC_PHYS_PAGES, system_bytes(_SC_PAGESIZE, 1));
    if (bytes < 2 * cache) bytes = 2 * cache;
    if (bytes > most) bytes = most;
    if (memory && bytes > memory / 2 / arrays) bytes = memory / 2 / arrays;
    return bytes / page * page;
}

/* ---- Portable --------------------------------------------------------------------------------*/

static uint64_t word_at(const uint8_t *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static uint64_t read_c(const uint8_t *p, size_t bytes) {
    uint64_t sum[8] = {0};
    size_t i = 0;
    for (; i + 64 <= bytes; i += 64)
        for (size_t k = 0; k < 8; k++) sum[k] += word_at(p + i + 8 * k);
    for (; i < bytes; i++) sum[0] += p[i];
    for (size_t k = 1; k < 8; k++) sum[0] += sum[k];
    return sum[0];
}

static void fill_c(uint8_t *p, size_t bytes, bool nontemporal) {
    const uint32_t word = PATTERN;
    size_t i = 0;
    (void)nontemporal;
    for (; i + 4 <= bytes; i += 4) memcpy(p + i, &word, 4);
    for (; i < bytes; i++) p[i] = (uint8_t)(word >> 8 * (i % 4));
}

/* Returns the bytes before the first whole line, a multiple of 4 where p is. */
static size_t head(const void *p, size_t bytes) {
    const size_t n = (size_t)(-(uintptr_t)p % 64);
    return n < bytes ? n : bytes;
}

/* ---- x86: the same two loops at two widths ---------------------------------------------------*/

#if defined(__x86_64__)
#include <immintrin.h>

/* Reading prefetches so many bytes ahead, into the second-level cache, which helps where the
 * hardware's own prefetch is shy. A batch of one line is followed best: of four, reading is a tenth
 * slower. */
enum { PREFETCH_READ = 8192 };

/* Stores begin at the first whole line: malloc's large blocks begin 16 bytes into one. */
#define LOOPS(isa, vector, size, LOAD, ADD, SET, STORE, STREAM)                                \
    __attribute__((target(#isa))) static uint64_t read_##isa(const uint8_t *p, size_t bytes) { \
        vector s[2] = {SET(0), SET(0)};                                                        \
        size_t i = 0;                                                                          \
        for (; i + 64 <= bytes; i += 64) {                                                     \
            __builtin_prefetch(p + i + PREFETCH_READ, 0, 2);                                   \
            for (size_t k = 0; k < 64 / size; k++)                                             \
                s[k] = ADD(s[k], LOAD((const void *)(p + i + k * size)));                      \
        }                                                                                      \
        for (; i + size <= bytes; i += size) s[0] = ADD(s[0], LOAD((const void *)(p + i)));    \
        uint8_t sums[size];                                                                    \
        STORE((void *)sums, ADD(s[0], s[1]));                                                  \
        return read_c(sums, sizeof sums) + read_c(p + i, bytes - i);                           \
    }                                                                                          \
    __attribute__((target(#isa))) static void fill_##isa(uint8_t *p, size_t bytes,             \
                                                         bool nontemporal) {                   \
        const vector v = SET((int)PATTERN);                                                    \
        size_t i = head(p, bytes);                                                             \
        fill_c(p, i, false);                                                                   \
        if (nontemporal)                                                                       \
            for (; i + size <= bytes; i += size) STREAM((void *)(p + i), v);                   \
        else                                                                                   \
            for (; i + size <= bytes; i += size) STORE((void *)(p + i), v);                    \
        fill_c(p + i, bytes - i, false);                                                       \
    }

LOOPS(avx2, __m256i, 32, _mm256_loadu_si256, _mm256_add_epi64, _mm256_set1_epi32,
      _mm256_storeu_si256, _mm256_stream_si256)
LOOPS(avx512f, __m512i, 64, _mm512_loadu_si512, _mm512_add_epi64, _mm512_set1_epi32,
      _mm512_storeu_si512, _mm512_stream_si512)

static void fence(void) { _mm_sfence(); }

static struct ops choose(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return (struct ops){read_avx512f, fill_avx512f};
    if (__builtin_cpu_supports("avx2")) return (struct ops){read_avx2, fill_avx2};
    return (struct ops){read_c, fill_c};
}
#else
static void fence(void) {}
static struct ops choose(void) { return (struct ops){read_c, fill_c}; }
#endif

/* ---- Passes ----------------------------------------------------------------------------------*/

double roofline_read(const void *p, size_t bytes) {
    const struct ops ops = choose();
    const double start = roofline_clock();
    witness += ops.read(p, bytes);
    return roofline_clock() - start;
}

double roofline_fill(void *p, size_t bytes, bool nontemporal) {
    const struct ops ops = choose();
    const double start = roofline_clock();
    ops.fill(p, bytes, nontemporal);
    fence();
    return roofline_clock() - start;
}

double roofline_memcpy(void *to, const void *from, size_t bytes) {
    const double start = roofline_clock();
    memcpy(to, from, bytes);
    return roofline_clock() - start;
}

/* Returns where batch t of `batches` begins in a range: at a whole line. */
static size_t place(const void *p, size_t bytes, size_t t, size_t batches) {
    if (t == 0 || t == batches) return t ? bytes : 0;
    const size_t at = (size_t)((double)bytes * (double)t / (double)batches);
    return at + head((const uint8_t *)p + at, bytes - at);
}

static size_t longest(const struct roofline_baseline *m) {
    size_t most = 0;
    for (int k = 0; k < ROOFLINE_READS; k++)
        if (m->read[k] && m->read_bytes[k] > most) most = m->read_bytes[k];
    for (int k = 0; k < 2; k++)
        if (m->write[k] && m->write_bytes[k] > most) most = m->write_bytes[k];
    return most;
}

static bool is_read(const struct roofline_baseline *m, const void *p) {
    for (int k = 0; k < ROOFLINE_READS; k++)
        if (m->read[k] == p) return true;
    return false;
}

/* A batch has so many bytes of the longest range. Ranges that are written in place are copied best
 * in short batches; a load that follows non-temporal stores may wait for all of them, so that
 * batches of many loads are better there. */
enum { SHORT_BATCH = 2048, LONG_BATCH = 16384 };

double roofline_move(const struct roofline_baseline *m, int variant) {
    const struct ops ops = choose();
    const bool nontemporal = variant % 2;
    const size_t batches = longest(m) / (variant / 2 ? LONG_BATCH : SHORT_BATCH) + 1;
    const double start = roofline_clock();
    for (size_t t = 0; t < batches; t++) {
        for (int k = 0; k < ROOFLINE_READS && m->read[k]; k++) {
            const size_t from = place(m->read[k], m->read_bytes[k], t, batches);
            const size_t to = place(m->read[k], m->read_bytes[k], t + 1, batches);
            witness += ops.read((const uint8_t *)m->read[k] + from, to - from);
        }
        for (int k = 0; k < 2; k++) {
            if (!m->write[k]) continue;
            const size_t from = place(m->write[k], m->write_bytes[k], t, batches);
            const size_t to = place(m->write[k], m->write_bytes[k], t + 1, batches);
            const bool in_place = is_read(m, m->write[k]);
            ops.fill((uint8_t *)m->write[k] + from, to - from, nontemporal && !in_place);
        }
    }
    fence();
    return roofline_clock() - start;
}
