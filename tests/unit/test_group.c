/* test_group.c - the group quantizer's stated bound, by brute force over hard groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The first proofs took bf16 for a 9-bit significand and forgot that a last code can overflow
 * before its zero point is added: asymmetric groups missed their bound by up to 254 times. */
#include <math.h>

#include "group/group.h"
#include "group/outliers.h"
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
    if (isnan(bound)) { /* only a range too wide, or too large for a scale of 16 bits, is lost */
        const bool wide = s->asymmetric || s->idempotent || s->codebook;
        CHECK((wide && kind < 3) || s->scale_dtype == PITH_F16);
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
    for (int i = 0; i < 200000; i++) {
        struct pithi_group_setting s = {.group = GROUP};
        s.asymmetric = draw() % 2;
        s.bits = (uint8_t)(s.asymmetric ? 1 + draw() % 8 : 2 + draw() % 7);
        s.scale_dtype = draw() % 2 ? PITH_F32 : PITH_BF16;
        s.idempotent = !s.asymmetric && draw() % 4 == 0;
        s.shrink = (s.asymmetric || s.idempotent) && draw() % 16 == 0;
        if (s.asymmetric || s.idempotent)
            s.scale_dtype = draw() % 2 ? PITH_F16 : s.scale_dtype;
        else
            s.stochastic = draw() % 2;
        s.short_zero = s.asymmetric && draw() % 4 == 0;
        one_group(&s);
    }
}

/* Values that begin anywhere beside their own range, in a dtype of their own: what they decode to
 * has their scale, zero point and codes. A scale below the dtype's normal numbers lost up to half
 * of itself, and the last codes changed. */
static void one_idempotent(const struct pithi_group_setting *s, uint32_t dtype) {
    uint8_t x[4 * GROUP], back[4 * GROUP], codes[2][GROUP] = {{0}}, scales[2][8] = {{0}};
    const size_t count = 1 + draw() % GROUP;
    const int kind = (int)(draw() % KINDS);
    const float beside = draw() % 2 ? 0 : draw_value(1, (uint32_t)(97 + draw() % 40));
    const float unit = float_of((uint32_t)(97 + draw() % 40) << 23);
    for (size_t i = 0; i < count; i++) {
        const float v = kind == 0 ? draw_value(0, 0) : beside + unit * draw_value(5, 0);
        pithi_store(x, dtype, i, bits_of(v));
        if (nonfinite(pithi_load(x, dtype, i))) pithi_store(x, dtype, i, 0);
    }
    struct pithi_group_job job = {.set = *s, .count = count, .value_dtype = dtype};
    job.out_dtype = dtype;
    for (int pass = 0; pass < 2; pass++) {
        job.value = pass ? back : x;
        job.out = back;
        job.codes = codes[pass];
        job.scales = scales[pass];
        pithi_group_encode_c(&job);
        pithi_group_decode_c(&job);
        if (job.poisoned) return;
    }
    const uint32_t scale = pithi_scale_load(scales[0], s->scale_dtype, 0);
    const bool half = s->asymmetric && s->scale_dtype == PITH_F16;
    /* FORMAT.md promises no more. */
    if (float_of(scale) < (s->codebook ? 0x1p-14f : half ? 0x1p-20f : 0)) return;
    context("bits %d asymmetric %d scale dtype %d shrink %d dtype %d", s->bits, s->asymmetric,
            s->scale_dtype, s->shrink, (int)dtype);
    CHECK(memcmp(codes[0], codes[1], GROUP) == 0);
    CHECK(memcmp(scales[0], scales[1], 8) == 0);
}

static void test_idempotent(void **unused) {
    (void)unused;
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (int i = 0; i < 200000; i++) {
        struct pithi_group_setting s = {.group = GROUP, .asymmetric = draw() % 4 != 0};
        s.idempotent = !s.asymmetric;
        s.bits = (uint8_t)(2 + draw() % 7);
        s.scale_dtype = (uint8_t)dtypes[draw() % 3];
        s.shrink = draw() % 8 == 0;
        one_idempotent(&s, dtypes[draw() % 3]);
    }
}

/* Normal float in any dtype, Lloyd-Max in f32, whose guess is no function of the decoded values. */
static void test_codebook(void **unused) {
    (void)unused;
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (int i = 0; i < 200000; i++) {
        struct pithi_group_setting s = {.group = GROUP, .codebook = (uint8_t)(1 + draw() % 2)};
        s.bits = (uint8_t)(2 + draw() % 3);
        s.scale_dtype = (uint8_t)dtypes[draw() % 3];
        one_idempotent(&s, s.codebook == 1 ? dtypes[draw() % 3] : PITH_F32);
        one_group(&s);
    }
}

