/* test_gpu_sum.c - sums of frames, and sums that are encoded again, are the CPU's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "rig.h"

static const uint32_t reals[3] = {PITH_F32, PITH_BF16, PITH_F16};

struct setting {
    const char *spec;
    uint32_t dtype, flags;
    uint64_t count, slots;
};
static const struct setting settings[] = {
    {"grad", PITH_F32, 0, 5000, 3},
    {"grad:preset=intra,block=128", PITH_BF16, 0, 4097, 1},
    {"grad:group=256,rotate=256,sign_seed=9,block=2048", PITH_F32, PITH_LAYOUT_CHECKSUMS, 9999, 2},
    {"grad:preset=intra,group=32", PITH_F32, 0, 8195, 1},
    {"grad:bits=5,rotate=0,block=512", PITH_F16, 0, 1001, 2},
    {"grad:bits=2,group=32,block=64,scale_dtype=bf16", PITH_F32, 0, 33, 5},
    {"wdiff:bits=8,group=16,block=64", PITH_F32, PITH_LAYOUT_CHECKSUMS, 1001, 1},
    {"wdiff:bits=3,group=32,scale_dtype=bf16", PITH_BF16, 0, 300, 2},
    {"grad:codebook=trellis", PITH_F32, 0, 4099, 2},
    {"grad:codebook=trellis,bits=2,group=512,rotate=0,block=512", PITH_BF16, PITH_LAYOUT_CHECKSUMS,
     1777, 1},
    {"wdiff:codebook=trellis,bits=3,group=16,block=32", PITH_F32, 0, 333, 2},
    {"raw:block=64", PITH_F32, 0, 1000, 3},
    {"raw", PITH_BF16, PITH_LAYOUT_CHECKSUMS, 333, 1},
    {"raw", PITH_F16, 0, 0, 1},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* What sums are encoded to. The first four rotate as some settings do. */
static const char *const outs[] = {
    "grad",
    "grad:bits=8,group=256,rotate=256,sign_seed=9,block=256",
    "grad:ef=full,group=64",
    "grad:round=stochastic,bits=6",
    "grad:rotate=0,group=4096",
    "grad:group=64,rotate=64,sign_seed=2,scale_dtype=e8m0",
    "grad:search=mse,block=1024",
    "wdiff:group=128,block=256",
    "wdiff:bits=8,group=16384",
    "grad:codebook=trellis",
    "grad:codebook=trellis,bits=2,group=4096,ef=full",
    "wdiff:codebook=trellis,bits=3,group=16384",
    "raw:block=256",
};
enum { OUTS = sizeof outs / sizeof outs[0] };

/* Frames of every slot, `each` of them, slot by slot; lists of them for the CPU. */
struct bundle {
    struct rig r;
    struct job j;
    uint64_t each;
    const void **bytes;
    size_t *lengths;
};

static void list_frames(struct bundle *b) {
    for (uint64_t i = 0; i < b->j.frames; i++) {
        b->bytes[i] = job_frame(&b->j, i);
        b->lengths[i] = (size_t)*job_length(&b->j, i);
    }
}

static void bundle_open(struct bundle *b, const struct setting *t, uint64_t each, enum gen kind,
                        uint32_t dtype, size_t offset) {
    pith_layout layout = flat_layout(t->dtype, PITH_NONE, t->count);
    layout.slots = t->slots;
    layout.flags = t->flags;
    CHECK(rig_open(&b->r, t->spec, &layout));
    const uint64_t frames = b->r.slots * each;
    uint8_t *const value = allocate(t->count * 4);
    const pith_view view = pith_view_flat(value, t->dtype, t->count);
    b->each = each;
    b->bytes = allocate(frames * sizeof *b->bytes);
    b->lengths = allocate(frames * sizeof *b->lengths);
    job_open(&b->j, &b->r, b->r.slots, frames, dtype, offset);
    for (uint64_t i = 0; i < frames; i++) {
        gen_fill(kind, i + 1, t->dtype, value, t->count);
        struct frame f = stream_encode(&b->r.cpu, &view, i / each, false);
        memcpy(job_frame(&b->j, i), f.bytes, f.length);
        *job_length(&b->j, i) = f.length;
        free(f.bytes);
    }
    CHECK_OK(pith_stream_reset(b->r.cpu.work, b->r.cpu.stream));
    list_frames(b);
    free(value);
}

