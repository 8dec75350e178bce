/* data.c - guarded buffers, hostile values, hostile hosts, and times.
 * SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"
#include "kernelcheck.h"

/* ---- Random numbers: splitmix64 --------------------------------------------------------------*/

static uint64_t state;

uint64_t check_random(void) {
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Sum of twelve uniforms less six: as normal as rounding tests need. */
static float make_normal(void) {
    const uint64_t every_other = UINT64_C(0x0000FFFF0000FFFF);
    uint64_t sums = 0; /* two, of 32 bits each */
    for (int i = 0; i < 3; i++) {
        const uint64_t r = check_random();
        sums += (r & every_other) + (r >> 16 & every_other);
    }
    return (float)((sums >> 32) + (sums & UINT32_MAX)) * 0x1p-16f - 6.0f;
}

/* Made once: every array takes them from another place on. To make them anew was a fifth of all
 * that a run took. */
enum { NORMALS = 1 << 16 };
static float normals[NORMALS];
static size_t next_normal;

static float gauss(void) { return normals[next_normal++ % NORMALS]; }

void check_seed(uint64_t seed) {
    state = seed;
    for (size_t i = 0; i < NORMALS; i++) normals[i] = make_normal();
}

size_t check_step(void) {
    static int few = -1;
    if (few < 0) {
        const char *const step = getenv("PITH_TEST_STEP");
        few = step && strtoul(step, NULL, 10) > 193;
    }
    return few ? 1 + check_below(5) : 1;
}

/* ---- Guarded buffers -------------------------------------------------------------------------*/

enum { CANARY = 0xC5, CANARIES = 256 };

struct guarded guarded_new(size_t capacity) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded g = {.capacity = (capacity + page - 1) / page * page};
    uint8_t *all = mmap(NULL, g.capacity + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + page, g.capacity, PROT_READ | PROT_WRITE) != 0) {
        perror("kernelcheck: mmap");
        exit(1);
    }
    g.pages = all + page;
    return g;
}

static size_t before(const struct guarded *g) {
    const size_t n = (size_t)(g->p - g->pages);
    return n < CANARIES ? n : CANARIES;
}
static size_t after(const struct guarded *g) {
    const size_t n = g->capacity - g->size - (size_t)(g->p - g->pages);
    return n < CANARIES ? n : CANARIES;
}

uint8_t *guarded_place(struct guarded *g, size_t place, const void *from, size_t size) {
    g->size = size;
    g->p = place == PLACE_END ? g->pages + g->capacity - size : g->pages + place;
    memset(g->p - before(g), CANARY, before(g));
    memset(g->p + size, CANARY, after(g));
    if (size) memcpy(g->p, from, size);
    return g->p;
}

static bool canaries(const uint8_t *p, size_t count) {
    static uint8_t wanted[CANARIES];
    if (!wanted[0]) memset(wanted, CANARY, sizeof wanted);
    return memcmp(p, wanted, count) == 0;
}

bool guarded_intact(const struct guarded *g) {
    return canaries(g->p - before(g), before(g)) && canaries(g->p + g->size, after(g));
}

/* ---- Values ----------------------------------------------------------------------------------*/

const char *const fill_names[FILL_COUNT] = {
    "zero",  "ones", "nan",      "infinity", "minus zero", "subnormal", "max",  "ties",
    "equal", "tiny", "extremes", "bits",     "gauss",      "scales",    "huge", "offset"};

/* 2^e times something of either sign in [1, 2). */
static float near_power(int e) {
    const uint32_t u = (uint32_t)check_random();
    return pithi_float((u & 0x807FFFFFu) | (uint32_t)(e + 127) << 23);
}

static uint32_t sprinkled(uint32_t rare) { return check_below(40) ? pithi_bits(gauss()) : rare; }

/* A spread of 2^0 to 2^-15 around up to 2^15 times itself; which, `equal` says. */
static float off_centre(float equal) {
    const uint32_t u = pithi_bits(equal);
    const float up = pithi_float((127 + (u & 15)) << 23);
    return (equal * up + gauss()) * pithi_float((127 - (u >> 4 & 15)) << 23);
}

