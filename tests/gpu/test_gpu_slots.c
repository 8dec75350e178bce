/* test_gpu_slots.c - items: lists of slots, tensors and frames, pages of one layout, ragged and
 * empty slots, and numbers and capacities that do not fit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

static const struct {
    const char *spec;
    uint32_t dtype, flags;
} codecs[] = {
    {"raw:block=64", PITH_F32, 0},
    {"raw", PITH_U8, PITH_LAYOUT_CHECKSUMS},
    {"wdiff:group=64,block=256", PITH_BF16, 0},
    {"grad", PITH_F32, PITH_LAYOUT_CHECKSUMS},
    {"grad:bits=3,group=64,rotate=64", PITH_F16, 0},
    {"grad:codebook=trellis,bits=2", PITH_F16, 0},
};
enum { CODECS = sizeof codecs / sizeof codecs[0] };

static void fill(struct rig *r, struct job *j) {
    gen_fill(GEN_NOISE, 3, r->layout.dtype, j->tensor.host, r->count);
}

/* ---- Slots -----------------------------------------------------------------------------------*/

static const uint64_t ragged[] = {0, 5, 1000, 0, 4097, 3, 0};
enum { RAGGED = sizeof ragged / sizeof ragged[0] };

static void check_all_slots(struct rig *r) {
    uint8_t *const value = allocate((size_t)r->count * pith_dtype_bytes(r->layout.dtype));
    gen_fill(GEN_NOISE, 3, r->layout.dtype, value, r->count);
    trip_check_slots(r, value);
    free(value);
}

static void test_divisions(void **state) {
    (void)state;
    for (size_t i = 0; i < CODECS; i++)
        for (int how = 0; how < 4; how++) {
            struct rig r;
            pith_layout layout = flat_layout(codecs[i].dtype, PITH_NONE, 5105);
            layout.flags = codecs[i].flags;
            layout.slots = how == 0 ? 7 : how == 1 ? 4 : how == 2 ? RAGGED : 2;
            layout.slot_count = how == 1 ? 2048 : 0; /* the last one is empty */
            layout.slot_counts = how == 2 ? ragged : NULL;
            if (how == 3) layout.shape[0] = 1; /* the second one is empty */
            context("%s, division %d", codecs[i].spec, how);
            device_order((int)(i + (size_t)how) % device_orders());
            CHECK(rig_open(&r, codecs[i].spec, &layout));
            check_all_slots(&r);
            rig_close(&r);
        }
}

static void open_slots(struct rig *r, size_t codec, uint64_t count, uint64_t slots) {
    pith_layout layout = flat_layout(codecs[codec].dtype, PITH_NONE, count);
    layout.flags = codecs[codec].flags;
    layout.slots = slots;
    CHECK(rig_open(r, codecs[codec].spec, &layout));
}

/* A list of slots in any order, with one that there is not. */
static void test_list(void **state) {
    (void)state;
    static const uint64_t list[5] = {4, 0, 6, 2, UINT64_MAX};
    for (size_t i = 0; i < CODECS; i++) {
        struct rig r;
        struct job j;
        struct mirror slots;
        context("%s, listed slots", codecs[i].spec);
        open_slots(&r, i, 3000, 6);
        job_open(&j, &r, 5, 5, codecs[i].dtype, 0);
        mirror_open(&slots, sizeof list, 0);
        memcpy(slots.host, list, sizeof list);
        mirror_push(&slots);
        fill(&r, &j);
        j.items.slots = (const uint64_t *)(const void *)slots.device;
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        for (uint64_t k = 0; k < 5; k++) {
            if (list[k] < 6) {
                trip_check_frame(&r, &j, k, list[k]);
                continue;
            }
            CHECK_STATUS(PITH_ERR_ARG, job_status(&j, k));
            CHECK(*job_length(&j, k) == 0);
            CHECK(all_bytes(job_frame(&j, k), j.stride, UNTOUCHED));
        }
        *job_length(&j, 2) = *job_length(&j, 4) = j.stride;
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        for (uint64_t k = 0; k < 5; k++)
            CHECK_STATUS(list[k] < 6 ? PITH_OK : PITH_ERR_ARG, job_status(&j, k));
        mirror_close(&slots);
        job_close(&j);
        rig_close(&r);
    }
}

