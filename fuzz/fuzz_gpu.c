/* fuzz_gpu.c - any bytes to the CUDA kernels that read frames, on the host runner, and to the CPU;
 * and sets of elements, made of any bytes, held, sent and moved by both.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "pith/pith_cuda.h"
#include "runner.h"

/* Behind the frame, as many as in the corpus of fuzz_decode, which serves here too. */
enum { PARAMETER_BYTES = 24 };
enum { OUTPUT_LIMIT = 1 << 16, FRAMES = 2, UNTOUCHED = 0x5A, NO_STATUS = 99 };

/* Device memory: aligned, and as long as was requested. */
static void *device_new(uint64_t bytes) {
    void *memory = NULL;
    FUZZ_CHECK(posix_memalign(&memory, 256, (size_t)bytes + !bytes) == 0);
    return memory;
}

struct subject {
    const uint8_t *frame;
    uint64_t length;
    pith_layout layout;
    const pith_plan *plan;
    pith_sizes cpu_sizes;
    const pith_cuda_plan *cuda;
    pith_cuda_sizes sizes;
    void *plan_memory, *workspace;
    struct fuzz_tensor base;
    pith_work *work;
    void *work_memory;
    size_t work_bytes;
    pith_stream *stream; /* the CPU's */
    void *stream_memory;
    uint64_t step;
    bool bounded; /* codecs eb, embed and act */
    bool pages;   /* codec kv */
    bool sparse;  /* codec topk */
    bool coded;   /* codes by entropy=rans, which are not summed */
    bool exact;   /* codec lossless */
};

/* ---- Plans and streams -----------------------------------------------------------------------*/

/* The plan that the header speaks of, or one that it does not. */
static bool open_plan(struct subject *x, struct fuzz_source *s) {
    static const struct {
        const char *spec;
        uint32_t dtype, base_dtype;
    } others[] = {{"raw", PITH_F32, PITH_NONE},
                  {"wdiff:group=16,block=64", PITH_BF16, PITH_F32},
                  {"grad:group=32,block=64", PITH_F32, PITH_NONE},
                  {"grad:bits=8,rotate=0", PITH_F16, PITH_NONE}};
    pith_info info = {.size = sizeof info};
    const uint32_t other = fuzz_u8(s);
    char coded[PITH_SPEC_MAX + 16], kept[sizeof coded + 32], only[64];
    const char *spec = info.spec;
    x->layout = (pith_layout){.size = sizeof x->layout};
    if (pith_inspect(x->frame, (size_t)x->length, &info, NULL) == PITH_OK && other < 240 &&
        info.raw_bytes <= OUTPUT_LIMIT) {
        x->layout.dtype = info.dtype;
        x->layout.base_dtype = info.base_dtype;
        x->layout.ndim = info.ndim;
        x->layout.flags = info.has_checksums ? PITH_LAYOUT_CHECKSUMS : 0;
        memcpy(x->layout.shape, info.shape, sizeof info.shape);
        x->step = info.step;
    } else {
        spec = others[other % 4].spec;
        x->layout.dtype = others[other % 4].dtype;
        x->layout.base_dtype = others[other % 4].base_dtype;
        x->layout.ndim = 1;
        x->layout.shape[0] = fuzz_below(s, 300);
    }
    x->bounded = strncmp(spec, "eb", 2) == 0 || strncmp(spec, "embed", 5) == 0 ||
                 strncmp(spec, "act", 3) == 0;
    x->pages = strncmp(spec, "kv", 2) == 0;
    x->sparse = strncmp(spec, "topk", 4) == 0;
    x->exact = strncmp(spec, "lossless", 8) == 0;
    /* A plan of entropy=rans reads frames that may have strings of zstd. */
    const char *const dim = strstr(info.spec, ",dim=");
    snprintf(only, sizeof only, "lossless:entropy=rans,block=%u%s%.*s", 1u << info.block_log2,
             info.base_dtype && !info.has_base_hash ? ",base_hash=off" : "",
             dim ? (int)(5 + strspn(dim + 5, "0123456789")) : 0, dim ? dim : "");
    if (x->exact) spec = only;
    if ((strncmp(spec, "embed", 5) == 0 && !strstr(spec, "mode=fast")) ||
        ((strncmp(spec, "act", 3) == 0 || strncmp(spec, "eb", 2) == 0) &&
         strstr(spec, "mode=ratio"))) {
        snprintf(coded, sizeof coded, "%s%centropy=rans", spec, strchr(spec, ':') ? ',' : ':');
        spec = coded;
    }
    x->coded = strstr(spec, "entropy=rans") != NULL;
    /* Frames do not say what a stream keeps of what was not sent. */
    if (x->sparse && other & 1) {
        snprintf(kept, sizeof kept, "%s%cef=full%s", spec, strchr(spec, ':') ? ',' : ':',
                 other & 2   ? ",clear=call"
                 : other & 4 ? ",momentum=0.9"
                             : "");
        spec = kept;
    }
    if (pith_plan_create(&x->plan, spec, &x->layout, NULL, NULL) != PITH_OK) return false;
    x->sizes.size = sizeof x->sizes;
    if (pith_cuda_plan_sizes(x->plan, &x->sizes, NULL) == PITH_OK) return true;
    pith_plan_destroy(x->plan);
    return false;
}

