/* test_trellis.c - trellis-coded groups: what codes mean, how good paths are, bounds, what comes
 * back the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "gen.h"
#include "group/group.h"
#include "group/trellis.h"
#include "group/trellis_value.h"
#include "util.h"

enum { MOST = 16384 };

static uint64_t seed = UINT64_C(88172645463325252);
static uint32_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static struct pithi_group_setting setting(unsigned bits, uint32_t group, uint32_t scale_dtype) {
    return (struct pithi_group_setting){.group = group,
                                        .bits = (uint8_t)bits,
                                        .scale_dtype = (uint8_t)scale_dtype,
                                        .codebook = PITHI_CODEBOOK_TRELLIS};
}

static struct pithi_group_job job_of(const struct pithi_group_setting *s, const float *x,
                                     size_t count, uint8_t *codes, uint8_t *scales, float *back) {
    return (struct pithi_group_job){.set = *s,
                                    .count = count,
                                    .value = x,
                                    .value_dtype = PITH_F32,
                                    .codes = codes,
                                    .scales = scales,
                                    .out = back,
                                    .out_dtype = PITH_F32};
}

/* ---- Levels ----------------------------------------------------------------------------------*/

/* What four neighbouring codes mean, by the sentence of FORMAT.md and not by shifts. */
static void test_levels(void **unused) {
    (void)unused;
    for (unsigned bits = 2; bits <= 4; bits++) {
        struct pithi_trellis t;
        pithi_trellis_init(&t, bits);
        for (int k = 0; k < t.levels; k++) {
            CHECK(t.level[k] == -t.level[t.levels - 1 - k]);
            CHECK(k == 0 || t.level[k] > t.level[k - 1]);
        }
        CHECK(t.level[t.levels - 1] == t.top);
        for (unsigned c = 0; c < 1u << 4 * bits; c++) {
            unsigned q[4], u[4], history = 0;
            for (unsigned i = 0; i < 4; i++) {
                q[i] = c >> bits * i & ((1u << bits) - 1);
                u[i] = q[i] % 2;
            }
            for (int i = 3; i > 0; i--) history = pithi_trellis_next(history, q[i]);
            const unsigned number = q[0] / 2 * 4 + (u[0] + u[1] + u[3]) % 2 * 2 + u[2];
            CHECK(pithi_trellis_number(history, q[0]) == number);
            const unsigned other = pithi_trellis_number(history ^ 7, q[0] ^ ((1u << bits) - 1));
            CHECK(other == (unsigned)t.levels - 1 - number);
        }
    }
}

/* Metrics of three steps stay below the one of states that no path has reached. */
static void test_distances(void **unused) {
    (void)unused;
    for (unsigned bits = 2; bits <= 4; bits++) {
        struct pithi_trellis t;
        pithi_trellis_init(&t, bits);
        CHECK(t.most < 16 * PITHI_TRELLIS_CELLS);
        for (int y = -t.most; y <= t.most; y++) {
            const int first = pithi_trellis_first(&t, y);
            CHECK(first >= 0 && first + 3 < t.levels);
            CHECK(first == t.levels - 4 - pithi_trellis_first(&t, -y) || y == 0);
            for (int k = 0; k < 4; k++) {
                const int number = pithi_trellis_of_subset(first, k);
                CHECK(number % 4 == k && number >= first && number < first + 4);
                CHECK(abs(y - t.level[number]) <= 147);
            }
        }
        CHECK(3 * 147 * 147 < PITHI_TRELLIS_WORST);
        for (size_t n = 1; n <= MOST; n++)
            CHECK(pithi_trellis_reach(bits, n) >= (n == 1 ? 0 : pithi_trellis_reach(bits, n - 1)) &&
                  pithi_trellis_reach(bits, n) >= t.top);
    }
}

/* The example of FORMAT.md, section 5.2. */
static void test_example(void **unused) {
    (void)unused;
    static const float wanted[4] = {-24.0f / 64, 43.0f / 64, -43.0f / 64, 8.0f / 64};
    const struct pithi_group_setting s = setting(2, 16, PITH_F32);
    float scale = 1, out[4];
    uint8_t codes = 1 | 2 << 2 | 0 << 4 | 3 << 6;
    struct pithi_group_job job = job_of(&s, NULL, 4, &codes, (uint8_t *)&scale, out);
    pithi_group_decode_c(&job);
    CHECK(memcmp(out, wanted, sizeof out) == 0);
}

/* ---- Errors ----------------------------------------------------------------------------------*/

static double decibels(const float *x, const float *y, size_t n) {
    double signal = 0, noise = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)x[i] - (double)y[i];
        signal += (double)x[i] * (double)x[i];
        noise += e * e;
    }
    return 10 * log10(signal / noise);
}

