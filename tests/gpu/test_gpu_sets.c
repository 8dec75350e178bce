/* test_gpu_sets.c - the sets that slots of a device stream hold: made by encodes, of frames and of
 * lists, their values sent with and without indices, gathered and scattered, residuals cleared
 * there; all as on the CPU, bit for bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

/* ---- Values in place of frames ---------------------------------------------------------------*/

/* A call on all slots. Behind the values of each slot there is space for one more. */
struct moves {
    pith_cuda_items items;
    struct mirror tensor, value, lengths, status;
    void *work;
    uint32_t dtype; /* of values */
    size_t stride;
};

static void moves_open(struct moves *m, const struct rig *r, uint32_t tensor, uint32_t dtype,
                       size_t offset) {
    const size_t slots = (size_t)r->slots, work = (size_t)r->sizes.workspace_bytes * slots;
    *m = (struct moves){.dtype = dtype};
    m->stride = (size_t)(r->count + 1) * pith_dtype_bytes(dtype);
    mirror_open(&m->tensor, (size_t)r->count * pith_dtype_bytes(tensor), offset);
    mirror_open(&m->value, m->stride * slots, offset);
    mirror_open(&m->lengths, 8 * slots, 0);
    mirror_open(&m->status, 4 * slots, 0);
    m->work = device_alloc(work);
    m->items = (pith_cuda_items){.size = sizeof m->items,
                                 .count = slots,
                                 .dtype = tensor,
                                 .tensor = m->tensor.device,
                                 .frame = m->value.device,
                                 .frame_stride = m->stride,
                                 .capacity = m->stride,
                                 .lengths = (uint64_t *)(void *)m->lengths.device,
                                 .status = (int32_t *)(void *)m->status.device,
                                 .workspace = m->work,
                                 .workspace_bytes = work};
}

static void moves_push(const struct moves *m) {
    mirror_push(&m->tensor);
    mirror_push(&m->value);
    mirror_push(&m->lengths);
    mirror_push(&m->status);
}
static void moves_pull(struct moves *m) {
    mirror_pull(&m->tensor);
    mirror_pull(&m->value);
    mirror_pull(&m->lengths);
    mirror_pull(&m->status);
}
#define MOVES_RUN(m, call) \
    do {                   \
        moves_push(m);     \
        CHECK_OK(call);    \
        moves_pull(m);     \
    } while (0)

static void moves_close(struct moves *m) {
    mirror_close(&m->tensor);
    mirror_close(&m->value);
    mirror_close(&m->lengths);
    mirror_close(&m->status);
    device_free(m->work);
}

static pith_status moves_status(const struct moves *m, uint64_t slot) {
    int32_t status;
    memcpy(&status, m->status.host + 4 * slot, 4);
    return (pith_status)status;
}
static uint64_t *moves_length(const struct moves *m, uint64_t slot) {
    return (uint64_t *)(void *)m->lengths.host + slot;
}
static uint8_t *moves_value(const struct moves *m, uint64_t slot) {
    return m->value.host + slot * m->stride;
}

static pith_status gather(const struct rig *r, const struct moves *m) {
    return pith_cuda_sparse_gather(r->plan, r->stream, &m->items, m->dtype, device_stream(), NULL);
}
static pith_status scatter(const struct rig *r, const struct moves *m, float scale) {
    return pith_cuda_sparse_scatter(r->plan, r->stream, &m->items, m->dtype, scale, device_stream(),
                                    NULL);
}
static pith_status clear(const struct rig *r, const struct moves *m) {
    return pith_cuda_sparse_clear(r->plan, r->stream, &m->items, device_stream(), NULL);
}

static uint64_t held_of(const struct rig *r, uint64_t slot) {
    pith_sparse_state state = {.size = sizeof state};
    CHECK_OK(pith_sparse_get_state(r->cpu.stream, slot, &state));
    CHECK(state.holds);
    return state.held;
}

/* ---- The device does as the CPU does ---------------------------------------------------------*/

/* Gathers from the tensor that is given, or from the residual, and compares with the CPU. */
static void check_gather(struct rig *r, struct moves *m, bool residual) {
    const pith_view from = pith_view_flat(m->tensor.host, m->items.dtype, r->count);
    const size_t width = pith_dtype_bytes(m->dtype);
    memset(m->value.host, UNTOUCHED, m->value.bytes);
    if (residual) m->items.tensor = NULL;
    MOVES_RUN(m, gather(r, m));
    m->items.tensor = m->tensor.device;
    for (uint64_t s = 0; s < r->slots; s++) {
        const uint64_t held = held_of(r, s);
        uint8_t *const wanted = allocate((size_t)held * width);
        const pith_view view = pith_view_flat(wanted, m->dtype, held);
        CHECK_OK(pith_sparse_gather(r->cpu.work, r->cpu.stream, s, residual ? NULL : &from, &view));
        CHECK_OK(moves_status(m, s));
        CHECK(*moves_length(m, s) == held * width);
        CHECK(memcmp(moves_value(m, s), wanted, (size_t)held * width) == 0);
        CHECK(all_bytes(moves_value(m, s) + held * width, m->stride - (size_t)held * width,
                        UNTOUCHED));
        free(wanted);
    }
}

/* Both hold the same elements: numbers of elements, gathered from a tensor of them. */
static void check_held(struct rig *r) {
    struct moves m;
    moves_open(&m, r, PITH_F32, PITH_F32, 0);
    for (uint64_t i = 0; i < r->count; i++)
        store_float(m.tensor.host, PITH_F32, (size_t)i, bits_of((float)i));
    check_gather(r, &m, false);
    moves_close(&m);
}

/* Values that were gathered are scattered to a tensor of any dtype. */
static void check_scatter(struct rig *r, struct moves *m, float scale, uint64_t seed) {
    uint8_t *const wanted = allocate(m->tensor.bytes);
    gen_fill(GEN_BITS, seed, m->items.dtype, m->tensor.host, r->count);
    memcpy(wanted, m->tensor.host, m->tensor.bytes);
    const pith_view to = pith_view_flat(wanted, m->items.dtype, r->count);
    for (uint64_t s = 0; s < r->slots; s++) {
        uint8_t *const value = copy_of(moves_value(m, s), (size_t)*moves_length(m, s));
        const pith_view view = pith_view_flat(value, m->dtype, held_of(r, s));
        CHECK_OK(pith_sparse_scatter(r->cpu.work, r->cpu.stream, s, &view, scale, &to));
        free(value);
    }
    MOVES_RUN(m, scatter(r, m, scale));
    for (uint64_t s = 0; s < r->slots; s++) CHECK_OK(moves_status(m, s));
    CHECK(memcmp(m->tensor.host, wanted, m->tensor.bytes) == 0);
    free(wanted);
}

static void check_clear(struct rig *r, struct moves *m) {
    MOVES_RUN(m, clear(r, m));
    for (uint64_t s = 0; s < r->slots; s++) {
        CHECK_OK(moves_status(m, s));
        CHECK_OK(pith_sparse_clear(r->cpu.work, r->cpu.stream, s));
    }
    rig_check_stream(r);
}

/* ---- What an encode chose --------------------------------------------------------------------*/

