/* phase.h - the vocabulary kernels are written in: phases of a team of threads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's body is source for one team (a CUDA block). It calls phases: functions that every
 * thread of the team runs with its own registers (t) and the team's memory (s), one after the other
 * with a barrier in between. nvcc makes the obvious kernel of it. The host runner (runner.c) makes
 * a loop over the threads of every phase, in any order, so what a phase reads of the team's memory
 * must have been written by an earlier one. Between phases the body may look at s and a, which are
 * the same for all threads, but never at t.
 *
 * PITHI_RUN(phase, ...)   every thread, then a barrier; further arguments are the same for all
 * PITHI_STEP(phase, ...)  every thread, no barrier: the phase takes s as const, or a barrier
 *                         comes before another thread reads what it wrote
 * PITHI_MEET()            a barrier alone: all threads have looked at what the next phase writes
 * PITHI_WARP_*            exchanges among the 32 threads of a warp, of registers
 * PITHI_WARP_PICK(from, to, index, n, width)  to[i] := from of the thread of so many neighbours
 *                         whose number the low bits of index[i] are
 * PITHI_WARP_VOTE(from, to)  to := bit i is whether `from` of thread i of the warp is not 0
 * PITHI_WARP_SYNC()       what threads of a warp read before, another of it may write after: an
 *                         exchange has all of them meet, but orders no memory */
#ifndef PITHI_GPU_DEVICE_PHASE_H
#define PITHI_GPU_DEVICE_PHASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "common/numeric.h"

enum { PITHI_WARP = 32, PITHI_TEAM = 256 };

/* 16 bytes that move at once. */
struct pithi_quad {
    uint32_t word[4];
};

/* Sums of neighbours in runs: the sum is in the low half, bit 32 says that a run begins in what is
 * summed, the sum then being that since. What a and, behind it, b come to. */
PITHI_INLINE uint64_t pithi_runs_join(uint64_t a, uint64_t b) {
    return b >> 32 ? b : (a & UINT64_C(0x100000000)) | (uint32_t)(a + b);
}

#ifdef __CUDACC__

struct pithi_team {
    int unused;
};

#define PITHI_DEVICE static __device__ __forceinline__

#define PITHI_RUN(phase, ...)        \
    do {                             \
        phase(a, s, t, __VA_ARGS__); \
        __syncthreads();             \
    } while (0)
#define PITHI_STEP(phase, ...) phase(a, s, t, __VA_ARGS__)
#define PITHI_MEET() __syncthreads()

/* The loop has a constant count and tests every step, so that the compiler leaves out the steps
 * that a known width does not take. */
PITHI_DEVICE uint32_t pithi_lane_max(uint32_t x, uint32_t width) {
    PITHI_UNROLL for (uint32_t step = PITHI_WARP / 2; step; step /= 2) {
        if (step >= width) continue;
        const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, x, (int)step);
        if (other > x) x = other;
    }
    return x;
}
PITHI_DEVICE uint64_t pithi_lane_add(uint64_t x) {
    for (int step = PITHI_WARP / 2; step; step /= 2)
        x += (uint64_t)__shfl_xor_sync(0xFFFFFFFFu, (unsigned long long)x, step);
    return x;
}

#define PITHI_WARP_SYNC() __syncwarp()
#define PITHI_WARP_MAX(member, width) (t->member = pithi_lane_max(t->member, (width)))
#define PITHI_WARP_ADD(member) (t->member = pithi_lane_add(t->member))
PITHI_DEVICE uint64_t pithi_lane_sum(uint64_t x) {
    for (uint32_t step = 1; step < PITHI_WARP; step *= 2) {
        const uint64_t other = __shfl_up_sync(0xFFFFFFFFu, (unsigned long long)x, step);
        if (threadIdx.x % PITHI_WARP >= step) x += other;
    }
    return x;
}
PITHI_DEVICE uint64_t pithi_lane_runs(uint64_t x) {
    for (uint32_t step = 1; step < PITHI_WARP; step *= 2) {
        const uint64_t other = __shfl_up_sync(0xFFFFFFFFu, (unsigned long long)x, step);
        if (threadIdx.x % PITHI_WARP >= step) x = pithi_runs_join(other, x);
    }
    return x;
}