static void open_host(struct subject *x, struct fuzz_source *s, uint64_t count) {
    struct fuzz_source none = {NULL, 0};
    x->cpu_sizes.size = sizeof x->cpu_sizes;
    FUZZ_CHECK(pith_plan_sizes(x->plan, &x->cpu_sizes) == PITH_OK);
    fuzz_tensor_new(&x->base, &none, true, x->layout.base_dtype, 1, &count);
    if (x->base.bytes) memset(x->base.memory, 0, x->base.bytes);
    if (fuzz_u8(s) & 1) fuzz_fill(&x->base, s);
    x->work_bytes = (size_t)pith_work_bytes(&x->plan, 1, 1);
    x->work_memory = guard_new(x->work_bytes);
    FUZZ_CHECK(pith_work_init(x->work_memory, x->work_bytes, NULL, &x->work, NULL) == PITH_OK);
    x->stream_memory = guard_new((size_t)x->cpu_sizes.stream_bytes);
    FUZZ_CHECK(pith_stream_init(x->plan, x->stream_memory, (size_t)x->cpu_sizes.stream_bytes, NULL,
                                &x->stream, NULL) == PITH_OK);
    if (x->layout.base_dtype)
        FUZZ_CHECK(pith_stream_set_base(x->work, x->stream, &x->base.view, x->step) == PITH_OK);
}

static pith_cuda_stream *new_device_stream(struct subject *x) {
    void *memory = device_new(x->sizes.stream_bytes);
    FUZZ_CHECK(pith_cuda_stream_init(x->cuda, memory, (size_t)x->sizes.stream_bytes, NULL, NULL,
                                     NULL) == PITH_OK);
    if (x->layout.base_dtype)
        FUZZ_CHECK(pith_cuda_stream_set_base(x->cuda, memory, x->base.memory, x->layout.base_dtype,
                                             x->step, NULL, NULL) == PITH_OK);
    return memory;
}

static uint64_t workspace_bytes(const struct subject *x) {
    return FRAMES * x->sizes.workspace_bytes + x->sizes.sum_bytes + x->sizes.set_bytes;
}

static void open_cuda(struct subject *x) {
    x->plan_memory = device_new(x->sizes.plan_bytes);
    x->workspace = device_new(workspace_bytes(x));
    FUZZ_CHECK(pith_cuda_plan_create(&x->cuda, x->plan, NULL, 0, x->plan_memory,
                                     (size_t)x->sizes.plan_bytes, NULL, NULL) == PITH_OK);
}

static void close_subject(struct subject *x) {
    pith_cuda_plan_destroy(x->cuda);
    free(x->workspace);
    free(x->plan_memory);
    guard_free(x->stream_memory, (size_t)x->cpu_sizes.stream_bytes);
    guard_free(x->work_memory, x->work_bytes);
    fuzz_tensor_free(&x->base);
    pith_plan_destroy(x->plan);
}

/* ---- Calls -----------------------------------------------------------------------------------*/

static struct fuzz_tensor new_tensor(uint32_t dtype, uint64_t count) {
    struct fuzz_source none = {NULL, 0};
    struct fuzz_tensor t;
    fuzz_tensor_new(&t, &none, true, dtype, 1, &count);
    if (t.bytes) memset(t.memory, UNTOUCHED, t.bytes);
    return t;
}