static const char *const specs[] = {
    "topk:k=7",
    "topk:density=0.1,control=exact,values=f16,block=256,ef=full",
    "topk:density=0.02,values=none,ef=full,clear=call",
    "topk:density=0.2,values=int8,index=fast,block=2048,ef=ema:0.9",
    "topk:density=0.05,control=micro,cap=1,block=64,ef=full",
    "topk:density=0.5,control=nonzero,block=512,ef=full,clear=call",
    "topk:density=0.99,block=128",
    "topk:density=0.05,ef=full,clear=call,momentum=0.9",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void one_choice(const char *spec, uint64_t n, uint64_t slots, uint64_t number) {
    pith_layout layout = flat_layout(trip_reals[number % 3], PITH_NONE, n);
    const uint32_t tensor = trip_reals[number / 2 % 3], dtype = trip_reals[number / 5 % 3];
    const bool remembers = strstr(spec, "ef=") != NULL;
    static const int kinds[] = {GEN_NOISE, GEN_EQUAL, GEN_HOLES, GEN_BITS};
    struct rig r;
    struct moves m;
    context("%s of %llu elements in %llu slots, number %llu", spec, (unsigned long long)n,
            (unsigned long long)slots, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    layout.slots = slots;
    CHECK(rig_open(&r, spec, &layout));
    moves_open(&m, &r, tensor, dtype, number % 7);
    for (uint64_t step = 0; step < 2; step++) {
        encode_both(&r, kinds[(number + step) % 4], number + step);
        check_held(&r);
        gen_fill(GEN_BITS, number, tensor, m.tensor.host, n);
        check_gather(&r, &m, false);
        check_scatter(&r, &m, step ? 0.25f : 1, number);
        if (!remembers) continue;
        check_gather(&r, &m, true);
        check_clear(&r, &m);
    }
    /* A step that is taken back, the residual's clearing with it, leaves no set. */
    const uint64_t last = pith_stream_step(r.cpu.stream, 0) - 1;
    CHECK_OK(pith_stream_rollback(r.cpu.work, r.cpu.stream, last));
    CHECK_OK(pith_cuda_stream_rollback(r.plan, r.stream, last, device_stream(), NULL));
    rig_check_stream(&r);
    MOVES_RUN(&m, gather(&r, &m));
    for (uint64_t s = 0; s < r.slots; s++) CHECK_STATUS(PITH_ERR_STATE, moves_status(&m, s));
    moves_close(&m);
    rig_close(&r);
}

static void test_chosen(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 129, 1000, 5003, 70000};
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS; k++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++, number++)
            if (is_sampled(number, 2))
                one_choice(specs[k], counts[i], counts[i] >= 1000 ? 1 + number % 3 : 1, number);
}

/* A block of which all is sent, since that is shorter, is held whole. */
static void test_sent_whole(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 192);
    struct rig r;
    context("blocks that are sent whole");
    CHECK(rig_open(&r, "topk:k=191,control=exact,values=f16,block=64", &layout));
    encode_both(&r, GEN_NOISE, 1);
    CHECK(held_of(&r, 0) == 192);
    check_held(&r);
    rig_close(&r);
}

/* ---- Sets of frames --------------------------------------------------------------------------*/

/* Frames of `each` ranks for every slot, made on the CPU, each rank with a stream that is new. */
static void make_frames(struct rig *r, struct job *j, uint64_t each, int kind) {
    const uint32_t dtype = r->layout.dtype;
    uint8_t *const value = allocate((size_t)r->count * pith_dtype_bytes(dtype));
    const pith_view view = pith_view_flat(value, dtype, r->count);
    struct stream rank;
    stream_open_end(&rank, &r->cpu, NULL);
    for (uint64_t i = 0; i < each; i++) {
        gen_fill((enum gen)kind, i + 1, dtype, value, r->count);
        CHECK_OK(pith_stream_reset(rank.work, rank.stream));
        for (uint64_t s = 0; s < r->slots; s++) {
            const struct frame f = stream_encode(&rank, &view, s, false);
            memcpy(job_frame(j, s * each + i), f.bytes, f.length);
            *job_length(j, s * each + i) = f.length;
            free(f.bytes);
        }
    }
    stream_close(&rank);
    free(value);
}

static void hold_on_cpu(struct rig *r, const struct job *j, uint64_t each, int how) {
    const void **const frames = allocate((size_t)each * sizeof *frames);
    size_t *const lengths = allocate((size_t)each * sizeof *lengths);
    for (uint64_t s = 0; s < r->slots; s++) {
        for (uint64_t i = 0; i < each; i++) {
            frames[i] = job_frame(j, s * each + i);
            lengths[i] = (size_t)*job_length(j, s * each + i);
        }
        CHECK_OK(
            pith_sparse_hold(r->cpu.work, r->cpu.stream, s, frames, lengths, (size_t)each, how));
    }
    free(lengths);
    free((void *)frames);
}

static void open_frames(struct job *j, const struct rig *r, uint64_t each) {
    const uint64_t frames = r->slots * each;
    job_open(j, r, r->slots, frames, r->layout.dtype, 0);
    device_free(j->work);
    j->items.workspace_bytes = frames * r->sizes.workspace_bytes + r->slots * r->sizes.set_bytes;
    j->items.workspace = j->work = device_alloc((size_t)j->items.workspace_bytes);
    j->items.tensor = NULL;
}

static pith_status hold(const struct rig *r, const struct job *j, uint64_t each, int how) {
    return pith_cuda_sparse_hold(r->plan, r->stream, &j->items, (uint32_t)each, how,
                                 device_stream(), NULL);
}

static void one_hold(const char *spec, uint64_t n, uint64_t slots, uint64_t each, int kind,
                     uint64_t number) {
    pith_layout layout = flat_layout(trip_reals[number % 3], PITH_NONE, n);
    struct rig r;
    struct job j;
    layout.slots = slots;
    if (number % 4 == 0) layout.flags |= PITH_LAYOUT_CHECKSUMS;
    CHECK(rig_open(&r, spec, &layout));
    open_frames(&j, &r, each);
    make_frames(&r, &j, each, kind);
    for (int how = PITH_SET_UNION; how <= PITH_SET_INTERSECTION; how++) {
        context("%s: sets of %llu frames of %llu elements, %s, values %d", spec,
                (unsigned long long)each, (unsigned long long)n,
                how == PITH_SET_UNION ? "union" : "intersection", kind);
        device_order((int)((number + (uint64_t)how) % (uint64_t)device_orders()));
        JOB_RUN(&j, hold(&r, &j, each, how));
        for (uint64_t i = 0; i < j.frames; i++) CHECK_OK(job_status(&j, i));
        hold_on_cpu(&r, &j, each, how);
        check_held(&r);
        rig_check_stream(&r);
    }
    job_close(&j);
    rig_close(&r);
}

/* Every form of a set: EMPTY, ALL, BITMAP, ELIAS_FANO, PACKED, RUNS (values that repeat). */
static void test_hold(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 65, 1000, 9001};
    static const int kinds[] = {GEN_NOISE, GEN_SPARSE, GEN_HOLES, GEN_EQUAL, GEN_LARGE};
    static const char *const more[] = {"topk:density=0.3,index=fast,block=512,values=none",
                                       "topk:density=0.04,index=fast,block=4096",
                                       "topk:density=0.1,control=nonzero,cap=255,block=256"};
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS + sizeof more / sizeof more[0]; k++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++, number++)
            one_hold(k < SPECS ? specs[k] : more[k - SPECS], counts[i],
                     counts[i] >= 1000 ? 1 + number % 3 : 1, 1 + number % 4, kinds[number % 5],
                     number);
}

