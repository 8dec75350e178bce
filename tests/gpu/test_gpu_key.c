/* test_gpu_key.c - key frames: every pair of dtypes, slots of several teams, every way to read
 * them; and damage, which decode_add sees before it writes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "rig.h"

/* Slots of a rig, their key frames as the CPU makes them, and what was before. */
struct keys {
    struct rig r;
    uint64_t count;
    uint32_t dtype, base_dtype;
    size_t offset;
    uint8_t *value, *base;
    struct frame *frame;
};

static void rewind_base(struct keys *k, uint64_t step) {
    rig_set_base(&k->r, k->base, k->base_dtype, step);
}

static void keys_open(struct keys *k, const char *spec, uint64_t slots, uint32_t flags,
                      enum gen kind) {
    pith_layout layout = flat_layout(k->dtype, k->base_dtype, k->count);
    layout.slots = slots;
    layout.flags = flags;
    CHECK(rig_open(&k->r, spec, &layout));
    k->value = allocate(k->count * 4);
    k->base = allocate(k->count * 4);
    k->frame = allocate(k->r.slots * sizeof *k->frame);
    gen_fill(kind, 4, k->dtype, k->value, k->count);
    gen_fill(GEN_NOISE, 3, k->base_dtype, k->base, k->count);
    rewind_base(k, 5);
    rig_set_random(&k->r, 9, 4, 0);
}

static void keys_close(struct keys *k) {
    for (uint64_t i = 0; i < k->r.slots; i++) free(k->frame[i].bytes);
    free(k->frame);
    free(k->value);
    free(k->base);
    rig_close(&k->r);
}

/* A job that reads the frames. */
static void reader_open(struct keys *k, struct job *j, uint32_t dtype) {
    job_open(j, &k->r, k->r.slots, k->r.slots, dtype, k->offset);
    for (uint64_t i = 0; i < k->r.slots; i++) {
        memcpy(job_frame(j, i), k->frame[i].bytes, k->frame[i].length);
        *job_length(j, i) = k->frame[i].length;
    }
}

static void check_encode(struct keys *k) {
    const pith_view view = pith_view_flat(k->value, k->dtype, k->count);
    struct job j;
    job_open(&j, &k->r, k->r.slots, k->r.slots, k->dtype, k->offset);
    memcpy(j.tensor.host, k->value, j.tensor.bytes);
    JOB_RUN(&j, pith_cuda_encode(k->r.plan, k->r.stream, &j.items, PITH_KEY_FRAME, device_stream(),
                                 NULL));
    for (uint64_t i = 0; i < k->r.slots; i++) {
        k->frame[i] = stream_encode(&k->r.cpu, &view, i, true);
        CHECK_OK(job_status(&j, i));
        CHECK(*job_length(&j, i) == k->frame[i].length);
        CHECK(memcmp(job_frame(&j, i), k->frame[i].bytes, k->frame[i].length) == 0);
    }
    rig_check_stream(&k->r);
    job_close(&j);
}

/* The stream is at another step, which a key frame does not mind. */
static void check_decode(struct keys *k, uint32_t dtype) {
    struct job j;
    reader_open(k, &j, dtype);
    uint8_t *const wanted = allocate(j.tensor.bytes);
    const pith_view view = pith_view_flat(wanted, dtype, k->count);
    rewind_base(k, 77);
    JOB_RUN(&j, pith_cuda_decode(k->r.plan, k->r.stream, &j.items, 0, device_stream(), NULL));
    for (uint64_t i = 0; i < k->r.slots; i++) {
        CHECK_OK(job_status(&j, i));
        CHECK_OK(decode_one(k->r.cpu.work, k->r.cpu.stream, i, k->frame[i].bytes,
                            k->frame[i].length, &view, 0));
    }
    CHECK(memcmp(j.tensor.host, wanted, j.tensor.bytes) == 0);
    rig_check_stream(&k->r);
    free(wanted);
    job_close(&j);
}