/* On frames that are all the same bytes. */
static pith_cuda_items items_of(const struct subject *x, struct fuzz_tensor *t, uint32_t dtype,
                                uint64_t lengths[FRAMES], int32_t status[FRAMES]) {
    for (int i = 0; i < FRAMES; i++) {
        lengths[i] = x->length;
        status[i] = NO_STATUS;
    }
    return (pith_cuda_items){.size = sizeof(pith_cuda_items),
                             .count = 1,
                             .dtype = dtype,
                             .tensor = t ? t->memory : NULL,
                             .frame = (void *)(uintptr_t)x->frame,
                             .capacity = x->length,
                             .lengths = lengths,
                             .status = status,
                             .workspace = x->sizes.workspace_bytes ? x->workspace : NULL,
                             .workspace_bytes = workspace_bytes(x)};
}

/* The CPU's status, or that the header is not the plan's, or the block's coding not for devices;
 * then nothing is written. */
static void compare(pith_status wanted, int32_t got, const struct fuzz_tensor *cpu,
                    const struct fuzz_tensor *device, const struct fuzz_tensor *before) {
    const bool wrote = wanted != PITH_OK && !fuzz_same(cpu, before);
    if (got != PITH_ERR_MISMATCH && got != PITH_ERR_UNSUPPORTED) FUZZ_CHECK(got == (int32_t)wanted);
    if (got == PITH_OK) FUZZ_CHECK(fuzz_same(cpu, device));
    if (got != PITH_OK && !wrote) FUZZ_CHECK(fuzz_same(device, before));
}

static pith_status cpu_decode(struct subject *x, const struct fuzz_tensor *to, uint32_t flags) {
    pith_item item = {.size = sizeof item,
                      .stream = x->stream,
                      .view = to->view,
                      .frame = (void *)(uintptr_t)x->frame,
                      .length = (size_t)x->length};
    return pith_decode(x->work, &item, 1, flags);
}

/* Saved, the device's stream is the CPU's. */
static void compare_streams(struct subject *x, const pith_cuda_stream *device) {
    const size_t bytes = (size_t)x->cpu_sizes.stream_bytes, save = (size_t)x->cpu_sizes.save_bytes;
    size_t first, second;
    pith_stream *stream;
    void *memory = guard_new(bytes);
    uint8_t *cpu = guard_new(save), *own = guard_new(save);
    FUZZ_CHECK(pith_stream_init(x->plan, memory, bytes, NULL, &stream, NULL) == PITH_OK);
    FUZZ_CHECK(pith_cuda_stream_unpack(x->cuda, x->work, stream, device,
                                       (size_t)x->sizes.stream_bytes, NULL) == PITH_OK);
    FUZZ_CHECK(pith_stream_save(x->work, x->stream, cpu, save, &first) == PITH_OK);
    FUZZ_CHECK(pith_stream_save(x->work, stream, own, save, &second) == PITH_OK);
    FUZZ_CHECK(first == second && memcmp(cpu, own, first) == 0);
    guard_free(own, save);
    guard_free(cpu, save);
    guard_free(memory, bytes);
}

/* What pith_verify says of the frame, and the device's, which looks at the stream too. */
static void compare_verified(const struct subject *x, int32_t got) {
    const pith_status verified = pith_verify(x->frame, (size_t)x->length, NULL, NULL);
    if (got == PITH_OK) FUZZ_CHECK(verified == PITH_OK);
    if (verified != PITH_OK || got == PITH_OK || got == PITH_ERR_MISMATCH) return;
    /* Devices look into blocks that have a length of their own. */
    if (x->bounded)
        FUZZ_CHECK(got == PITH_ERR_CORRUPT || got == PITH_ERR_UNSUPPORTED);
    else if (x->exact && got == PITH_ERR_UNSUPPORTED)
        return;
    else if (x->sparse)
        FUZZ_CHECK(got == PITH_ERR_STATE || got == PITH_ERR_BASE);
    else
        FUZZ_CHECK(x->layout.base_dtype && (got == PITH_ERR_STEP || got == PITH_ERR_BASE));
}