/* Two phases, several steps: what ranks choose, the union, sums there, what stays. */
static void test_two_phases(void **state) {
    (void)state;
    enum { RANKS = 3, N = 3000 };
    const pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, N);
    struct rig r[RANKS];
    struct job j;
    struct moves m;
    context("two phases");
    for (int i = 0; i < RANKS; i++)
        CHECK(
            rig_open(&r[i], "topk:density=0.02,values=none,ef=full,clear=call,block=512", &layout));
    open_frames(&j, &r[0], RANKS);
    moves_open(&m, &r[0], PITH_BF16, PITH_F32, 4);
    for (uint64_t step = 0; step < 4; step++) {
        for (uint64_t i = 0; i < RANKS; i++) {
            struct job own;
            job_open(&own, &r[i], 1, 1, PITH_BF16, 0);
            gen_fill(GEN_NOISE, step * RANKS + i, PITH_BF16, own.tensor.host, N);
            const pith_view view = pith_view_flat(own.tensor.host, PITH_BF16, N);
            JOB_RUN(&own,
                    pith_cuda_encode(r[i].plan, r[i].stream, &own.items, 0, device_stream(), NULL));
            const struct frame f = stream_encode(&r[i].cpu, &view, 0, false);
            CHECK(*job_length(&own, 0) == f.length);
            CHECK(memcmp(job_frame(&own, 0), f.bytes, f.length) == 0);
            memcpy(job_frame(&j, i), f.bytes, f.length);
            *job_length(&j, i) = f.length;
            free(f.bytes);
            job_close(&own);
        }
        for (int i = 0; i < RANKS; i++) {
            JOB_RUN(&j, hold(&r[i], &j, RANKS, PITH_SET_UNION));
            hold_on_cpu(&r[i], &j, RANKS, PITH_SET_UNION);
            check_gather(&r[i], &m, true);
            check_scatter(&r[i], &m, 1.0f / RANKS, step);
            check_clear(&r[i], &m);
        }
    }
    moves_close(&m);
    job_close(&j);
    for (int i = 0; i < RANKS; i++) rig_close(&r[i]);
}

/* ---- Sets that are listed --------------------------------------------------------------------*/

/* Lists for all slots, `most` numbers at most each. */
static void open_lists(struct job *j, const struct rig *r, uint64_t most, size_t offset) {
    job_open(j, r, r->slots, r->slots, r->layout.dtype, 0);
    j->stride = (size_t)most * 8;
    mirror_close(&j->frame);
    mirror_open(&j->frame, j->stride * (size_t)r->slots, offset);
    j->items.tensor = NULL;
    j->items.frame = j->frame.device;
    j->items.frame_stride = j->items.capacity = j->stride;
}

static void list(struct job *j, uint64_t slot, const uint64_t *number, uint64_t count) {
    if (count) memcpy(job_frame(j, slot), number, (size_t)count * 8);
    *job_length(j, slot) = count * 8;
}

/* Both hold what is listed, or say the same of it and hold what they held. */
static void hold_listed(struct rig *r, struct job *j, uint64_t run) {
    JOB_RUN(j, pith_cuda_sparse_hold_elements(r->plan, r->stream, &j->items, run, device_stream(),
                                              NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        uint64_t *const number = (uint64_t *)copy_of(job_frame(j, s), (size_t)*job_length(j, s));
        CHECK_STATUS(pith_sparse_hold_elements(r->cpu.work, r->cpu.stream, s, number,
                                               (size_t)*job_length(j, s) / 8, run),
                     job_status(j, s));
        free(number);
    }
}

static void one_list(uint64_t n, uint64_t slots, uint64_t run, uint64_t count, uint64_t number) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, n);
    uint64_t *const listed = allocate((size_t)count * 8);
    struct rig r;
    struct job j, made;
    context("%llu runs of %llu of %llu elements are held", (unsigned long long)count,
            (unsigned long long)run, (unsigned long long)n);
    device_order((int)(number % (uint64_t)device_orders()));
    layout.slots = slots;
    CHECK(rig_open(&r, "topk:density=0.1,block=512", &layout));
    open_lists(&j, &r, count + 1, number % 2 ? 5 : 0);
    for (uint64_t s = 0; s < r.slots; s++) {
        uint64_t first, here, seed = number + s;
        CHECK_OK(pith_plan_slot(r.cpu.plan, s, &first, &here));
        const uint64_t runs = here / run + (here % run != 0);
        for (uint64_t i = 0; i < count && runs; i++)
            listed[i] = i ? gen_next(&seed) % runs : runs - 1;
        list(&j, s, listed, runs ? count : 0);
    }
    hold_listed(&r, &j, run);
    for (uint64_t s = 0; s < r.slots; s++) CHECK_OK(job_status(&j, s));
    check_held(&r);
    open_sender(&made, &r);
    send_both(&r, &made, GEN_NOISE, number, number % 2 ? PITH_SAME_SET : PITH_HELD_SET);
    for (uint64_t s = 0; s < r.slots; s++) CHECK_OK(job_status(&made, s));
    job_close(&made);
    job_close(&j);
    rig_close(&r);
    free(listed);
}

static void test_listed(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 1001, 20011};
    static const uint64_t runs[] = {1, 2, 31, 32, 33, 64, 100, 5000, UINT64_MAX};
    static const uint64_t lists[] = {0, 1, 7, 300, 2000};
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t k = 0; k < sizeof runs / sizeof runs[0]; k++)
            for (size_t m = 0; m < sizeof lists / sizeof lists[0]; m++, number++)
                if (is_sampled(number, 4))
                    one_list(counts[i], counts[i] > 1000 ? 1 + number % 3 : 1, runs[k], lists[m],
                             number);
}

/* A run that begins outside leaves the slot with what it holds; other slots get theirs. */
static void test_listed_outside(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 1000);
    static const uint64_t sound[] = {3, 499, 3, 0};
    static const struct {
        uint64_t number, run;
    } outside[] = {{500, 1},        {250, 2}, {UINT64_MAX, 1}, {1, 500}, {UINT64_MAX / 8 + 2, 8},
                   {1, UINT64_MAX}, {72, 7}};
    struct rig r, raw;
    struct job j;
    context("runs outside the slot");
    layout.slots = 2;
    CHECK(rig_open(&r, "topk:k=9", &layout));
    open_lists(&j, &r, 1000, 0);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        uint64_t listed[1000] = {0};
        listed[i % 2 ? 999 : 0] = outside[i].number;
        list(&j, 0, sound, 4);
        list(&j, 1, sound, 2);
        hold_listed(&r, &j, 1);
        list(&j, 0, listed, 1000);
        list(&j, 1, listed + 1, 3);
        hold_listed(&r, &j, outside[i].run);
        CHECK_STATUS(PITH_ERR_ARG, job_status(&j, 0));
        CHECK_OK(job_status(&j, 1));
        check_held(&r);
    }
    context("lists that are none");
    list(&j, 0, sound, 4);
    list(&j, 1, sound, 4);
    *job_length(&j, 0) -= 1;
    JOB_RUN(&j,
            pith_cuda_sparse_hold_elements(r.plan, r.stream, &j.items, 1, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_SHAPE, job_status(&j, 0));
    CHECK_OK(job_status(&j, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_sparse_hold_elements(r.plan, r.stream, &j.items, 0,
                                                              device_stream(), NULL));
    j.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE, pith_cuda_sparse_hold_elements(r.plan, r.stream, &j.items, 1,
                                                                device_stream(), NULL));
    j.items.same_slot = 1;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_sparse_hold_elements(r.plan, r.stream, &j.items, 1,
                                                              device_stream(), NULL));
    j.items.frame = NULL;
    CHECK_STATUS(PITH_ERR_ARG, pith_cuda_sparse_hold_elements(r.plan, r.stream, &j.items, 1,
                                                              device_stream(), NULL));
    CHECK(rig_open(&raw, "raw", &layout));
    CHECK_STATUS(
        PITH_ERR_UNSUPPORTED,
        pith_cuda_sparse_hold_elements(raw.plan, raw.stream, &j.items, 1, device_stream(), NULL));
    rig_close(&raw);
    job_close(&j);
    rig_close(&r);
}