static void bundle_close(struct bundle *b) {
    free(b->bytes);
    free(b->lengths);
    job_close(&b->j);
    rig_close(&b->r);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static void check_reduce(struct bundle *b, float scale) {
    struct job *const j = &b->j;
    uint8_t *const wanted = allocate(j->tensor.bytes);
    const pith_view view = pith_view_flat(wanted, j->items.dtype, b->r.count);
    memset(j->tensor.host, UNTOUCHED, j->tensor.bytes);
    JOB_RUN(j, pith_cuda_reduce(b->r.plan, b->r.stream, &j->items, (uint32_t)b->each, scale,
                                device_stream(), NULL));
    for (uint64_t s = 0; s < b->r.slots; s++)
        CHECK_OK(reduce_one(b->r.cpu.work, b->r.cpu.stream, s, b->bytes + s * b->each,
                            b->lengths + s * b->each, b->each, scale, &view));
    for (uint64_t i = 0; i < j->frames; i++) CHECK_OK(job_status(j, i));
    CHECK(memcmp(wanted, j->tensor.host, j->tensor.bytes) == 0);
    rig_check_stream(&b->r);
    free(wanted);
}

/* The CPU's frame of the sum of item i. */
static struct frame wanted_frame(struct bundle *b, struct rig *out, uint64_t i, float scale) {
    const size_t cap = (size_t)pith_plan_frame_bytes(out->cpu.plan, i, 0);
    struct frame f = {allocate(cap), 0};
    const pith_plan *const plans[2] = {b->r.cpu.plan, out->cpu.plan};
    void *memory;
    pith_work *const work = work_for(plans, 2, NULL, &memory);
    CHECK_OK(reduce_encode_one(work, b->r.cpu.stream, i, b->bytes + i * b->each,
                               b->lengths + i * b->each, b->each, scale, out->cpu.stream, i,
                               f.bytes, cap, &f.length));
    free(memory);
    return f;
}

static void check_made(const struct job *made, uint64_t i, const struct frame *f) {
    CHECK_OK(job_status(made, i));
    CHECK(*job_length(made, i) == f->length);
    CHECK(memcmp(job_frame(made, i), f->bytes, f->length) == 0);
}

static void check_reduce_encode(struct bundle *b, float scale, const char *spec, uint32_t flags,
                                size_t offset) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, b->r.count);
    struct rig out;
    struct job made;
    layout.slots = b->r.layout.slots;
    layout.flags = flags;
    CHECK(rig_open(&out, spec, &layout));
    rig_set_random(&out, 5, 6, 7);
    job_open(&made, &out, out.slots, out.slots, PITH_F32, offset);
    for (int k = 0; k < 2; k++) {
        job_push(&made);
        JOB_RUN(&b->j, pith_cuda_reduce_encode(b->r.plan, b->r.stream, &b->j.items,
                                               (uint32_t)b->each, scale, out.plan, out.stream,
                                               &made.items, device_stream(), NULL));
        job_pull(&made);
        for (uint64_t i = 0; i < out.slots; i++) {
            struct frame f = wanted_frame(b, &out, i, scale);
            check_made(&made, i, &f);
            free(f.bytes);
        }
        rig_check_stream(&b->r);
        rig_check_stream(&out);
    }
    job_close(&made);
    rig_close(&out);
}

static const enum gen kinds[] = {GEN_NOISE, GEN_HOLES, GEN_LARGE, GEN_SIGNED, GEN_TINY};
static const float scales[] = {1, 0.25f, 1.0f / 3, -2e30f};
static const uint64_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 33};

/* `number` varies what is not worth a product. */
static void one_sum(const struct setting *t, uint64_t each, uint64_t number) {
    struct bundle b;
    const enum gen kind = kinds[number % 5];
    const float scale = scales[number / 2 % 4];
    const size_t offset = number % 3 ? 0 : (size_t)number % 16;
    context("%llu frames of %s %s x %llu, %s", (unsigned long long)each, t->spec,
            pith_dtype_name(t->dtype), (unsigned long long)t->count, gen_name(kind));
    device_order((int)(number % (uint64_t)device_orders()));
    bundle_open(&b, t, each, kind, reals[number % 3], offset);
    check_reduce(&b, scale);
    for (size_t i = 0; i < OUTS; i++) {
        if ((number + i) % 3) continue;
        context("%llu frames of %s %s x %llu, %s, to %s", (unsigned long long)each, t->spec,
                pith_dtype_name(t->dtype), (unsigned long long)t->count, gen_name(kind), outs[i]);
        check_reduce_encode(&b, scale, outs[i], (number + i) % 2 ? PITH_LAYOUT_CHECKSUMS : 0,
                            offset);
    }
    bundle_close(&b);
}

