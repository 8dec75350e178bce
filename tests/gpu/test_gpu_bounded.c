/* test_gpu_bounded.c - codec eb on the device: frames, values and statuses are the CPU's, for every
 * dtype, shape and bound that devices take; anything else is refused, never guessed at.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "rig.h"

static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};

/* Bounds that leave many values exact, few, or none. */
static const char *const specs[] = {
    "eb",
    "eb:rel=0.05,zeros=signed",
    "eb:rel=0.01,range=3,block=64",
    "eb:abs=0.01,block=256",
    "eb:abs=1e-30,block=32",
    "eb:abs=1000",
    "eb:pwrel=0.01,zeros=signed,block=512",
    "eb:pwrel=0.0001,block=whole",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* Of one to four dimensions; rows that end inside groups, and runs of groups inside rows. */
static const uint64_t shapes[][5] = {
    {1, 1},        {1, 7},          {1, 17},         {1, 300},         {1, 5000},
    {2, 3, 5},     {2, 70, 33},     {2, 2, 2500},    {2, 900, 1},      {3, 9, 10, 11},
    {3, 1, 1, 40}, {3, 17, 18, 19}, {4, 3, 5, 7, 9}, {4, 6, 5, 4, 16}, {2, 0, 4},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static pith_layout layout_of(const uint64_t shape[5], uint32_t dtype, uint32_t flags) {
    pith_layout layout = {.size = sizeof layout, .dtype = dtype, .ndim = (uint32_t)shape[0]};
    layout.flags = flags;
    memcpy(layout.shape, shape + 1, (size_t)shape[0] * sizeof *shape);
    return layout;
}

/* ---- A frame on both sides -------------------------------------------------------------------*/

struct trip {
    struct rig r;
    size_t bytes, offset;
    uint8_t *value, *decoded;
    struct frame frame;
};

/* Smooth: differences along all dimensions are worth something. */
static void make_values(struct trip *t, const uint64_t shape[5], int kind) {
    const uint32_t dtype = t->r.layout.dtype;
    if (kind < GEN_COUNT) {
        gen_fill((enum gen)kind, 3 + t->bytes, dtype, t->value, t->r.count);
        return;
    }
    uint64_t seed = 1 + t->bytes;
    for (uint64_t i = 0; i < t->r.count; i++) {
        float x = 0;
        for (uint64_t d = shape[0], at = i; d > 0; at /= shape[d--])
            x += (float)(at % shape[d]) * (float)(at % shape[d]) * 0.01f;
        uint32_t u;
        x += (float)gen_normal(&seed) * 0.02f;
        memcpy(&u, &x, sizeof u);
        store_float(t->value, dtype, (size_t)i, gen_next(&seed) % 400 ? u : 0x7FC12345u);
    }
}

static void trip_open(struct trip *t, const char *spec, const pith_layout *layout,
                      const uint64_t shape[5], int kind, size_t offset) {
    *t = (struct trip){.offset = offset};
    CHECK(rig_open(&t->r, spec, layout));
    t->bytes = (size_t)t->r.count * pith_dtype_bytes(layout->dtype);
    t->value = room(t->bytes);
    t->decoded = room(t->bytes);
    make_values(t, shape, kind);
    const pith_view flat = pith_view_flat(t->value, layout->dtype, t->r.count);
    t->frame = stream_encode(&t->r.cpu, &flat, 0, false);
    const pith_view out = pith_view_flat(t->decoded, layout->dtype, t->r.count);
    CHECK_OK(pith_decode(t->r.cpu.plan, t->r.cpu.state, 0, t->frame.bytes, t->frame.length, &out));
}

static void trip_close(struct trip *t) {
    free(t->value);
    free(t->decoded);
    free(t->frame.bytes);
    rig_close(&t->r);
}

/* A call that reads the frame, from memory of exactly its length. */
static void reader_open(struct job *j, const struct trip *t, uint32_t dtype) {
    job_open(j, &t->r, 1, 1, dtype, t->offset);
    job_set_frame(j, t->frame.bytes, t->frame.length);
}

static void check_encode(struct trip *t) {
    struct job j;
    job_open(&j, &t->r, 1, 1, t->r.layout.dtype, t->offset);
    memcpy(j.tensor.host, t->value, t->bytes);
    JOB_RUN(&j, pith_cuda_encode(t->r.plan, NULL, &j.items, device_stream()));
    CHECK_OK(job_status(&j, 0));
    CHECK(*job_length(&j, 0) == t->frame.length);
    CHECK(memcmp(job_frame(&j, 0), t->frame.bytes, t->frame.length) == 0);
    CHECK(all_bytes(j.frame.host + t->frame.length, j.frame.bytes - t->frame.length, UNTOUCHED));
    job_close(&j);
}

static void check_decode(struct trip *t) {
    struct job j;
    reader_open(&j, t, t->r.layout.dtype);
    JOB_RUN(&j, pith_cuda_decode(t->r.plan, NULL, &j.items, device_stream()));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, t->decoded, t->bytes) == 0);
    JOB_RUN(&j, pith_cuda_verify(t->r.plan, NULL, &j.items, device_stream()));
    CHECK_OK(job_status(&j, 0));
    job_close(&j);
}

