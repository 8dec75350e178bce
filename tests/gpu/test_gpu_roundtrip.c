/* test_gpu_roundtrip.c - every case of codecs.def that devices take: frames, values, bases and
 * counters are the CPU's, byte for byte, at every alignment.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"
#include "gen.h"
#include "rig.h"

static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};

/* One value and base array with what the CPU makes of them. */
struct trip {
    const struct test_case *c;
    size_t count, bytes, offset;
    uint8_t *value, *base, *decoded;
    struct frame frame;
    struct rig r;
};

static size_t base_bytes(const struct trip *t) {
    return t->count * pith_dtype_bytes(t->c->base_dtype);
}

/* Both streams as they are before the frame. */
static void rewind_streams(struct trip *t) {
    if (t->base) rig_set_base(&t->r, t->base, t->c->base_dtype, 5);
    rig_set_random(&t->r, 9, 4, 6);
}

/* With a base, an update that overflows is worth a case; the rest are near it or anything. */
static void make_values(struct trip *t, enum gen kind) {
    t->value = allocate(t->bytes);
    gen_fill(kind, 11 + t->count, t->c->dtype, t->value, t->count);
    if (t->c->base_dtype == PITH_NONE) return;
    t->base = allocate(base_bytes(t));
    gen_fill(t->count % 3 ? GEN_NOISE : kind, 5 + t->count, t->c->base_dtype, t->base, t->count);
}

static bool trip_open(struct trip *t, const struct test_case *c, enum gen kind, size_t count,
                      uint64_t number) {
    pith_layout layout = flat_layout(c->dtype, c->base_dtype, count);
    layout.flags = number % 2 ? PITH_LAYOUT_CHECKSUMS : 0;
    *t = (struct trip){.c = c,
                       .count = count,
                       .bytes = count * pith_dtype_bytes(c->dtype),
                       .offset = number % 3 ? 0 : (size_t)(number / 3 % 16)};
    if (!rig_open(&t->r, c->spec, &layout)) return false;
    make_values(t, kind);
    rewind_streams(t);
    return true;
}

static void trip_close(struct trip *t) {
    free(t->value);
    free(t->base);
    free(t->decoded);
    free(t->frame.bytes);
    rig_close(&t->r);
}

/* ---- The calls -------------------------------------------------------------------------------*/

static void check_encode(struct trip *t) {
    const pith_view value = pith_view_flat(t->value, t->c->dtype, t->count);
    struct job j;
    job_open(&j, &t->r, 1, 1, t->c->dtype, t->offset);
    memcpy(j.tensor.host, t->value, t->bytes);
    t->frame = stream_encode(&t->r.cpu, &value, 0, false);
    JOB_RUN(&j, pith_cuda_encode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(*job_length(&j, 0) == t->frame.length);
    CHECK(memcmp(job_frame(&j, 0), t->frame.bytes, t->frame.length) == 0);
    CHECK(all_bytes(j.frame.host + t->frame.length, j.frame.bytes - t->frame.length, UNTOUCHED));
    CHECK(memcmp(j.tensor.host, t->value, t->bytes) == 0);
    rig_check_stream(&t->r);
    job_close(&j);
}

/* What the CPU decodes, and that the device does so too. */
static uint8_t *check_decode(struct trip *t, uint32_t dtype) {
    const size_t bytes = t->count * pith_dtype_bytes(dtype);
    uint8_t *const wanted = allocate(bytes);
    const pith_view view = pith_view_flat(wanted, dtype, t->count);
    struct job j;
    rewind_streams(t);
    job_open(&j, &t->r, 1, 1, dtype, t->offset);
    memcpy(j.frame.host, t->frame.bytes, t->frame.length);
    *job_length(&j, 0) = t->frame.length;
    CHECK_OK(
        decode_one(t->r.cpu.work, t->r.cpu.stream, 0, t->frame.bytes, t->frame.length, &view, 0));
    JOB_RUN(&j, pith_cuda_decode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, wanted, bytes) == 0);
    rig_check_stream(&t->r);
    job_close(&j);
    return wanted;
}

/* Elements of a range come where they belong, and nothing else changes. */
static void check_range(struct trip *t, uint64_t first, uint64_t count) {
    const size_t width = pith_dtype_bytes(t->c->dtype);
    const uint64_t begin = first < t->count ? first : t->count;
    const uint64_t end = count < t->count - begin ? begin + count : t->count;
    struct job j;
    rewind_streams(t);
    job_open(&j, &t->r, 1, 1, t->c->dtype, t->offset);
    memcpy(j.frame.host, t->frame.bytes, t->frame.length);
    JOB_RUN(&j, pith_cuda_decode_range(t->r.plan, t->r.stream, &j.items, first, count,
                                       device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, begin * width, UNTOUCHED));
    CHECK(memcmp(j.tensor.host + begin * width, t->decoded + begin * width,
                 (end - begin) * width) == 0);
    CHECK(all_bytes(j.tensor.host + end * width, (t->count - end) * width, UNTOUCHED));
    rig_check_stream(&t->r);
    job_close(&j);
}

