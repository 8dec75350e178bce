/* test_gpu_stream.c - many steps: senders and receivers on the device keep in step with the CPU's,
 * refuse what is not next, and come back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "rig.h"

enum { N = 6400, STEPS = 5 };

static const struct {
    const char *spec;
    uint32_t dtype, base_dtype, flags;
    uint64_t slots, shape[4]; /* shape: dimensions, then their sizes; or none, and it is flat */
} streams[] = {
    {"wdiff:group=128,block=1024", PITH_F32, PITH_BF16, 0, 1, {0}},
    {"wdiff", PITH_BF16, PITH_BF16, 0, 3, {0}},
    {"wdiff:bits=3,group=64,block=512", PITH_F16, PITH_F16, PITH_LAYOUT_CHECKSUMS, 2, {0}},
    {"wdiff:group=64,round=stochastic,block=128", PITH_F32, PITH_F32, 0, 4, {0}},
    {"wdiff:bits=8,group=16,base_hash=off", PITH_F32, PITH_BF16, 0, 1, {0}},
    {"wdiff:group=32,block=64", PITH_F32, PITH_BF16, PITH_LAYOUT_EXTERNAL_BASE, 3, {0}},
    {"kv:group=64", PITH_F32, PITH_BF16, 0, 3, {0}},
    {"kv:group=16,page=16,bits=3", PITH_BF16, PITH_F32, 0, 1, {3, 32, 5, 40}},
    {"kv:page=32,symmetric=on", PITH_F32, PITH_F16, PITH_LAYOUT_CHECKSUMS, 1, {2, 160, 40}},
    {"kv:group=16,page=16,scale_dtype=f32", PITH_F16, PITH_BF16, 0, 1, {3, 40, 32, 5}},
    {"kv:bits=2,page=16", PITH_F32, PITH_BF16, PITH_LAYOUT_CHECKSUMS, 1, {2, 256, 25}},
    {"kv:page=64", PITH_F32, PITH_BF16, PITH_LAYOUT_EXTERNAL_BASE, 1, {3, 160, 5, 8}},
    {"kv:page=64", PITH_BF16, PITH_BF16, 0, 1, {3, 25, 2, 128}},
    {"kv:page=16,scale_dtype=bf16", PITH_F16, PITH_F16, 0, 1, {2, 100, 64}},
    {"wdiff:codebook=trellis,bits=3,group=8192", PITH_F32, PITH_F32, 0, 1, {0}},
};
enum { STREAMS = sizeof streams / sizeof streams[0] };

/* Values of step `step`: near one another, sometimes not finite. */
static void values(uint8_t *to, uint32_t dtype, uint64_t step) {
    float *const center = allocate(N * sizeof *center);
    gen_fill(GEN_NOISE, 1, PITH_F32, center, N);
    gen_near(100 + step, 1e-3, dtype, to, PITH_F32, center, N);
    if (step % 3 == 2) store_float(to, dtype, 77, 0x7FC00000u);
    free(center);
}

static void stream_rig(struct rig *r, size_t i) {
    pith_layout layout = flat_layout(streams[i].dtype, streams[i].base_dtype, N);
    uint8_t *const base = allocate(4 * N);
    if (streams[i].shape[0]) layout.ndim = (uint32_t)streams[i].shape[0];
    for (uint32_t d = 0; d < 3 && streams[i].shape[0]; d++)
        layout.shape[d] = streams[i].shape[d + 1];
    layout.slots = streams[i].slots;
    layout.flags = streams[i].flags;
    CHECK(rig_open(r, streams[i].spec, &layout));
    gen_fill(GEN_NOISE, 1, streams[i].base_dtype, base, N);
    rig_set_base(r, base, streams[i].base_dtype, 3);
    rig_set_random(r, 41, 6, 0);
    free(base);
}

/* One step: all slots in one call, which must make the CPU's frames. */
static void send_step(struct rig *r, struct job *j, uint64_t step, bool key) {
    const pith_view view = pith_view_flat(j->tensor.host, r->layout.dtype, N);
    values(j->tensor.host, r->layout.dtype, step);
    job_push(j);
    CHECK_OK(pith_cuda_encode(r->plan, r->stream, &j->items, key ? PITH_KEY_FRAME : 0,
                              device_stream(), NULL));
    job_pull(j);
    for (uint64_t s = 0; s < r->slots; s++) {
        struct frame f = stream_encode(&r->cpu, &view, s, key);
        CHECK_OK(job_status(j, s));
        CHECK(*job_length(j, s) == f.length);
        CHECK(memcmp(job_frame(j, s), f.bytes, f.length) == 0);
        free(f.bytes);
    }
    rig_check_stream(r);
}