static void check_range(struct trip *t, uint64_t first, uint64_t count) {
    const size_t width = pith_dtype_bytes(t->r.layout.dtype);
    const uint64_t begin = first < t->r.count ? first : t->r.count;
    const uint64_t end = count < t->r.count - begin ? begin + count : t->r.count;
    struct job j;
    reader_open(&j, t, t->r.layout.dtype);
    JOB_RUN(&j, pith_cuda_decode_range(t->r.plan, NULL, &j.items, first, count, device_stream()));
    CHECK_OK(job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, begin * width, UNTOUCHED));
    CHECK(memcmp(j.tensor.host + begin * width, t->decoded + begin * width,
                 (end - begin) * width) == 0);
    CHECK(all_bytes(j.tensor.host + end * width, (t->r.count - end) * width, UNTOUCHED));
    job_close(&j);
}

/* Decoded to another dtype, or added to what is there. */
static void check_other(struct trip *t, uint32_t dtype, bool add) {
    const size_t bytes = (size_t)t->r.count * pith_dtype_bytes(dtype);
    uint8_t *const wanted = room(bytes);
    const pith_view view = pith_view_flat(wanted, dtype, t->r.count);
    const void *const frame = t->frame.bytes;
    struct job j;
    reader_open(&j, t, dtype);
    gen_fill(GEN_HOLES, 77, dtype, wanted, t->r.count);
    memcpy(j.tensor.host, wanted, bytes);
    if (add) {
        CHECK_OK(pith_decode_add(t->r.cpu.plan, 0, frame, t->frame.length, &view));
        JOB_RUN(&j, pith_cuda_decode_add(t->r.plan, &j.items, device_stream()));
    } else {
        CHECK_OK(pith_decode(t->r.cpu.plan, t->r.cpu.state, 0, frame, t->frame.length, &view));
        JOB_RUN(&j, pith_cuda_decode(t->r.plan, NULL, &j.items, device_stream()));
    }
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, wanted, bytes) == 0);
    job_close(&j);
    free(wanted);
}

/* `number` varies what is not worth a product. */
static void one_trip(const char *spec, const uint64_t shape[5], int kind, uint64_t number) {
    const uint32_t dtype = reals[number % 3];
    const pith_layout layout = layout_of(shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s %s, shape of %llu: %llu %llu %llu %llu, values %d", spec, pith_dtype_name(dtype),
            (unsigned long long)shape[0], (unsigned long long)shape[1],
            (unsigned long long)shape[2], (unsigned long long)shape[3],
            (unsigned long long)shape[4], kind);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(&t, spec, &layout, shape, kind, number % 5 ? 0 : (size_t)(number / 5 % 16));
    check_encode(&t);
    check_decode(&t);
    if (number % 4 == 0) check_range(&t, t.r.count / 3 + number % 5, t.r.count / 2 + 1);
    if (number % 4 == 1) check_other(&t, reals[number / 4 % 3], false);
    if (number % 4 >= 2) check_other(&t, reals[number / 4 % 3], true);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t k = 0; k < SPECS; k++)
            for (int kind = 0; kind <= GEN_COUNT; kind++, number++)
                if (kind == GEN_COUNT || i < 4 || (number + i) % 5 == 0)
                    one_trip(specs[k], shapes[i], kind, number / 2 + k + i);
}

/* ---- Many items ------------------------------------------------------------------------------*/