static void test_sums(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
            const uint64_t kinds_of = numbers[n] < 4 ? 5 : 1;
            for (uint64_t k = 0; k < kinds_of; k++, number++)
                if (is_sampled(number, 2)) one_sum(&settings[i], numbers[n], number);
        }
}

/* Rotated sums that stay rotated, for every rotation. */
static void test_alike(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"grad:rotate=32", "grad:rotate=32,bits=8,block=128"},
        {"grad:rotate=64,group=64,sign_seed=3",
         "grad:rotate=64,group=256,sign_seed=3,round=stochastic"},
        {"grad:rotate=128,sign_seed=1", "grad:rotate=128,sign_seed=1,scale_dtype=bf16,ef=ema:0.5"},
        {"grad:rotate=256,group=4096", "grad:rotate=256,group=256"},
        {"grad:preset=intra", "grad:codebook=trellis"},
        {"grad:codebook=trellis,bits=2", "grad:codebook=trellis,bits=3"},
        {"grad:rotate=256,group=256,sign_seed=7", "grad:rotate=256,group=256,sign_seed=8"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (uint64_t count = 1; count < 9000; count = count * 5 + 3) {
            const struct setting t = {pairs[i][0], PITH_F32, 0, count, 1};
            struct bundle b;
            context("%s to %s x %llu", t.spec, pairs[i][1], (unsigned long long)count);
            device_order((int)(count % (uint64_t)device_orders()));
            bundle_open(&b, &t, 3, GEN_HOLES, PITH_F32, 0);
            check_reduce_encode(&b, 0.5f, pairs[i][1], 0, 0);
            bundle_close(&b);
        }
}

/* More frames than a team has threads, or keeps the places of. */
static void test_many_frames(void **state) {
    (void)state;
    const struct setting t = {"grad:group=32", PITH_F32, 0, 4100, 2};
    struct bundle b;
    context("300 frames");
    bundle_open(&b, &t, 300, GEN_NOISE, PITH_F32, 0);
    check_reduce(&b, 1.0f / 300);
    check_reduce_encode(&b, 1, "grad", 0, 0);
    job_frame(&b.j, 299)[2] ^= 1;
    JOB_RUN(&b.j,
            pith_cuda_reduce(b.r.plan, b.r.stream, &b.j.items, 300, 1, device_stream(), NULL));
    for (uint64_t i = 0; i < 600; i++)
        CHECK_STATUS(i == 299 ? PITH_ERR_MAGIC : PITH_OK, job_status(&b.j, i));
    bundle_close(&b);
}

/* ---- Refusals --------------------------------------------------------------------------------*/

enum { EACH = 5 };

/* Damage to frame `bad`, of which item `bad / EACH` is; the other items are summed. */
static pith_status damage(struct bundle *b, uint64_t bad, int how) {
    uint8_t *const frame = job_frame(&b->j, bad);
    if (how == 0) frame[1] ^= 1;
    if (how == 1) *job_length(&b->j, bad) -= 1;
    if (how == 2) frame[30] ^= 1;
    if (how == 3) frame[b->lengths[bad] - 30] ^= 1; /* behind checksums */
    static const pith_status statuses[4] = {PITH_ERR_MAGIC, PITH_ERR_TRUNCATED, PITH_ERR_CHECKSUM,
                                            PITH_ERR_CHECKSUM};
    return statuses[how];
}

static void check_statuses(const struct bundle *b, uint64_t bad, pith_status wanted) {
    for (uint64_t i = 0; i < b->j.frames; i++)
        CHECK_STATUS(i == bad ? wanted : PITH_OK, job_status(&b->j, i));
}

