/* cpu.h - CPU features under a mask, and the floating-point environment of every entry point.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_CPU_H
#define PITHI_CPU_H

#include <stdint.h>

/* Every operation on floats is rounded once, to its type, and done in the order that is written:
 * what a frame holds depends on it. The x87 of 32-bit x86 keeps results in more bits. (16 is the
 * same as 0 with a type of 16 bits, which the library does not use.) */
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "floats are kept in more bits than they have: compile with -msse2 -mfpmath=sse"
#endif
#if defined(__FAST_MATH__)
#error "-ffast-math and -Ofast change the bytes of frames: compile without"
#endif

/* Returns the features of the CPU that the mask allows; mask 0 allows all. */
uint32_t pithi_cpu_select(uint32_t mask);

/* Sets the floating-point environment of the library: round to nearest, subnormals kept, exceptions
 * masked. Returns what was set before, for pithi_fp_leave, or for pithi_fp_restore where no store
 * was non-temporal. */
#if defined(__x86_64__) || (defined(__i386__) && defined(__SSE2__))
static inline uint64_t pithi_fp_enter(void) {
    const uint64_t before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x1F80u);
    return before;
}
static inline void pithi_fp_restore(uint64_t before) { __builtin_ia32_ldmxcsr((unsigned)before); }
/* Restores the environment. A fence orders all non-temporal stores before whatever tells others of
 * the result. */
static inline void pithi_fp_leave(uint64_t before) {
    __builtin_ia32_sfence();
    pithi_fp_restore(before);
}
#elif defined(__aarch64__)
static inline uint64_t pithi_fp_enter(void) {
    uint64_t before;
    const uint64_t plain = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(plain));
    return before;
}
static inline void pithi_fp_restore(uint64_t before) {
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
}
static inline void pithi_fp_leave(uint64_t before) { pithi_fp_restore(before); }
#elif defined(__arm__) && defined(__ARM_FP)
static inline uint64_t pithi_fp_enter(void) {
    uint32_t before;
    const uint32_t plain = 0;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(before));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(plain));
    return before;
}
static inline void pithi_fp_restore(uint64_t before) {
    __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)before));
}
static inline void pithi_fp_leave(uint64_t before) { pithi_fp_restore(before); }
#else
#include <fenv.h>
static inline uint64_t pithi_fp_enter(void) {
    const int before = fegetround();
    fesetround(FE_TONEAREST);
    return (uint64_t)before;
}
static inline void pithi_fp_restore(uint64_t before) { fesetround((int)before); }
static inline void pithi_fp_leave(uint64_t before) { pithi_fp_restore(before); }
#endif

#endif
