/* test_roundtrip.c - every case of codecs.def on every generator and boundary count, stateless.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cases.h"
#include "gen.h"
#include "util.h"

/* One value and base array with what the case makes of them. */
struct trip {
    const struct test_case *c;
    size_t count;
    void *value, *base;
    pith_view value_view, base_view;
    struct frame frame;
};

static void trip_open(struct trip *t, const struct test_case *c, enum gen kind, size_t count) {
    *t = (struct trip){.c = c, .count = count};
    t->value = allocate(count * pith_dtype_bytes(c->dtype));
    gen_fill(kind, 11 + count, c->dtype, t->value, count);
    t->value_view = pith_view_flat(t->value, c->dtype, count);
    if (c->base_dtype != PITH_NONE) {
        t->base = allocate(count * pith_dtype_bytes(c->base_dtype));
        gen_fill(count % 3 ? GEN_NOISE : kind, 5 + count, c->base_dtype, t->base, count);
        t->base_view = pith_view_flat(t->base, c->base_dtype, count);
    }
    t->frame = compress(c->spec, &t->value_view, t->base ? &t->base_view : NULL,
                        count % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
}

static void trip_close(struct trip *t) {
    free(t->value);
    free(t->base);
    free(t->frame.bytes);
}

/* Decode into fresh memory of exactly the right size. */
static void *decoded(const struct trip *t, uint32_t dtype) {
    void *out = allocate(t->count * pith_dtype_bytes(dtype));
    const pith_view view = pith_view_flat(out, dtype, t->count);
    const pith_env env = test_env();
    CHECK_OK(pith_decompress(t->frame.bytes, t->frame.length, t->base ? &t->base_view : NULL, &env,
                             &view, NULL));
    return out;
}

static void check_exact(const struct trip *t) {
    void *out = decoded(t, t->c->dtype);
    CHECK(t->count == 0 ||
          memcmp(out, t->value, t->value_view.shape[0] * pith_dtype_bytes(t->c->dtype)) == 0);
    double bound = -1;
    CHECK_OK(pith_error_bound(t->frame.bytes, t->frame.length, &bound, NULL));
    CHECK(bound == 0);
    free(out);
}

/* ---- Differences -----------------------------------------------------------------------------*/

static float *differences(const struct trip *t) {
    float *d = allocate(t->count * sizeof *d);
    for (size_t i = 0; i < t->count; i++) {
        uint32_t v = load_float(t->value, t->c->dtype, i);
        if (t->base) {
            const uint32_t b = load_float(t->base, t->c->base_dtype, i);
            v = bits_of(float_of(v) - (nonfinite(b) ? 0.0f : float_of(b)));
        }
        d[i] = float_of(v);
    }
    return d;
}

static bool group_is_bad(const float *d, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (nonfinite(bits_of(d[i]))) return true;
    return false;
}

/* A transform of up to 256 values, or a scale that is a power of two or has 16 bits, may overflow:
 * then the group is lost as if it had held an infinity. */
static bool has_overflowed(const struct trip *t, const float *d, const float *x, size_t from,
                           size_t to) {
    const float limit = t->c->idempotent ? 65504.0f : 0x1p119f;
    bool large = false;
    for (size_t i = from; i < to; i++) large = large || fabsf(d[i]) >= limit;
    return large && t->c->overflows && nonfinite(bits_of(x[from]));
}

/* Groups begin anew with every block, which is a multiple of the group. */
static void check_values(const struct trip *t, const float *d, const float *x) {
    const size_t group = t->c->group;
    double bound = -1;
    bool poisoned = false;
    CHECK_OK(pith_error_bound(t->frame.bytes, t->frame.length, &bound, NULL));
    for (size_t at = 0; at < t->count; at += group) {
        const size_t end = at + group < t->count ? at + group : t->count;
        const bool bad = group_is_bad(d, at, end) || has_overflowed(t, d, x, at, end);
        poisoned = poisoned || bad;
        for (size_t i = at; i < end; i++) {
            if (bad) CHECK(bits_of(x[i]) == 0x7FC00000u);
            if (!bad) CHECK(!nonfinite(bits_of(x[i])));
            if (!bad && bound == bound) CHECK(fabs((double)d[i] - (double)x[i]) <= bound);
        }
    }
    CHECK(poisoned == (bound != bound));
}

/* The frame of the differences without a base has the same blocks. */
static void check_same_blocks(const struct trip *t, const struct trip *plain) {
    const size_t a = header_of(&t->frame), b = header_of(&plain->frame);
    CHECK(t->frame.length - a == plain->frame.length - b);
    CHECK(memcmp(t->frame.bytes + a, plain->frame.bytes + b, t->frame.length - a) == 0);
}

static void *updated_base(const struct trip *t, const float *x) {
    void *next = allocate(t->count * pith_dtype_bytes(t->c->base_dtype));
    uint64_t saturated = 0;
    for (size_t i = 0; i < t->count; i++)
        store_float(next, t->c->base_dtype, i,
                    reference_update(load_float(t->base, t->c->base_dtype, i), bits_of(x[i]),
                                     t->c->base_dtype, &saturated));
    return next;
}

/* What a view of each other float dtype receives is the exact result, rounded once more. */
static void check_views(const struct trip *t, const void *exact, uint32_t exact_dtype) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    for (int k = 0; k < 3; k++) {
        if (dtypes[k] == exact_dtype && t->c->bounded) continue;
        void *out = decoded(t, dtypes[k]);
        void *wanted = allocate(t->count * 4);
        for (size_t i = 0; i < t->count; i++)
            store_float(wanted, dtypes[k], i, load_float(exact, exact_dtype, i));
        CHECK(memcmp(out, wanted, t->count * pith_dtype_bytes(dtypes[k])) == 0);
        free(out);
        free(wanted);
    }
}