static void check_bad_reduce(struct bundle *b, uint64_t bad, pith_status wanted) {
    struct job *const j = &b->j;
    uint8_t *const sum = allocate(j->tensor.bytes);
    const pith_view view = pith_view_flat(sum, j->items.dtype, b->r.count);
    memset(sum, UNTOUCHED, j->tensor.bytes);
    list_frames(b);
    JOB_RUN(j, pith_cuda_reduce(b->r.plan, b->r.stream, &j->items, EACH, 1, device_stream(), NULL));
    check_statuses(b, bad, wanted);
    for (uint64_t s = 0; s < b->r.slots; s++)
        CHECK_STATUS(s == bad / EACH ? wanted : PITH_OK,
                     reduce_one(b->r.cpu.work, b->r.cpu.stream, s, b->bytes + s * EACH,
                                b->lengths + s * EACH, EACH, 1, &view));
    CHECK(memcmp(sum, j->tensor.host, j->tensor.bytes) == 0);
    rig_check_stream(&b->r);
    free(sum);
}

static void check_bad_recode(struct bundle *b, uint64_t bad, pith_status wanted, const char *spec) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, b->r.count);
    struct rig out;
    struct job made;
    layout.slots = b->r.layout.slots;
    CHECK(rig_open(&out, spec, &layout));
    job_open(&made, &out, out.slots, out.slots, PITH_F32, 0);
    job_push(&made);
    JOB_RUN(&b->j, pith_cuda_reduce_encode(b->r.plan, b->r.stream, &b->j.items, EACH, 1, out.plan,
                                           out.stream, &made.items, device_stream(), NULL));
    job_pull(&made);
    check_statuses(b, bad, wanted);
    for (uint64_t i = 0; i < out.slots; i++) {
        if (i != bad / EACH) {
            struct frame f = wanted_frame(b, &out, i, 1);
            check_made(&made, i, &f);
            free(f.bytes);
            continue;
        }
        CHECK_STATUS(wanted, job_status(&made, i));
        CHECK(*job_length(&made, i) == 0);
        CHECK(all_bytes(job_frame(&made, i), made.stride, UNTOUCHED));
    }
    rig_check_stream(&out);
    job_close(&made);
    rig_close(&out);
}

static void test_bad_frames(void **state) {
    (void)state;
    static const size_t which[3] = {0, 2, 8};
    for (size_t i = 0; i < 3; i++)
        for (int how = 0; how < 4; how++) {
            const struct setting *const t = &settings[which[i]];
            struct bundle b;
            context("damage %d to a frame of %s", how, t->spec);
            if (how == 3 && !(t->flags & PITH_LAYOUT_CHECKSUMS)) continue;
            bundle_open(&b, t, EACH, GEN_NOISE, PITH_F32, 0);
            memset(b.j.tensor.host, UNTOUCHED, b.j.tensor.bytes);
            const uint64_t bad = EACH + 2;
            const pith_status wanted = damage(&b, bad, how);
            check_bad_reduce(&b, bad, wanted);
            check_bad_recode(&b, bad, wanted, "grad");
            check_bad_recode(&b, bad, wanted, "raw");
            check_bad_recode(&b, bad, wanted, "grad:ef=full,rotate=64");
            bundle_close(&b);
        }
}

/* Slots of another size cannot become one another. */
static void test_other_slots(void **state) {
    (void)state;
    struct bundle b;
    struct rig out;
    struct job made;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, settings[0].count);
    const uint64_t counts[3] = {1667, 1600, 1733};
    context("slots of another size");
    bundle_open(&b, &settings[0], 2, GEN_NOISE, PITH_F32, 0);
    layout.slots = 3;
    layout.slot_counts = counts;
    CHECK(rig_open(&out, "grad", &layout));
    job_open(&made, &out, 3, 3, PITH_F32, 0);
    job_push(&made);
    JOB_RUN(&b.j, pith_cuda_reduce_encode(b.r.plan, b.r.stream, &b.j.items, 2, 1, out.plan,
                                          out.stream, &made.items, device_stream(), NULL));
    job_pull(&made);
    CHECK_OK(job_status(&made, 0));
    for (uint64_t i = 1; i < 3; i++) {
        CHECK_STATUS(PITH_ERR_ARG, job_status(&made, i));
        CHECK(all_bytes(job_frame(&made, i), made.stride, UNTOUCHED));
    }
    job_close(&made);
    rig_close(&out);
    bundle_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_many_frames), cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_other_slots),
    };
    return cmocka_run_group_tests_name("gpu_sum", tests, NULL, NULL);
}