static uint32_t value_bits(enum fill fill, size_t i, int levels, float equal) {
    uint32_t r = 0;
    if (fill != FILL_GAUSS && fill != FILL_ZERO && fill != FILL_EQUAL) r = (uint32_t)check_random();
    switch (fill) {
    case FILL_ZERO: return 0;
    case FILL_ONES: return 0xFFFFFFFFu;
    case FILL_NAN: return sprinkled(r | 0x7F810000u);
    case FILL_INFINITY: return sprinkled((r & 0x80000000u) | 0x7F800000u);
    case FILL_MINUS_ZERO: return 0x80000000u;
    case FILL_SUBNORMAL: return r & 0x807FFFFFu;
    case FILL_MAX: return (r & 0x80000000u) | 0x7F7FFFFFu;
    case FILL_TIES:
        if (i % 16 == 0) return pithi_bits((float)levels * 0.25f);
        return pithi_bits(((float)(int)check_below(2 * (size_t)levels) - (float)levels + 0.5f) *
                          0.25f);
    case FILL_EQUAL: return pithi_bits(equal);
    case FILL_TINY: return pithi_bits(near_power(-124 + (int)check_below(9)));
    case FILL_EXTREMES: return i % 2 ? 0x7F7FFFFFu : 0x80000001u;
    case FILL_BITS: return r;
    case FILL_GAUSS: return pithi_bits(gauss());
    case FILL_SCALES: return pithi_bits(gauss() * near_power(-60 + (int)check_below(100)));
    case FILL_OFFSET: return pithi_bits(off_centre(equal));
    default: return pithi_bits(near_power(115 + (int)check_below(8)));
    }
}

void fill_values(void *to, uint32_t dtype, size_t count, enum fill fill, int levels) {
    next_normal = (size_t)check_random() % NORMALS;
    const float equal = gauss();
    for (size_t i = 0; i < count; i++) {
        const uint32_t u = value_bits(fill, i, levels, equal);
        /* Patterns go in as they are: storing would make every NaN canonical. */
        const bool pattern = fill == FILL_ONES || fill == FILL_BITS ||
                             (fill == FILL_NAN && (u & 0x7F800000u) == 0x7F800000u);
        uint8_t *p = to;
        if (dtype == PITH_F32)
            pithi_put32(p + 4 * i, u);
        else if (pattern)
            pithi_put16(p + 2 * i, (uint16_t)(u >> 16));
        else
            pithi_store(to, dtype, i, u);
    }
}

/* ---- Hosts -----------------------------------------------------------------------------------*/

static uint64_t host_set(unsigned mode) {
#if defined(__x86_64__)
    const uint64_t before_call = __builtin_ia32_stmxcsr();
    /* Flush to zero, denormals are zero, and one of the four rounding modes. */
    __builtin_ia32_ldmxcsr(0x1F80u | (mode & 3) << 13 | (mode & 1 ? 0x8040u : 0u));
    return before_call;
#elif defined(__aarch64__)
    uint64_t before_call;
    const uint64_t hostile = (uint64_t)(mode & 3) << 22 | (mode & 1 ? UINT64_C(1) << 24 : 0);
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_call));
    __asm__ volatile("msr fpcr, %0" : : "r"(hostile));
    return before_call;
#else
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    const int before_call = fegetround();
    fesetround(modes[mode & 3]);
    return (uint64_t)before_call;
#endif
}

struct host_fp host_fp_enter(void) {
    struct host_fp fp = {.before = host_set((unsigned)check_below(4))};
    fp.host = pithi_fp_enter();
    return fp;
}

void host_fp_leave(struct host_fp fp) {
    pithi_fp_leave(fp.host);
    pithi_fp_leave(fp.before);
}

/* ---- Times -----------------------------------------------------------------------------------*/

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *times, size_t n) {
    qsort(times, n, sizeof *times, by_value);
    return times[n / 2];
}

void print_speed(const struct level *level, const char *name, uint32_t group, double gb,
                 double scalar, double kernel, double roofline) {
    printf("%-7s %-34s group %5u  scalar %5.2f  kernel %6.2f  x%5.1f  roofline %6.2f GB/s  %.2f\n",
           level->isa, name, group, gb / scalar, gb / kernel, scalar / kernel, gb / roofline,
           roofline / kernel);
    fflush(stdout);
}