static void check_difference(const struct trip *t) {
    const struct test_case plain_case = {.spec = t->c->spec, .dtype = PITH_F32};
    struct trip plain = {.c = &plain_case, .count = t->count};
    float *d = differences(t);
    plain.value_view = pith_view_flat(d, PITH_F32, t->count);
    plain.frame =
        compress(t->c->spec, &plain.value_view, NULL, t->count % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    const bool own = t->c->idempotent && !t->base;
    if (!own) check_same_blocks(t, &plain);
    float *x = decoded(own ? t : &plain, PITH_F32);
    check_values(t, d, x);
    if (t->base) {
        void *next = updated_base(t, x);
        check_views(t, next, t->c->base_dtype);
        free(next);
    } else {
        check_views(t, x, PITH_F32);
    }
    free(x);
    free(plain.frame.bytes);
    free(d);
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

static void check_one(const struct trip *t, const pith_info *info, const void *out, size_t i) {
    const size_t w = pith_dtype_bytes(t->c->dtype);
    const double x = load_real(t->value, t->c->dtype, i), y = load_real(out, t->c->dtype, i);
    const bool same = memcmp((const char *)t->value + i * w, (const char *)out + i * w, w) == 0;
    if (!isfinite(x) || (x == 0 && signbit(x) && t->c->signed_zeros)) {
        CHECK(same);
        return;
    }
    CHECK(isfinite(y));
    CHECK(within_bound(x, y, info->bound));
    if (info->relative_bound > 0) CHECK(within_share(x, y, info->relative_bound));
    if (x == 0 && (t->c->keeps_zeros || info->relative_bound > 0)) CHECK(y == 0);
}

static void check_bounded(const struct trip *t) {
    pith_info info = {.size = sizeof info};
    double bound = -1;
    void *out = decoded(t, t->c->dtype);
    CHECK_OK(pith_inspect(t->frame.bytes, t->frame.length, &info, NULL));
    CHECK_OK(pith_error_bound(t->frame.bytes, t->frame.length, &bound, NULL));
    CHECK(bound == info.bound && isfinite(bound) && bound >= 0);
    CHECK((info.relative_bound > 0) == (strstr(t->c->spec, "pwrel") != NULL));
    for (size_t i = 0; i < t->count; i++) check_one(t, &info, out, i);
    if (t->c->dtype != PITH_F64) check_views(t, out, t->c->dtype);
    free(out);
}

/* ---- Sparse ----------------------------------------------------------------------------------*/

/* All NaNs are alike, and larger than infinities. */
static uint32_t magnitude(float x) { return isnan(x) ? 0x7F800001u : bits_of(x) & 0x7FFFFFFFu; }

static int descending(const void *a, const void *b) {
    const uint32_t x = magnitude(*(const float *)a), y = magnitude(*(const float *)b);
    return (x < y) - (x > y);
}

static double number_of(const struct test_case *c, const char *key, double otherwise) {
    const char *const at = strstr(c->spec, key);
    return at ? strtod(at + strlen(key), NULL) : otherwise;
}

/* Returns how many elements the setting asks for. */
static size_t wanted_of(const struct trip *t) {
    const double share = number_of(t->c, "density=", 0.01);
    const double k = number_of(t->c, ":k=", floor(share * (double)t->count + 1e-9));
    return k < 1 ? 1 : k > (double)t->count ? t->count : (size_t)k;
}

/* Returns what a value of the set decodes to; of int8 only whether it is 0 is of use. */
static float sent_as(const struct test_case *c, float x) {
    const uint32_t dtype = strstr(c->spec, "=f16")    ? PITH_F16
                           : strstr(c->spec, "=bf16") ? PITH_BF16
                                                      : PITH_F32;
    uint8_t stored[4];
    store_float(stored, dtype, 0, bits_of(x));
    return strstr(c->spec, "=none") ? 1.0f : float_of(load_float(stored, dtype, 0));
}

/* Whether all elements of the block from `from` on are sent: none is 0 that was not sent as 0. */
static bool is_whole(const struct trip *t, const float *x, const float *y, size_t from) {
    bool whole = true;
    for (size_t k = from; k < from + t->c->block && k < t->count; k++)
        whole = whole && (y[k] != 0 || sent_as(t->c, x[k]) == 0);
    return whole;
}

/* An element that is sent is not smaller than one that is left out, and there are no more of them
 * than the limit allows; but for blocks that take fewer bytes with all their elements. */
static void check_chosen(const struct trip *t, const float *x, const float *y) {
    const bool all = strstr(t->c->spec, "nonzero") != NULL;
    const double most = (double)wanted_of(t) * number_of(t->c, "cap=", 2);
    uint32_t left_out = 0;
    size_t sent = 0;
    for (size_t i = 0; i < t->count; i++)
        if (y[i] == 0 && sent_as(t->c, x[i]) != 0 && magnitude(x[i]) > left_out)
            left_out = magnitude(x[i]);
    if (all) CHECK(left_out == 0);
    bool whole = false;
    for (size_t i = 0; i < t->count; i++) {
        if (i % t->c->block == 0) whole = is_whole(t, x, y, i);
        if (y[i] == 0 || whole) continue;
        CHECK(magnitude(x[i]) >= left_out);
        sent++;
    }
    CHECK(all || (double)sent <= most);
}

/* Those of largest magnitude, of equal ones the first, and no others. */
static void check_exact_choice(const struct trip *t, const float *x, const float *y) {
    const size_t k = wanted_of(t);
    float *const sorted = copy_of(x, t->count * sizeof *x);
    qsort(sorted, t->count, sizeof *sorted, descending);
    const uint32_t last = t->count ? magnitude(sorted[k - 1]) : 0;
    size_t equal = 0;
    for (size_t i = 0; i < k && t->count; i++) equal += magnitude(sorted[i]) == last;
    for (size_t i = 0; i < t->count; i++) {
        const uint32_t m = magnitude(x[i]);
        const bool chosen = m && (m > last || (m == last && equal > 0));
        equal -= chosen && m == last;
        if (chosen) CHECK(bits_of(y[i]) == bits_of(sent_as(t->c, x[i])));
        if (!chosen) CHECK(y[i] == 0 || is_whole(t, x, y, i - i % t->c->block));
    }
    free(sorted);
}

static void check_sparse(const struct trip *t) {
    /* These change what is sent. */
    const bool changed = strstr(t->c->spec, "int8") || strstr(t->c->spec, "transform");
    double bound = -1;
    float *const x = allocate(t->count * sizeof *x), *const y = decoded(t, PITH_F32);
    for (size_t i = 0; i < t->count; i++) x[i] = float_of(load_float(t->value, t->c->dtype, i));
    CHECK_OK(pith_error_bound(t->frame.bytes, t->frame.length, &bound, NULL));
    for (size_t i = 0; i < t->count; i++) {
        if (bound == bound && !nonfinite(bits_of(x[i])))
            CHECK(fabs((double)x[i] - (double)y[i]) <= bound);
        if (!changed) CHECK(bits_of(y[i]) == 0 || bits_of(y[i]) == bits_of(sent_as(t->c, x[i])));
    }
    if (!changed) check_chosen(t, x, y);
    if (!changed && strstr(t->c->spec, "exact")) check_exact_choice(t, x, y);
    check_views(t, y, PITH_F32);
    free(x);
    free(y);
}

static void check_frame(const struct trip *t) {
    pith_info info = {.size = sizeof info};
    CHECK_OK(pith_inspect(t->frame.bytes, t->frame.length, &info, NULL));
    CHECK(info.frame_bytes == t->frame.length);
    CHECK(info.count == t->count && info.ndim == 1 && info.shape[0] == t->count);
    CHECK(info.dtype == t->c->dtype && info.base_dtype == t->c->base_dtype);
    CHECK(strcmp(info.codec_name, t->c->codec) == 0);
    CHECK(info.header_bytes == (t->base || t->c->bounded || t->c->sparse ? 96 : 64));
    CHECK(!info.is_key && info.has_step == (t->base != NULL));
    CHECK(info.has_base_hash == (t->base && t->c->base_hash));
    CHECK(info.has_checksums == t->count % 2);
    const pith_env env = test_env();
    CHECK_OK(pith_verify(t->frame.bytes, t->frame.length, &env, NULL));
}

static void one_trip(const struct test_case *c, enum gen kind, size_t count) {
    struct trip t;
    context("%s dtype %s base %s, %s x %zu", c->spec, pith_dtype_name(c->dtype),
            pith_dtype_name(c->base_dtype), gen_name(kind), count);
    trip_open(&t, c, kind, count);
    check_frame(&t);
    if (c->exact)
        check_exact(&t);
    else if (t.c->bounded)
        check_bounded(&t);
    else if (t.c->sparse)
        check_sparse(&t);
    else
        check_difference(&t);
    trip_close(&t);
}

static void test_every_case(void **state) {
    (void)state;
    const struct test_case *c;
    size_t counts[CASE_COUNTS], trips = 0;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        case_counts(c, counts);
        for (size_t k = 0; counts[k] != SIZE_MAX; k++)
            for (int kind = 0; kind < GEN_COUNT; kind++) {
                const bool large = counts[k] > 1024;
                if (large && kind != GEN_NOISE && kind != GEN_BITS && kind != GEN_HOLES) continue;
                if (counts[k] > 16384 && kind != GEN_NOISE) continue;
                if (is_sampled(trips++, 1)) one_trip(c, (enum gen)kind, counts[k]);
            }
    }
    CHECK(trips > 10000 / case_step());
}

/* Where values change little, an exact update against a base is much smaller than the values. */
static void test_update_is_small(void **state) {
    (void)state;
    enum { N = 20000 };
    uint16_t *base = allocate(N * 2), *value = allocate(N * 2);
    gen_fill(GEN_NOISE, 1, PITH_BF16, base, N);
    memcpy(value, base, N * 2);
    uint64_t seed = 3;
    for (size_t i = 0; i < N; i++)
        if (gen_next(&seed) % 4 == 0) value[i] = (uint16_t)(value[i] ^ (gen_next(&seed) & 1));
    const pith_view v = pith_view_flat(value, PITH_BF16, N), b = pith_view_flat(base, PITH_BF16, N);
    struct frame with = compress("lossless", &v, &b, 0),
                 without = compress("lossless", &v, NULL, 0);
    CHECK(with.length < N * 2 / 8);
    CHECK(without.length < N * 2);
    free(with.bytes);
    free(without.bytes);
    free(base);
    free(value);
}

/* Worked by hand from FORMAT.md: m = 7, so s = 1, r = 1 and codes are nearest even integers. */
static void test_group_by_hand(void **state) {
    (void)state;
    context("group by hand");
    const float value[8] = {0.5f, 1.5f, 2.5f, -0.5f, -2.5f, 7, -7, -0.0f};
    const float wanted[8] = {0, 2, 2, 0, -2, 7, -7, 0};
    const uint8_t codes[4] = {0x20, 0x02, 0x7E, 0x09};
    float out[8];
    const pith_view v = pith_view_flat(value, PITH_F32, 8), o = pith_view_flat(out, PITH_F32, 8);
    struct frame f = compress("wdiff", &v, NULL, 0);
    CHECK(f.length == 64 + 16 + 16);
    const float one = 1;
    CHECK(memcmp(f.bytes + 64, &one, 4) == 0 && all_bytes(f.bytes + 68, 12, 0));
    CHECK(memcmp(f.bytes + 80, codes, 4) == 0 && all_bytes(f.bytes + 84, 12, 0));
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &o, NULL));
    CHECK(memcmp(out, wanted, sizeof out) == 0);
    double bound;
    CHECK_OK(pith_error_bound(f.bytes, f.length, &bound, NULL));
    CHECK(bound == 0.5 * (1 + 0x1p-14));
    free(f.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group_by_hand),
        cmocka_unit_test(test_every_case),
        cmocka_unit_test(test_update_is_small),
    };
    return cmocka_run_group_tests_name("roundtrip", tests, NULL, NULL);
}