/* Where the CPU refuses a frame, its slot of the tensor is as it was. */
static void check_add(struct keys *k, struct job *j) {
    const size_t width = pith_dtype_bytes(k->base_dtype);
    const uint64_t per = (k->count + k->r.slots - 1) / k->r.slots;
    memcpy(j->tensor.host, k->base, j->tensor.bytes);
    JOB_RUN(j,
            pith_cuda_decode(k->r.plan, k->r.stream, &j->items, PITH_ADD, device_stream(), NULL));
    for (uint64_t i = 0; i < k->r.slots; i++) {
        const uint64_t first = i * per < k->count ? i * per : k->count;
        const uint64_t end = first + per < k->count ? first + per : k->count;
        uint8_t *const sum = copy_of(k->base, j->tensor.bytes);
        const pith_view view = pith_view_flat(sum, k->base_dtype, k->count);
        const pith_status status = decode_one(k->r.cpu.work, k->r.cpu.stream, i, job_frame(j, i),
                                              (size_t)*job_length(j, i), &view, PITH_ADD);
        const uint8_t *const wanted = status == PITH_OK ? sum : k->base;
        CHECK_STATUS(status, job_status(j, i));
        CHECK(memcmp(j->tensor.host + first * width, wanted + first * width,
                     (end - first) * width) == 0);
        free(sum);
    }
}

/* A bit of every other frame, anywhere behind its header. */
static void damage(struct keys *k, struct job *j, uint64_t seed) {
    for (uint64_t i = seed % 2; i < k->r.slots; i += 2) {
        const size_t header = header_of(&k->frame[i]), payload = k->frame[i].length - header;
        if (payload) job_frame(j, i)[header + gen_next(&seed) % payload] ^= 1;
    }
}

static void check_damage(struct keys *k, uint64_t seed) {
    struct job j;
    reader_open(k, &j, k->base_dtype);
    check_add(k, &j);
    damage(k, &j, seed);
    check_add(k, &j);
    JOB_RUN(&j, pith_cuda_verify(k->r.plan, k->r.stream, &j.items, device_stream(), NULL));
    for (uint64_t i = 0; i < k->r.slots; i++)
        CHECK_STATUS(pith_verify(job_frame(&j, i), k->frame[i].length, NULL, NULL),
                     job_status(&j, i));
    job_close(&j);
}

static void one_count(const char *spec, uint32_t dtype, uint32_t base_dtype, uint64_t count,
                      uint64_t number) {
    static const enum gen kinds[] = {GEN_NOISE, GEN_BITS, GEN_LARGE, GEN_HOLES};
    struct keys k = {.count = count,
                     .dtype = dtype,
                     .base_dtype = base_dtype,
                     .offset = number % 3 ? 0 : (size_t)number % 16};
    context("%s dtype %s base %s x %llu, number %llu", spec, pith_dtype_name(dtype),
            pith_dtype_name(base_dtype), (unsigned long long)count, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    keys_open(&k, spec, 1 + number % 3, number % 2 ? PITH_LAYOUT_CHECKSUMS : 0, kinds[number % 4]);
    check_encode(&k);
    for (uint32_t to = PITH_F32; to <= PITH_F16; to++) check_decode(&k, to);
    check_damage(&k, number);
    keys_close(&k);
}

static void test_keys(void **state) {
    (void)state;
    static const char *const specs[] = {"wdiff", "wdiff:group=16,block=16",
                                        "wdiff:base_hash=off,block=4096"};
    static const uint64_t counts[] = {1, 7, 100, 4096, 4099, 9000, 40000};
    uint64_t number = 0;
    for (int s = 0; s < 3; s++)
        for (int n = 0; n < 7; n++)
            for (uint32_t dtype = PITH_F32; dtype <= PITH_F16; dtype++)
                for (uint32_t base = PITH_F32; base <= PITH_F16; base++)
                    one_count(specs[s], dtype, base, counts[n], number++);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests_name("gpu_key", tests, NULL, NULL);
}