/* The frames of `sent`, to a receiver. */
static void receive_step(struct rig *r, struct job *j, const struct job *sent) {
    uint8_t *const out = allocate(j->tensor.bytes);
    const pith_view view = pith_view_flat(out, j->items.dtype, N);
    memcpy(j->frame.host, sent->frame.host, sent->frame.bytes);
    memcpy(j->lengths.host, sent->lengths.host, sent->lengths.bytes);
    JOB_RUN(j, pith_cuda_decode(r->plan, r->stream, &j->items, 0, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        CHECK_OK(decode_one(r->cpu.work, r->cpu.stream, s, job_frame(sent, s),
                            (size_t)*job_length(sent, s), &view, 0));
        CHECK_OK(job_status(j, s));
    }
    CHECK(memcmp(out, j->tensor.host, j->tensor.bytes) == 0);
    rig_check_stream(r);
    free(out);
}

static void run_stream(size_t i) {
    struct rig sender, receiver;
    struct job sent, got;
    stream_rig(&sender, i);
    stream_rig(&receiver, i);
    job_open(&sent, &sender, sender.slots, sender.slots, streams[i].dtype, 0);
    job_open(&got, &receiver, receiver.slots, receiver.slots, i % 2 ? PITH_F32 : PITH_BF16, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        context("stream %s, step %llu", streams[i].spec, (unsigned long long)step);
        send_step(&sender, &sent, step, step == 3);
        receive_step(&receiver, &got, &sent);
    }
    job_close(&sent);
    job_close(&got);
    rig_close(&receiver);
    rig_close(&sender);
}

static void test_steps(void **state) {
    (void)state;
    for (int k = 0; k < device_orders(); k++)
        for (size_t i = 0; i < STREAMS; i++) {
            device_order(k);
            run_stream(i);
        }
}

/* ---- What is not next ------------------------------------------------------------------------*/

static void test_refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        struct rig sender, r;
        struct job sent;
        float other[N];
        const bool base_hash = !strstr(streams[i].spec, "base_hash=off");
        if (streams[i].flags & PITH_LAYOUT_EXTERNAL_BASE) continue;
        context("refusals of %s", streams[i].spec);
        stream_rig(&sender, i);
        stream_rig(&r, i);
        job_open(&sent, &sender, sender.slots, sender.slots, streams[i].dtype, 0);
        send_step(&sender, &sent, 0, false);
        const size_t length = (size_t)*job_length(&sent, 0);
        uint8_t *const first = copy_of(job_frame(&sent, 0), length);
        CHECK_OK(rig_try(&r, first, length, 0));
        send_step(&sender, &sent, 1, false);
        CHECK_STATUS(PITH_ERR_STEP, rig_try(&r, job_frame(&sent, 0), length, 0));
        gen_fill(GEN_NOISE, 9, PITH_F32, other, N);
        rig_set_base(&r, other, PITH_F32, 3);
        CHECK_STATUS(base_hash ? PITH_ERR_BASE : PITH_OK, rig_try(&r, first, length, 0));
        send_step(&sender, &sent, 2, true);
        CHECK_OK(rig_try(&r, job_frame(&sent, 0), (size_t)*job_length(&sent, 0), 0));
        free(first);
        job_close(&sent);
        rig_close(&r);
        rig_close(&sender);
    }
}

/* A tensor that is not the base stays as it is; a key frame replaces it. */
static void test_add_to_another_base(void **state) {
    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        struct rig sender;
        struct job sent, j;
        const bool base_hash = !strstr(streams[i].spec, "base_hash=off");
        context("decode-add of %s to another base", streams[i].spec);
        stream_rig(&sender, i);
        job_open(&sent, &sender, sender.slots, sender.slots, streams[i].dtype, 0);
        job_open(&j, &sender, sender.slots, sender.slots, streams[i].base_dtype, 2);
        for (int key = 0; key < 2; key++) {
            send_step(&sender, &sent, 0, key != 0);
            memcpy(j.frame.host, sent.frame.host, sent.frame.bytes);
            memcpy(j.lengths.host, sent.lengths.host, sent.lengths.bytes);
            gen_fill(GEN_NOISE, 9, streams[i].base_dtype, j.tensor.host, N);
            uint8_t *const wanted = copy_of(j.tensor.host, j.tensor.bytes);
            const pith_view view = pith_view_flat(wanted, streams[i].base_dtype, N);
            JOB_RUN(&j, pith_cuda_decode(sender.plan, sender.stream, &j.items, PITH_ADD,
                                         device_stream(), NULL));
            for (uint64_t s = 0; s < sender.slots; s++) {
                const pith_status status =
                    decode_one(sender.cpu.work, sender.cpu.stream, s, job_frame(&sent, s),
                               (size_t)*job_length(&sent, s), &view, PITH_ADD);
                CHECK_STATUS(base_hash && !key ? PITH_ERR_BASE : PITH_OK, status);
                CHECK_STATUS(status, job_status(&j, s));
            }
            CHECK(memcmp(wanted, j.tensor.host, j.tensor.bytes) == 0);
            free(wanted);
        }
        job_close(&j);
        job_close(&sent);
        rig_close(&sender);
    }
}