/* Returns whether the device decoded it. */
static bool decode(struct subject *x, pith_cuda_stream *stream, uint64_t count) {
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    struct fuzz_tensor cpu = new_tensor(x->layout.dtype, count);
    struct fuzz_tensor device = new_tensor(x->layout.dtype, count);
    struct fuzz_tensor before = new_tensor(x->layout.dtype, count);
    const pith_cuda_items items = items_of(x, &device, x->layout.dtype, lengths, status);
    FUZZ_CHECK(pith_cuda_verify(x->cuda, stream, &items, NULL, NULL) == PITH_OK);
    const int32_t verified = status[0];
    compare_verified(x, verified);
    FUZZ_CHECK(fuzz_same(&device, &before));
    FUZZ_CHECK(pith_cuda_decode(x->cuda, stream, &items, 0, NULL, NULL) == PITH_OK);
    const pith_status wanted = cpu_decode(x, &cpu, 0);
    compare(wanted, status[0], &cpu, &device, &before);
    if (wanted == PITH_OK || fuzz_same(&cpu, &before)) FUZZ_CHECK(verified == status[0]);
    fuzz_tensor_free(&before);
    fuzz_tensor_free(&device);
    fuzz_tensor_free(&cpu);
    return status[0] == PITH_OK;
}

static void decode_add(struct subject *x, pith_cuda_stream *stream, uint64_t count) {
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    const uint32_t dtype = x->layout.base_dtype ? x->layout.base_dtype : x->layout.dtype;
    if (dtype > PITH_F16) return;
    struct fuzz_tensor cpu = new_tensor(dtype, count), device = new_tensor(dtype, count);
    struct fuzz_tensor before = new_tensor(dtype, count);
    if (x->layout.base_dtype && count) {
        memcpy(cpu.memory, x->base.memory, x->base.bytes);
        memcpy(device.memory, x->base.memory, x->base.bytes);
        memcpy(before.memory, x->base.memory, x->base.bytes);
    }
    const pith_cuda_items items = items_of(x, &device, dtype, lengths, status);
    FUZZ_CHECK(pith_cuda_decode(x->cuda, stream, &items, PITH_ADD, NULL, NULL) == PITH_OK);
    compare(cpu_decode(x, &cpu, PITH_ADD), status[0], &cpu, &device, &before);
    fuzz_tensor_free(&before);
    fuzz_tensor_free(&device);
    fuzz_tensor_free(&cpu);
}

static void reduce(struct subject *x, pith_cuda_stream *stream, uint64_t count, float scale) {
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    const void *const frames[FRAMES] = {x->frame, x->frame};
    const size_t sizes[FRAMES] = {(size_t)x->length, (size_t)x->length};
    if (x->layout.base_dtype || x->layout.dtype > PITH_F16) return;
    if (x->bounded || x->pages || x->coded) return;
    struct fuzz_tensor cpu = new_tensor(PITH_F32, count), before = new_tensor(PITH_F32, count);
    struct fuzz_tensor device = new_tensor(PITH_F32, count);
    const pith_cuda_items items = items_of(x, &device, PITH_F32, lengths, status);
    pith_sum sum = {.size = sizeof sum,
                    .stream = x->stream,
                    .frames = frames,
                    .lengths = sizes,
                    .count = FRAMES,
                    .scale = scale,
                    .view = cpu.view};
    FUZZ_CHECK(pith_cuda_reduce(x->cuda, stream, &items, FRAMES, scale, NULL, NULL) == PITH_OK);
    const pith_status wanted = pith_reduce(x->work, &sum, 1);
    FUZZ_CHECK(status[0] == status[1]);
    compare(wanted, status[0], &cpu, &device, &before);
    fuzz_tensor_free(&before);
    fuzz_tensor_free(&device);
    fuzz_tensor_free(&cpu);
}

/* All calls on the frame. holds: a stream that holds the set that the CPU's does, until a frame is
 * decoded there; NULL: new ones, of which the first counts what the CPU's does. */
static void read_frame(struct subject *x, pith_cuda_stream *holds, uint64_t count, float scale) {
    for (int i = 0; i < 3; i++) {
        const int call = holds ? 2 - i : i;
        pith_cuda_stream *const stream = holds ? holds : new_device_stream(x);
        if (call == 0 && decode(x, stream, count) && !holds) compare_streams(x, stream);
        if (call == 1) decode_add(x, stream, count);
        if (call == 2) reduce(x, stream, count, scale);
        if (!holds) free(stream);
    }
}

/* ---- Sets ------------------------------------------------------------------------------------*/

/* A frame of the slot, made by both. */
struct made {
    uint8_t *bytes; /* NULL: it was refused */
    size_t length;
};