static void test_first_slot(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    context("a first slot");
    open_slots(&r, 2, 3000, 6);
    job_open(&j, &r, 3, 3, codecs[2].dtype, 0);
    fill(&r, &j);
    j.items.first_slot = 4;
    JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    trip_check_frame(&r, &j, 0, 4);
    trip_check_frame(&r, &j, 1, 5);
    CHECK_STATUS(PITH_ERR_ARG, job_status(&j, 2));
    j.items.first_slot = UINT64_MAX;
    JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_ARG, job_status(&j, 0));
    job_close(&j);
    rig_close(&r);
}

/* ---- Pages: many tensors of one layout, by pointers -------------------------------------------*/

enum { PAGES = 9 };

struct pages {
    struct mirror tensor[PAGES], frame[PAGES], tensors, frames;
};

static void pages_open(struct pages *p, const struct rig *r, size_t frame_bytes, uint32_t dtype) {
    mirror_open(&p->tensors, PAGES * sizeof(void *), 0);
    mirror_open(&p->frames, PAGES * sizeof(void *), 0);
    for (size_t k = 0; k < PAGES; k++) {
        mirror_open(&p->tensor[k], (size_t)r->count * pith_dtype_bytes(dtype), k);
        mirror_open(&p->frame[k], frame_bytes, k % 4 ? 5 * k : 0);
        memcpy(p->tensors.host + k * sizeof(void *), &p->tensor[k].device, sizeof(void *));
        memcpy(p->frames.host + k * sizeof(void *), &p->frame[k].device, sizeof(void *));
    }
    mirror_push(&p->tensors);
    mirror_push(&p->frames);
}

static void pages_close(struct pages *p) {
    for (size_t k = 0; k < PAGES; k++) {
        mirror_close(&p->tensor[k]);
        mirror_close(&p->frame[k]);
    }
    mirror_close(&p->tensors);
    mirror_close(&p->frames);
}

static void use_pages(struct job *j, const struct pages *p) {
    j->items.same_slot = 1;
    j->items.tensors = (void *const *)(void *)p->tensors.device;
    j->items.frames = (void *const *)(void *)p->frames.device;
    j->items.tensor = j->items.frame = NULL;
}

static void check_page(struct rig *r, struct pages *p, const struct job *j, size_t k) {
    const pith_view view = pith_view_flat(p->tensor[k].host, r->layout.dtype, r->count);
    struct frame f = stream_encode(&r->cpu, &view, 0, false);
    mirror_pull(&p->frame[k]);
    CHECK_OK(job_status(j, k));
    CHECK(*job_length(j, k) == f.length);
    CHECK(memcmp(p->frame[k].host, f.bytes, f.length) == 0);
    CHECK_OK(decode_one(r->cpu.work, r->cpu.stream, 0, f.bytes, f.length, &view, 0));
    device_fill(p->tensor[k].device, 0, p->tensor[k].bytes);
    free(f.bytes);
}

static void test_pages(void **state) {
    (void)state;
    for (size_t i = 0; i < CODECS; i++) {
        struct rig r;
        struct job j;
        struct pages p;
        context("%s, pages", codecs[i].spec);
        device_order((int)i % device_orders());
        open_slots(&r, i, 300, 1);
        job_open(&j, &r, PAGES, PAGES, codecs[i].dtype, 0);
        pages_open(&p, &r, j.stride, codecs[i].dtype);
        use_pages(&j, &p);
        for (size_t k = 0; k < PAGES; k++) {
            gen_fill(GEN_NOISE, k + 1, codecs[i].dtype, p.tensor[k].host, r.count);
            mirror_push(&p.tensor[k]);
        }
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        for (size_t k = 0; k < PAGES; k++) check_page(&r, &p, &j, k);
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        for (size_t k = 0; k < PAGES; k++) {
            uint8_t *const wanted = copy_of(p.tensor[k].host, p.tensor[k].bytes);
            mirror_pull(&p.tensor[k]);
            CHECK_OK(job_status(&j, k));
            CHECK(memcmp(p.tensor[k].host, wanted, p.tensor[k].bytes) == 0);
            free(wanted);
        }
        rig_check_stream(&r); /* a step for every page */
        pages_close(&p);
        job_close(&j);
        rig_close(&r);
    }
}

