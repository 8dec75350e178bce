/* test_group.c - the group quantizer's stated bound, by brute force over hard groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The first proofs took bf16 for a 9-bit significand and forgot that a last code can overflow
 * before its zero point is added: asymmetric groups missed their bound by up to 254 times. */
#include <math.h>

#include "stage/group.h"
#include "util.h"

static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

enum { GROUP = 16, KINDS = 6 };

/* Any bits; one binade; near the largest; near 2^-118; ordinary; non-negative. Always finite. */
static float draw_value(int kind, uint32_t exponent) {
    uint32_t u = (uint32_t)draw();
    switch (kind) {
    case 0: break;
    case 1: u = exponent << 23 | (u & 0x807FFFFFu); break;
    case 2: u = 0x7F000000u + (u & 0x807FFFFFu); break;
    case 3: u = 0x04000000u + (u & 0x80FFFFFFu); break;
    case 4: u = bits_of(1.0f + (float)(u % 1000003) * 3e-6f); break;
    default: u = bits_of((float)(u % 2000003) * 1e-6f);
    }
    if (nonfinite(u)) u &= ~(1u << 23);
    return float_of(u);
}

static void one_group(const struct pithi_group_setting *s) {
    float x[GROUP], back[GROUP];
    uint8_t codes[GROUP], scales[8];
    const size_t count = 1 + draw() % GROUP;
    const int kind = (int)(draw() % KINDS);
    const uint32_t exponent = (uint32_t)(draw() % 254);
    for (size_t i = 0; i < count; i++) x[i] = draw_value(kind, exponent);
    struct pithi_group_job job = {.set = *s,
                                  .count = count,
                                  .value = x,
                                  .value_dtype = PITH_F32,
                                  .codes = codes,
                                  .scales = scales,
                                  .random = {.seed = draw()}};
    pithi_group_encode_c(&job);
    const double bound = pithi_group_bound(s, scales, count);
    job.out = back;
    job.out_dtype = PITH_F32;
    pithi_group_decode_c(&job);
    if (isnan(bound)) { /* only an asymmetric range that is too wide may be lost */
        CHECK(s->asymmetric && kind < 3);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        context("bits %d asymmetric %d bf16 %d stochastic %d: %a became %a, bound %a", s->bits,
                s->asymmetric, s->scale_dtype == PITH_BF16, s->stochastic, (double)x[i],
                (double)back[i], bound);
        CHECK(fabs((double)x[i] - (double)back[i]) <= bound);
    }
}

static void test_bound(void **unused) {
    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        struct pithi_group_setting s = {.group = GROUP};
        s.asymmetric = draw() % 2;
        s.bits = (uint8_t)(s.asymmetric ? 1 + draw() % 8 : 2 + draw() % 7);
        s.scale_dtype = draw() % 2 ? PITH_F32 : PITH_BF16;
        s.stochastic = draw() % 2;
        one_group(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
