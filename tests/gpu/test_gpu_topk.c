/* test_gpu_topk.c - codec topk on the device: frames, values, sums and statuses are the CPU's, for
 * every dtype, density, form of a set and rule of the threshold that devices take; anything else is
 * refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

static const char *const specs[] = {
    "topk:k=7",
    "topk:k=300,control=exact,block=64",
    "topk:density=0.1,control=exact,values=f16,block=256",
    "topk:density=0.03,values=bf16,index=fast,block=4096",
    "topk:density=0.2,values=int8,index=fast,block=2048",
    "topk:density=0.3,values=int8,block=128",
    "topk:density=0.02,values=none",
    "topk:density=0.25,values=none,index=fast,block=512",
    "topk:density=0.01,control=micro,block=1024,cap=255",
    "topk:density=0.05,control=micro-symmetric,cap=1",
    "topk:density=0.5,control=nonzero,block=512",
    "topk:density=0.5,control=nonzero,values=int8,index=fast",
    "topk:density=0.05,control=every,every=3,values=f16",
    "topk:density=1",
    "topk:density=0.1,control=nonzero,unit=2",
    "topk:density=0.1,control=nonzero,unit=8,index=fast",
    "topk:density=0.1,control=nonzero,unit=64,values=int8,block=64",
    "topk:density=0.1,control=nonzero,unit=4096,values=f16",
    "topk:density=0.1,scope=row",
    "topk:density=0.03,control=oktopk,every=3",
    "topk:density=0.02,control=sage,block=1024,values=f16",
    "topk:density=0.1,control=dgc,block=4096",
    "topk:density=0.03,control=dgc,cap=1",
    "topk:density=0.05,control=gauss,block=64",
    "topk:density=0.1,control=gauss,block=8192,values=int8",
    "topk:density=0.1,control=redsync",
    "topk:density=0.01,control=redsync,block=256,index=fast",
    "topk:density=0.1,transform=dct",
    "topk:density=0.05,control=exact,transform=dct,values=int8,block=256",
    "topk:density=0.1,transform=hadamard,block=64",
    "topk:density=0.02,transform=hadamard,values=f16,index=fast",
    "topk:density=0.3,transform=dct,control=gauss,values=bf16,block=64",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 129, 1000, 4096, 5003, 20000};
enum { COUNTS = sizeof counts / sizeof counts[0], CLUSTERS = GEN_COUNT, KINDS };

/* Runs of large values, so that RUNS is the shortest form. */
static void fill(int kind, uint64_t seed, uint32_t dtype, void *value, uint64_t n) {
    if (kind < GEN_COUNT) {
        gen_fill((enum gen)kind, seed, dtype, value, n);
        return;
    }
    gen_fill(GEN_NOISE, seed, dtype, value, n);
    for (uint64_t at = gen_next(&seed) % 40; at < n; at += 1 + gen_next(&seed) % 900)
        for (uint64_t end = at + 1 + gen_next(&seed) % 200; at < n && at < end; at++)
            store_float(value, dtype, (size_t)at,
                        0x40000000u + (uint32_t)at * 0x10000u % 0x100000u);
}

static void open_trip(struct trip *t, const char *spec, uint32_t dtype, uint64_t n, uint32_t flags,
                      int kind, size_t offset) {
    const uint64_t shape[5] = {1, n};
    const pith_layout layout = shape_layout(shape, dtype, flags);
    trip_open(t, spec, &layout, offset);
    fill(kind, n + (uint64_t)kind, dtype, t->value, n);
    trip_encode(t);
}

static void one_trip(const char *spec, uint64_t n, int kind, uint64_t number) {
    const uint32_t dtype = trip_reals[number % 3];
    struct trip t;
    context("%s %s, %llu values of kind %d", spec, pith_dtype_name(dtype), (unsigned long long)n,
            kind);
    device_order((int)(number % (uint64_t)device_orders()));
    open_trip(&t, spec, dtype, n, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0, kind,
              number % 5 ? 0 : (size_t)(number / 5 % 16));
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_part(&t, number);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < COUNTS; i++)
        for (size_t k = 0; k < SPECS; k++)
            for (int kind = 0; kind < KINDS; kind++, number++)
                if ((i >= COUNTS - 2 || kind == CLUSTERS || (number + i) % 3 == 0) &&
                    is_sampled(number, 6))
                    one_trip(specs[k], counts[i], kind, number / 2 + k + i);
}

/* Every order of threads for values that have ties at the k-th, and that exceed the hard limit. */
static void test_orders(void **state) {
    (void)state;
    static const int kinds[] = {GEN_EQUAL, GEN_SIGNED, GEN_HOLES, GEN_LARGE, CLUSTERS};
    uint64_t number = 0;
    for (int order = 0; order < device_orders(); order++)
        for (size_t k = 0; k < SPECS; k++)
            for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
                struct trip t;
                if (!is_sampled(number++, 4)) continue;
                context("%s, values %d, order %d", specs[k], kinds[i], order);
                device_order(order);
                open_trip(&t, specs[k], trip_reals[(k + i) % 3], 33333, 0, kinds[i], 0);
                trip_check_encode(&t);
                trip_check_decode(&t);
                trip_close(&t);
            }
}