/* Ranges of pages lie at the beginning of each. */
static void test_ranges_of_pages(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    struct pages p;
    enum { COUNT = 300, FIRST = 101, WANTED = 150 };
    float value[COUNT] = {0}, decoded[COUNT];
    const pith_view view = pith_view_flat(value, PITH_F32, COUNT),
                    out = pith_view_flat(decoded, PITH_F32, COUNT);
    context("ranges of pages");
    open_slots(&r, 3, COUNT, 1);
    job_open(&j, &r, PAGES, PAGES, PITH_F32, 0);
    pages_open(&p, &r, j.stride, PITH_F32);
    use_pages(&j, &p);
    gen_fill(GEN_NOISE, 1, PITH_F32, value, COUNT);
    struct frame f = stream_encode(&r.cpu, &view, 0, false);
    CHECK_OK(decode_one(r.cpu.work, r.cpu.stream, 0, f.bytes, f.length, &out, 0));
    for (size_t k = 0; k < PAGES; k++) {
        memcpy(p.frame[k].host, f.bytes, f.length);
        mirror_push(&p.frame[k]);
    }
    JOB_RUN(&j, pith_cuda_decode_range(r.plan, r.stream, &j.items, FIRST, WANTED, device_stream(),
                                       NULL));
    for (size_t k = 0; k < PAGES; k++) {
        mirror_pull(&p.tensor[k]);
        CHECK_OK(job_status(&j, k));
        CHECK(memcmp(p.tensor[k].host, decoded + FIRST, 4 * WANTED) == 0);
        CHECK(all_bytes(p.tensor[k].host + 4 * WANTED, 4 * (COUNT - WANTED), UNTOUCHED));
    }
    free(f.bytes);
    pages_close(&p);
    job_close(&j);
    rig_close(&r);
}

/* A range in every slot, cut to the slot, at its place in the whole tensor. */
static void test_ranges_of_slots(void **state) {
    (void)state;
    static const uint64_t ranges[][2] = {
        {0, 10}, {700, 5000}, {1000, 1}, {4096, UINT64_MAX}, {UINT64_MAX, 1}, {3, 0}};
    for (size_t i = 0; i < CODECS; i++) {
        struct rig r;
        struct job j;
        pith_layout layout = flat_layout(codecs[i].dtype, PITH_NONE, 5105);
        const size_t width = pith_dtype_bytes(codecs[i].dtype);
        layout.flags = codecs[i].flags;
        layout.slots = RAGGED;
        layout.slot_counts = ragged;
        CHECK(rig_open(&r, codecs[i].spec, &layout));
        job_open(&j, &r, RAGGED, RAGGED, codecs[i].dtype, 0);
        fill(&r, &j);
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        uint8_t *const whole = copy_of(j.tensor.host, j.tensor.bytes);
        for (size_t k = 0; k < sizeof ranges / sizeof ranges[0]; k++) {
            uint8_t *const wanted = allocate(j.tensor.bytes);
            uint64_t first, count;
            context("%s, range %zu of slots", codecs[i].spec, k);
            memset(wanted, UNTOUCHED, j.tensor.bytes);
            memset(j.tensor.host, UNTOUCHED, j.tensor.bytes);
            for (uint64_t s = 0; s < RAGGED; s++) {
                CHECK_OK(pith_plan_slot(r.cpu.plan, s, &first, &count));
                const uint64_t lo = ranges[k][0] < count ? ranges[k][0] : count;
                const uint64_t n = ranges[k][1] < count - lo ? ranges[k][1] : count - lo;
                memcpy(wanted + (first + lo) * width, whole + (first + lo) * width, n * width);
            }
            JOB_RUN(&j, pith_cuda_decode_range(r.plan, r.stream, &j.items, ranges[k][0],
                                               ranges[k][1], device_stream(), NULL));
            for (uint64_t s = 0; s < RAGGED; s++) CHECK_OK(job_status(&j, s));
            CHECK(memcmp(wanted, j.tensor.host, j.tensor.bytes) == 0);
            free(wanted);
        }
        free(whole);
        job_close(&j);
        rig_close(&r);
    }
}

/* ---- Capacity --------------------------------------------------------------------------------*/

