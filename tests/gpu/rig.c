/* rig.c - a plan on the CPU and on the device under test, and the memory of a call on items.
 * SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

/* ---- Memory on both sides --------------------------------------------------------------------*/

void mirror_open(struct mirror *m, size_t bytes, size_t offset) {
    *m = (struct mirror){allocate(bytes), device_alloc_at(bytes, offset), bytes};
    memset(m->host, UNTOUCHED, bytes);
    mirror_push(m);
}

void mirror_push(const struct mirror *m) { device_put(m->device, m->host, m->bytes); }
void mirror_pull(struct mirror *m) { device_get(m->host, m->device, m->bytes); }

void mirror_close(struct mirror *m) {
    free(m->host);
    device_free(m->device);
    *m = (struct mirror){0};
}

/* ---- Plans and streams -----------------------------------------------------------------------*/

static bool has_base(const struct rig *r) { return r->layout.base_dtype != PITH_NONE; }

/* An external base is +0 at first, as any other. */
static void bind(struct rig *r) {
    const size_t bytes = (size_t)r->count * pith_dtype_bytes(r->layout.base_dtype);
    r->base_host = allocate(bytes);
    r->base_device = device_alloc(bytes);
    memset(r->base_host, 0, bytes);
    device_fill(r->base_device, 0, bytes);
    CHECK_OK(pith_stream_bind_base(r->cpu.work, r->cpu.stream, r->base_host, 0));
    CHECK_OK(
        pith_cuda_stream_bind_base(r->plan, r->stream, r->base_device, 0, device_stream(), NULL));
}

bool rig_open(struct rig *r, const char *spec, const pith_layout *layout) {
    const pith_env env = test_env();
    return rig_open_in(r, spec, layout, &env);
}

bool rig_open_in(struct rig *r, const char *spec, const pith_layout *layout, const pith_env *env) {
    *r = (struct rig){.layout = *layout, .count = 1, .sizes = {.size = sizeof r->sizes}};
    for (uint32_t d = 0; d < layout->ndim; d++) r->count *= layout->shape[d];
    stream_open(&r->cpu, spec, layout, env);
    r->slots = r->cpu.sizes.slots;
    const pith_status status = pith_cuda_plan_sizes(r->cpu.plan, &r->sizes, NULL);
    if (status == PITH_ERR_UNSUPPORTED) {
        stream_close(&r->cpu);
        return false;
    }
    CHECK_OK(status);
    const size_t plan_bytes = (size_t)r->sizes.plan_bytes;
    const size_t stream_bytes = (size_t)r->sizes.stream_bytes;
    r->plan_memory = device_alloc(plan_bytes);
    CHECK_OK(pith_cuda_plan_create(&r->plan, r->cpu.plan, env, DEVICE, r->plan_memory, plan_bytes,
                                   device_stream(), NULL));
    r->stream = device_alloc(stream_bytes);
    CHECK_OK(pith_cuda_stream_init(r->plan, r->stream, stream_bytes, NULL, device_stream(), NULL));
    if (layout->flags & PITH_LAYOUT_EXTERNAL_BASE) bind(r);
    return true;
}

void rig_close(struct rig *r) {
    device_wait();
    pith_cuda_plan_destroy(r->plan);
    device_free(r->plan_memory);
    device_free(r->stream);
    device_free(r->base_device);
    free(r->base_host);
    stream_close(&r->cpu);
    *r = (struct rig){0};
}

void rig_set_base(struct rig *r, const void *base, uint32_t dtype, uint64_t step) {
    const pith_view view = pith_view_flat(base, dtype, r->count);
    const size_t bytes = (size_t)r->count * pith_dtype_bytes(dtype);
    void *const there = device_alloc(bytes);
    device_put(there, base, bytes);
    CHECK_OK(pith_stream_set_base(r->cpu.work, r->cpu.stream, &view, step));
    CHECK_OK(
        pith_cuda_stream_set_base(r->plan, r->stream, there, dtype, step, device_stream(), NULL));
    device_wait();
    device_free(there);
}