static struct made encode_both(struct subject *x, pith_cuda_stream *stream,
                               struct fuzz_tensor *value, uint32_t flags) {
    /* Held sets may have more elements than the spec chooses. */
    const size_t capacity = (size_t)(x->cpu_sizes.slot_bytes + 5 * value->count);
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    uint8_t *const cpu = guard_new(capacity), *const device = device_new(capacity);
    struct made made = {NULL, 0};
    size_t length;
    pith_cuda_items items = items_of(x, value, x->layout.dtype, lengths, status);
    items.frame = device;
    items.capacity = capacity;
    FUZZ_CHECK(pith_cuda_encode(x->cuda, stream, &items, flags, NULL, NULL) == PITH_OK);
    const pith_status wanted =
        fuzz_encode(x->work, x->stream, 0, &value->view, flags, cpu, capacity, &length);
    FUZZ_CHECK(status[0] == (int32_t)wanted && lengths[0] == length);
    FUZZ_CHECK(memcmp(cpu, device, length) == 0);
    compare_streams(x, stream);
    if (wanted == PITH_OK) made = (struct made){guard_copy(cpu, length), length};
    free(device);
    guard_free(cpu, capacity);
    return made;
}

/* Both hold the same set afterwards: that of two frames, or, where one of them is refused, of the
 * second argument. A device's frames have the headers of its plan. */
static void hold_both(struct subject *x, pith_cuda_stream *stream, const struct made frames[FRAMES],
                      const struct made *sound, int how) {
    const void *const pointers[FRAMES] = {frames[0].bytes, frames[1].bytes};
    const size_t sizes[FRAMES] = {frames[0].length, frames[1].length};
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    pith_cuda_items items = items_of(x, NULL, x->layout.dtype, lengths, status);
    items.frames = (void *const *)(uintptr_t)pointers;
    items.capacity = UINT64_MAX;
    for (int i = 0; i < FRAMES; i++) lengths[i] = sizes[i];
    FUZZ_CHECK(pith_cuda_sparse_hold(x->cuda, stream, &items, FRAMES, how, NULL, NULL) == PITH_OK);
    const pith_status wanted =
        pith_sparse_hold(x->work, x->stream, 0, pointers, sizes, FRAMES, how);
    const int32_t got = status[0] != PITH_OK ? status[0] : status[1];
    if (got != PITH_ERR_MISMATCH) FUZZ_CHECK(got == (int32_t)wanted);
    if (got == PITH_OK) return;
    const struct made twice[FRAMES] = {*sound, *sound};
    FUZZ_CHECK(sound != frames);
    hold_both(x, stream, twice, twice, PITH_SET_UNION);
}

/* Both hold runs that are listed, or what they held where one is outside the slot. */
static void list_both(struct subject *x, pith_cuda_stream *stream, uint64_t count,
                      struct fuzz_source *s) {
    const uint32_t listed = fuzz_below(s, 9), run = 1 + fuzz_below(s, 100);
    uint64_t number[8], lengths[FRAMES];
    int32_t status[FRAMES];
    for (uint32_t i = 0; i < listed; i++) number[i] = fuzz_u8(s) % (count / run + 2);
    pith_cuda_items items = items_of(x, NULL, x->layout.dtype, lengths, status);
    items.frame = number;
    items.capacity = lengths[0] = 8 * listed;
    FUZZ_CHECK(pith_cuda_sparse_hold_elements(x->cuda, stream, &items, run, NULL, NULL) == PITH_OK);
    FUZZ_CHECK(status[0] ==
               (int32_t)pith_sparse_hold_elements(x->work, x->stream, 0, number, listed, run));
}