/* The SNR of a normal distribution in groups of 128, of large ones, and of short sequences. */
static void test_normal(void **unused) {
    (void)unused;
    enum { COUNT = 16 * MOST };
    static const struct {
        uint32_t group;
        double least[3]; /* 2, 3 and 4 bits */
    } rows[] = {{16, {10.8, 17.7, 23.6}},   {32, {10.9, 17.1, 23.1}},  {64, {10.7, 16.7, 22.8}},
                {128, {10.65, 16.5, 22.5}}, {256, {10.6, 16.3, 22.3}}, {2048, {10.5, 16.1, 21.9}}};
    float *const x = allocate(COUNT * sizeof *x), *const y = allocate(COUNT * sizeof *y);
    uint8_t *const codes = allocate(COUNT), *const scales = allocate(COUNT);
    uint64_t state = 7;
    for (size_t i = 0; i < COUNT; i++) x[i] = (float)gen_normal(&state);
    for (size_t k = 0; k < 3 * sizeof rows / sizeof *rows; k++) {
        const unsigned bits = 2 + (unsigned)k % 3;
        const struct pithi_group_setting s = setting(bits, rows[k / 3].group, PITH_BF16);
        struct pithi_group_job job = job_of(&s, x, COUNT, codes, scales, y);
        pithi_group_encode_c(&job);
        pithi_group_decode_c(&job);
        const double snr = decibels(x, y, COUNT);
        context("%u bits, group %u: %.3f dB", bits, s.group, snr);
        CHECK(snr >= rows[k / 3].least[bits - 2] && !job.poisoned && !job.saturated);
    }
    free(x);
    free(y);
    free(codes);
    free(scales);
}

static float draw_value(int kind, uint32_t exponent) {
    uint32_t u = draw();
    switch (kind) {
    case 0: break;
    case 1: u = exponent << 23 | (u & 0x807FFFFFu); break;
    case 2: u = 0x7F000000u + (u & 0x807FFFFFu); break;
    case 3: u = 0x0D000000u + (u & 0x80FFFFFFu); break;
    case 4: return u % 64 ? 0 : draw_value(1, exponent);
    case 5: return draw_value(1, u % 64 ? exponent : exponent + 8);
    default: u = bits_of((float)(u % 2000003) * 1e-6f - 1);
    }
    if (nonfinite(u)) u &= ~(1u << 23);
    return float_of(u);
}

/* Every value is within the bound; a poisoned group decodes to NaN; the codes of a tail are those
 * of the same values in a group of their own. */
static void one_group(void) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    enum { LONGEST = 1100 };
    float x[LONGEST], back[LONGEST];
    uint8_t codes[LONGEST], scales[8] = {0};
    const uint32_t group = 16u << draw() % 8;
    const size_t count = draw() % 2 ? 1 + draw() % 20 % group : 1 + draw() % group % LONGEST;
    const int kind = (int)(draw() % 7);
    const uint32_t exponent = 1 + draw() % 240;
    struct pithi_group_setting s = setting(2 + draw() % 3, group, dtypes[draw() % 3]);
    s.idempotent = s.scale_dtype == PITH_F16 || draw() % 2;
    for (size_t i = 0; i < count; i++) x[i] = draw_value(kind, exponent);
    struct pithi_group_job job = job_of(&s, x, count, codes, scales, back);
    pithi_group_encode_c(&job);
    const double bound = pithi_group_bound(&s, scales, count);
    pithi_group_decode_c(&job);
    context("bits %u group %u count %zu kind %d scale %u", s.bits, group, count, kind,
            s.scale_dtype);
    CHECK(isnan(bound) == (job.poisoned != 0));
    if (job.poisoned) {
        CHECK(s.scale_dtype == PITH_F16 && isnan(back[0]));
        return;
    }
    for (size_t i = 0; i < count; i++) CHECK(fabs((double)x[i] - (double)back[i]) <= bound);
    const uint32_t u = pithi_scale_load(scales, s.scale_dtype, 0);
    if (s.scale_dtype == PITH_F32) CHECK((u & 0xFF) == 0);
    if (count == 1 && s.scale_dtype == PITH_F32 && bits_of(x[0]) << 1 > 0x20000000u)
        CHECK(fabsf(x[0] - back[0]) <= 0x1p-15f * fabsf(x[0]));
}

static void test_bound(void **unused) {
    (void)unused;
    for (int i = 0; i < 40000; i++) one_group();
}

/* Non-finite values poison their group alone. */
static void test_poison(void **unused) {
    (void)unused;
    enum { GROUP = 32, COUNT = 3 * GROUP };
    static const uint32_t bad[] = {0x7F800000u, 0xFF800000u, 0x7FC00001u, 0xFF812345u};
    for (unsigned k = 0; k < 3 * 4; k++) {
        const struct pithi_group_setting s = setting(2 + k % 3, GROUP, PITH_F32);
        float x[COUNT], back[COUNT];
        uint8_t codes[COUNT], scales[16];
        for (size_t i = 0; i < COUNT; i++) x[i] = (float)i - 40;
        x[GROUP + 7] = float_of(bad[k / 3]);
        struct pithi_group_job job = job_of(&s, x, COUNT, codes, scales, back);
        pithi_group_encode_c(&job);
        pithi_group_decode_c(&job);
        CHECK(job.poisoned == 2); /* by either */
        for (size_t i = 0; i < COUNT; i++)
            CHECK(i / GROUP == 1 ? bits_of(back[i]) == PITHI_F32_NAN : fabsf(x[i] - back[i]) < 30);
        const size_t bytes = pithi_group_code_bytes(&s, GROUP);
        for (size_t i = 0; i < bytes; i++) CHECK(codes[bytes + i] == 0);
    }
}