/* ---- Frames of a held set --------------------------------------------------------------------*/

/* Decodes the frames of a call, or adds them: statuses, values and streams are the same. */
static void receive_both(struct rig *r, const struct job *j, uint32_t dtype, uint32_t flags) {
    const size_t bytes = (size_t)r->count * pith_dtype_bytes(dtype);
    uint8_t *const wanted = allocate(bytes);
    const pith_view view = pith_view_flat(wanted, dtype, r->count);
    struct job in = *j;
    mirror_open(&in.tensor, bytes, 3);
    in.items.tensor = in.tensor.device;
    in.items.dtype = dtype;
    gen_fill(GEN_HOLES, 77, dtype, wanted, r->count);
    memcpy(in.tensor.host, wanted, bytes);
    JOB_RUN(&in, pith_cuda_decode(r->plan, r->stream, &in.items, flags, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++)
        CHECK_STATUS(decode_one(r->cpu.work, r->cpu.stream, s, job_frame(j, s),
                                (size_t)*job_length(j, s), &view, flags),
                     job_status(&in, s));
    CHECK(memcmp(in.tensor.host, wanted, bytes) == 0);
    rig_check_stream(r);
    mirror_close(&in.tensor);
    free(wanted);
}

/* The frames are sound, and elements [first, first + count) of each are what all of it decodes
 * to. */
static void look_at(struct rig *r, const struct job *j, uint64_t first, uint64_t count) {
    const size_t width = pith_dtype_bytes(r->layout.dtype);
    struct job all = *j, some = *j;
    mirror_open(&all.tensor, j->tensor.bytes, 0);
    mirror_open(&some.tensor, j->tensor.bytes, 0);
    all.items.tensor = all.tensor.device;
    some.items.tensor = some.tensor.device;
    uint8_t *const before = rig_stream_image(r);
    JOB_RUN(&all, pith_cuda_verify(r->plan, r->stream, &all.items, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) CHECK_OK(job_status(&all, s));
    JOB_RUN(&all, pith_cuda_decode_range(r->plan, r->stream, &all.items, 0, r->count,
                                         device_stream(), NULL));
    JOB_RUN(&some, pith_cuda_decode_range(r->plan, r->stream, &some.items, first, count,
                                          device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        uint64_t begin, n;
        CHECK_OK(pith_plan_slot(r->cpu.plan, s, &begin, &n));
        CHECK_OK(job_status(&some, s));
        for (uint64_t i = 0; i < n; i++) {
            const uint8_t *const at = some.tensor.host + (begin + i) * width;
            if (i < first || i >= first + count)
                CHECK(all_bytes(at, width, UNTOUCHED));
            else
                CHECK(memcmp(at, all.tensor.host + (begin + i) * width, width) == 0);
        }
    }
    uint8_t *const after = rig_stream_image(r);
    CHECK(memcmp(before, after, (size_t)r->sizes.stream_bytes) == 0);
    free(after);
    free(before);
    mirror_close(&some.tensor);
    mirror_close(&all.tensor);
}

/* Sums each slot's frame with itself. */
static void sum_both(struct rig *r, const struct job *j, uint32_t dtype) {
    enum { EACH = 2 };
    const size_t bytes = (size_t)r->count * pith_dtype_bytes(dtype);
    uint8_t *const wanted = allocate(bytes);
    const pith_view view = pith_view_flat(wanted, dtype, r->count);
    struct job sum;
    memset(wanted, UNTOUCHED, bytes);
    job_open(&sum, r, r->slots, EACH * r->slots, dtype, 0);
    mirror_close(&sum.frame);
    sum.stride = j->stride;
    mirror_open(&sum.frame, sum.stride * EACH * (size_t)r->slots, 0);
    device_free(sum.work);
    sum.items.workspace_bytes = r->slots * (EACH * r->sizes.workspace_bytes + r->sizes.sum_bytes);
    sum.items.workspace = sum.work = device_alloc((size_t)sum.items.workspace_bytes);
    sum.items.frame = sum.frame.device;
    sum.items.frame_stride = sum.items.capacity = sum.stride;
    for (uint64_t i = 0; i < EACH * r->slots; i++) {
        memcpy(job_frame(&sum, i), job_frame(j, i / EACH), sum.stride);
        *job_length(&sum, i) = *job_length(j, i / EACH);
    }
    JOB_RUN(&sum,
            pith_cuda_reduce(r->plan, r->stream, &sum.items, EACH, 0.5f, device_stream(), NULL));
    for (uint64_t s = 0; s < r->slots; s++) {
        const void *const frames[EACH] = {job_frame(j, s), job_frame(j, s)};
        const size_t length = (size_t)*job_length(j, s), lengths[EACH] = {length, length};
        CHECK_OK(reduce_one(r->cpu.work, r->cpu.stream, s, frames, lengths, EACH, 0.5f, &view));
        CHECK_OK(job_status(&sum, EACH * s));
        CHECK_OK(job_status(&sum, EACH * s + 1));
    }
    CHECK(memcmp(sum.tensor.host, wanted, bytes) == 0);
    rig_check_stream(r);
    job_close(&sum);
    free(wanted);
}

static void one_held(const char *spec, uint64_t n, uint64_t slots, uint64_t number) {
    pith_layout layout = flat_layout(trip_reals[number % 3], PITH_NONE, n);
    static const int kinds[] = {GEN_NOISE, GEN_BITS, GEN_HOLES, GEN_EQUAL};
    const uint32_t dtype = trip_reals[number / 3 % 3];
    struct rig r;
    struct job j;
    context("%s of %llu elements in %llu slots sends what it holds, number %llu", spec,
            (unsigned long long)n, (unsigned long long)slots, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    layout.slots = slots;
    if (number % 4 == 1) layout.flags |= PITH_LAYOUT_CHECKSUMS;
    CHECK(rig_open(&r, spec, &layout));
    open_sender(&j, &r);
    send_both(&r, &j, GEN_NOISE, number, 0);
    for (uint64_t step = 1; step < 4; step++) {
        send_both(&r, &j, kinds[(number + step) % 4], number + step,
                  step % 2 ? PITH_SAME_SET : PITH_HELD_SET);
        for (uint64_t s = 0; s < r.slots; s++) CHECK_OK(job_status(&j, s));
        receive_both(&r, &j, r.layout.dtype, 0);
        receive_both(&r, &j, dtype, PITH_ADD);
        look_at(&r, &j, n / 3 + number % 5, n / 2 + 1);
        sum_both(&r, &j, trip_reals[(number + step) % 3]);
        check_held(&r);
    }
    /* The controller goes on as if nothing had been sent of a held set. */
    send_both(&r, &j, GEN_NOISE, number + 9, 0);
    send_both(&r, &j, GEN_NOISE, number + 10, PITH_SAME_SET);
    const uint64_t last = pith_stream_step(r.cpu.stream, 0) - 1;
    CHECK_OK(pith_stream_rollback(r.cpu.work, r.cpu.stream, last));
    CHECK_OK(pith_cuda_stream_rollback(r.plan, r.stream, last, device_stream(), NULL));
    rig_check_stream(&r);
    send_both(&r, &j, GEN_NOISE, number, PITH_HELD_SET);
    for (uint64_t s = 0; s < r.slots; s++) CHECK_STATUS(PITH_ERR_STATE, job_status(&j, s));
    job_close(&j);
    rig_close(&r);
}

static void test_held(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 7, 63, 64, 65, 129, 255, 257, 1001, 5003, 40009};
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS; k++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++, number++)
            if (is_sampled(number, 2))
                one_held(specs[k], counts[i], counts[i] >= 255 ? 1 + number % 3 : 1, number);
}

/* A set has more elements than the hard limit: a union, sent with its indices in every form, and
 * without; at the end with too little space, which leaves the set and takes the older residual. */
static void test_held_union(void **state) {
    (void)state;
    static const char *const more[] = {"topk:density=0.04,cap=1,block=512,ef=full",
                                       "topk:density=0.04,cap=1,block=512,index=fast,values=int8",
                                       "topk:density=0.04,cap=1,block=4096,values=none",
                                       "topk:density=0.2,cap=1,values=f16,ef=full,clear=call",
                                       "topk:density=0.04,cap=1,block=256,ef=full,transform=dct",
                                       "topk:density=0.04,cap=1,block=512,transform=hadamard"};
    enum { EACH = 6 };
    for (size_t k = 0; k < sizeof more / sizeof more[0]; k++)
        for (int kind = GEN_NOISE; kind < GEN_COUNT; kind++) {
            const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 9001);
            struct rig r;
            struct job j, made;
            if (!is_sampled(k * GEN_COUNT + (size_t)kind, 2)) continue;
            context("%s sends a union, values %d", more[k], kind);
            device_order(kind % device_orders());
            CHECK(rig_open(&r, more[k], &layout));
            open_frames(&j, &r, EACH);
            make_frames(&r, &j, EACH, kind);
            JOB_RUN(&j, hold(&r, &j, EACH, PITH_SET_UNION));
            hold_on_cpu(&r, &j, EACH, PITH_SET_UNION);
            open_sender(&made, &r);
            for (uint64_t step = 0; step < 2; step++) {
                send_both(&r, &made, GEN_NOISE, step, step ? PITH_SAME_SET : PITH_HELD_SET);
                CHECK_OK(job_status(&made, 0));
                receive_both(&r, &made, PITH_F32, 0);
                made.items.capacity = *job_length(&made, 0) - 1;
                send_both(&r, &made, GEN_BITS, step, step ? PITH_SAME_SET : PITH_HELD_SET);
                CHECK_STATUS(PITH_ERR_SPACE, job_status(&made, 0));
                made.items.capacity = made.stride;
                /* Sets of coefficients are not those of a tensor: the frames above have them. */
                if (!strstr(more[k], "transform")) check_held(&r);
            }
            job_close(&made);
            job_close(&j);
            rig_close(&r);
        }
}

/* ---- Blocks whose set is the last one's ------------------------------------------------------*/

/* The last step up to `step` at which a block gets another set. */
static uint64_t changed_at(uint64_t block, uint64_t step, uint64_t seed) {
    for (; step; step--) {
        uint64_t own = seed ^ (block << 20) ^ (step << 40);
        if (gen_next(&own) % 3 == 0) break;
    }
    return step;
}

/* Values of which every block of each slot has as many large ones as `share` of it, in other places
 * at some steps; the large ones are other values at each step. */
static void fill_repeated(const struct rig *r, struct job *j, uint64_t block, double share,
                          uint64_t seed, uint64_t step) {
    uint64_t values = seed * 1000 + step + 1;
    for (uint64_t s = 0; s < r->slots; s++) {
        uint64_t first, n;
        CHECK_OK(pith_plan_slot(r->cpu.plan, s, &first, &n));
        for (uint64_t at = 0; at < n; at += block) {
            const uint64_t count = n - at < block ? n - at : block;
            uint64_t places = seed + 7 * (first + at) + 99 * changed_at(at / block, step, seed);
            for (uint64_t i = 0; i < count; i++) {
                const uint64_t small = gen_next(&places) % 8 ? 0 : gen_next(&places) % 1000;
                store_float(j->tensor.host, r->layout.dtype, (size_t)(first + at + i),
                            bits_of((float)small * 1e-6f));
            }
            for (uint64_t large = (uint64_t)((double)count * share); large; large--) {
                const uint64_t i = first + at + gen_next(&places) % count;
                const float x = 1.0f + (float)(gen_next(&values) % 256) / 256;
                store_float(j->tensor.host, r->layout.dtype, (size_t)i,
                            bits_of(gen_next(&values) & 1 ? x : -x));
            }
        }
    }
}

/* Where the blocks begin in a payload. */
static size_t data_at(const pith_layout *layout, uint64_t block, uint64_t n) {
    const uint64_t blocks = n / block + (n % block != 0), index = (4 * blocks + 15) / 16 * 16;
    const bool checksums = layout->flags & PITH_LAYOUT_CHECKSUMS;
    return (size_t)(index + (checksums ? (8 * blocks + 15) / 16 * 16 : 0));
}

/* Adds the blocks of a frame to counts: of form HELD, and all. */
static void count_held(const struct frame *f, const pith_layout *layout, uint64_t block, uint64_t n,
                       uint64_t counts[2]) {
    const uint64_t blocks = n / block + (n % block != 0);
    const uint8_t *const payload = f->bytes + header_of(f);
    const uint8_t *at = payload + data_at(layout, block, n);
    for (uint64_t i = 0; i < blocks; i++) {
        uint32_t length;
        memcpy(&length, payload + 4 * i, 4);
        counts[0] += (*at & 7) == 6;
        counts[1]++;
        at += length & 0x7FFFFFFF;
    }
}

/* What the receiver holds becomes the set of the frames: the CPU decodes them, the device holds
 * them. */
static void follow_both(struct rig *r, const struct job *j, bool turned) {
    struct job in = *j;
    receive_both(r, j, r->layout.dtype, 0);
    in.items.tensor = NULL;
    JOB_RUN(&in, hold(r, &in, 1, PITH_SET_UNION));
    for (uint64_t s = 0; s < r->slots; s++) CHECK_OK(job_status(&in, s));
    if (!turned) check_held(r);
}

struct repeated {
    const char *spec;
    uint64_t block;
    double share;   /* of the elements that are large */
    bool overflows; /* more reach the threshold than the hard limit has, where all values grow */
};

/* A sender and a receiver, whose steps have the indices of blocks alone that changed. */
static void one_repeated(const struct repeated *p, const pith_layout *layout, uint64_t number) {
    uint64_t held[2] = {0, 0}, overflowed = 0;
    const bool turned = strstr(p->spec, "transform"); /* the sets are of coefficients */
    struct rig from, to;
    struct job j;
    context("%s of %llu elements sends what changed, number %llu", p->spec,
            (unsigned long long)layout->shape[0], (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    CHECK(rig_open(&from, p->spec, layout) && rig_open(&to, p->spec, layout));
    open_sender(&j, &from);
    for (uint64_t step = 0; step < 7; step++) {
        fill_repeated(&from, &j, p->block, p->share, number, step);
        for (uint64_t i = 0; p->overflows && step == 3 && i < from.count; i++) {
            const uint32_t bits = load_float(j.tensor.host, layout->dtype, (size_t)i);
            float x;
            memcpy(&x, &bits, sizeof x);
            store_float(j.tensor.host, layout->dtype, (size_t)i, bits_of(x * 8192));
        }
        send_filled(&from, &j, PITH_SAME_BLOCKS); /* the first has none */
        for (uint64_t s = 0; s < from.slots; s++) {
            const struct frame f = {job_frame(&j, s), (size_t)*job_length(&j, s)};
            pith_sparse_state state = {.size = sizeof state};
            uint64_t first, n, own[2] = {0, 0};
            CHECK_OK(job_status(&j, s));
            CHECK_OK(pith_plan_slot(from.cpu.plan, s, &first, &n));
            CHECK_OK(pith_sparse_get_state(from.cpu.stream, s, &state));
            count_held(&f, layout, p->block, n, own);
            if (!step || state.overflowed) CHECK(!own[0]);
            held[0] += own[0], held[1] += own[1];
            overflowed += state.overflowed;
        }
        if (!turned) check_held(&from);
        if (step) {
            receive_both(&to, &j, trip_reals[(number + step) % 3], PITH_ADD);
            look_at(&to, &j, to.count / 3 + number % 5, to.count / 2 + 1);
            sum_both(&to, &j, trip_reals[(number + step) % 3]);
        }
        follow_both(&to, &j, turned);
        if (!strstr(p->spec, "clear=call")) continue;
        struct moves m;
        moves_open(&m, &from, PITH_F32, PITH_F32, 0);
        check_clear(&from, &m);
        moves_close(&m);
    }
    if (from.count >= 20 * p->block && !turned) CHECK(held[0] && held[0] < held[1]);
    if (from.count >= 20 * p->block) CHECK(p->overflows == (overflowed != 0));
    /* A slot whose frame has no space, or whose step is taken back, holds no set. */
    const size_t data = header_of(&(struct frame){job_frame(&j, 0), (size_t)*job_length(&j, 0)}) +
                        data_at(layout, p->block, from.count);
    for (int back = from.slots == 1 && from.count ? 0 : 1; back < 2; back++) {
        if (back) {
            const uint64_t last = pith_stream_step(from.cpu.stream, 0) - 1;
            CHECK_OK(pith_stream_rollback(from.cpu.work, from.cpu.stream, last));
            CHECK_OK(
                pith_cuda_stream_rollback(from.plan, from.stream, last, device_stream(), NULL));
        } else {
            j.items.capacity = data;
            send_filled(&from, &j, PITH_SAME_BLOCKS);
            CHECK_STATUS(PITH_ERR_SPACE, job_status(&j, 0));
            j.items.capacity = j.stride;
        }
        send_filled(&from, &j, PITH_SAME_BLOCKS);
        for (uint64_t s = 0; s < from.slots; s++) CHECK_OK(job_status(&j, s));
    }
    job_close(&j);
    rig_close(&to);
    rig_close(&from);
}

static void test_repeated(void **state) {
    (void)state;
    static const struct repeated cases[] = {
        {"topk:density=0.1,control=exact,block=64", 64, 0.1, false},
        {"topk:density=0.02,control=exact,values=f16,block=512,ef=full", 512, 0.02, false},
        {"topk:density=0.02,control=exact,values=none,block=256,ef=full,clear=call", 256, 0.02,
         false},
        {"topk:density=0.1,control=exact,values=int8,index=fast,block=256", 256, 0.1, false},
        {"topk:density=0.04,control=micro,cap=1,block=512,index=fast", 512, 0.03, true},
        {"topk:density=0.3,control=every,every=2,cap=2,values=bf16,block=128", 128, 0.3, false},
        {"topk:density=0.5,control=nonzero,block=64,ef=full", 64, 0.5, false},
        {"topk:density=0.05,control=exact,block=64,transform=hadamard", 64, 0.05, false},
        {"topk:density=0.05,control=exact,block=1024,index=small,ef=ema:0.9", 1024, 0.05, false},
        {"topk:density=0.05,control=exact,block=256,ef=full,momentum=0.5", 256, 0.05, false},
        {"topk:density=0.1,control=nonzero,unit=8,block=256", 256, 0.1, false},
        {"topk:density=0.1,scope=row,block=64,ef=full", 64, 0.1, false},
    };
    static const uint64_t counts[] = {0, 1, 63, 65, 200, 1001, 5003, 40009};
    uint64_t number = 0;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++, number++) {
            pith_layout layout = flat_layout(trip_reals[number % 3], PITH_NONE, counts[i]);
            layout.slots = counts[i] >= 1000 ? 1 + number % 3 : 1;
            if (strstr(cases[k].spec, "scope=row")) {
                layout.ndim = 2;
                layout.shape[0] = counts[i] / 64;
                layout.shape[1] = 64;
            }
            if (number % 4 == 1) layout.flags |= PITH_LAYOUT_CHECKSUMS;
            /* Of the longest a sample has those that overflow: shorter ones do not. */
            if (counts[i] > 10000 ? cases[k].overflows || test_step(1) == 1 : is_sampled(number, 3))
                one_repeated(&cases[k], &layout, number);
        }
}

/* A receiver without a set, with another one, and with the sender's, of frames that it held. */
static void one_elsewhere(uint32_t sends) {
    pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, 3001);
    const size_t bytes = 2 * 3001;
    struct rig from, to;
    struct job sent, values, got;
    context("sets that others hold, flag %u", (unsigned)sends);
    layout.slots = 2;
    CHECK(rig_open(&from, "topk:density=0.1,control=exact,block=256", &layout));
    CHECK(rig_open(&to, "topk:density=0.1,control=exact,block=256", &layout));
    open_sender(&sent, &from);
    open_sender(&values, &from);
    send_both(&from, &sent, GEN_NOISE, 1, 0);
    send_both(&from, &values, GEN_NOISE, sends == PITH_SAME_BLOCKS ? 1 : 2, sends);
    got = values;
    mirror_open(&got.tensor, bytes, 0);
    got.items.tensor = got.tensor.device;
    for (int holds = 0; holds < 3; holds++) {
        static const pith_status wanted[] = {PITH_ERR_STATE, PITH_ERR_BASE, PITH_OK};
        if (holds == 1) encode_both(&to, GEN_NOISE, 5);
        if (holds == 2) JOB_RUN(&sent, hold(&to, &sent, 1, PITH_SET_UNION));
        if (holds == 2) hold_on_cpu(&to, &sent, 1, PITH_SET_UNION);
        uint8_t *const before = rig_stream_image(&to);
        for (uint32_t flags = 0; flags <= PITH_ADD; flags += PITH_ADD) {
            receive_both(&to, &values, PITH_BF16, flags);
            if (wanted[holds] == PITH_OK) continue;
            memset(got.tensor.host, UNTOUCHED, bytes);
            JOB_RUN(&got,
                    pith_cuda_decode(to.plan, to.stream, &got.items, flags, device_stream(), NULL));
            CHECK_STATUS(wanted[holds], job_status(&got, 0));
            CHECK_STATUS(wanted[holds], job_status(&got, 1));
            CHECK(all_bytes(got.tensor.host, bytes, UNTOUCHED));
        }
        JOB_RUN(&got, pith_cuda_verify(to.plan, to.stream, &got.items, device_stream(), NULL));
        CHECK_STATUS(wanted[holds], job_status(&got, 1));
        struct job alone = values;
        alone.items.tensor = NULL;
        JOB_RUN(&alone, hold(&to, &alone, 1, PITH_SET_UNION));
        CHECK_STATUS(sends == PITH_SAME_SET ? PITH_ERR_UNSUPPORTED : wanted[holds],
                     job_status(&alone, 0));
        uint8_t *const after = rig_stream_image(&to);
        if (holds < 2) CHECK(memcmp(before, after, (size_t)to.sizes.stream_bytes) == 0);
        free(after);
        free(before);
    }
    mirror_close(&got.tensor);
    job_close(&values);
    job_close(&sent);
    rig_close(&to);
    rig_close(&from);
}

static void test_held_elsewhere(void **state) {
    (void)state;
    one_elsewhere(PITH_SAME_SET);
    one_elsewhere(PITH_SAME_BLOCKS);
}

/* Frames of a held set cut and flipped in many places, some of them of other sets and none. */
static void test_held_hostile(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint64_t n;
        uint32_t flags;
    } targets[] = {
        {"topk:k=40,block=64", 333, 0},
        {"topk:k=200,control=exact,block=512,index=fast,values=int8", 1001, 0},
        {"topk:density=0.4,values=f16,block=128", 500, PITH_LAYOUT_CHECKSUMS},
        {"topk:density=0.2,values=none,block=256", 2000, 0},
        {"topk:density=1,block=64", 100, 0},
        {"topk:k=1", 1, 0},
        {"topk:k=1", 0, 0},
    };
    static const uint32_t sends[] = {PITH_HELD_SET, PITH_SAME_SET, PITH_SAME_BLOCKS};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        for (size_t k = 0; k < sizeof sends / sizeof sends[0]; k++) {
            const uint64_t shape[5] = {1, targets[i].n};
            const pith_layout layout = shape_layout(shape, trip_reals[i % 3], targets[i].flags);
            struct trip t;
            struct job j, first;
            context("%s of a held set attacked, flag %u", targets[i].spec, (unsigned)sends[k]);
            device_order((int)(i % (size_t)device_orders()));
            trip_open(&t, targets[i].spec, &layout, i);
            open_sender(&first, &t.r);
            open_sender(&j, &t.r);
            fill_repeated(&t.r, &first, 64, 0.1, i, 0);
            fill_repeated(&t.r, &j, 64, 0.1, i, 1);
            send_filled(&t.r, &first, 0);
            send_filled(&t.r, &j, sends[k]);
            /* A block without indices has those that were held before. */
            first.items.tensor = NULL;
            JOB_RUN(&first, hold(&t.r, &first, 1, PITH_SET_UNION));
            hold_on_cpu(&t.r, &first, 1, PITH_SET_UNION);
            t.frame.length = (size_t)*job_length(&j, 0);
            t.frame.bytes = copy_of(job_frame(&j, 0), t.frame.length);
            trip_attack(&t, i);
            job_close(&j);
            job_close(&first);
            trip_close(&t);
        }
}