static void test_slots(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 1000);
    struct rig r;
    struct job j;
    context("slots");
    layout.slots = 3;
    CHECK(rig_open(&r, "eb:rel=0.01,block=128", &layout));
    job_open(&j, &r, 3, 3, PITH_F32, 0);
    gen_fill(GEN_NOISE, 5, PITH_F32, j.tensor.host, 1000);
    uint8_t *const value = copy_of(j.tensor.host, j.tensor.bytes);
    uint8_t *const decoded = room(j.tensor.bytes);
    const pith_view whole = pith_view_flat(value, PITH_F32, 1000);
    const pith_view out = pith_view_flat(decoded, PITH_F32, 1000);
    JOB_RUN(&j, pith_cuda_encode(r.plan, NULL, &j.items, device_stream()));
    for (uint64_t i = 0; i < 3; i++) {
        struct frame f = stream_encode(&r.cpu, &whole, i, false);
        CHECK_OK(job_status(&j, i));
        CHECK(*job_length(&j, i) == f.length && memcmp(job_frame(&j, i), f.bytes, f.length) == 0);
        CHECK_OK(pith_decode(r.cpu.plan, r.cpu.state, i, f.bytes, f.length, &out));
        free(f.bytes);
    }
    JOB_RUN(&j, pith_cuda_decode(r.plan, NULL, &j.items, device_stream()));
    for (uint64_t i = 0; i < 3; i++) CHECK_OK(job_status(&j, i));
    CHECK(memcmp(j.tensor.host, decoded, j.tensor.bytes) == 0);
    free(value);
    free(decoded);
    job_close(&j);
    rig_close(&r);
}

/* A frame that is longer than its room is not begun. */
static void test_space(void **state) {
    (void)state;
    const pith_layout layout = layout_of(shapes[6], PITH_F32, 0);
    struct trip t;
    struct job j;
    context("room");
    trip_open(&t, "eb:abs=0.01", &layout, shapes[6], GEN_NOISE, 0);
    job_open(&j, &t.r, 1, 1, PITH_F32, 0);
    memcpy(j.tensor.host, t.value, t.bytes);
    j.items.capacity = t.frame.length - 1;
    JOB_RUN(&j, pith_cuda_encode(t.r.plan, NULL, &j.items, device_stream()));
    CHECK_STATUS(PITH_ERR_SPACE, job_status(&j, 0));
    CHECK(*job_length(&j, 0) == 0 && all_bytes(j.frame.host, j.frame.bytes, UNTOUCHED));
    j.items.capacity = t.frame.length;
    JOB_RUN(&j, pith_cuda_encode(t.r.plan, NULL, &j.items, device_stream()));
    CHECK_OK(job_status(&j, 0));
    j.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_encode(t.r.plan, NULL, &j.items, device_stream()));
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_decode(t.r.plan, NULL, &j.items, device_stream()));
    job_close(&j);
    trip_close(&t);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void refuses(const char *spec, uint32_t dtype) {
    const pith_layout layout = flat_layout(dtype, PITH_NONE, 100);
    struct rig r;
    context("%s of %s", spec, pith_dtype_name(dtype));
    CHECK(!rig_open(&r, spec, &layout));
}

static void test_refused(void **state) {
    (void)state;
    refuses("eb", PITH_F64);
    refuses("eb:mode=ratio", PITH_F32);
    refuses("eb:mode=auto,abs=0.1", PITH_F32);
    refuses("eb:psnr=60", PITH_F32);
    refuses("eb:nmse=1e-6", PITH_F32);
}

static void test_sums(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct rig r, raw;
    struct job j, made;
    context("sums");
    CHECK(rig_open(&r, "eb", &layout) && rig_open(&raw, "raw", &layout));
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    job_open(&made, &raw, 1, 1, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce(r.plan, NULL, &j.items, 1, 1, device_stream()));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(r.plan, NULL, &j.items, 1, 1, raw.plan, NULL, &made.items,
                                         device_stream()));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(raw.plan, NULL, &made.items, 1, 1, r.plan, NULL, &j.items,
                                         device_stream()));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_encode_key(r.plan, NULL, &j.items, device_stream()));
    job_close(&made);
    job_close(&j);
    rig_close(&raw);
    rig_close(&r);
}