/* ---- Outliers --------------------------------------------------------------------------------*/

enum { APART = 2 };

struct sparse {
    uint8_t codes[GROUP], scales[4], places[APART], exact[4 * APART];
};

/* back: decoded to the dtype; wide: to f32, which the bound speaks of. */
static void put_sparse(const struct pithi_group_setting *s, uint32_t dtype, const void *values,
                       size_t count, struct sparse *to, uint8_t *back, float *wide) {
    uint8_t rest[4 * GROUP];
    memcpy(rest, values, count * pith_dtype_bytes(dtype));
    pithi_outliers_take(s, rest, dtype, count, APART, to->places, to->exact);
    struct pithi_group_job job = {.set = *s,
                                  .count = count,
                                  .value = rest,
                                  .value_dtype = dtype,
                                  .out = back,
                                  .out_dtype = dtype,
                                  .codes = to->codes,
                                  .scales = to->scales};
    pithi_group_encode_c(&job);
    pithi_group_decode_c(&job);
    const struct pithi_outliers taken = {to->places, to->exact, dtype, APART};
    pithi_outliers_put(&taken, 0, count, back, dtype, 1);
    job.out = wide;
    job.out_dtype = PITH_F32;
    pithi_group_decode_c(&job);
    pithi_outliers_put(&taken, 0, count, wide, PITH_F32, 1);
}

/* Magnitudes that are one, or differ by a last place of a scale or less, and others. */
static float draw_close(float unit) {
    const float sign = draw() % 2 ? 1.0f : -1.0f;
    switch (draw() % 4) {
    case 0: return sign * unit;
    case 1: return sign * unit * (1.0f + (float)(draw() % 64) * 0x1p-14f);
    case 2: return sign * unit * (1.0f + (float)(draw() % 64) * 0x1p-9f);
    default: return unit * draw_value(5, 0);
    }
}

/* What is left would decode to more than what was taken, and be taken in its stead next time.
 * Clamping it adds to its error: by a number of the dtype, which next to f16's subnormal numbers,
 * and in bf16, may be more than half a step. */
static void one_sparse(const struct pithi_group_setting *s, uint32_t dtype) {
    uint8_t x[4 * GROUP], back[4 * GROUP], again[4 * GROUP];
    float wide[GROUP] = {0}, unused[GROUP];
    struct sparse first = {.codes = {0}}, second = {.codes = {0}};
    const size_t count = APART + 1 + draw() % (GROUP - APART);
    const uint32_t exponent = (uint32_t)(draw() % 4 ? 117 + draw() % 20 : 103 + draw() % 10);
    const float unit = float_of(exponent << 23) * draw_value(4, 0);
    for (size_t i = 0; i < count; i++) pithi_store(x, dtype, i, bits_of(draw_close(unit)));
    put_sparse(s, dtype, x, count, &first, back, wide);
    put_sparse(s, dtype, back, count, &second, again, unused);
    const float scale = float_of(pithi_scale_load(first.scales, s->scale_dtype, 0));
    const double bound =
        pithi_group_bound(s, first.scales, count) + pithi_outliers_bound(s, dtype, (double)scale);
    context("bits %d codebook %d scale dtype %d shrink %d dtype %d", s->bits, s->codebook,
            s->scale_dtype, s->shrink, (int)dtype);
    for (size_t i = 0; !isnan(scale) && i < count; i++) {
        const float was = float_of(pithi_load(x, dtype, i));
        CHECK(fabs((double)was - (double)wide[i]) <= bound);
    }
    /* Nor of groups that decode to NaN. */
    if (isnan(scale) || (s->codebook && scale < 0x1p-14f)) return;
    CHECK(memcmp(&first, &second, sizeof first) == 0);
    CHECK(memcmp(back, again, count * pith_dtype_bytes(dtype)) == 0);
}

static void test_sparse(void **unused) {
    (void)unused;
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (int i = 0; i < 200000; i++) {
        struct pithi_group_setting s = {.group = GROUP, .idempotent = true};
        s.codebook = (uint8_t)(draw() % 2);
        s.bits = (uint8_t)(2 + draw() % (s.codebook ? 3 : 7));
        s.scale_dtype = (uint8_t)dtypes[draw() % 3];
        s.shrink = !s.codebook && draw() % 8 == 0;
        one_sparse(&s, dtypes[draw() % 3]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound), cmocka_unit_test(test_idempotent),
        cmocka_unit_test(test_codebook), cmocka_unit_test(test_sparse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
