/* exhaustive.c - every f32 there is, through codec eb: each within its bound, on every CPU level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * exhaustive [STEP [FIRST]]: the 65536 patterns that share their upper half are an array, one of
 * 65536; takes arrays FIRST, FIRST + STEP, ... All of bf16 and f16 are done each time. */
#include <math.h>

#include "util.h"

enum { LOW = 1 << 16, ARRAYS = 1 << 16 };

static const char *const specs[] = {
    "eb:abs=1e-30", "eb:abs=1e-6",   "eb:abs=1e-3",    "eb:abs=1",
    "eb:abs=1e30",  "eb:pwrel=1e-3", "eb:pwrel=0.999", "eb:mode=ratio,abs=1e-3,zeros=signed",
};
enum { SPECS = sizeof specs / sizeof specs[0] };
static const uint32_t masks[] = {PITH_CPU_SCALAR, PITH_CPU_AVX2, PITH_CPU_NEON, 0};
enum { MASKS = sizeof masks / sizeof masks[0] };

/* One spec with a plan per CPU level. */
struct proof {
    const char *spec;
    struct stream plan[MASKS];
    uint8_t *frame, *first;
    size_t cap, length;
    uint64_t values, bytes, exact;
};

static void proof_open(struct proof *p, const char *spec, uint32_t dtype) {
    const pith_layout layout = flat_layout(dtype, PITH_NONE, LOW);
    *p = (struct proof){.spec = spec};
    for (size_t m = 0; m < MASKS; m++) {
        pith_env env = {.size = sizeof env, .cpu_mask = masks[m]};
        stream_open(&p->plan[m], spec, &layout, &env);
    }
    p->cap = (size_t)p->plan[0].sizes.slot_bytes;
    p->frame = allocate(p->cap);
    p->first = allocate(p->cap);
}

static void proof_close(struct proof *p, const char *dtype) {
    printf("%-5s %-36s %11llu values, %5.2f bits each, %11llu of them unchanged\n", dtype, p->spec,
           (unsigned long long)p->values, 8 * (double)p->bytes / (double)p->values,
           (unsigned long long)p->exact);
    fflush(stdout);
    for (size_t m = 0; m < MASKS; m++) stream_close(&p->plan[m]);
    free(p->frame);
    free(p->first);
}

/* ---- One array -------------------------------------------------------------------------------*/

static void check_one(const pith_info *info, bool zeros, double x, double y, bool same) {
    if (!isfinite(x) || (zeros && x == 0))
        CHECK(same);
    else
        CHECK(within_bound(x, y, info->bound) &&
              (!(info->relative_bound > 0) || within_share(x, y, info->relative_bound)));
}

/* The quick look decides where rounding of the difference cannot matter. */
static void check_array(struct proof *p, const pith_info *info, const void *value, const void *out,
                        uint32_t dtype) {
    const bool zeros = strstr(p->spec, "signed") != NULL;
    const size_t w = pith_dtype_bytes(dtype);
    for (size_t i = 0; i < LOW; i++) {
        const double x = load_real(value, dtype, i), y = load_real(out, dtype, i);
        const bool same = memcmp((const char *)value + i * w, (const char *)out + i * w, w) == 0;
        const bool near = fabs(x - y) < info->bound && !(info->relative_bound > 0);
        if (!same && (!near || (zeros && x == 0))) check_one(info, zeros, x, y, same);
        p->exact += same;
    }
    p->values += LOW;
}

static void prove(struct proof *p, const void *value, uint32_t dtype, size_t number) {
    uint8_t out[4 * LOW], other[4 * LOW];
    pith_info info = {.size = sizeof info};
    const pith_view v = pith_view_flat(value, dtype, LOW);
    for (size_t m = 0; m < MASKS; m++) {
        const pith_view o = pith_view_flat(m ? other : out, dtype, LOW);
        size_t length;
        context("%s, %s array %zu, mask %x", p->spec, pith_dtype_name(dtype), number, masks[m]);
        CHECK_OK(
            encode_one(p->plan[m].work, p->plan[m].stream, &v, 0, 0, p->frame, p->cap, &length));
        CHECK_OK(decode_one(p->plan[m].work, p->plan[m].stream, 0, p->frame, length, &o, 0));
        if (m == 0) {
            CHECK_OK(pith_inspect(p->frame, length, &info, NULL));
            memcpy(p->first, p->frame, p->length = length);
            p->bytes += length;
            check_array(p, &info, value, out, dtype);
        }
        CHECK(length == p->length && memcmp(p->first, p->frame, length) == 0);
        CHECK(m == 0 || memcmp(out, other, LOW * pith_dtype_bytes(dtype)) == 0);
    }
}

/* ---- All -------------------------------------------------------------------------------------*/

static size_t step = 1, begin;

static void test_floats(void **state) {
    (void)state;
    uint32_t *const value = allocate(LOW * sizeof *value);
    for (size_t s = 0; s < SPECS; s++) {
        struct proof p;
        proof_open(&p, specs[s], PITH_F32);
        for (size_t a = begin; a < ARRAYS; a += step) {
            for (uint32_t i = 0; i < LOW; i++) value[i] = (uint32_t)a << 16 | i;
            prove(&p, value, PITH_F32, a);
        }
        CHECK(p.values == (ARRAYS - begin + step - 1) / step * (uint64_t)LOW);
        proof_close(&p, "f32");
    }
    free(value);
}

static void test_halves(void **state) {
    (void)state;
    uint16_t *const value = allocate(LOW * sizeof *value);
    for (size_t i = 0; i < LOW; i++) value[i] = (uint16_t)i;
    for (size_t s = 0; s < 2 * SPECS; s++) {
        struct proof p;
        const uint32_t dtype = s % 2 ? PITH_F16 : PITH_BF16;
        proof_open(&p, specs[s / 2], dtype);
        prove(&p, value, dtype, 0);
        CHECK(p.values == LOW);
        proof_close(&p, pith_dtype_name(dtype));
    }
    free(value);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_floats),
    };
    if (argc > 1) step = strtoul(argv[1], NULL, 10);
    if (argc > 2) begin = strtoul(argv[2], NULL, 10);
    if (test_step(1) > 1) step *= 8;
    if (!step || begin >= ARRAYS) return 2;
    return cmocka_run_group_tests_name("exhaustive", tests, NULL, NULL);
}