/* Values at the set's elements, of the tensor or, NULL, of the residual, are added to a tensor. */
static void move_both(struct subject *x, pith_cuda_stream *stream, struct fuzz_tensor *from,
                      uint32_t dtype, uint64_t count) {
    pith_sparse_state state = {.size = sizeof state};
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    FUZZ_CHECK(pith_sparse_get_state(x->stream, 0, &state) == PITH_OK && state.holds);
    struct fuzz_tensor cpu = new_tensor(dtype, state.held), device = new_tensor(dtype, state.held);
    struct fuzz_tensor to[2] = {new_tensor(PITH_F32, count), new_tensor(PITH_F32, count)};
    pith_cuda_items items = items_of(x, from, x->layout.dtype, lengths, status);
    items.frame = device.memory;
    items.capacity = device.bytes;
    const pith_status wanted =
        pith_sparse_gather(x->work, x->stream, 0, from ? &from->view : NULL, &cpu.view);
    const pith_status got = pith_cuda_sparse_gather(x->cuda, stream, &items, dtype, NULL, NULL);
    FUZZ_CHECK(got == wanted);
    if (wanted == PITH_OK) {
        FUZZ_CHECK(status[0] == PITH_OK && lengths[0] == device.bytes);
        FUZZ_CHECK(fuzz_same(&cpu, &device));
        items.tensor = to[1].memory;
        items.dtype = PITH_F32;
        FUZZ_CHECK(pith_sparse_scatter(x->work, x->stream, 0, &cpu.view, 0.5f, &to[0].view) ==
                   PITH_OK);
        FUZZ_CHECK(pith_cuda_sparse_scatter(x->cuda, stream, &items, dtype, 0.5f, NULL, NULL) ==
                   PITH_OK);
        FUZZ_CHECK(status[0] == PITH_OK && fuzz_same(&to[0], &to[1]));
    }
    fuzz_tensor_free(&to[1]);
    fuzz_tensor_free(&to[0]);
    fuzz_tensor_free(&device);
    fuzz_tensor_free(&cpu);
}

static void clear_both(struct subject *x, pith_cuda_stream *stream) {
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    const pith_cuda_items items = items_of(x, NULL, x->layout.dtype, lengths, status);
    const pith_status wanted = pith_sparse_clear(x->work, x->stream, 0);
    FUZZ_CHECK(pith_cuda_sparse_clear(x->cuda, stream, &items, NULL, NULL) == wanted);
    if (wanted == PITH_OK) FUZZ_CHECK(status[0] == PITH_OK);
    compare_streams(x, stream);
}

/* Both begin anew, and hold what they chose of a tensor. */
static pith_cuda_stream *choose_both(struct subject *x, struct fuzz_tensor *value,
                                     struct made *frame) {
    pith_cuda_stream *const stream = new_device_stream(x);
    FUZZ_CHECK(pith_stream_reset(x->work, x->stream) == PITH_OK);
    *frame = encode_both(x, stream, value, 0);
    FUZZ_CHECK(frame->bytes);
    return stream;
}

/* Both are asked for the same, refuse it or not, and are told the same of what all ranks chose. */
static void steer_both(struct subject *x, pith_cuda_stream *stream, uint64_t count,
                       struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    uint64_t lengths[FRAMES], chosen = fuzz_below(s, 4000);
    int32_t status[FRAMES];
    const pith_cuda_items items = items_of(x, NULL, x->layout.dtype, lengths, status);
    pith_sparse_request request = {.size = sizeof request};
    if (how & 1) request.first = fuzz_u32(s) % (count + 2);
    if (how & 2) request.count = fuzz_u32(s) % (count + 2);
    if (how & 4) request.k = fuzz_below(s, 300);
    if (how & 8) {
        const uint32_t bits = fuzz_u32(s);
        memcpy(&request.threshold, &bits, sizeof bits);
    }
    FUZZ_CHECK(pith_cuda_sparse_set_request(x->cuda, stream, &items, &request, NULL, NULL) ==
               PITH_OK);
    FUZZ_CHECK(status[0] == (int32_t)pith_sparse_set_request(x->work, x->stream, 0, &request));
    FUZZ_CHECK(pith_cuda_sparse_report(x->cuda, stream, &items, &chosen, NULL, NULL) == PITH_OK);
    FUZZ_CHECK(status[0] == (int32_t)pith_sparse_report(x->work, x->stream, 0, chosen));
    compare_streams(x, stream);
}

static void compare_states(struct subject *x, pith_cuda_stream *stream) {
    pith_sparse_state cpu = {.size = sizeof cpu}, device = {0};
    uint64_t lengths[FRAMES];
    int32_t status[FRAMES];
    const pith_cuda_items items = items_of(x, NULL, x->layout.dtype, lengths, status);
    FUZZ_CHECK(pith_cuda_sparse_get_state(x->cuda, stream, &items, &device, NULL, NULL) == PITH_OK);
    FUZZ_CHECK(pith_sparse_get_state(x->stream, 0, &cpu) == PITH_OK && status[0] == PITH_OK);
    FUZZ_CHECK(memcmp(&cpu, &device, sizeof cpu) == 0);
}