/* Frames of other modes: plain, constant and packed blocks are read, others refused. */
static void other_mode(const char *spec, int kind, pith_status wanted) {
    const pith_layout layout = layout_of(shapes[6], PITH_F32, 0);
    struct trip t;
    struct stream other;
    struct job j;
    context("frames of %s, values %d", spec, kind);
    trip_open(&t, "eb:abs=0.01", &layout, shapes[6], kind, 0);
    stream_open(&other, spec, &layout, NULL);
    const pith_view view = pith_view_flat(t.value, PITH_F32, t.r.count);
    const pith_view out = pith_view_flat(t.decoded, PITH_F32, t.r.count);
    struct frame f = stream_encode(&other, &view, 0, false);
    CHECK_OK(pith_decode(t.r.cpu.plan, t.r.cpu.state, 0, f.bytes, f.length, &out));
    job_open(&j, &t.r, 1, 1, PITH_F32, 0);
    job_set_frame(&j, f.bytes, f.length);
    JOB_RUN(&j, pith_cuda_decode(t.r.plan, NULL, &j.items, device_stream()));
    CHECK_STATUS(wanted, job_status(&j, 0));
    if (wanted == PITH_OK)
        CHECK(memcmp(j.tensor.host, t.decoded, t.bytes) == 0);
    else
        CHECK(all_bytes(j.tensor.host, t.bytes, UNTOUCHED));
    free(f.bytes);
    job_close(&j);
    stream_close(&other);
    trip_close(&t);
}

static void test_modes(void **state) {
    (void)state;
    other_mode("eb:mode=ratio,abs=0.01", GEN_COUNT, PITH_ERR_UNSUPPORTED);
    other_mode("eb:mode=ratio,abs=0.01", GEN_EQUAL, PITH_OK);
    other_mode("eb:mode=auto,abs=0.01", GEN_EQUAL, PITH_OK);
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

/* The CPU's status, or one of those that only devices have; nothing written where it is not OK. */
static void try_bytes(struct trip *t, const uint8_t *bytes, size_t length) {
    const size_t width = pith_dtype_bytes(t->r.layout.dtype);
    uint8_t *const exact = copy_of(bytes, length);
    const pith_view out = pith_view_flat(t->decoded, t->r.layout.dtype, t->r.count);
    struct job j;
    const pith_status wanted = pith_decode(t->r.cpu.plan, t->r.cpu.state, 0, exact, length, &out);
    job_open(&j, &t->r, 1, 1, t->r.layout.dtype, t->offset);
    job_set_frame(&j, bytes, length);
    JOB_RUN(&j, pith_cuda_decode(t->r.plan, NULL, &j.items, device_stream()));
    const pith_status got = job_status(&j, 0);
    if (got != PITH_ERR_MISMATCH && got != PITH_ERR_UNSUPPORTED) CHECK_STATUS(wanted, got);
    if (got == PITH_OK)
        CHECK(memcmp(j.tensor.host, t->decoded, width * t->r.count) == 0);
    else
        CHECK(all_bytes(j.tensor.host, j.tensor.bytes, UNTOUCHED));
    job_close(&j);
    free(exact);
}

static void attack(struct trip *t, uint64_t seed) {
    const size_t length = t->frame.length;
    uint8_t *const kept = copy_of(t->frame.bytes, length);
    for (size_t n = 0; n < length; n += 1 + n / 7) try_bytes(t, kept, n);
    for (size_t i = 0; i < length; i += length < 600 ? 1 : 1 + gen_next(&seed) % 5) {
        t->frame.bytes[i] ^= (uint8_t)(1u << gen_next(&seed) % 8);
        if (i < 96 && gen_next(&seed) % 2) bad_seal(&t->frame);
        try_bytes(t, t->frame.bytes, length);
        memcpy(t->frame.bytes, kept, length);
    }
    free(kept);
}

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        size_t shape;
        int kind;
    } targets[] = {
        {"eb:abs=0.01,block=64", 11, GEN_COUNT},
        {"eb:abs=0.01", 3, GEN_HOLES},
        {"eb:abs=1", 3, GEN_EQUAL},
        {"eb:pwrel=0.01", 12, GEN_BITS},
        {"eb:abs=1e-30,block=32", 3, GEN_SPARSE},
        {"eb:rel=0.001", 6, GEN_COUNT},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const uint64_t *const shape = shapes[targets[i].shape];
        const pith_layout layout =
            layout_of(shape, reals[i % 3], i == 1 ? PITH_LAYOUT_CHECKSUMS : 0);
        struct trip t;
        context("%s attacked", targets[i].spec);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, targets[i].spec, &layout, shape, targets[i].kind, i);
        attack(&t, i);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),   cmocka_unit_test(test_slots), cmocka_unit_test(test_space),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_sums),  cmocka_unit_test(test_modes),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("gpu_bounded", tests, NULL, NULL);
}