void rig_set_step(struct rig *r, uint64_t slot, uint64_t step) {
    CHECK_OK(pith_stream_set_step(r->cpu.work, r->cpu.stream, slot, step));
    CHECK_OK(pith_cuda_stream_set_step(r->plan, r->stream, slot, step, device_stream(), NULL));
}

void rig_set_options(struct rig *r, const pith_stream_options *options) {
    CHECK_OK(pith_stream_set_random(r->cpu.work, r->cpu.stream, options));
    CHECK_OK(pith_cuda_stream_set_random(r->plan, r->stream, options, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots && !has_base(r); s++) rig_set_step(r, s, options->step);
}

void rig_set_random(struct rig *r, uint64_t seed, uint32_t rng_stream, uint64_t step) {
    const pith_stream_options options = {
        .size = sizeof options, .seed = seed, .rng_stream = rng_stream, .step = step};
    rig_set_options(r, &options);
}

static void check_external(struct rig *r) {
    const size_t bytes = (size_t)r->count * pith_dtype_bytes(r->layout.base_dtype);
    uint8_t *const got = allocate(bytes);
    device_get(got, r->base_device, bytes);
    CHECK(memcmp(got, r->base_host, bytes) == 0);
    free(got);
}

uint8_t *rig_stream_image(const struct rig *r) {
    uint8_t *const image = allocate((size_t)r->sizes.stream_bytes);
    device_get(image, r->stream, (size_t)r->sizes.stream_bytes);
    return image;
}

/* Saved, but for what only the CPU counts in streams of codecs with a bound. */
static void check_saved(const struct stream *wanted, const struct stream *got) {
    const size_t bytes = (size_t)wanted->sizes.save_bytes;
    uint8_t *const x = allocate(bytes), *const y = allocate(bytes);
    pith_stats a = {.size = sizeof a}, b = {.size = sizeof b};
    char spec[PITH_SPEC_MAX];
    size_t written;
    CHECK_OK(pith_plan_spec(wanted->plan, spec, sizeof spec));
    CHECK_OK(pith_stream_save(wanted->work, wanted->stream, x, bytes, &written));
    CHECK(written == bytes);
    CHECK_OK(pith_stream_save(got->work, got->stream, y, bytes, &written));
    CHECK(written == bytes);
    /* Saved streams may differ for codecs eb, embed and act alone. */
    CHECK(spec[0] == 'e' || spec[0] == 'a' || memcmp(x, y, bytes) == 0);
    CHECK_OK(pith_stream_stats(wanted->stream, &a));
    CHECK_OK(pith_stream_stats(got->stream, &b));
    CHECK(a.frames == b.frames && a.key_frames == b.key_frames);
    CHECK(a.saturated == b.saturated && a.poisoned == b.poisoned);
    for (uint64_t s = 0; s < wanted->sizes.slots; s++)
        CHECK(pith_stream_step(wanted->stream, s) == pith_stream_step(got->stream, s));
    free(y);
    free(x);
}

/* The device's stream as one of the host's. */
static void unpacked(struct rig *r, struct stream *to) {
    uint8_t *const image = rig_stream_image(r);
    stream_open_end(to, &r->cpu, NULL);
    if (r->base_host) CHECK_OK(pith_stream_bind_base(to->work, to->stream, r->base_host, 0));
    CHECK_OK(pith_cuda_stream_unpack(r->plan, to->work, to->stream, image,
                                     (size_t)r->sizes.stream_bytes, NULL));
    free(image);
}

void rig_check_stream(struct rig *r) {
    struct stream got;
    if (r->base_host) check_external(r);
    unpacked(r, &got);
    check_saved(&r->cpu, &got);
    stream_close(&got);
}

pith_stats rig_stats(struct rig *r) {
    struct stream got;
    pith_stats stats = {.size = sizeof stats};
    unpacked(r, &got);
    CHECK_OK(pith_stream_stats(got.stream, &stats));
    stream_close(&got);
    return stats;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

enum { NO_STATUS = 0x5A5A5A5A };

void job_open(struct job *j, const struct rig *r, uint64_t count, uint64_t frames, uint32_t dtype,
              size_t offset) {
    const uint64_t bytes = r->cpu.sizes.key_bytes > r->cpu.sizes.slot_bytes
                               ? r->cpu.sizes.key_bytes
                               : r->cpu.sizes.slot_bytes;
    *j = (struct job){.frames = frames, .stride = (size_t)bytes};
    mirror_open(&j->tensor, (size_t)r->count * pith_dtype_bytes(dtype), offset);
    mirror_open(&j->frame, j->stride * frames, offset);
    mirror_open(&j->lengths, sizeof(uint64_t) * frames, 0);
    mirror_open(&j->status, sizeof(int32_t) * frames, 0);
    const size_t work = (size_t)(r->sizes.workspace_bytes * frames);
    j->work = work ? device_alloc(work) : NULL;
    for (uint64_t i = 0; i < frames; i++) *job_length(j, i) = j->stride;
    j->items = (pith_cuda_items){.size = sizeof j->items,
                                 .count = count,
                                 .dtype = dtype,
                                 .tensor = j->tensor.device,
                                 .frame = j->frame.device,
                                 .frame_stride = j->stride,
                                 .capacity = j->stride,
                                 .lengths = (uint64_t *)(void *)j->lengths.device,
                                 .status = (int32_t *)(void *)j->status.device,
                                 .workspace = j->work,
                                 .workspace_bytes = work};
}

void job_set_frame(struct job *j, const void *bytes, size_t length) {
    const size_t offset = (uintptr_t)j->frame.device % 256;
    mirror_close(&j->frame);
    mirror_open(&j->frame, length, offset);
    if (length) memcpy(j->frame.host, bytes, length);
    j->items.frame = j->frame.device;
    j->items.capacity = *job_length(j, 0) = length;
}

void job_push(struct job *j) {
    const int32_t none = NO_STATUS;
    for (uint64_t i = 0; i < j->frames; i++) memcpy(j->status.host + 4 * i, &none, 4);
    mirror_push(&j->tensor);
    mirror_push(&j->frame);
    mirror_push(&j->lengths);
    mirror_push(&j->status);
}

void job_pull(struct job *j) {
    mirror_pull(&j->tensor);
    mirror_pull(&j->frame);
    mirror_pull(&j->lengths);
    mirror_pull(&j->status);
}

void job_close(struct job *j) {
    mirror_close(&j->tensor);
    mirror_close(&j->frame);
    mirror_close(&j->lengths);
    mirror_close(&j->status);
    device_free(j->work);
}

uint8_t *job_frame(const struct job *j, uint64_t i) { return j->frame.host + i * j->stride; }

pith_status job_status(const struct job *j, uint64_t i) {
    int32_t status;
    memcpy(&status, j->status.host + 4 * i, 4);
    CHECK(status != NO_STATUS);
    return (pith_status)status;
}

uint64_t *job_length(const struct job *j, uint64_t i) {
    return (uint64_t *)(void *)j->lengths.host + i;
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

static pith_status cpu_decode(const struct rig *r, const void *bytes, size_t length, uint8_t *out,
                              size_t out_bytes) {
    uint8_t *const exact = copy_of(bytes, length);
    const pith_view view = pith_view_flat(out, r->layout.dtype, r->count);
    memset(out, UNTOUCHED, out_bytes);
    const pith_status status = decode_one(r->cpu.work, r->cpu.stream, 0, exact, length, &view, 0);
    free(exact);
    return status;
}

/* The CPU has decoded a key frame, and found at its end that it is not what it says. The slot must
 * be invalid on the device then, as it is on the CPU. */
static void check_invalid(struct rig *r, struct job *j) {
    const pith_view view = pith_view_flat(j->tensor.host, r->layout.dtype, r->count);
    uint8_t *const dst = allocate(j->stride);
    size_t written;
    CHECK_STATUS(PITH_ERR_STATE,
                 encode_one(r->cpu.work, r->cpu.stream, &view, 0, 0, dst, j->stride, &written));
    job_set_frame(j, dst, j->stride);
    JOB_RUN(j, pith_cuda_encode(r->plan, r->stream, &j->items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_STATE, job_status(j, 0));
    free(dst);
}

static void check_refused(struct rig *r, const struct job *j, const uint8_t *before) {
    uint8_t *const after = rig_stream_image(r);
    CHECK(all_bytes(j->tensor.host, j->tensor.bytes, UNTOUCHED));
    CHECK(memcmp(before, after, (size_t)r->sizes.stream_bytes) == 0);
    free(after);
}

/* Calls that only look: they say what decoding says, and leave the stream as it is. Only a whole
 * key frame, decoded, shows that it is not what it declares: `wrote`. */
static void check_lookers(struct rig *r, struct job *j, pith_status wanted, bool wrote,
                          const uint8_t *decoded) {
    uint8_t *const before = rig_stream_image(r);
    JOB_RUN(j, pith_cuda_verify(r->plan, r->stream, &j->items, device_stream(), NULL));
    if (!wrote) CHECK_STATUS(wanted, job_status(j, 0));
    check_refused(r, j, before);
    JOB_RUN(j, pith_cuda_decode_range(r->plan, r->stream, &j->items, 0, r->count, device_stream(),
                                      NULL));
    if (!wrote) CHECK_STATUS(wanted, job_status(j, 0));
    if (wanted == PITH_OK) {
        CHECK(memcmp(j->tensor.host, decoded, j->tensor.bytes) == 0);
        memset(j->tensor.host, UNTOUCHED, j->tensor.bytes);
    }
    if (!wrote) check_refused(r, j, before);
    free(before);
}

pith_status rig_try(struct rig *r, const void *bytes, size_t length, size_t offset) {
    const size_t stream_bytes = (size_t)r->cpu.sizes.stream_bytes;
    uint8_t *const cpu_before = copy_of(r->cpu.memory, stream_bytes);
    uint8_t *const before = rig_stream_image(r);
    struct job j;
    job_open(&j, r, 1, 1, r->layout.dtype, offset);
    uint8_t *const out = allocate(j.tensor.bytes);
    job_set_frame(&j, bytes, length);
    JOB_RUN(&j, pith_cuda_decode(r->plan, r->stream, &j.items, 0, device_stream(), NULL));
    const pith_status wanted = cpu_decode(r, bytes, length, out, j.tensor.bytes);
    const pith_status got = job_status(&j, 0);
    /* A block that is damaged the CPU finds when those before it are written, a device before. */
    const bool key = length > 11 && ((const uint8_t *)bytes)[11] & 2;
    const bool wrote = has_base(r) && key && wanted == PITH_ERR_CHECKSUM &&
                       !all_bytes(out, j.tensor.bytes, UNTOUCHED);
    if (wrote || (got != PITH_ERR_MISMATCH && got != PITH_ERR_UNSUPPORTED))
        CHECK_STATUS(wanted, got);
    if (got == PITH_OK) {
        CHECK(memcmp(j.tensor.host, out, j.tensor.bytes) == 0);
        rig_check_stream(r);
    } else if (wrote) {
        check_invalid(r, &j);
    } else {
        check_refused(r, &j, before);
    }
    memset(j.tensor.host, UNTOUCHED, j.tensor.bytes);
    job_set_frame(&j, bytes, length);
    device_put(r->stream, before, (size_t)r->sizes.stream_bytes);
    check_lookers(r, &j, got, wrote, out);
    memcpy(r->cpu.memory, cpu_before, stream_bytes);
    job_close(&j);
    free(out);
    free(before);
    free(cpu_before);
    return got;
}