/* Both choose as they are asked to. */
static void steer(struct subject *x, struct fuzz_tensor *value, uint64_t count,
                  struct fuzz_source *s) {
    struct made made;
    pith_cuda_stream *const stream = choose_both(x, value, &made);
    for (int step = 0; step < 2; step++) {
        guard_free(made.bytes, made.length);
        steer_both(x, stream, count, s);
        made = encode_both(x, stream, value, 0);
        FUZZ_CHECK(made.bytes);
        compare_states(x, stream);
    }
    FUZZ_CHECK(pith_sparse_set_request(x->work, x->stream, 0, NULL) == PITH_OK);
    guard_free(made.bytes, made.length);
    free(stream);
}

/* The frame is read where a set is held. */
static void read_elsewhere(struct subject *x, struct fuzz_tensor *value, uint64_t count) {
    struct made own;
    pith_cuda_stream *const stream = choose_both(x, value, &own);
    read_frame(x, stream, count, 1);
    guard_free(own.bytes, own.length);
    free(stream);
}

/* The frame's set is held, alone or with one of their own, or what is listed; then what both hold
 * is moved, and sent, or followed by what both choose; and what was sent is read, whole or damaged,
 * where they hold what it follows or what it has. */
static void hold_and_send(struct subject *x, struct fuzz_tensor *value, uint64_t count,
                          struct fuzz_source *s) {
    static const uint32_t reals[] = {PITH_F32, PITH_BF16, PITH_F16};
    const uint8_t how = fuzz_u8(s);
    const int merge = how & 4 ? PITH_SET_UNION : PITH_SET_INTERSECTION;
    const struct made given = {(uint8_t *)(uintptr_t)x->frame, (size_t)x->length};
    struct made own;
    pith_cuda_stream *const stream = choose_both(x, value, &own);
    const struct made frames[FRAMES] = {how & 1 ? own : given, how & 2 ? own : given};
    hold_both(x, stream, frames, &own, merge);
    const uint8_t more = fuzz_u8(s);
    const bool same_blocks = more & 2;
    if (more & 1) list_both(x, stream, count, s);
    move_both(x, stream, value, reals[(how >> 3) % 3], count);
    move_both(x, stream, NULL, reals[(how >> 4) % 3], count);
    clear_both(x, stream);
    if (!(more & 4)) fuzz_fill(value, s);
    const uint32_t held = how & 64 ? PITH_HELD_SET : PITH_SAME_SET;
    const struct made sent = encode_both(x, stream, value, same_blocks ? PITH_SAME_BLOCKS : held);
    FUZZ_CHECK(sent.bytes);
    if (same_blocks && more & 8) hold_both(x, stream, frames, &own, merge);
    uint8_t *const damaged = guard_copy(sent.bytes, sent.length);
    struct subject again = *x;
    fuzz_patch(damaged, sent.length, s);
    if (how & 128) fuzz_fix_frame(damaged, sent.length);
    again.frame = damaged;
    again.length = sent.length;
    read_frame(&again, stream, count, 0.5f);
    guard_free(damaged, sent.length);
    guard_free(sent.bytes, sent.length);
    guard_free(own.bytes, own.length);
    free(stream);
}