/* ---- What is refused -------------------------------------------------------------------------*/

/* A frame that cannot be read leaves the slot with the set that it held; other slots get theirs. */
static void test_bad_frames(void **state) {
    (void)state;
    enum { N = 4000, EACH = 2 };
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct rig r;
    struct job j, bad;
    size_t length;
    context("frames that cannot be held");
    layout.slots = 2;
    CHECK(rig_open(&r, "topk:density=0.1,block=256", &layout));
    open_frames(&j, &r, EACH);
    make_frames(&r, &j, EACH, GEN_NOISE);
    JOB_RUN(&j, hold(&r, &j, EACH, PITH_SET_UNION));
    hold_on_cpu(&r, &j, EACH, PITH_SET_UNION);
    open_frames(&bad, &r, EACH);
    for (int which = 0; which < 4; which++) {
        make_frames(&r, &bad, EACH, GEN_SPARSE);
        for (uint64_t i = EACH; i < 2 * EACH; i++) { /* slot 1 goes on holding what it does */
            memcpy(job_frame(&bad, i), job_frame(&j, i), j.stride);
            *job_length(&bad, i) = *job_length(&j, i);
        }
        pith_status wanted = PITH_ERR_CORRUPT;
        uint8_t *const last = job_frame(&bad, 1);
        if (which == 0) { /* a form that there is not */
            struct frame f = {last, (size_t)*job_length(&bad, 1)};
            last[header_of(&f) + 64] = 7;
        } else if (which == 1) {
            *job_length(&bad, 1) -= 1;
            wanted = PITH_ERR_TRUNCATED;
        } else {
            struct stream rank;
            uint8_t value[4 * N];
            gen_fill(GEN_NOISE, 9, PITH_F32, value, N);
            const pith_view view = pith_view_flat(value, PITH_F32, N);
            stream_open_end(&rank, &r.cpu, NULL);
            free(stream_encode(&rank, &view, 0, false).bytes);
            CHECK_OK(encode_one(rank.work, rank.stream, &view, 0,
                                which == 2 ? PITH_SAME_SET : PITH_SAME_BLOCKS, last, bad.stride,
                                &length));
            *job_length(&bad, 1) = length;
            wanted = PITH_ERR_UNSUPPORTED;
            stream_close(&rank);
        }
        JOB_RUN(&bad, hold(&r, &bad, EACH, which % 2 ? PITH_SET_INTERSECTION : PITH_SET_UNION));
        CHECK_OK(job_status(&bad, 0));
        CHECK_STATUS(wanted, job_status(&bad, 1));
        CHECK_OK(job_status(&bad, 2));
        CHECK_OK(job_status(&bad, 3));
        if (which % 2 == 0) check_held(&r);
    }
    job_close(&bad);
    job_close(&j);
    rig_close(&r);
}