#define PITHI_WARP_SUM(member) (t->member = pithi_lane_sum(t->member))
#define PITHI_WARP_RUNS(member) (t->member = pithi_lane_runs(t->member))
#define PITHI_WARP_SWAP(from, to, n, mask)                             \
    do {                                                               \
        PITHI_UNROLL for (uint32_t i_ = 0; i_ < (n); i_++) t->to[i_] = \
            __shfl_xor_sync(0xFFFFFFFFu, t->from[i_], (int)(mask));    \
    } while (0)
#define PITHI_WARP_VOTE(from, to) (t->to = __ballot_sync(0xFFFFFFFFu, t->from != 0))
#define PITHI_WARP_PICK(from, to, index, n, width)                              \
    do {                                                                        \
        PITHI_UNROLL for (uint32_t i_ = 0; i_ < (n); i_++) t->to[i_] =          \
            __shfl_sync(0xFFFFFFFFu, t->from, (int)t->index[i_], (int)(width)); \
    } while (0)

PITHI_DEVICE void pithi_atomic_max32(uint32_t *p, uint32_t x) { atomicMax(p, x); }
PITHI_DEVICE void pithi_atomic_min32(uint32_t *p, uint32_t x) { atomicMin(p, x); }
PITHI_DEVICE void pithi_atomic_or32(uint32_t *p, uint32_t x) { atomicOr(p, x); }
PITHI_DEVICE uint32_t pithi_atomic_add32(uint32_t *p, uint32_t x) { return atomicAdd(p, x); }
/* *p := x if it is `old`; returns what it was. */
PITHI_DEVICE uint32_t pithi_atomic_swap32(uint32_t *p, uint32_t old, uint32_t x) {
    return atomicCAS(p, old, x);
}
PITHI_DEVICE void pithi_atomic_add64(uint64_t *p, uint64_t x) {
    atomicAdd((unsigned long long *)p, (unsigned long long)x);
}
/* What this thread wrote before is seen by whoever sees what it writes after. */
PITHI_DEVICE void pithi_fence(void) { __threadfence(); }
/* Past the first-level cache: what other teams of this launch wrote. */
PITHI_DEVICE uint64_t pithi_fresh64(const uint64_t *p) {
    return (uint64_t)atomicAdd((unsigned long long *)p, 0ull);
}

/* Fetches what is read soon into the first-level cache. */
PITHI_DEVICE void pithi_prefetch(const void *p) { asm volatile("prefetch.L1 [%0];" ::"l"(p)); }

PITHI_DEVICE struct pithi_quad pithi_get_quad(const void *p) {
    const uint4 v = *(const uint4 *)p;
    return {{v.x, v.y, v.z, v.w}};
}
PITHI_DEVICE void pithi_put_quad(void *p, struct pithi_quad q) {
    *(uint4 *)p = make_uint4(q.word[0], q.word[1], q.word[2], q.word[3]);
}
PITHI_DEVICE uint64_t pithi_get_aligned64(const void *p) { return *(const uint64_t *)p; }
PITHI_DEVICE void pithi_put_aligned64(void *p, uint64_t x) { *(uint64_t *)p = x; }
PITHI_DEVICE uint32_t pithi_get_aligned32(const void *p) { return *(const uint32_t *)p; }
PITHI_DEVICE void pithi_put_aligned32(void *p, uint32_t x) { *(uint32_t *)p = x; }
PITHI_DEVICE uint16_t pithi_get_aligned16(const void *p) { return *(const uint16_t *)p; }
PITHI_DEVICE void pithi_put_aligned16(void *p, uint16_t x) { *(uint16_t *)p = x; }