/* Adding looks neither at the stream's base, which need not be bound, nor at its step, and changes
 * nothing of it. */
static void test_add_unbound(void **state) {
    (void)state;
    struct rig r;
    struct job sent, j;
    const uint32_t dtype = streams[5].base_dtype;
    context("decode-add with a stream whose base is not bound");
    stream_rig(&r, 5);
    job_open(&sent, &r, r.slots, r.slots, streams[5].dtype, 0);
    job_open(&j, &r, r.slots, r.slots, dtype, 0);
    send_step(&r, &sent, 0, false);
    CHECK_OK(pith_cuda_stream_init(r.plan, r.stream, (size_t)r.sizes.stream_bytes, NULL,
                                   device_stream(), NULL));
    uint8_t *const before = rig_stream_image(&r);
    memcpy(j.frame.host, sent.frame.host, sent.frame.bytes);
    memcpy(j.lengths.host, sent.lengths.host, sent.lengths.bytes);
    JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    for (uint64_t s = 0; s < r.slots; s++) CHECK_STATUS(PITH_ERR_STATE, job_status(&j, s));
    CHECK(all_bytes(j.tensor.host, j.tensor.bytes, UNTOUCHED));
    gen_fill(GEN_NOISE, 1, dtype, j.tensor.host, N);
    JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, PITH_ADD, device_stream(), NULL));
    for (uint64_t s = 0; s < r.slots; s++) CHECK_OK(job_status(&j, s));
    CHECK(memcmp(j.tensor.host, r.base_host, j.tensor.bytes) == 0);
    uint8_t *const after = rig_stream_image(&r);
    CHECK(memcmp(before, after, (size_t)r.sizes.stream_bytes) == 0);
    free(after);
    free(before);
    job_close(&j);
    job_close(&sent);
    rig_close(&r);
}

/* Only the stream moves on. */
static void test_no_tensor(void **state) {
    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        struct rig sender, r;
        struct job sent;
        context("%s without a tensor", streams[i].spec);
        stream_rig(&sender, i);
        stream_rig(&r, i);
        job_open(&sent, &sender, sender.slots, sender.slots, streams[i].dtype, 0);
        for (int key = 0; key < 2; key++) {
            send_step(&sender, &sent, 0, key != 0);
            sent.items.tensor = NULL;
            JOB_RUN(&sent,
                    pith_cuda_decode(r.plan, r.stream, &sent.items, 0, device_stream(), NULL));
            sent.items.tensor = sent.tensor.device;
            for (uint64_t s = 0; s < r.slots; s++) {
                CHECK_OK(job_status(&sent, s));
                CHECK_OK(decode_one(r.cpu.work, r.cpu.stream, s, job_frame(&sent, s),
                                    (size_t)*job_length(&sent, s), NULL, 0));
            }
            rig_check_stream(&r);
        }
        job_close(&sent);
        rig_close(&r);
        rig_close(&sender);
    }
}

/* A late joiner starts from a key frame, and then goes on. */
static void test_late_joiner(void **state) {
    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        struct rig sender, late;
        struct job sent, got;
        float other[N];
        context("late joiner to %s", streams[i].spec);
        stream_rig(&sender, i);
        stream_rig(&late, i);
        job_open(&sent, &sender, sender.slots, sender.slots, streams[i].dtype, 0);
        job_open(&got, &late, late.slots, late.slots, PITH_F32, 4);
        gen_fill(GEN_NOISE, 9, PITH_F32, other, N);
        rig_set_base(&late, other, PITH_F32, 99);
        send_step(&sender, &sent, 0, false);
        send_step(&sender, &sent, 1, true);
        receive_step(&late, &got, &sent);
        send_step(&sender, &sent, 2, false);
        receive_step(&late, &got, &sent);
        job_close(&sent);
        job_close(&got);
        rig_close(&late);
        rig_close(&sender);
    }
}

