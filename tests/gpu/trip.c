/* trip.c - frames on both sides.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trip.h"

#include "bad.h"
#include "gen.h"

const uint32_t trip_reals[3] = {PITH_F32, PITH_BF16, PITH_F16};
const uint32_t trip_dtypes[TRIP_DTYPES] = {PITH_BF16,   PITH_F32, PITH_F16,  PITH_F64,
                                           PITH_I32,    PITH_U16, PITH_U8,   PITH_I64,
                                           PITH_F8E4M3, PITH_I16, PITH_BOOL, PITH_U64};

pith_layout shape_layout(const uint64_t shape[5], uint32_t dtype, uint32_t flags) {
    pith_layout layout = {.size = sizeof layout, .dtype = dtype, .ndim = (uint32_t)shape[0]};
    layout.flags = flags;
    memcpy(layout.shape, shape + 1, (size_t)shape[0] * sizeof *shape);
    return layout;
}

void trip_open(struct trip *t, const char *spec, const pith_layout *layout, size_t offset) {
    *t = (struct trip){.offset = offset};
    CHECK(rig_open(&t->r, spec, layout));
    t->bytes = (size_t)t->r.count * pith_dtype_bytes(layout->dtype);
    t->value = allocate(t->bytes);
    t->decoded = allocate(t->bytes);
}

void trip_open_varied(struct trip *t, const char *spec, const uint64_t shape[5], uint64_t number) {
    const pith_layout layout =
        shape_layout(shape, trip_reals[number % 3], number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(t, spec, &layout, number % 5 ? 0 : (size_t)(number / 5 % 16));
}

void trip_open_attacked(struct trip *t, const char *spec, const uint64_t shape[5],
                        uint64_t number) {
    const pith_layout layout =
        shape_layout(shape, trip_reals[number % 3], number % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    context("%s attacked", spec);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(t, spec, &layout, number);
}

static pith_view view_of(const struct trip *t, void *values) {
    return pith_view_flat(values, t->r.layout.dtype, t->r.count);
}

/* What was counted since the last reset. */
static pith_stats counted(struct trip *t) {
    pith_stats stats = {.size = sizeof stats};
    CHECK_OK(pith_stream_stats(t->r.cpu.stream, &stats));
    CHECK_OK(pith_stream_reset(t->r.cpu.work, t->r.cpu.stream));
    return stats;
}

void trip_encode(struct trip *t) {
    const pith_view value = view_of(t, t->value), out = view_of(t, t->decoded);
    t->frame = stream_encode(&t->r.cpu, &value, 0, false);
    t->encoded = counted(t);
    CHECK_OK(
        decode_one(t->r.cpu.work, t->r.cpu.stream, 0, t->frame.bytes, t->frame.length, &out, 0));
    t->counted = counted(t);
}

void trip_close(struct trip *t) {
    free(t->value);
    free(t->decoded);
    free(t->frame.bytes);
    rig_close(&t->r);
}

/* ---- The device does as the CPU does ---------------------------------------------------------*/

static void restart(struct trip *t) {
    CHECK_OK(pith_cuda_stream_init(t->r.plan, t->r.stream, (size_t)t->r.sizes.stream_bytes, NULL,
                                   device_stream(), NULL));
}

/* Since the restart the device has counted this. */
static void check_counted(struct trip *t, const pith_stats *wanted) {
    const pith_stats got = rig_stats(&t->r);
    CHECK(got.frames == wanted->frames && got.saturated == wanted->saturated);
    CHECK(got.poisoned == wanted->poisoned);
}

/* A call that reads the frame, from memory of exactly its length. */
static void reader_open(struct job *j, const struct trip *t, uint32_t dtype) {
    job_open(j, &t->r, 1, 1, dtype, t->offset);
    job_set_frame(j, t->frame.bytes, t->frame.length);
}

void trip_check_encode(struct trip *t) {
    struct job j;
    job_open(&j, &t->r, 1, 1, t->r.layout.dtype, t->offset);
    memcpy(j.tensor.host, t->value, t->bytes);
    restart(t);
    JOB_RUN(&j, pith_cuda_encode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    check_counted(t, &t->encoded);
    CHECK_OK(job_status(&j, 0));
    CHECK(*job_length(&j, 0) == t->frame.length);
    CHECK(memcmp(job_frame(&j, 0), t->frame.bytes, t->frame.length) == 0);
    CHECK(all_bytes(j.frame.host + t->frame.length, j.frame.bytes - t->frame.length, UNTOUCHED));
    job_close(&j);
}

void trip_check_decode(struct trip *t) {
    struct job j;
    reader_open(&j, t, t->r.layout.dtype);
    restart(t);
    JOB_RUN(&j, pith_cuda_decode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, t->decoded, t->bytes) == 0);
    JOB_RUN(&j, pith_cuda_verify(t->r.plan, t->r.stream, &j.items, device_stream(), NULL));
    check_counted(t, &t->counted);
    CHECK_OK(job_status(&j, 0));
    job_close(&j);
}