/* Both choose from the sum of the frame and itself, by any rule. */
static void choose_from_sum(struct subject *x, uint64_t count, struct fuzz_source *s) {
    static const char *const specs[] = {
        "topk:density=0.05,ef=full",
        "topk:density=0.1,control=exact,transform=dct",
        "topk:k=9,control=every,every=2,ef=full",
        "topk:density=0.1,control=oktopk,every=2,cap=1",
        "topk:density=0.1,control=micro,values=f16",
        "topk:density=0.1,control=micro-symmetric,values=none",
        "topk:density=0.1,control=sage,ef=full,block=64",
        "topk:density=0.1,control=dgc,ef=ema:0.5,block=256",
        "topk:k=20,control=dgc,transform=hadamard",
        "topk:density=0.1,control=gauss,ef=full,block=64",
        "topk:density=0.1,control=redsync,values=int8",
        "topk:control=nonzero,unit=8",
    };
    const void *const frames[FRAMES] = {x->frame, x->frame};
    const size_t sizes[FRAMES] = {(size_t)x->length, (size_t)x->length};
    struct subject out = {.layout = x->layout};
    out.layout.dtype = PITH_F32;
    const char *const spec = specs[fuzz_u8(s) % (sizeof specs / sizeof *specs)];
    FUZZ_CHECK(pith_plan_create(&out.plan, spec, &out.layout, NULL, NULL) == PITH_OK);
    out.sizes.size = sizeof out.sizes;
    FUZZ_CHECK(pith_cuda_plan_sizes(out.plan, &out.sizes, NULL) == PITH_OK);
    open_host(&out, s, count);
    open_cuda(&out);
    const pith_plan *const plans[] = {x->plan, out.plan};
    const size_t work_bytes = (size_t)pith_work_bytes(plans, 2, 1);
    const size_t capacity = (size_t)out.cpu_sizes.slot_bytes;
    void *const memory = guard_new(work_bytes);
    uint8_t *const cpu = guard_new(capacity), *const device = device_new(capacity);
    pith_cuda_stream *const in_stream = new_device_stream(x);
    pith_cuda_stream *const out_stream = new_device_stream(&out);
    pith_work *work;
    FUZZ_CHECK(pith_work_init(memory, work_bytes, NULL, &work, NULL) == PITH_OK);
    FUZZ_CHECK(pith_stream_reset(x->work, x->stream) == PITH_OK);
    for (int step = 0; step < 2; step++) {
        uint64_t lengths[FRAMES], made[FRAMES];
        int32_t status[FRAMES], answer[FRAMES];
        const pith_cuda_items from = items_of(x, NULL, PITH_F32, lengths, status);
        pith_cuda_items to = items_of(&out, NULL, PITH_F32, made, answer);
        const pith_sum sum = {.size = sizeof sum,
                              .stream = x->stream,
                              .frames = frames,
                              .lengths = sizes,
                              .count = FRAMES,
                              .scale = 0.5f};
        pith_item item = {
            .size = sizeof item, .stream = out.stream, .frame = cpu, .capacity = capacity};
        to.frame = device;
        to.capacity = capacity;
        FUZZ_CHECK(pith_cuda_reduce_encode(x->cuda, in_stream, &from, FRAMES, 0.5f, out.cuda,
                                           out_stream, &to, NULL, NULL) == PITH_OK);
        const pith_status wanted = pith_reduce_encode(work, &sum, &item, 1);
        const bool other = answer[0] == PITH_ERR_MISMATCH || answer[0] == PITH_ERR_UNSUPPORTED;
        if (!other) FUZZ_CHECK(answer[0] == (int32_t)wanted);
        if (other || wanted != PITH_OK) break;
        compare_streams(&out, out_stream);
        FUZZ_CHECK(made[0] == item.length && memcmp(cpu, device, item.length) == 0);
    }
    free(out_stream);
    free(in_stream);
    free(device);
    guard_free(cpu, capacity);
    guard_free(memory, work_bytes);
    close_subject(&out);
}

static void sets(struct subject *x, uint64_t count, struct fuzz_source *s) {
    struct fuzz_source bytes = {x->frame, (size_t)x->length};
    struct fuzz_tensor value = new_tensor(x->layout.dtype, count);
    fuzz_fill(&value, &bytes);
    read_elsewhere(x, &value, count);
    hold_and_send(x, &value, count, s);
    steer(x, &value, count, s);
    choose_from_sum(x, count, s);
    fuzz_tensor_free(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source input = {data, size}, s = fuzz_split(&input, PARAMETER_BYTES);
    struct subject x = {.length = input.length};
    uint8_t *frame = guard_copy(input.bytes, input.length);
    x.frame = frame;
    pithi_runner_order((int)fuzz_below(&s, PITHI_ORDERS), fuzz_u32(&s));
    if (open_plan(&x, &s)) {
        uint64_t count = 1;
        for (uint32_t i = 0; i < x.layout.ndim; i++) count *= x.layout.shape[i];
        open_host(&x, &s, count);
        open_cuda(&x);
        read_frame(&x, NULL, count, fuzz_u8(&s) & 1 ? 1.0f : 0.5f);
        if (x.sparse) sets(&x, count, &s);
        close_subject(&x);
    }
    guard_free(frame, input.length);
    return 0;
}