/* A key frame without checksums that is not what it says leaves the slot invalid, until another. */
static void test_invalid(void **state) {
    (void)state;
    struct rig sender, r;
    struct job sent, got;
    context("an invalid slot");
    stream_rig(&sender, 0);
    stream_rig(&r, 0);
    job_open(&sent, &sender, 1, 1, PITH_F32, 0);
    job_open(&got, &r, 1, 1, PITH_F32, 0);
    send_step(&sender, &sent, 0, true);
    const size_t length = (size_t)*job_length(&sent, 0);
    uint8_t *const bad = copy_of(job_frame(&sent, 0), length);
    bad[length - 1001] ^= 16;
    memcpy(got.frame.host, bad, length);
    *job_length(&got, 0) = length;
    JOB_RUN(&got, pith_cuda_decode(r.plan, r.stream, &got.items, 0, device_stream(), NULL));
    const pith_status wanted = decode_one(r.cpu.work, r.cpu.stream, 0, bad, length, NULL, 0);
    CHECK(wanted != PITH_OK);
    CHECK_STATUS(wanted, job_status(&got, 0));
    JOB_RUN(&got, pith_cuda_encode(r.plan, r.stream, &got.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_STATE, job_status(&got, 0));
    CHECK(*job_length(&got, 0) == 0);
    receive_step(&r, &got, &sent);
    send_step(&sender, &sent, 1, false);
    receive_step(&r, &got, &sent);
    free(bad);
    job_close(&sent);
    job_close(&got);
    rig_close(&r);
    rig_close(&sender);
}

/* ---- The stream as a whole -------------------------------------------------------------------*/

static void test_of_another_plan(void **state) {
    (void)state;
    struct rig a, b;
    struct job j;
    context("a stream of another plan");
    stream_rig(&a, 0);
    stream_rig(&b, 4);
    job_open(&j, &a, 1, 1, PITH_F32, 0);
    JOB_RUN(&j, pith_cuda_encode(a.plan, b.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_STATE, job_status(&j, 0));
    CHECK(all_bytes(j.frame.host, j.frame.bytes, UNTOUCHED) && *job_length(&j, 0) == 0);
    *job_length(&j, 0) = j.stride;
    JOB_RUN(&j, pith_cuda_decode(a.plan, b.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_STATE, job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, j.tensor.bytes, UNTOUCHED));
    j.items.dtype = PITH_BF16;
    JOB_RUN(&j, pith_cuda_decode(a.plan, b.stream, &j.items, PITH_ADD, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_STATE, job_status(&j, 0));
    JOB_RUN(&j, pith_cuda_verify(a.plan, b.stream, &j.items, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_STATE, job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, j.tensor.bytes, UNTOUCHED));
    CHECK_OK(pith_cuda_stream_set_step(a.plan, b.stream, 0, 77, device_stream(), NULL));
    rig_check_stream(&b);
    job_close(&j);
    rig_close(&b);
    rig_close(&a);
}

static void check_verified(struct rig *r, uint64_t bad_slot) {
    struct mirror status;
    mirror_open(&status, 4 * (size_t)r->slots, 0);
    CHECK_OK(pith_cuda_stream_verify(r->plan, r->stream, (int32_t *)(void *)status.device,
                                     device_stream(), NULL));
    mirror_pull(&status);
    for (uint64_t s = 0; s < r->slots; s++) {
        int32_t got;
        memcpy(&got, status.host + 4 * s, 4);
        CHECK_STATUS(s == bad_slot ? PITH_ERR_BASE : PITH_OK, (pith_status)got);
    }
    mirror_close(&status);
}

static void test_verify(void **state) {
    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        struct rig r;
        struct job j;
        uint64_t first, count;
        context("verify %s", streams[i].spec);
        stream_rig(&r, i);
        job_open(&j, &r, r.slots, r.slots, streams[i].dtype, 0);
        send_step(&r, &j, 0, false);
        uint8_t *const base =
            r.base_device ? r.base_device : pith_cuda_stream_base(r.plan, r.stream);
        CHECK(!r.base_device || !pith_cuda_stream_base(r.plan, r.stream));
        if (strstr(streams[i].spec, "base_hash=off")) {
            int32_t none;
            CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                         pith_cuda_stream_verify(r.plan, r.stream, &none, device_stream(), NULL));
        } else {
            uint8_t byte;
            check_verified(&r, UINT64_MAX);
            CHECK_OK(pith_plan_slot(r.cpu.plan, r.slots - 1, &first, &count));
            uint8_t *const at = base + first * pith_dtype_bytes(streams[i].base_dtype);
            device_get(&byte, at, 1);
            byte ^= 1;
            device_put(at, &byte, 1);
            check_verified(&r, r.slots - 1);
        }
        job_close(&j);
        rig_close(&r);
    }
}

/* The host's stream goes to the device after some steps, and goes on there. */
static void check_packed(struct rig *r, const void *value) {
    const pith_view view = pith_view_flat(value, r->layout.dtype, N);
    const size_t bytes = (size_t)r->sizes.stream_bytes;
    struct job j;
    for (uint64_t s = 0; s < r->slots; s++) free(stream_encode(&r->cpu, &view, s, false).bytes);
    uint8_t *const image = allocate(bytes);
    CHECK_OK(pith_cuda_stream_pack(r->plan, r->cpu.work, r->cpu.stream, image, bytes, NULL));
    device_put(r->stream, image, bytes);
    if (r->base_host) {
        const size_t base_bytes = N * pith_dtype_bytes(r->layout.base_dtype);
        const uint64_t step = pith_stream_step(r->cpu.stream, 0);
        device_put(r->base_device, r->base_host, base_bytes);
        CHECK_OK(pith_cuda_stream_bind_base(r->plan, r->stream, r->base_device, step,
                                            device_stream(), NULL));
    }
    rig_check_stream(r);
    job_open(&j, r, r->slots, r->slots, r->layout.dtype, 0);
    send_step(r, &j, 4, false);
    job_close(&j);
    free(image);
}

static void test_pack(void **state) {
    (void)state;
    uint8_t value[4 * N];
    for (size_t i = 0; i < STREAMS; i++) {
        struct rig r;
        context("packed %s", streams[i].spec);
        stream_rig(&r, i);
        values(value, streams[i].dtype, 8);
        check_packed(&r, value);
        rig_close(&r);
    }
}

static void test_pack_arguments(void **state) {
    (void)state;
    struct rig a, b;
    pith_error error = {.size = sizeof error};
    context("arguments of pack and unpack");
    stream_rig(&a, 0);
    stream_rig(&b, 4);
    const size_t bytes = (size_t)a.sizes.stream_bytes, saved = (size_t)b.cpu.sizes.save_bytes;
    pith_work *const w = a.cpu.work, *const v = b.cpu.work;
    pith_stream *const host = a.cpu.stream;
    uint8_t *const image = rig_stream_image(&a);
    uint8_t *const before = allocate(saved), *const after = allocate(saved);
    size_t length;
    CHECK_OK(pith_stream_save(v, b.cpu.stream, before, saved, &length));
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_stream_pack(a.plan, w, host, image, bytes - 1, &error));
    CHECK(error.text[0] && error.offset == bytes);
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_stream_unpack(a.plan, w, host, image, bytes - 1, NULL));
    CHECK_STATUS(PITH_ERR_MISMATCH,
                 pith_cuda_stream_pack(a.plan, v, b.cpu.stream, image, bytes, &error));
    CHECK_STATUS(PITH_ERR_MISMATCH, pith_cuda_stream_unpack(b.plan, v, b.cpu.stream, image,
                                                            (size_t)b.sizes.stream_bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_pack(NULL, w, host, image, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_pack(a.plan, NULL, host, image, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_pack(a.plan, w, NULL, image, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_pack(a.plan, w, host, NULL, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_unpack(NULL, w, host, image, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_unpack(a.plan, NULL, host, image, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_unpack(a.plan, w, NULL, image, bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_stream_unpack(a.plan, w, host, NULL, bytes, NULL));
    CHECK_OK(pith_stream_save(v, b.cpu.stream, after, saved, &length));
    CHECK(memcmp(before, after, length) == 0);
    image[bytes - 1] ^= 1; /* of the base */
    CHECK_STATUS(PITH_ERR_BASE, pith_cuda_stream_unpack(a.plan, w, host, image, bytes, &error));
    CHECK(error.text[0]);
    rig_check_stream(&a);
    free(after);
    free(before);
    free(image);
    rig_close(&b);
    rig_close(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_add_to_another_base),
        cmocka_unit_test(test_no_tensor),
        cmocka_unit_test(test_add_unbound),
        cmocka_unit_test(test_pack_arguments),
        cmocka_unit_test(test_late_joiner),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_of_another_plan),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_pack),
    };
    return cmocka_run_group_tests_name("gpu_stream", tests, NULL, NULL);
}