static void test_no_set(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 300);
    struct rig r;
    struct moves m;
    context("no set is held");
    CHECK(rig_open(&r, "topk:k=9,ef=full", &layout));
    moves_open(&m, &r, PITH_F32, PITH_F32, 0);
    uint8_t *const before = rig_stream_image(&r);
    for (int call = 0; call < 3; call++) {
        MOVES_RUN(&m, call == 0 ? gather(&r, &m) : call == 1 ? scatter(&r, &m, 1) : clear(&r, &m));
        CHECK_STATUS(PITH_ERR_STATE, moves_status(&m, 0));
        if (call == 0) CHECK(*moves_length(&m, 0) == 0);
        CHECK(all_bytes(m.value.host, m.value.bytes, UNTOUCHED));
        CHECK(all_bytes(m.tensor.host, m.tensor.bytes, UNTOUCHED));
    }
    uint8_t *const after = rig_stream_image(&r);
    CHECK(memcmp(before, after, (size_t)r.sizes.stream_bytes) == 0);
    free(after);
    free(before);
    moves_close(&m);
    rig_close(&r);
}

/* Values that are more than there is space for, or others than the set has elements. */
static void test_counts(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 300);
    struct rig r;
    struct moves m;
    context("counts of values");
    CHECK(rig_open(&r, "topk:k=9,control=exact", &layout));
    encode_both(&r, GEN_NOISE, 3);
    CHECK(held_of(&r, 0) == 9);
    moves_open(&m, &r, PITH_F32, PITH_BF16, 0);
    m.items.capacity = 17;
    MOVES_RUN(&m, gather(&r, &m));
    CHECK_STATUS(PITH_ERR_SPACE, moves_status(&m, 0));
    CHECK(*moves_length(&m, 0) == 0);
    CHECK(all_bytes(m.value.host, m.value.bytes, UNTOUCHED));
    m.items.capacity = 18;
    MOVES_RUN(&m, gather(&r, &m));
    CHECK_OK(moves_status(&m, 0));
    CHECK(*moves_length(&m, 0) == 18);
    CHECK(all_bytes(m.value.host + 18, m.value.bytes - 18, UNTOUCHED));
    for (uint64_t length = 16; length <= 20; length += 4) {
        *moves_length(&m, 0) = length;
        MOVES_RUN(&m, scatter(&r, &m, 1));
        CHECK_STATUS(PITH_ERR_SHAPE, moves_status(&m, 0));
    }
    m.items.lengths = NULL;
    m.items.capacity = 17;
    MOVES_RUN(&m, scatter(&r, &m, 1));
    CHECK_STATUS(PITH_ERR_SHAPE, moves_status(&m, 0));
    CHECK(all_bytes(m.tensor.host, m.tensor.bytes, UNTOUCHED));
    m.items.capacity = 18;
    MOVES_RUN(&m, scatter(&r, &m, 1));
    CHECK_OK(moves_status(&m, 0));
    CHECK(!all_bytes(m.tensor.host, m.tensor.bytes, UNTOUCHED));
    moves_close(&m);
    rig_close(&r);
}