/* Values whose variance is what rounding leaves of it: in another order sums give another
 * threshold. */
static void test_moments(void **state) {
    (void)state;
    static const char *const rules[] = {"topk:density=0.001,control=gauss,block=64",
                                        "topk:density=0.001,control=gauss,block=8192",
                                        "topk:density=0.001,control=gauss,block=32768"};
    for (uint64_t number = 0; number < 24; number++) {
        const uint64_t n = 20000 + 999 * number, shape[5] = {1, n};
        const pith_layout layout = shape_layout(shape, PITH_F32, 0);
        uint64_t seed = number;
        struct trip t;
        context("moments in order, number %d", (int)number);
        device_order((int)(number % (uint64_t)device_orders()));
        trip_open(&t, rules[number % 3], &layout, 0);
        for (uint64_t i = 0; i < n; i++)
            store_float(t.value, PITH_F32, (size_t)i,
                        bits_of(16777000.0f + (gen_next(&seed) % 20 == 0)));
        trip_encode(&t);
        trip_check_encode(&t);
        trip_close(&t);
    }
}

/* Frames of another setting on which decoding does not depend are read. */
static void test_settings(void **state) {
    (void)state;
    struct trip t;
    context("frames of other settings");
    open_trip(&t, "topk:density=0.1,block=512", PITH_F32, 3000, 0, GEN_NOISE, 0);
    trip_check_frame_of(&t, "topk:density=0.7,block=512", PITH_OK);
    trip_check_frame_of(&t, "topk:k=5,block=512,cap=9,control=sage", PITH_OK);
    trip_check_frame_of(&t, "topk:k=500,block=512,control=exact,index=fast", PITH_OK);
    trip_check_frame_of(&t, "topk:density=0.3,block=512,index=fast", PITH_OK); /* exceptions */
    trip_check_frame_of(&t, "topk:density=0.3,block=512,index=fast,revision=1", PITH_OK);
    trip_close(&t);
    open_trip(&t, "topk:density=0.1,block=512,index=fast", PITH_F32, 3000, 0, GEN_NOISE, 0);
    trip_check_frame_of(&t, "topk:density=0.3,block=512,index=fast,revision=1", PITH_OK);
    trip_check_frame_of(&t, "topk:density=0.3,block=512", PITH_OK);
    trip_close(&t);
}