static void check_add(struct trip *t, uint32_t dtype) {
    const size_t bytes = t->count * pith_dtype_bytes(dtype);
    uint8_t *const wanted = allocate(bytes);
    const pith_view view = pith_view_flat(wanted, dtype, t->count);
    struct job j;
    if (t->base)
        memcpy(wanted, t->base, bytes);
    else
        gen_fill(GEN_HOLES, 77, dtype, wanted, t->count);
    job_open(&j, &t->r, 1, 1, dtype, t->offset);
    memcpy(j.frame.host, t->frame.bytes, t->frame.length);
    memcpy(j.tensor.host, wanted, bytes);
    CHECK_OK(decode_one(t->r.cpu.work, t->r.cpu.stream, 0, t->frame.bytes, t->frame.length, &view,
                        PITH_ADD));
    JOB_RUN(&j,
            pith_cuda_decode(t->r.plan, t->r.stream, &j.items, PITH_ADD, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, wanted, bytes) == 0);
    job_close(&j);
    free(wanted);
}

static void check_verify(struct trip *t) {
    struct job j;
    rewind_streams(t);
    job_open(&j, &t->r, 1, 1, t->c->dtype, t->offset);
    memcpy(j.frame.host, t->frame.bytes, t->frame.length);
    JOB_RUN(&j, pith_cuda_verify(t->r.plan, t->r.stream, &j.items, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    rig_check_stream(&t->r);
    job_close(&j);
}

/* ---- The table -------------------------------------------------------------------------------*/

/* Whether devices take the case. `number` varies what is not worth a product. */
static bool one_trip(const struct test_case *c, enum gen kind, size_t count, uint64_t number) {
    struct trip t;
    context("%s dtype %s base %s, %s x %zu, number %llu", c->spec, pith_dtype_name(c->dtype),
            pith_dtype_name(c->base_dtype), gen_name(kind), count, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    if (!trip_open(&t, c, kind, count, number)) return false;
    check_encode(&t);
    t.decoded = check_decode(&t, c->dtype);
    if (!c->exact) free(check_decode(&t, reals[number % 3]));
    if (number % 4 == 0) check_range(&t, count / 3 + number % 5, count / 2 + 1);
    if (number % 4 == 1) check_verify(&t);
    if (number % 4 == 2) check_range(&t, 0, count);
    if (c->base_dtype != PITH_NONE)
        check_add(&t, c->base_dtype);
    else if (!c->exact || c->dtype <= PITH_F16)
        check_add(&t, reals[number / 2 % 3]);
    trip_close(&t);
    return true;
}

static const size_t counts[] = {0, 1, 7, 8, 9, 31, 33, 75, 128, 257, 1000, 4099, 16385, 40000};

static bool wanted(enum gen kind, size_t count) {
    if (count > 10000) return kind == GEN_NOISE;
    if (count > 300) return kind == GEN_NOISE || kind == GEN_BITS || kind == GEN_HOLES;
    return true;
}

enum { SAMPLED = 3 }; /* one in so many trips, where a sample is wanted */

/* What a sample of the trips is of so many. */
static uint64_t part_of(uint64_t trips) {
    return case_step() == 1 ? trips : trips / case_step() / SAMPLED * 3 / 4;
}

/* Cases whose codec or setting begins so. */
static uint64_t every_trip(const char *prefix) {
    const struct test_case *c;
    uint64_t trips = 0, met = 0;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++)
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++)
            for (int kind = 0; kind < GEN_COUNT; kind++)
                if (strncmp(c->spec, prefix, strlen(prefix)) == 0 &&
                    wanted((enum gen)kind, counts[n]) && is_sampled(met++, SAMPLED))
                    trips += one_trip(c, (enum gen)kind, counts[n], trips + i + n);
    return trips;
}

static void test_wdiff(void **state) {
    (void)state;
    CHECK(every_trip("wdiff") > part_of(5000));
}
static void test_grad(void **state) {
    (void)state;
    CHECK(every_trip("grad") > part_of(1000));
}
static void test_eb(void **state) {
    (void)state;
    CHECK(every_trip("eb") > part_of(500));
}
static void test_kv(void **state) {
    (void)state;
    CHECK(every_trip("kv") > part_of(500));
}
static void test_lossless(void **state) {
    (void)state;
    CHECK(every_trip("lossless") > part_of(500));
}
static void test_raw(void **state) {
    (void)state;
    CHECK(every_trip("raw") > part_of(1000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wdiff), cmocka_unit_test(test_grad),     cmocka_unit_test(test_eb),
        cmocka_unit_test(test_kv),    cmocka_unit_test(test_lossless), cmocka_unit_test(test_raw),
    };
    return cmocka_run_group_tests_name("gpu_roundtrip", tests, NULL, NULL);
}