/* Wrong arguments are returned: nothing is launched. */
static void test_arguments(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 300);
    struct rig r, raw, turned;
    struct job j;
    struct moves m, other;
    context("a set of coefficients");
    layout.slots = 2;
    CHECK(rig_open(&turned, "topk:k=9,ef=full,transform=dct", &layout));
    moves_open(&m, &turned, PITH_F32, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, gather(&turned, &m));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, scatter(&turned, &m, 1));
    m.items.tensor = NULL;
    CHECK_OK(gather(&turned, &m));
    moves_close(&m);
    rig_close(&turned);
    context("arguments");
    CHECK(rig_open(&r, "topk:k=9", &layout) && rig_open(&raw, "raw", &layout));
    open_frames(&j, &r, 2);
    moves_open(&m, &r, PITH_F32, PITH_F32, 0);
    moves_open(&other, &raw, PITH_F32, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, gather(&raw, &other));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, scatter(&raw, &other, 1));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, clear(&raw, &other));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, hold(&raw, &j, 2, PITH_SET_UNION));
    CHECK(raw.sizes.set_bytes == 0);

    CHECK_STATUS(PITH_ERR_ARG, hold(&r, &j, 0, PITH_SET_UNION));
    CHECK_STATUS(PITH_ERR_ARG, hold(&r, &j, 2, 2));
    j.items.same_slot = 1;
    CHECK_STATUS(PITH_ERR_ARG, hold(&r, &j, 2, PITH_SET_UNION));
    j.items.same_slot = 0;
    j.items.workspace_bytes -= 1;
    CHECK_STATUS(PITH_ERR_SPACE, hold(&r, &j, 2, PITH_SET_INTERSECTION));
    CHECK_OK(hold(&r, &j, 2, PITH_SET_UNION));
    j.items.workspace_bytes = 4 * r.sizes.workspace_bytes - 1;
    CHECK_STATUS(PITH_ERR_SPACE, hold(&r, &j, 2, PITH_SET_UNION));
    j.items.frame = NULL;
    CHECK_STATUS(PITH_ERR_ARG, hold(&r, &j, 2, PITH_SET_UNION));

    CHECK_STATUS(PITH_ERR_STATE, clear(&r, &m)); /* no error feedback */
    m.items.tensor = NULL;
    CHECK_STATUS(PITH_ERR_STATE, gather(&r, &m));
    CHECK_STATUS(PITH_ERR_ARG, scatter(&r, &m, 1));
    m.items.tensor = m.tensor.device;
    m.items.same_slot = 1;
    CHECK_STATUS(PITH_ERR_ARG, scatter(&r, &m, 1));
    CHECK_OK(gather(&r, &m));
    m.items.same_slot = 0;
    m.items.dtype = PITH_U8;
    CHECK_STATUS(PITH_ERR_DTYPE, gather(&r, &m));
    CHECK_STATUS(PITH_ERR_DTYPE, scatter(&r, &m, 1));
    m.items.dtype = PITH_F32;
    m.dtype = PITH_I32;
    CHECK_STATUS(PITH_ERR_DTYPE, gather(&r, &m));
    m.dtype = PITH_F32;
    m.items.frame = NULL;
    CHECK_STATUS(PITH_ERR_ARG, gather(&r, &m));
    m.items.frame = m.value.device;
    m.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE, gather(&r, &m));
    m.items.status = NULL;
    CHECK_STATUS(PITH_ERR_ARG, clear(&r, &m));
    moves_close(&other);
    moves_close(&m);
    job_close(&j);
    rig_close(&raw);
    rig_close(&r);
}