static void test_space(void **state) {
    (void)state;
    struct trip t;
    struct job j;
    context("capacity");
    open_trip(&t, "topk:density=0.1,ef=full", PITH_F32, 3000, 0, GEN_NOISE, 0);
    trip_check_space(&t);
    job_open(&j, &t.r, 1, 1, PITH_F32, 0);
    j.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_encode(t.r.plan, t.r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_decode(t.r.plan, t.r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_reduce(t.r.plan, t.r.stream, &j.items, 1, 1, device_stream(), NULL));
    job_close(&j);
    trip_close(&t);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* The sum of `each` frames of every slot, to `dtype`. */
static void check_sum(const char *spec, uint64_t n, uint64_t slots, uint64_t each, float scale,
                      uint32_t dtype, int kind) {
    pith_layout layout = flat_layout(trip_reals[n % 3], PITH_NONE, n);
    struct rig r;
    struct job j;
    layout.slots = slots;
    context("%s: sums of %llu frames of %llu elements to %s, values %d", spec,
            (unsigned long long)each, (unsigned long long)n, pith_dtype_name(dtype), kind);
    CHECK(rig_open(&r, spec, &layout));
    const uint64_t frames = r.slots * each;
    uint8_t *const value = allocate((size_t)n * 4), *const wanted = allocate((size_t)n * 4);
    const void **const bytes = allocate((size_t)each * sizeof *bytes);
    size_t *const lengths = allocate((size_t)each * sizeof *lengths);
    const pith_view view = pith_view_flat(value, layout.dtype, n);
    const pith_view sum = pith_view_flat(wanted, dtype, n);
    job_open(&j, &r, r.slots, frames, dtype, n % 16);
    for (uint64_t i = 0; i < frames; i++) {
        fill(kind, i + 1, layout.dtype, value, n);
        struct frame f = stream_encode(&r.cpu, &view, i / each, false);
        memcpy(job_frame(&j, i), f.bytes, f.length);
        *job_length(&j, i) = f.length;
        free(f.bytes);
    }
    CHECK_OK(pith_stream_reset(r.cpu.work, r.cpu.stream));
    for (uint64_t s = 0; s < r.slots; s++) {
        for (uint64_t i = 0; i < each; i++) {
            bytes[i] = job_frame(&j, s * each + i);
            lengths[i] = (size_t)*job_length(&j, s * each + i);
        }
        pith_sum call = {.size = sizeof call,
                         .stream = r.cpu.stream,
                         .slot = s,
                         .frames = bytes,
                         .lengths = lengths,
                         .count = (size_t)each,
                         .view = sum,
                         .scale = scale};
        CHECK_OK(pith_reduce(r.cpu.work, &call, 1));
    }
    const uint64_t more = dtype == PITH_F32 ? 0 : r.slots * r.sizes.sum_bytes;
    device_free(j.work);
    j.items.workspace_bytes = frames * r.sizes.workspace_bytes + more;
    j.items.workspace = j.work = device_alloc((size_t)j.items.workspace_bytes);
    JOB_RUN(&j, pith_cuda_reduce(r.plan, r.stream, &j.items, (uint32_t)each, scale, device_stream(),
                                 NULL));
    for (uint64_t i = 0; i < frames; i++) CHECK_OK(job_status(&j, i));
    CHECK(memcmp(j.tensor.host, wanted, j.tensor.bytes) == 0);
    rig_check_stream(&r);

    /* One that is damaged leaves the item as it is. */
    if (frames && n) {
        job_frame(&j, frames - 1)[*job_length(&j, frames - 1) - 1] ^= 1;
        job_frame(&j, frames - 1)[64] ^= 1;
        memset(j.tensor.host, UNTOUCHED, j.tensor.bytes);
        JOB_RUN(&j, pith_cuda_reduce(r.plan, r.stream, &j.items, (uint32_t)each, scale,
                                     device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_CHECKSUM, job_status(&j, frames - 1));
        const size_t width = pith_dtype_bytes(dtype);
        CHECK(j.tensor.host[j.tensor.bytes - width] == UNTOUCHED);
    }
    free(lengths);
    free((void *)bytes);
    free(wanted);
    free(value);
    job_close(&j);
    rig_close(&r);
}

static void test_sums(void **state) {
    (void)state;
    for (size_t k = 0; k < SPECS; k++)
        for (uint64_t each = 1; each <= 4; each++) {
            const uint64_t n = each == 4 ? 0 : 4500 + 100 * k + each;
            device_order((int)((k + each) % (size_t)device_orders()));
            check_sum(specs[k], n, 1 + k % 3, each, each == 2 ? 0.25f : 1,
                      trip_reals[(k + each) % 3], k % 2 ? GEN_BITS : CLUSTERS);
        }
}

/* Blocks whose zeros and sums several teams share, some of which have no element; slots that end
 * inside a part, the last of fewer blocks. */
static void test_parts(void **state) {
    (void)state;
    for (int order = 0; order < device_orders(); order++) {
        device_order(order);
        check_sum("topk:density=0.01,block=65536", 100003, 2, 3, 0.25f, trip_reals[order % 3],
                  CLUSTERS);
        check_sum("topk:density=0.02,block=32768", 70009, 3, 2, 1, PITH_F32, GEN_NOISE);
    }
    for (uint64_t number = 0; number < 6; number++)
        if (is_sampled(number, 4))
            one_trip("topk:density=0.01,block=65536", 65536 + 20001 * (number % 2), CLUSTERS,
                     number);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct rig r, raw;
    struct job j, made;
    pith_error error = {.size = sizeof error};
    context("calls that devices do not know");
    CHECK(rig_open(&r, "topk:k=9", &layout) && rig_open(&raw, "raw", &layout));
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    job_open(&made, &raw, 1, 1, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(r.plan, r.stream, &j.items, 1, 1, raw.plan, raw.stream,
                                         &made.items, device_stream(), &error));
    CHECK(error.text[0]);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(raw.plan, raw.stream, &made.items, 1, 1, r.plan, r.stream,
                                         &j.items, device_stream(), &error));
    job_close(&made);
    job_close(&j);
    rig_close(&raw);
    rig_close(&r);
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint64_t n;
        int kind;
        uint32_t flags;
    } targets[] = {
        {"topk:k=40,block=256", 1000, GEN_NOISE, 0},
        {"topk:k=200,control=exact,block=512,index=fast,values=int8", 1000, GEN_HOLES, 0},
        {"topk:density=0.2,control=exact,block=1024,index=fast,values=none", 1000, GEN_NOISE, 0},
        {"topk:density=0.4,values=f16,block=128", 500, GEN_NOISE, PITH_LAYOUT_CHECKSUMS},
        {"topk:density=0.2,values=none", 2000, CLUSTERS, 0},
        {"topk:density=1,block=64", 100, GEN_BITS, 0},
        {"topk:density=0.1,control=nonzero", 600, GEN_SPARSE, 0},
        {"topk:density=0.2,transform=dct,block=128", 700, GEN_NOISE, PITH_LAYOUT_CHECKSUMS},
        {"topk:density=0.2,transform=hadamard,values=int8,block=64", 333, GEN_NOISE, 0},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct trip t;
        context("%s attacked", targets[i].spec);
        device_order((int)(i % (size_t)device_orders()));
        open_trip(&t, targets[i].spec, trip_reals[i % 3], targets[i].n, targets[i].flags,
                  targets[i].kind, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),   cmocka_unit_test(test_orders),
        cmocka_unit_test(test_moments), cmocka_unit_test(test_settings),
        cmocka_unit_test(test_space),   cmocka_unit_test(test_sums),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("gpu_topk", tests, NULL, NULL);
}