void trip_check_range(struct trip *t, uint64_t first, uint64_t count) {
    const size_t width = pith_dtype_bytes(t->r.layout.dtype);
    const uint64_t begin = first < t->r.count ? first : t->r.count;
    const uint64_t end = count < t->r.count - begin ? begin + count : t->r.count;
    struct job j;
    reader_open(&j, t, t->r.layout.dtype);
    JOB_RUN(&j, pith_cuda_decode_range(t->r.plan, t->r.stream, &j.items, first, count,
                                       device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(all_bytes(j.tensor.host, begin * width, UNTOUCHED));
    CHECK(memcmp(j.tensor.host + begin * width, t->decoded + begin * width,
                 (end - begin) * width) == 0);
    CHECK(all_bytes(j.tensor.host + end * width, (t->r.count - end) * width, UNTOUCHED));
    job_close(&j);
}

void trip_check_other(struct trip *t, uint32_t dtype, bool add) {
    const size_t bytes = (size_t)t->r.count * pith_dtype_bytes(dtype);
    uint8_t *const wanted = allocate(bytes);
    const pith_view view = pith_view_flat(wanted, dtype, t->r.count);
    const void *const frame = t->frame.bytes;
    struct job j;
    reader_open(&j, t, dtype);
    gen_fill(GEN_HOLES, 77, dtype, wanted, t->r.count);
    memcpy(j.tensor.host, wanted, bytes);
    const uint32_t flags = add ? PITH_ADD : 0;
    CHECK_OK(decode_one(t->r.cpu.work, t->r.cpu.stream, 0, frame, t->frame.length, &view, flags));
    JOB_RUN(&j, pith_cuda_decode(t->r.plan, t->r.stream, &j.items, flags, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    CHECK(memcmp(j.tensor.host, wanted, bytes) == 0);
    job_close(&j);
    free(wanted);
}

void trip_check_part(struct trip *t, uint64_t number) {
    if (number % 4 == 0)
        trip_check_range(t, t->r.count / 3 + number % 5, t->r.count / 2 + 1);
    else
        trip_check_other(t, trip_reals[number / 4 % 3], number % 4 >= 2);
}

void trip_check_all(struct trip *t, uint64_t number) {
    trip_check_encode(t);
    trip_check_decode(t);
    trip_check_range(t, t->r.count / 3 + number % 7, t->r.count / 2 + 1);
    trip_check_other(t, trip_reals[number / 2 % 3], number % 2);
}

void trip_check_tight(const char *spec, uint32_t spread, uint32_t zeros) {
    enum { BLOCK = 256, BLOCKS = 165, SAMPLE = 3 };
    const uint32_t every = test_step(1) == 1 ? 1 : SAMPLE;
    const pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, BLOCK * BLOCKS / every);
    struct trip t;
    uint64_t seed = 5;
    context("%s", spec);
    trip_open(&t, spec, &layout, 0);
    for (uint32_t i = 0; i < t.r.count; i++) {
        const uint32_t number = (uint32_t)(gen_next(&seed) % (spread + 2 * every * (i / BLOCK)));
        const uint32_t sign = (uint32_t)(gen_next(&seed) & 0x800F0000u);
        const bool is_zero = zeros && gen_next(&seed) % zeros == 0;
        store_float(t.value, PITH_BF16, i, is_zero ? 0 : (0x3F800000u + (number << 20)) | sign);
    }
    trip_encode(&t);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_close(&t);
}

void trip_check_frame_of(struct trip *t, const char *spec, pith_status wanted) {
    const pith_view value = view_of(t, t->value), out = view_of(t, t->decoded);
    struct stream other;
    struct job j;
    stream_open(&other, spec, &t->r.layout, NULL);
    struct frame f = stream_encode(&other, &value, 0, false);
    CHECK_OK(decode_one(t->r.cpu.work, t->r.cpu.stream, 0, f.bytes, f.length, &out, 0));
    job_open(&j, &t->r, 1, 1, t->r.layout.dtype, t->offset);
    job_set_frame(&j, f.bytes, f.length);
    JOB_RUN(&j, pith_cuda_decode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(wanted, job_status(&j, 0));
    if (wanted == PITH_OK)
        CHECK(memcmp(j.tensor.host, t->decoded, t->bytes) == 0);
    else
        CHECK(all_bytes(j.tensor.host, t->bytes, UNTOUCHED));
    free(f.bytes);
    job_close(&j);
    stream_close(&other);
}

void trip_check_space(struct trip *t) {
    struct job j;
    job_open(&j, &t->r, 1, 1, t->r.layout.dtype, 0);
    memcpy(j.tensor.host, t->value, t->bytes);
    j.items.capacity = t->frame.length - 1;
    JOB_RUN(&j, pith_cuda_encode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_SPACE, job_status(&j, 0));
    CHECK(*job_length(&j, 0) == 0 && all_bytes(j.frame.host, j.frame.bytes, UNTOUCHED));
    j.items.capacity = t->frame.length;
    JOB_RUN(&j, pith_cuda_encode(t->r.plan, t->r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    job_close(&j);
}

void trip_check_generators(const char *spec) {
    for (int kind = 0; kind < GEN_COUNT; kind++)
        for (int order = 0; order < device_orders(); order++) {
            const pith_layout layout = flat_layout(trip_reals[kind % 3], PITH_NONE, 3000);
            struct trip t;
            /* Of a sample each kind has one order, the next kind another. */
            if (test_step(1) > 1 && (kind + order) % device_orders()) continue;
            context("%s, values of %s", spec, gen_name((enum gen)kind));
            device_order(order);
            trip_open(&t, spec, &layout, 0);
            gen_fill((enum gen)kind, 9, layout.dtype, t.value, t.r.count);
            trip_encode(&t);
            trip_check_encode(&t);
            trip_check_decode(&t);
            trip_check_space(&t);
            trip_close(&t);
        }
}

/* ---- Slots -----------------------------------------------------------------------------------*/

void trip_check_frame(struct rig *r, const struct job *j, uint64_t i, uint64_t slot) {
    const pith_view view = pith_view_flat(j->tensor.host, r->layout.dtype, r->count);
    struct frame f = stream_encode(&r->cpu, &view, slot, false);
    CHECK_OK(job_status(j, i));
    CHECK(*job_length(j, i) == f.length);
    CHECK(memcmp(job_frame(j, i), f.bytes, f.length) == 0);
    CHECK(all_bytes(job_frame(j, i) + f.length, j->stride - f.length, UNTOUCHED));
    free(f.bytes);
}

void trip_check_slots(struct rig *r, const void *value) {
    struct job j;
    job_open(&j, r, r->slots, r->slots, r->layout.dtype, 0);
    uint8_t *const decoded = allocate(j.tensor.bytes);
    const pith_view view = pith_view_flat(decoded, r->layout.dtype, r->count);
    memcpy(j.tensor.host, value, j.tensor.bytes);
    JOB_RUN(&j, pith_cuda_encode(r->plan, r->stream, &j.items, 0, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) trip_check_frame(r, &j, s, s);
    memset(j.tensor.host, UNTOUCHED, j.tensor.bytes);
    JOB_RUN(&j, pith_cuda_decode(r->plan, r->stream, &j.items, 0, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        CHECK_OK(job_status(&j, s));
        CHECK_OK(decode_one(r->cpu.work, r->cpu.stream, s, job_frame(&j, s),
                            (size_t)*job_length(&j, s), &view, 0));
    }
    CHECK(memcmp(decoded, j.tensor.host, j.tensor.bytes) == 0);
    rig_check_stream(r);
    job_close(&j);
    free(decoded);
}

void trip_check_three_slots(const char *spec, uint32_t dtype) {
    pith_layout layout = flat_layout(dtype, PITH_NONE, 1000);
    struct trip t;
    context("slots");
    layout.slots = 3;
    trip_open(&t, spec, &layout, 0);
    gen_fill(GEN_NOISE, 5, dtype, t.value, 1000);
    trip_check_slots(&t.r, t.value);
    trip_close(&t);
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

void trip_check_coded_refused(const char *spec) {
    const uint64_t shape[5] = {1, 100};
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    struct rig r;
    struct job j;
    CHECK(rig_open(&r, spec, &layout));
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce(r.plan, r.stream, &j.items, 1, 1, device_stream(), NULL));
    j.items.workspace_bytes = (size_t)r.sizes.workspace_bytes - 1;
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    job_close(&j);
    rig_close(&r);
}

void trip_check_unsupported(const char *spec, uint32_t dtype, const char *what) {
    const uint64_t shape[5] = {1, 100};
    const pith_layout layout = shape_layout(shape, dtype, 0);
    struct stream s;
    pith_cuda_sizes sizes = {.size = sizeof sizes};
    pith_error error = {.size = sizeof error};
    context("%s of %s", spec, pith_dtype_name(dtype));
    stream_open(&s, spec, &layout, NULL);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_plan_sizes(s.plan, &sizes, &error));
    CHECK(strstr(error.text, what));
    stream_close(&s);
}

void trip_attack(struct trip *t, uint64_t seed) {
    const size_t length = t->frame.length;
    uint8_t *const kept = copy_of(t->frame.bytes, length);
    for (size_t n = 0; n < length; n += 1 + n / 7)
        if (is_sampled(n, 8)) rig_try(&t->r, kept, n, t->offset);
    for (size_t i = 0; i < length; i += length < 600 ? 1 : 1 + gen_next(&seed) % 5) {
        if (!is_sampled(i, 8)) continue;
        t->frame.bytes[i] ^= (uint8_t)(1u << gen_next(&seed) % 8);
        if (i < 96 && gen_next(&seed) % 2) bad_seal(&t->frame);
        rig_try(&t->r, t->frame.bytes, length, t->offset);
        memcpy(t->frame.bytes, kept, length);
    }
    free(kept);
}

void trip_flip(struct trip *t, size_t from, size_t near, size_t last, size_t between,
               uint64_t seed) {
    const size_t length = t->frame.length;
    for (size_t i = from; i < length; i++) {
        const uint8_t kept = t->frame.bytes[i];
        if (!is_sampled(i, 8) || (i >= near && i + last < length && i % between)) continue;
        t->frame.bytes[i] ^= (uint8_t)(1u << gen_next(&seed) % 8);
        rig_try(&t->r, t->frame.bytes, length, t->offset);
        t->frame.bytes[i] = kept;
    }
}

/* ---- Frames of any set ----------------------------------------------------------------------*/

void open_sender(struct job *j, const struct rig *r) {
    job_open(j, r, r->slots, r->slots, r->layout.dtype, 0);
    j->stride = (size_t)(2 * r->cpu.sizes.slot_bytes + 5 * r->count);
    mirror_close(&j->frame);
    mirror_open(&j->frame, j->stride * (size_t)r->slots, 5);
    device_free(j->work);
    j->items.workspace_bytes =
        r->slots * (r->sizes.workspace_bytes + r->sizes.sum_bytes + r->sizes.set_bytes);
    j->items.workspace = j->work = device_alloc((size_t)j->items.workspace_bytes);
    j->items.frame = j->frame.device;
    j->items.frame_stride = j->items.capacity = j->stride;
}

void send_filled(struct rig *r, struct job *j, uint32_t flags) {
    const size_t capacity = (size_t)j->items.capacity;
    uint8_t *const wanted = allocate(capacity);
    memset(j->frame.host, UNTOUCHED, j->frame.bytes);
    const pith_view view = pith_view_flat(j->tensor.host, r->layout.dtype, r->count);
    JOB_RUN(j, pith_cuda_encode(r->plan, r->stream, &j->items, flags, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        size_t length;
        const pith_status status =
            encode_one(r->cpu.work, r->cpu.stream, &view, s, flags, wanted, capacity, &length);
        CHECK_STATUS(status, job_status(j, s));
        CHECK(*job_length(j, s) == length);
        CHECK(memcmp(job_frame(j, s), wanted, length) == 0);
        CHECK(all_bytes(job_frame(j, s) + length, j->stride - length, UNTOUCHED));
    }
    free(wanted);
    rig_check_stream(r);
}

void send_both(struct rig *r, struct job *j, int kind, uint64_t seed, uint32_t flags) {
    gen_fill((enum gen)kind, seed, r->layout.dtype, j->tensor.host, r->count);
    send_filled(r, j, flags);
}

void encode_both(struct rig *r, int kind, uint64_t seed) {
    struct job j;
    open_sender(&j, r);
    send_both(r, &j, kind, seed, 0);
    for (uint64_t s = 0; s < r->slots; s++) CHECK_OK(job_status(&j, s));
    job_close(&j);
}