static pith_status send(const struct rig *r, const struct job *j, uint32_t flags) {
    return pith_cuda_encode(r->plan, r->stream, &j->items, flags, device_stream(), NULL);
}

static void test_held_arguments(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 300);
    struct rig r, raw;
    struct job j, other;
    context("arguments of frames of a held set");
    CHECK(rig_open(&r, "topk:k=9", &layout) && rig_open(&raw, "raw", &layout));
    open_sender(&j, &r);
    open_sender(&other, &raw);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, send(&raw, &other, PITH_SAME_SET));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, send(&raw, &other, PITH_HELD_SET));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, send(&raw, &other, PITH_SAME_BLOCKS));
    CHECK_STATUS(PITH_ERR_ARG, send(&r, &j, PITH_SAME_SET | PITH_HELD_SET));
    CHECK_STATUS(PITH_ERR_ARG, send(&r, &j, PITH_SAME_SET | PITH_SAME_BLOCKS));
    CHECK_STATUS(PITH_ERR_ARG, send(&r, &j, PITH_HELD_SET | PITH_SAME_BLOCKS));
    CHECK_STATUS(PITH_ERR_ARG, send(&r, &j, PITH_ADD | PITH_HELD_SET));
    j.items.workspace_bytes = r.sizes.workspace_bytes + r.sizes.sum_bytes - 1;
    CHECK_STATUS(PITH_ERR_SPACE, send(&r, &j, PITH_SAME_SET));
    CHECK_STATUS(PITH_ERR_SPACE, send(&r, &j, PITH_HELD_SET));
    CHECK_OK(send(&r, &j, 0));
    j.items.workspace_bytes = r.sizes.workspace_bytes + r.sizes.set_bytes - 1;
    CHECK_STATUS(PITH_ERR_SPACE, send(&r, &j, PITH_SAME_BLOCKS));
    j.items.workspace_bytes++;
    CHECK_OK(send(&r, &j, PITH_SAME_BLOCKS));
    job_close(&other);
    job_close(&j);
    rig_close(&raw);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen),       cmocka_unit_test(test_sent_whole),
        cmocka_unit_test(test_hold),         cmocka_unit_test(test_two_phases),
        cmocka_unit_test(test_held),         cmocka_unit_test(test_held_union),
        cmocka_unit_test(test_repeated),     cmocka_unit_test(test_held_elsewhere),
        cmocka_unit_test(test_held_hostile), cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_no_set),       cmocka_unit_test(test_counts),
        cmocka_unit_test(test_arguments),    cmocka_unit_test(test_held_arguments),
        cmocka_unit_test(test_listed),       cmocka_unit_test(test_listed_outside),
    };
    return cmocka_run_group_tests_name("gpu_sets", tests, NULL, NULL);
}