/* Capacity a byte short: no frame; and frames of shorter slots fit. */
static void test_capacity(void **state) {
    (void)state;
    for (size_t i = 0; i < CODECS; i++) {
        struct rig r;
        struct job j;
        context("%s, too little capacity", codecs[i].spec);
        open_slots(&r, i, 1001, 2);
        job_open(&j, &r, 2, 2, codecs[i].dtype, 0);
        fill(&r, &j);
        const uint64_t first = pith_plan_frame_bytes(r.cpu.plan, 0, 0);
        const uint64_t second = pith_plan_frame_bytes(r.cpu.plan, 1, 0);
        j.items.capacity = first - 1;
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_SPACE, job_status(&j, 0));
        CHECK(*job_length(&j, 0) == 0 && all_bytes(job_frame(&j, 0), j.stride, UNTOUCHED));
        CHECK_STATUS(second < first ? PITH_OK : PITH_ERR_SPACE, job_status(&j, 1));
        j.items.capacity = 0;
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_SPACE, job_status(&j, 1));
        j.items.capacity = first;
        JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_OK(job_status(&j, 0));
        j.items.capacity = first - 1; /* the length is cut to it */
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_TRUNCATED, job_status(&j, 0));
        j.items.capacity = first;
        *job_length(&j, 0) = UINT64_MAX;
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_OK(job_status(&j, 0));
        *job_length(&j, 0) = first - 1;
        JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
        CHECK_STATUS(PITH_ERR_TRUNCATED, job_status(&j, 0));
        job_close(&j);
        rig_close(&r);
    }
}

/* A plan with a slot that is larger than its limit decodes nothing. */
static void test_limit(void **state) {
    (void)state;
    static const uint64_t counts[2] = {100, 900};
    for (size_t i = 0; i < CODECS; i++) {
        struct rig r;
        struct job j;
        pith_layout layout = flat_layout(codecs[i].dtype, PITH_NONE, 1000);
        pith_env env = {.size = sizeof env};
        layout.slots = 2;
        layout.slot_counts = counts;
        layout.flags = codecs[i].flags;
        for (uint64_t most = 899; most <= 900; most++) {
            context("%s, a limit of %d", codecs[i].spec, (int)most);
            env.max_output_bytes = most * pith_dtype_bytes(codecs[i].dtype);
            CHECK(rig_open_in(&r, codecs[i].spec, &layout, &env));
            job_open(&j, &r, 2, 2, codecs[i].dtype, 0);
            fill(&r, &j);
            JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
            trip_check_frame(&r, &j, 1, 1);
            const pith_view view = pith_view_flat(j.tensor.host, codecs[i].dtype, 1000);
            const pith_status wanted = decode_one(r.cpu.work, r.cpu.stream, 1, job_frame(&j, 1),
                                                  (size_t)*job_length(&j, 1), &view, 0);
            CHECK_STATUS(most < 900 ? PITH_ERR_LIMIT : PITH_OK, wanted);
            CHECK_STATUS(wanted,
                         pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
            job_close(&j);
            rig_close(&r);
        }
    }
}

/* Lengths are optional, the stride is anything. */
static void test_stride(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    context("an irregular stride");
    open_slots(&r, 4, 900, 3);
    job_open(&j, &r, 3, 4, codecs[4].dtype, 0);
    fill(&r, &j);
    j.items.lengths = NULL;
    j.items.frame_stride = j.stride + 7;
    JOB_RUN(&j, pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    const pith_view view = pith_view_flat(j.tensor.host, codecs[4].dtype, r.count);
    for (uint64_t s = 0; s < 3; s++) {
        struct frame f = stream_encode(&r.cpu, &view, s, false);
        CHECK(memcmp(j.frame.host + s * (j.stride + 7), f.bytes, f.length) == 0);
        CHECK_OK(decode_one(r.cpu.work, r.cpu.stream, s, f.bytes, f.length, &view, 0));
        free(f.bytes);
    }
    uint8_t *const wanted = copy_of(j.tensor.host, j.tensor.bytes);
    JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    CHECK(memcmp(wanted, j.tensor.host, j.tensor.bytes) == 0);
    rig_check_stream(&r);
    free(wanted);
    job_close(&j);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divisions),       cmocka_unit_test(test_list),
        cmocka_unit_test(test_first_slot),      cmocka_unit_test(test_pages),
        cmocka_unit_test(test_ranges_of_pages), cmocka_unit_test(test_ranges_of_slots),
        cmocka_unit_test(test_capacity),        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stride),
    };
    return cmocka_run_group_tests_name("gpu_slots", tests, NULL, NULL);
}