/* ---- What comes back the same ----------------------------------------------------------------*/

static void test_idempotent(void **unused) {
    (void)unused;
    enum { GROUPS = 2048, LONGEST = 256 };
    float x[LONGEST], back[LONGEST], again[LONGEST];
    uint8_t codes[2][LONGEST], scales[2][4];
    uint64_t state = 11;
    unsigned changed = 0;
    for (unsigned k = 0; k < 3 * 3 * GROUPS; k++) {
        static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
        struct pithi_group_setting s = setting(2 + k % 3, LONGEST, dtypes[k / 3 % 3]);
        const size_t count = 16u << k / 9 % 5;
        bool reached = false;
        s.idempotent = true;
        for (size_t i = 0; i < count; i++)
            x[i] = (float)gen_normal(&state) * (k % 5 && i % 40 ? 1 : 4);
        memset(codes, 0, sizeof codes);
        struct pithi_group_job job = job_of(&s, x, count, codes[0], scales[0], back);
        pithi_group_encode_c(&job);
        pithi_group_decode_c(&job);
        const float scale = float_of(pithi_scale_load(scales[0], s.scale_dtype, 0));
        struct pithi_trellis t;
        pithi_trellis_init(&t, s.bits);
        for (size_t i = 0; i < count; i++)
            reached = reached || fabsf(back[i]) == fabsf(pithi_trellis_value(t.top, scale));
        changed += !reached;
        job = job_of(&s, back, count, codes[1], scales[1], again);
        pithi_group_encode_c(&job);
        if (!reached) continue;
        CHECK(memcmp(codes[0], codes[1], sizeof codes[0]) == 0);
        CHECK(memcmp(scales[0], scales[1], pithi_scale_width(s.scale_dtype)) == 0);
    }
    context("%u of %u groups do not reach the last level", changed, 9 * GROUPS);
    CHECK(changed <= GROUPS / 20);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* A sum is that of the decoded frames, in order, from what was there with `more`. */
static void test_sum(void **unused) {
    (void)unused;
    enum { COUNT = 9000, FRAMES = 3 };
    const struct pithi_group_setting s = setting(3, 64, PITH_BF16);
    const size_t at = pithi_group_codes_at(&s, COUNT), bytes = pithi_group_block_bytes(&s, COUNT);
    float *const x = allocate(COUNT * sizeof *x), *const sum = allocate(COUNT * sizeof *sum);
    float *const wanted = allocate(COUNT * sizeof *wanted);
    uint8_t *frame[FRAMES];
    uint64_t state = 3, poisoned = 0;
    for (int more = 0; more < 2; more++) {
        for (size_t i = 0; i < COUNT; i++) sum[i] = wanted[i] = (float)i;
        for (int k = 0; k < FRAMES; k++) {
            frame[k] = allocate(bytes);
            for (size_t i = 0; i < COUNT; i++) x[i] = (float)gen_normal(&state);
            if (k == 1) x[70] = INFINITY;
            struct pithi_group_job job = job_of(&s, x, COUNT, frame[k] + at, frame[k], x);
            pithi_group_encode_c(&job);
            job.poisoned = 0;
            pithi_group_decode_c(&job);
            poisoned += job.poisoned;
            for (size_t i = 0; i < COUNT; i++) wanted[i] = more || k ? wanted[i] + x[i] : x[i];
        }
        struct pithi_sum_job job = {.set = s,
                                    .count = COUNT,
                                    .frames = (const uint8_t *const *)frame,
                                    .frame_count = FRAMES,
                                    .codes_at = at,
                                    .more = more,
                                    .sum = sum};
        pithi_trellis_sum(&job, pithi_trellis_decode_c);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(bits_of(sum[i]) == bits_of(wanted[i]) || (isnan(sum[i]) && isnan(wanted[i])));
        CHECK(job.poisoned == poisoned / (more ? 2u : 1u) && job.saturated == 0);
        for (int k = 0; k < FRAMES; k++) free(frame[k]);
    }
    free(x);
    free(sum);
    free(wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),     cmocka_unit_test(test_distances),
        cmocka_unit_test(test_example),    cmocka_unit_test(test_normal),
        cmocka_unit_test(test_bound),      cmocka_unit_test(test_poison),
        cmocka_unit_test(test_idempotent), cmocka_unit_test(test_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