#else

/* The threads that the host runner takes one after the other, all of the team's or those of a warp,
 * and their order, which it changes from phase to phase. meeting: where the warps of a team meet
 * that run at once; else NULL. */
struct pithi_team {
    uint32_t order[PITHI_TEAM], first, threads;
    int mode;
    uint64_t seed;
    struct pithi_meeting *meeting;
    struct pithi_watch *watch; /* NULL: nothing looks for races of threads */
};
void pithi_team_switch(struct pithi_team *team);
/* The barrier behind a phase; ends the program when warps of the team come to different ones. */
void pithi_team_meet(struct pithi_team *team, const char *phase);
/* Ends the program when p is not a multiple of `bytes`: a device would fault. */
void pithi_team_aligned(const void *p, size_t bytes);

/* ThreadSanitizer takes each thread of a pair of warps, and the body, as one of its own; what the
 * host runner does for all of them at once is not theirs. See gpu/runner.c. */
#if defined __SANITIZE_THREAD__
#define PITHI_WATCHES
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define PITHI_WATCHES
#endif
#endif
#ifdef PITHI_WATCHES
enum { PITHI_WATCHED = 2 * PITHI_WARP, PITHI_WATCH_BODY = PITHI_WATCHED };
struct pithi_watch {
    void *as[PITHI_WATCHED + 1];
    char team, warp[PITHI_WATCHED / PITHI_WARP]; /* what the threads meet at */
};
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void pithi_watch_fence(void);
void pithi_watch_warps(struct pithi_watch *watch);
#define PITHI_WATCH_AS(number) \
    (team->watch ? __tsan_switch_to_fiber(team->watch->as[number], 1) : (void)0)
#define PITHI_UNWATCHED(statement)                     \
    do {                                               \
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);  \
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__); \
        statement;                                     \
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);   \
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);    \
    } while (0)
#else
#define PITHI_WATCH_AS(number) ((void)0)
#define PITHI_UNWATCHED(statement) statement
#endif

#define PITHI_DEVICE static inline

#define PITHI_EACH(statement)                             \
    do {                                                  \
        for (uint32_t i_ = 0; i_ < team->threads; i_++) { \
            const uint32_t lane_ = team->order[i_];       \
            (void)lane_;                                  \
            PITHI_WATCH_AS(lane_ % PITHI_WATCHED);        \
            statement;                                    \
        }                                                 \
        PITHI_WATCH_AS(PITHI_WATCH_BODY);                 \
        pithi_team_switch(team);                          \
    } while (0)
