/* cpu.c - which CPU features exist, and which of them a mask allows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "pith/pith.h"

#if defined(__AVX__) || defined(__AVX512F__)
#error "cpu.c decides which instructions may run: build it with baseline flags only"
#endif

#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14's probe does not know this one. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

/* The compiler's probe reads CPUID and checks that the system saves the registers (XCR0). */
static uint32_t probe(void) {
    uint32_t features = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && has_f16c())
        features |= PITH_CPU_AVX2;
    if (features && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("gfni"))
        features |= PITH_CPU_AVX512;
#elif defined(__aarch64__)
    features |= PITH_CPU_NEON;
#endif
    return features;
}

/* The features that the probe found, once it has run: CPUID takes microseconds in a virtual
 * machine, more than a small call. Threads that probe at once find the same. */
static _Atomic uint32_t known;

uint32_t pith_cpu_features(void) {
    const uint32_t probed = UINT32_C(1) << 31;
    uint32_t features = atomic_load_explicit(&known, memory_order_relaxed);
    if (!features) {
        features = probe() | probed;
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return features & ~probed;
}

uint32_t pithi_cpu_select(uint32_t mask) {
    const uint32_t features = pith_cpu_features();
    return mask ? features & mask & ~(uint32_t)PITH_CPU_SCALAR : features;
}