#define PITHI_RUN(phase, ...)                            \
    do {                                                 \
        PITHI_EACH(phase(a, s, &t[lane_], __VA_ARGS__)); \
        pithi_team_meet(team, #phase);                   \
    } while (0)
#define PITHI_STEP(phase, ...) PITHI_EACH(phase(a, s, &t[lane_], __VA_ARGS__))
#define PITHI_MEET() pithi_team_meet(team, "PITHI_MEET")

/* By the threads that `team` has: t[i] of each step-th one, i = l_. */
#define PITHI_LANES_EACH(step) \
    for (uint32_t l_ = team->first; l_ < team->first + team->threads; l_ += (step))
#ifdef PITHI_WATCHES
#define PITHI_WARP_SYNC() (team->watch ? pithi_watch_warps(team->watch) : (void)0)
#else
#define PITHI_WARP_SYNC() ((void)0)
#endif
#define PITHI_WARP_MAX_(member, width)                                                  \
    do {                                                                                \
        PITHI_LANES_EACH(width) {                                                       \
            for (uint32_t k_ = 1; k_ < (width); k_++)                                   \
                if (t[l_ + k_].member > t[l_].member) t[l_].member = t[l_ + k_].member; \
            for (uint32_t k_ = 1; k_ < (width); k_++) t[l_ + k_].member = t[l_].member; \
        }                                                                               \
    } while (0)
#define PITHI_WARP_ADD_(member)                                                             \
    do {                                                                                    \
        PITHI_LANES_EACH(PITHI_WARP) {                                                      \
            for (uint32_t k_ = 1; k_ < PITHI_WARP; k_++) t[l_].member += t[l_ + k_].member; \
            for (uint32_t k_ = 1; k_ < PITHI_WARP; k_++) t[l_ + k_].member = t[l_].member;  \
        }                                                                                   \
    } while (0)
#define PITHI_WARP_SUM_(member)                                                    \
    do {                                                                           \
        PITHI_LANES_EACH(1) if (l_ % PITHI_WARP) t[l_].member += t[l_ - 1].member; \
    } while (0)
#define PITHI_WARP_RUNS_(member)                                                             \
    do {                                                                                     \
        PITHI_LANES_EACH(1)                                                                  \
        if (l_ % PITHI_WARP) t[l_].member = pithi_runs_join(t[l_ - 1].member, t[l_].member); \
    } while (0)
#define PITHI_WARP_SWAP_(from, to, n, mask)                                           \
    do {                                                                              \
        PITHI_LANES_EACH(1)                                                           \
        for (uint32_t i_ = 0; i_ < (n); i_++) t[l_].to[i_] = t[l_ ^ (mask)].from[i_]; \
    } while (0)
#define PITHI_WARP_VOTE_(from, to)                                               \
    do {                                                                         \
        PITHI_LANES_EACH(PITHI_WARP) {                                           \
            uint32_t votes_ = 0;                                                 \
            for (uint32_t k_ = 0; k_ < PITHI_WARP; k_++)                         \
                votes_ |= (uint32_t)(t[l_ + k_].from != 0) << k_;                \
            for (uint32_t k_ = 0; k_ < PITHI_WARP; k_++) t[l_ + k_].to = votes_; \
        }                                                                        \
    } while (0)
#define PITHI_WARP_PICK_(from, to, index, n, width)                                    \
    do {                                                                               \
        PITHI_LANES_EACH(1)                                                            \
        for (uint32_t i_ = 0; i_ < (n); i_++)                                          \
            t[l_].to[i_] = t[l_ / (width) * (width) + t[l_].index[i_] % (width)].from; \
    } while (0)
#define PITHI_WARP_MAX(...) PITHI_UNWATCHED(PITHI_WARP_MAX_(__VA_ARGS__))
#define PITHI_WARP_ADD(...) PITHI_UNWATCHED(PITHI_WARP_ADD_(__VA_ARGS__))
#define PITHI_WARP_SUM(...) PITHI_UNWATCHED(PITHI_WARP_SUM_(__VA_ARGS__))
#define PITHI_WARP_RUNS(...) PITHI_UNWATCHED(PITHI_WARP_RUNS_(__VA_ARGS__))
#define PITHI_WARP_SWAP(...) PITHI_UNWATCHED(PITHI_WARP_SWAP_(__VA_ARGS__))
#define PITHI_WARP_VOTE(...) PITHI_UNWATCHED(PITHI_WARP_VOTE_(__VA_ARGS__))
#define PITHI_WARP_PICK(...) PITHI_UNWATCHED(PITHI_WARP_PICK_(__VA_ARGS__))

/* Warps that run at once are threads of the host. */
PITHI_DEVICE uint32_t pithi_atomic_swap32(uint32_t *p, uint32_t old, uint32_t x) {
    __atomic_compare_exchange_n(p, &old, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
PITHI_DEVICE void pithi_atomic_max32(uint32_t *p, uint32_t x) {
    uint32_t before = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (x > before &&
           !__atomic_compare_exchange_n(p, &before, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
PITHI_DEVICE void pithi_atomic_min32(uint32_t *p, uint32_t x) {
    uint32_t before = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (x < before &&
           !__atomic_compare_exchange_n(p, &before, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
PITHI_DEVICE void pithi_atomic_or32(uint32_t *p, uint32_t x) {
    __atomic_fetch_or(p, x, __ATOMIC_RELAXED);
}
PITHI_DEVICE uint32_t pithi_atomic_add32(uint32_t *p, uint32_t x) {
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
PITHI_DEVICE void pithi_atomic_add64(uint64_t *p, uint64_t x) {
    __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
PITHI_DEVICE void pithi_fence(void) {
#ifdef PITHI_WATCHES
    pithi_watch_fence();
#endif
}
PITHI_DEVICE uint64_t pithi_fresh64(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

PITHI_DEVICE void pithi_prefetch(const void *p) { (void)p; }

PITHI_DEVICE struct pithi_quad pithi_get_quad(const void *p) {
    pithi_team_aligned(p, 16);
    return *(const struct pithi_quad *)p;
}
PITHI_DEVICE void pithi_put_quad(void *p, struct pithi_quad q) {
    pithi_team_aligned(p, 16);
    *(struct pithi_quad *)p = q;
}
PITHI_DEVICE uint64_t pithi_get_aligned64(const void *p) {
    pithi_team_aligned(p, 8);
    return *(const uint64_t *)p;
}
PITHI_DEVICE void pithi_put_aligned64(void *p, uint64_t x) {
    pithi_team_aligned(p, 8);
    *(uint64_t *)p = x;
}
PITHI_DEVICE uint32_t pithi_get_aligned32(const void *p) {
    pithi_team_aligned(p, 4);
    return *(const uint32_t *)p;
}
PITHI_DEVICE void pithi_put_aligned32(void *p, uint32_t x) {
    pithi_team_aligned(p, 4);
    *(uint32_t *)p = x;
}
PITHI_DEVICE uint16_t pithi_get_aligned16(const void *p) {
    pithi_team_aligned(p, 2);
    return *(const uint16_t *)p;
}
PITHI_DEVICE void pithi_put_aligned16(void *p, uint16_t x) {
    pithi_team_aligned(p, 2);
    *(uint16_t *)p = x;
}

#endif

/* What a compiler could not know. */
#ifdef __CUDACC__
#define PITHI_ASSUME(fact) __builtin_assume(fact)
#else
#define PITHI_ASSUME(fact) assert(fact)
#endif

/* Byte i of a word, on top of bits above it. */
PITHI_DEVICE uint32_t pithi_byte_on(uint32_t word, uint32_t i, uint32_t above) {
#ifdef __CUDACC__
    return __byte_perm(above, word, 0x3214 + i);
#else
    return (word >> 8 * i & 0xFF) | above;
#endif
}

/* The low bytes of four floats, side by side. */
PITHI_DEVICE uint32_t pithi_first_bytes(const float x[4]) {
    const uint32_t a = pithi_bits(x[0]), b = pithi_bits(x[1]);
    const uint32_t c = pithi_bits(x[2]), d = pithi_bits(x[3]);
#ifdef __CUDACC__
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
    return (a & 0xFF) | (b & 0xFF) << 8 | (c & 0xFF) << 16 | d << 24;
#endif
}
/* The sum of four products of bytes with signs, and of what was summed before. */
PITHI_DEVICE int32_t pithi_dot_bytes(uint32_t a, uint32_t b, int32_t sum) {
#ifdef __CUDA_ARCH__
    return __dp4a((int)a, (int)b, sum);
#else
    for (int i = 0; i < 32; i += 8) sum += (int8_t)(a >> i) * (int8_t)(b >> i);
    return sum;
#endif
}

/* The high halves of two words, side by side. */
PITHI_DEVICE uint32_t pithi_high_halves(uint32_t low, uint32_t high) {
#ifdef __CUDACC__
    return __byte_perm(low, high, 0x7632);
#else
    return low >> 16 | (high & 0xFFFF0000u);
#endif
}

/* Bytes 0 and 2, or 1 and 3, of a word, each in a lane of 16 bits; and the high bytes of such lanes
 * as these bytes. */
PITHI_DEVICE uint32_t pithi_even_bytes(uint32_t word) { return word & 0x00FF00FFu; }
PITHI_DEVICE uint32_t pithi_odd_bytes(uint32_t word) {
#ifdef __CUDACC__
    return __byte_perm(word, 0, 0x4341);
#else
    return word >> 8 & 0x00FF00FFu;
#endif
}
PITHI_DEVICE uint32_t pithi_high_bytes(uint32_t even, uint32_t odd) {
#ifdef __CUDACC__
    return __byte_perm(even, odd, 0x7351);
#else
    return (even >> 8 & 0x00FF00FFu) | (odd & 0xFF00FF00u);
#endif
}

/* The low bytes of four words. */
PITHI_DEVICE uint32_t pithi_words_bytes(const uint32_t x[4]) {
#ifdef __CUDACC__
    return __byte_perm(__byte_perm(x[0], x[1], 0x0040), __byte_perm(x[2], x[3], 0x0040), 0x5410);
#else
    return (x[0] & 0xFF) | (x[1] & 0xFF) << 8 | (x[2] & 0xFF) << 16 | x[3] << 24;
#endif
}

/* Returns x + y in each lane of 16 bits, but at least 0 and at most `most`. Lanes are signed, and
 * their sums fit. */
PITHI_DEVICE uint32_t pithi_lanes_within(uint32_t x, uint32_t y, uint32_t most) {
#ifdef __CUDACC__
    return __viaddmin_s16x2_relu(x, y, most);
#else
    uint32_t both = 0;
    for (uint32_t shift = 0; shift < 32; shift += 16) {
        const int32_t sum = (int16_t)(x >> shift) + (int16_t)(y >> shift);
        const int32_t limit = (int16_t)(most >> shift), least = sum < limit ? sum : limit;
        both |= (uint32_t)(least > 0 ? least : 0) << shift;
    }
    return both;
#endif
}

/* Adds the products of the bytes of two words. */
PITHI_DEVICE uint32_t pithi_byte_products(uint32_t x, uint32_t y, uint32_t sum) {
#ifdef __CUDACC__
    return __dp4a(x, y, sum);
#else
    for (uint32_t shift = 0; shift < 32; shift += 8)
        sum += (x >> shift & 0xFF) * (y >> shift & 0xFF);
    return sum;
#endif
}

/* Returns the larger of two numbers, neither of them NaN; the sign of a 0 may be any. */
PITHI_DEVICE float pithi_larger(float x, float y) {
#ifdef __CUDACC__
    return fmaxf(x, y);
#else
    return x > y ? x : y;
#endif
}
PITHI_DEVICE float pithi_smaller(float x, float y) {
#ifdef __CUDACC__
    return fminf(x, y);
#else
    return x < y ? x : y;
#endif
}

/* The largest integer that is not above x, |x| < 2^31. */
PITHI_DEVICE int32_t pithi_floor(float x) {
#ifdef __CUDACC__
    return __float2int_rd(x);
#else
    const int32_t t = (int32_t)x;
    return t - ((float)t > x);
#endif
}

/* Two numbers that are finite, and stay so, as bf16: to nearest even, x in the low half. */
PITHI_DEVICE uint32_t pithi_bf16_pair(float x, float y) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
#else
    const uint32_t u = pithi_bits(x), v = pithi_bits(y);
    return (u + 0x7FFFu + (u >> 16 & 1u)) >> 16 | ((v + 0x7FFFu + (v >> 16 & 1u)) & 0xFFFF0000u);
#endif
}

PITHI_DEVICE uint32_t pithi_ones32(uint32_t x) {
#ifdef __CUDACC__
    return (uint32_t)__popc((int)x);
#else
    uint32_t n = 0;
    for (; x; x &= x - 1) n++;
    return n;
#endif
}

PITHI_DEVICE bool pithi_is_aligned(const void *p, size_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

#endif
