/* fuzz_stream.c - any bytes to pith_stream_load, and any order of calls on two streams.
 * SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <xxhash.h>

#include "fuzz.h"
#include "fuzz_numbers.h"

enum { PARAMETER_BYTES = 128, FRAMES = 4, CALLS_MAX = 24 };
/* Each of the two streams has a twin, which is given what the stream holds and does the same in
 * another way. */
enum { ENDS = 2, LIST_MAX = ENDS * FUZZ_SLOTS_MAX };
/* Saved streams: FORMAT.md, Saved streams. */
enum { SAVED_SLOTS = 72, SAVED_SLOT = 16, SAVED_CHECKSUM = 8 };
#define NEVER UINT64_MAX

struct scene {
    struct fuzz_layout layout;
    struct fuzz_env env;
    const pith_plan *plan;
    pith_sizes sizes;
    struct fuzz_end end[ENDS], twin[ENDS];
    struct fuzz_end threads; /* whose work is used with the streams of the others */
    uint8_t *external[2 * ENDS];
    uint64_t external_bytes;
    uint64_t last[ENDS][FUZZ_SLOTS_MAX]; /* steps of the last encodes that may be taken back */
    uint8_t *frame[FRAMES];              /* the last ones made */
    size_t length[FRAMES], cap, made;
    uint8_t *listed[LIST_MAX], *single; /* frames of a list, and of calls with one item */
    uint8_t *saved, *again;
    struct fuzz_tensor value, out[2 * ENDS];
    bool based, feedback;
};

/* ---- Saving and loading ----------------------------------------------------------------------*/

static void save(struct scene *x, const struct fuzz_end *e, uint8_t *dst) {
    size_t written = 0;
    const size_t cap = (size_t)x->sizes.save_bytes;
    FUZZ_CHECK(pith_stream_save(e->work, e->stream, dst, cap, &written) == PITH_OK);
    FUZZ_CHECK(written == cap);
}

static void forget(struct scene *x, int i) {
    for (uint64_t k = 0; k < FUZZ_SLOTS_MAX; k++) x->last[i][k] = NEVER;
}

static void reset(struct scene *x, int i) {
    FUZZ_CHECK(pith_stream_reset(x->end[i].work, x->end[i].stream) == PITH_OK);
    forget(x, i);
}

/* A stream that accepts bytes is what they say; one that refuses them is what it was. */
static pith_status load(struct scene *x, int i, const uint8_t *bytes, size_t length) {
    const size_t whole = (size_t)x->sizes.save_bytes;
    const struct fuzz_end *e = &x->end[i];
    uint8_t *copy = guard_copy(bytes, length);
    uint8_t *before = guard_new(whole);
    save(x, e, before);
    const pith_status status = pith_stream_load(e->work, e->stream, copy, length);
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(pith_work_error(e->work), status));
    save(x, e, x->again);
    if (status == PITH_OK) {
        FUZZ_CHECK(length >= whole && memcmp(x->again, copy, whole) == 0);
        FUZZ_CHECK(fuzz_stream_holds(e->work, e->stream));
        forget(x, i);
    } else {
        FUZZ_CHECK(memcmp(x->again, before, whole) == 0);
    }
    guard_free(before, whole);
    guard_free(copy, length);
    return status;
}

/* Saved by the other stream, damaged, its checksum right or not. */
static void load_patched(struct scene *x, int i, struct fuzz_source *s) {
    const size_t whole = (size_t)x->sizes.save_bytes;
    const uint8_t how = fuzz_u8(s);
    save(x, &x->end[!i], x->saved);
    if (how & 3) fuzz_patch(x->saved, whole, s);
    if (how & 4) {
        uint64_t hash = XXH64(x->saved, whole - SAVED_CHECKSUM, 0);
        for (size_t k = 0; k < SAVED_CHECKSUM; k++, hash >>= 8)
            x->saved[whole - SAVED_CHECKSUM + k] = (uint8_t)hash;
    }
    const size_t length = how & 8 ? fuzz_u32(s) % (whole + 1) : whole;
    const pith_status status = load(x, i, x->saved, length);
    if (!(how & 3) && length == whole) FUZZ_CHECK(status == PITH_OK);
}

/* Make the twin what the stream is, and give both the same random bits, of which ranks are not
 * saved. */
static void make_twin(struct scene *x, int i, struct fuzz_source *s) {
    const struct fuzz_end *const ends[2] = {&x->end[i], &x->twin[i]};
    const pith_stream_options options = {
        .size = sizeof options, .seed = fuzz_u8(s), .rng_stream = 5, .rank = 1, .ranks = 3};
    save(x, &x->end[i], x->saved);
    FUZZ_CHECK(pith_stream_load(x->twin[i].work, x->twin[i].stream, x->saved,
                                (size_t)x->sizes.save_bytes) == PITH_OK);
    for (int k = 0; k < 2; k++)
        FUZZ_CHECK(pith_stream_set_random(ends[k]->work, ends[k]->stream, &options) == PITH_OK);
}

static void check_twin(struct scene *x, int i) {
    save(x, &x->end[i], x->saved);
    save(x, &x->twin[i], x->again);
    FUZZ_CHECK(memcmp(x->saved, x->again, (size_t)x->sizes.save_bytes) == 0);
}

/* ---- One frame -------------------------------------------------------------------------------*/

static void encode(struct scene *x, int i, uint64_t slot, bool key) {
    const size_t at = x->made++ % FRAMES;
    const struct fuzz_end *e = &x->end[i];
    const uint64_t step = pith_stream_step(e->stream, slot);
    FUZZ_CHECK(fuzz_encode(e->work, e->stream, slot, &x->value.view, key ? PITH_KEY_FRAME : 0,
                           x->frame[at], x->cap, &x->length[at]) == PITH_OK);
    FUZZ_CHECK(pith_stream_step(e->stream, slot) == step + 1);
    x->last[i][slot] = step;
}

/* Encoding changes the slot's step and residual; taking it back restores them, once. */
static void encode_and_roll_back(struct scene *x, int i, uint64_t slot, uint64_t step) {
    const struct fuzz_end *e = &x->end[i];
    const pith_stream_options options = {.size = sizeof options, .seed = 1, .rng_stream = 2};
    const size_t slots = SAVED_SLOT * (size_t)x->sizes.slots;
    /* What encodes leave of nonzero values behind the bounds is not lost. */
    const size_t bytes = x->layout.traits & PITH_TRAIT_BOUND
                             ? slots
                             : (size_t)x->sizes.save_bytes - SAVED_SLOTS - SAVED_CHECKSUM;
    if (x->based) {
        FUZZ_CHECK(pith_stream_rollback(e->work, e->stream, step) == PITH_ERR_STATE);
        return;
    }
    /* Other slots whose last encode was of this step would go back too. */
    for (uint64_t k = 0; k < x->sizes.slots; k++)
        if (k != slot && x->last[i][k] == step) return;
    FUZZ_CHECK(pith_stream_set_random(e->work, e->stream, &options) == PITH_OK);
    FUZZ_CHECK(pith_stream_set_step(e->work, e->stream, slot, step) == PITH_OK);
    save(x, e, x->saved);
    encode(x, i, slot, false);
    for (int n = 0; n < 2; n++) {
        FUZZ_CHECK(pith_stream_rollback(e->work, e->stream, step) == PITH_OK);
        FUZZ_CHECK(pith_stream_step(e->stream, slot) == step);
        save(x, e, x->again);
        FUZZ_CHECK(memcmp(x->saved + SAVED_SLOTS, x->again + SAVED_SLOTS, bytes) == 0);
    }
    x->last[i][slot] = NEVER;
}

/* A slot goes back to the step or stays where it is. */
static void roll_back(struct scene *x, int i, uint64_t step) {
    const struct fuzz_end *e = &x->end[i];
    uint64_t before[FUZZ_SLOTS_MAX];
    for (uint64_t k = 0; k < x->sizes.slots; k++) before[k] = pith_stream_step(e->stream, k);
    FUZZ_CHECK(pith_stream_rollback(e->work, e->stream, step) ==
               (x->based ? PITH_ERR_STATE : PITH_OK));
    for (uint64_t k = 0; k < x->sizes.slots; k++) {
        const bool may = !x->based && x->last[i][k] == step;
        const uint64_t now = pith_stream_step(e->stream, k);
        FUZZ_CHECK(now == before[k] || (may && now == step));
        if (may) x->last[i][k] = NEVER;
    }
}

/* Data errors before which nothing is written. */
static bool harmless(pith_status status) {
    return status == PITH_OK || status == PITH_ERR_BASE || status == PITH_ERR_STEP ||
           status == PITH_ERR_MISMATCH;
}

/* One of the last frames, damaged or not; to be freed. */
static uint8_t *take_frame(struct scene *x, struct fuzz_source *s, size_t *length) {
    const uint8_t how = fuzz_u8(s);
    const size_t at = how % FRAMES;
    uint8_t *frame = guard_copy(x->frame[at], x->length[at]);
    *length = x->length[at];
    if (how & 0x80) {
        fuzz_patch(frame, *length, s);
        fuzz_fix_frame(frame, *length);
    }
    return frame;
}

/* What a data error before the first write leaves behind is the same stream. */
static void decode(struct scene *x, int i, uint64_t slot, struct fuzz_source *s) {
    const struct fuzz_end *e = &x->end[i];
    size_t length;
    uint8_t *frame = take_frame(x, s, &length);
    save(x, e, x->saved);
    const pith_view *view = x->based ? NULL : &x->out[i].view;
    const pith_status status = fuzz_decode(e->work, e->stream, slot, frame, length, view, 0);
    if (harmless(status) && status != PITH_OK) {
        save(x, e, x->again);
        FUZZ_CHECK(memcmp(x->saved, x->again, (size_t)x->sizes.save_bytes) == 0);
    }
    if (status == PITH_OK) FUZZ_CHECK(fuzz_stream_holds(e->work, e->stream));
    if (!harmless(status)) reset(x, i);
    guard_free(frame, length);
}

/* ---- Lists: what calls with one item each do -------------------------------------------------*/

struct list {
    pith_item item[LIST_MAX + 1];
    int end[LIST_MAX];
    size_t count;
    uint8_t how;
    bool used[ENDS];
};

/* Some slots of the stream, and perhaps of the other one, in either order. */
static void draw_list(struct scene *x, int i, struct list *l, struct fuzz_source *s) {
    const uint8_t mask = fuzz_u8(s);
    *l = (struct list){.how = fuzz_u8(s)};
    for (int n = 0; n < ENDS; n++) {
        const int e = n ? !i : i;
        if (n && !(mask & 0x80)) break;
        l->used[e] = true;
        for (uint64_t k = 0; k < x->sizes.slots; k++) {
            const uint64_t slot = mask & 0x20 ? x->sizes.slots - 1 - k : k;
            if (!(mask >> slot & 1)) continue;
            l->end[l->count] = e;
            l->item[l->count++] = (pith_item){.size = sizeof(pith_item),
                                              .stream = x->end[e].stream,
                                              .slot = slot,
                                              .status = PITH_ERR_INTERNAL};
        }
    }
}

static pith_work *work_of(struct scene *x, int i, const struct list *l) {
    return l->how & 1 ? x->threads.work : x->end[i].work;
}

/* With an argument that is wrong in one item nothing changes in any. */
static void encode_wrong(struct scene *x, int i, const struct list *l, struct fuzz_source *s) {
    struct list bad = *l;
    const size_t n = fuzz_u8(s) % l->count;
    uint32_t flags = 0;
    switch (fuzz_u8(s) % 5) {
    case 0: bad.item[n].slot = x->sizes.slots + fuzz_u8(s); break;
    case 1: bad.item[bad.count++] = bad.item[n]; break;
    case 2: bad.item[n].view.dtype = PITH_NONE; break;
    case 3: bad.item[n].stream = NULL; break;
    default: flags = 0x80; break;
    }
    const pith_status status = pith_encode(work_of(x, i, l), bad.item, bad.count, flags);
    FUZZ_CHECK(fuzz_is_argument(status));
    for (int e = 0; e < ENDS; e++)
        if (l->used[e]) check_twin(x, e);
}

static void encode_list(struct scene *x, int i, struct fuzz_source *s) {
    struct list l;
    draw_list(x, i, &l, s);
    const uint32_t flags = l.how & 2 && x->sizes.key_bytes ? PITH_KEY_FRAME : 0;
    for (size_t k = 0; k < l.count; k++) {
        l.item[k].view = x->value.view;
        l.item[k].frame = x->listed[k];
        l.item[k].capacity = x->cap;
    }
    for (int e = 0; e < ENDS; e++)
        if (l.used[e]) make_twin(x, e, s);
    if (l.how >> 4 == 5 && l.count) encode_wrong(x, i, &l, s);
    const pith_status status = pith_encode(work_of(x, i, &l), l.item, l.count, flags);
    FUZZ_CHECK(status == PITH_OK && fuzz_list_done(work_of(x, i, &l), l.item, l.count, status));
    for (size_t k = l.count; k--;) {
        const struct fuzz_end *twin = &x->twin[l.end[k]];
        const uint64_t slot = l.item[k].slot, step = pith_stream_step(twin->stream, slot);
        size_t length;
        FUZZ_CHECK(fuzz_encode(twin->work, twin->stream, slot, &x->value.view, flags, x->single,
                               x->cap, &length) == PITH_OK);
        FUZZ_CHECK(length == l.item[k].length && memcmp(x->single, x->listed[k], length) == 0);
        x->last[l.end[k]][slot] = step;
        const size_t at = x->made++ % FRAMES;
        memcpy(x->frame[at], x->single, length);
        x->length[at] = length;
    }
    for (int e = 0; e < ENDS; e++)
        if (l.used[e]) check_twin(x, e);
}

static void same_slot(struct scene *x, uint64_t slot, int e) {
    const size_t element = pith_dtype_bytes(x->value.view.dtype);
    uint64_t first, count;
    FUZZ_CHECK(pith_plan_slot(x->plan, slot, &first, &count) == PITH_OK);
    for (uint64_t k = first; k < first + count; k++)
        FUZZ_CHECK(memcmp(fuzz_at(&x->out[e], k), fuzz_at(&x->out[ENDS + e], k), element) == 0);
}

/* A frame that is refused keeps no other item from being decoded. */
static void decode_list(struct scene *x, int i, struct fuzz_source *s) {
    struct list l;
    bool good[ENDS] = {true, true};
    draw_list(x, i, &l, s);
    const bool values = !x->based || l.how & 2;
    for (size_t k = 0; k < l.count; k++) {
        l.item[k].frame = take_frame(x, s, &l.item[k].length);
        if (values) l.item[k].view = x->out[l.end[k]].view;
    }
    for (int e = 0; e < ENDS; e++)
        if (l.used[e]) make_twin(x, e, s);
    const pith_status status = pith_decode(work_of(x, i, &l), l.item, l.count, 0);
    FUZZ_CHECK(fuzz_list_done(work_of(x, i, &l), l.item, l.count, status));
    for (size_t k = l.count; k--;) {
        const int e = l.end[k];
        const struct fuzz_end *twin = &x->twin[e];
        const pith_status one =
            fuzz_decode(twin->work, twin->stream, l.item[k].slot, l.item[k].frame, l.item[k].length,
                        values ? &x->out[ENDS + e].view : NULL, 0);
        FUZZ_CHECK(one == l.item[k].status);
        if (one == PITH_OK && values) same_slot(x, l.item[k].slot, e);
        good[e] = good[e] && harmless(one);
        guard_free(l.item[k].frame, l.item[k].length);
    }
    for (int e = 0; e < ENDS; e++) {
        if (!good[e])
            reset(x, e);
        else if (l.used[e])
            check_twin(x, e);
    }
}

/* ---- Calls that never return -----------------------------------------------------------------*/

struct jump {
    jmp_buf back;
    size_t jobs; /* to be done first */
    struct fuzz_end *end;
};

/* While a call is running its stream is busy for others. */
static int run_and_leave(void *user, void (*job)(void *arg, size_t index), void *arg,
                         size_t count) {
    struct jump *j = user;
    FUZZ_CHECK(pith_stream_set_step(j->end->work, j->end->stream, 0, 1) == PITH_ERR_BUSY);
    while (count--) {
        if (j->jobs-- == 0) longjmp(j->back, 1);
        job(arg, count);
    }
    return 0;
}

/* Whether the call was left. */
static bool encode_and_leave(struct jump *j, pith_work *work, struct list *l) {
    if (setjmp(j->back)) return true;
    FUZZ_CHECK(pith_encode(work, l->item, l->count, 0) == PITH_OK);
    return false;
}

/* What makes a stream good again whose slots may be half written. */
static void mend(struct scene *x, int i, const struct list *l, uint8_t how, const uint8_t *before) {
    const struct fuzz_end *e = &x->end[i];
    if (x->based && how % 4 == 2) {
        FUZZ_CHECK(pith_stream_set_base(e->work, e->stream, &x->value.view, how) == PITH_OK);
    } else if (x->based && how % 4 == 3) {
        for (size_t k = 0; k < l->count; k++) encode(x, i, l->item[k].slot, true);
    } else if (how % 4 == 1) {
        FUZZ_CHECK(pith_stream_load(e->work, e->stream, before, (size_t)x->sizes.save_bytes) ==
                   PITH_OK);
        forget(x, i);
        save(x, e, x->again);
        FUZZ_CHECK(memcmp(before, x->again, (size_t)x->sizes.save_bytes) == 0);
    } else {
        reset(x, i);
    }
    FUZZ_CHECK(fuzz_stream_holds(e->work, e->stream));
}

static void leave(struct scene *x, int i, struct fuzz_source *s) {
    struct fuzz_end *e = &x->end[i];
    struct list l;
    struct jump jump = {.end = e};
    const pith_env env = {
        .size = sizeof env, .run = run_and_leave, .run_user = &jump, .threads = 3};
    const size_t bytes = (size_t)pith_work_bytes(&x->plan, 1, env.threads);
    size_t length;
    pith_work *work;
    draw_list(x, i, &l, s);
    const uint8_t how = fuzz_u8(s);
    jump.jobs = how >> 4;
    while (l.count && l.end[l.count - 1] != i) l.count--;
    for (size_t k = 0; k < l.count; k++) {
        l.item[k].view = x->value.view;
        l.item[k].frame = x->listed[k];
        l.item[k].capacity = x->cap;
    }
    uint8_t *before = guard_new((size_t)x->sizes.save_bytes), *memory = guard_new(bytes);
    save(x, e, before);
    FUZZ_CHECK(pith_work_init(memory, bytes, &env, &work, NULL) == PITH_OK);
    if (encode_and_leave(&jump, work, &l)) {
        FUZZ_CHECK(fuzz_encode(e->work, e->stream, 0, &x->value.view, 0, x->single, x->cap,
                               &length) == PITH_ERR_BUSY);
        FUZZ_CHECK(pith_stream_save(e->work, e->stream, x->saved, (size_t)x->sizes.save_bytes,
                                    &length) == PITH_ERR_BUSY);
        pith_stream_unlock(e->stream);
        for (size_t k = 0; k < l.count; k++) {
            const uint64_t slot = l.item[k].slot;
            const bool key = pith_plan_is_key(x->plan, pith_stream_step(e->stream, slot));
            FUZZ_CHECK(fuzz_encode(e->work, e->stream, slot, &x->value.view, 0, x->single, x->cap,
                                   &length) == (x->based && !key ? PITH_ERR_STATE : PITH_OK));
        }
        mend(x, i, &l, how, before);
    } else {
        for (size_t k = 0; k < l.count; k++) {
            const uint64_t slot = l.item[k].slot;
            x->last[i][slot] = pith_stream_step(e->stream, slot) - 1;
        }
    }
    guard_free(memory, bytes);
    guard_free(before, (size_t)x->sizes.save_bytes);
}

/* ---- Residuals -------------------------------------------------------------------------------*/

static double squares(const uint8_t *at, size_t count) {
    double sum = 0;
    for (size_t k = 0; k < count; k++) {
        const double v = (double)fuzz_number(at + 4 * k, PITH_F32);
        sum += v * v;
    }
    return sum;
}

static void export_residual(struct scene *x, int i, struct fuzz_tensor *all) {
    struct fuzz_source none = {NULL, 0};
    fuzz_tensor_new(all, &none, true, PITH_F32, 1, &x->layout.count);
    FUZZ_CHECK(pith_stream_get_residual(x->end[i].work, x->end[i].stream, 0, &all->view) ==
               PITH_OK);
}

/* Returns the roundings, one after the other, on the way of a residual into the stream: none, or
 * those of a rotation of at most 2^12 elements or a transform of at most 64. */
static int residual_roundings(const char *spec) {
    if (strstr(spec, "transform=")) return 64;
    return fuzz_spec_has(spec, "rotate") && fuzz_spec_number(spec, "rotate") ? 12 : 0;
}

/* What was set is what can be read, and elements beside it stay: exactly, or, where it is kept
 * transformed, with the error there and back. saved and again hold the stream as it was and as it
 * is. */
static void check_residual(struct scene *x, int i, const struct fuzz_tensor *was,
                           const struct fuzz_tensor *set, uint64_t first) {
    char canon[PITH_SPEC_MAX];
    struct fuzz_tensor is;
    const size_t head = SAVED_SLOTS + SAVED_SLOT * (size_t)x->sizes.slots;
    const size_t kept = ((size_t)x->sizes.save_bytes - head - SAVED_CHECKSUM) / 4;
    export_residual(x, i, &is);
    FUZZ_CHECK(pith_plan_spec(x->plan, canon, sizeof canon) == PITH_OK);
    double all = squares(x->saved + head, kept) + squares(x->again + head, kept) +
                 squares(was->memory, was->bytes / 4) + squares(is.memory, is.bytes / 4);
    const double tolerance = 2 * residual_roundings(canon) * 0x1p-24 * sqrt(all);
    for (uint64_t k = 0; k < is.count; k++) {
        const bool inside = k >= first && k - first < set->count;
        const float got = fuzz_number(fuzz_at(&is, k), PITH_F32);
        const float want = inside ? fuzz_number(fuzz_at(set, k - first), set->view.dtype)
                                  : fuzz_number(fuzz_at(was, k), PITH_F32);
        FUZZ_CHECK(isfinite(got) && fabs((double)got - (double)want) <= tolerance);
    }
    fuzz_tensor_free(&is);
}

static void residual(struct scene *x, int i, struct fuzz_source *s) {
    const struct fuzz_end *e = &x->end[i];
    const uint32_t count = (uint32_t)x->layout.count;
    const uint64_t first = fuzz_below(s, count + 2), n = fuzz_below(s, count + 2);
    const bool inside = first <= count && n <= count - first;
    struct fuzz_tensor t, was;
    fuzz_tensor_new(&t, s, false, 1 + fuzz_below(s, 3), 1, &n);
    const pith_status got = pith_stream_get_residual(e->work, e->stream, first, &t.view);
    FUZZ_CHECK(x->feedback && inside ? got == PITH_OK : fuzz_is_argument(got));
    if (!x->feedback) FUZZ_CHECK(got == PITH_ERR_STATE);
    fuzz_fill(&t, s);
    bool finite = true, huge = false; /* huge: rotations may overflow */
    for (uint64_t k = 0; k < n; k++) {
        const float v = fuzz_number(fuzz_at(&t, k), t.view.dtype);
        finite = finite && isfinite(v);
        huge = huge || fabsf(v) > 0x1p60f;
    }
    if (x->feedback) export_residual(x, i, &was);
    for (uint64_t k = 0; x->feedback && k < was.count; k++)
        huge = huge || !(fabsf(fuzz_number(fuzz_at(&was, k), PITH_F32)) < 0x1p60f);
    save(x, e, x->saved);
    const pith_status status = pith_stream_set_residual(e->work, e->stream, first, &t.view);
    save(x, e, x->again);
    if (x->feedback && inside && !huge) FUZZ_CHECK((status == PITH_OK) == finite);
    if (!x->feedback) FUZZ_CHECK(status == PITH_ERR_STATE);
    if (status != PITH_OK) {
        FUZZ_CHECK(fuzz_is_argument(status));
        FUZZ_CHECK(memcmp(x->saved, x->again, (size_t)x->sizes.save_bytes) == 0);
    } else {
        FUZZ_CHECK(x->feedback && inside && finite);
        if (!x->layout.layout.exempt_count && !huge) check_residual(x, i, &was, &t, first);
    }
    if (x->feedback) fuzz_tensor_free(&was);
    fuzz_tensor_free(&t);
}

/* ---- Other calls -----------------------------------------------------------------------------*/

/* Bounds of a slot, of which some are none. */
static void adapt(struct scene *x, int i, uint64_t slot, struct fuzz_source *s) {
    const struct fuzz_end *e = &x->end[i];
    double bound = 0, set;
    uint64_t bits = (uint64_t)fuzz_u32(s) << 32 | fuzz_u32(s);
    memcpy(&set, &bits, sizeof set);
    const bool takes = x->layout.traits & PITH_TRAIT_BOUND, number = set >= 0 && set < INFINITY;
    const pith_status want = !takes ? PITH_ERR_UNSUPPORTED : number ? PITH_OK : PITH_ERR_ARG;
    const pith_status factor = number && set == 0 && takes ? PITH_ERR_ARG : want;
    const pith_budget budget = {.size = sizeof budget,
                                .momentum = set,
                                .gradient = (double)fuzz_u8(s),
                                .samples = (double)fuzz_u8(s),
                                .positions = (double)fuzz_u8(s),
                                .largest = (double)fuzz_u8(s)};
    FUZZ_CHECK(pith_stream_scale_bound(e->work, e->stream, slot, set) == factor);
    FUZZ_CHECK(pith_stream_set_bound(e->work, e->stream, slot, set) == want);
    if (want == PITH_OK) FUZZ_CHECK(pith_stream_bound(e->stream, slot) == set);
    FUZZ_CHECK(pith_stream_adapt(e->work, e->stream, slot, &budget, &bound) == want);
    FUZZ_CHECK(want != PITH_OK || (bound >= 0 && bound < INFINITY));
}

static void set_random(struct scene *x, int i, pith_stream_options options) {
    const bool good =
        options.ranks ? options.rank < options.ranks && options.ranks <= 65536 : options.rank == 0;
    options.size = sizeof options;
    FUZZ_CHECK(pith_stream_set_random(x->end[i].work, x->end[i].stream, &options) ==
               (good ? PITH_OK : PITH_ERR_ARG));
}

static void set_ranks(struct scene *x, int i, struct fuzz_source *s) {
    pith_stream_options options = {.seed = fuzz_u8(s)};
    options.rank = fuzz_u8(s);
    options.ranks = fuzz_u32(s);
    options.ranks >>= fuzz_u8(s) & 31;
    set_random(x, i, options);
}

static void set_step(struct scene *x, int i, uint64_t slot, uint64_t step) {
    const struct fuzz_end *e = &x->end[i];
    FUZZ_CHECK(pith_stream_set_step(e->work, e->stream, slot, step) == PITH_OK);
    FUZZ_CHECK(pith_stream_step(e->stream, slot) == step);
    FUZZ_CHECK(pith_stream_set_step(e->work, e->stream, x->sizes.slots, step) == PITH_ERR_ARG);
}

static void get_base(struct scene *x, int i, uint64_t slot) {
    struct fuzz_source none = {NULL, 0};
    struct fuzz_tensor t;
    uint64_t first, count;
    const uint32_t dtype = x->based ? x->layout.layout.base_dtype : (uint32_t)PITH_F32;
    FUZZ_CHECK(pith_plan_slot(x->plan, slot, &first, &count) == PITH_OK);
    fuzz_tensor_new(&t, &none, true, dtype, 1, &count);
    FUZZ_CHECK(pith_stream_get_base(x->end[i].work, x->end[i].stream, slot, &t.view) ==
               (x->based ? PITH_OK : PITH_ERR_STATE));
    if (x->based && x->layout.layout.flags & PITH_LAYOUT_EXTERNAL_BASE)
        FUZZ_CHECK(t.bytes == 0 ||
                   memcmp(t.memory, x->external[i] + first * pith_dtype_bytes(dtype), t.bytes) ==
                       0);
    fuzz_tensor_free(&t);
}

/* The set of a slot from frames, damaged or not, and what can be done with it. */
static void hold(struct scene *x, int i, uint64_t slot, struct fuzz_source *s) {
    enum { MOST = 3 };
    const struct fuzz_end *e = &x->end[i];
    const uint32_t n = 1 + fuzz_below(s, MOST);
    const void *frame[MOST];
    size_t length[MOST];
    for (uint32_t k = 0; k < n; k++) frame[k] = take_frame(x, s, &length[k]);
    pith_status status =
        pith_sparse_hold(e->work, e->stream, slot, frame, length, n, (int)(fuzz_u8(s) & 1));
    FUZZ_CHECK(fuzz_is_status(status) && fuzz_error_fits(pith_work_error(e->work), status));
    for (uint32_t k = 0; k < n; k++) guard_free((void *)(uintptr_t)frame[k], length[k]);
    pith_sparse_state is = {.size = sizeof is};
    if (!(x->layout.traits & PITH_TRAIT_SPARSE)) {
        FUZZ_CHECK(status == PITH_ERR_UNSUPPORTED);
        FUZZ_CHECK(pith_sparse_get_state(e->stream, slot, &is) == PITH_ERR_UNSUPPORTED);
        return;
    }
    uint64_t first, count, held;
    FUZZ_CHECK(pith_plan_slot(x->plan, slot, &first, &count) == PITH_OK);
    FUZZ_CHECK(pith_sparse_get_state(e->stream, slot, &is) == PITH_OK);
    FUZZ_CHECK(is.held <= count && (status != PITH_OK || is.holds));
    if (!is.holds) FUZZ_CHECK(is.held == 0);
    struct fuzz_tensor values;
    held = is.held;
    fuzz_tensor_new(&values, s, false, 1 + fuzz_below(s, 3), 1, &held);
    const bool transform =
        strstr(x->layout.spec, "transform=dct") || strstr(x->layout.spec, "transform=hadamard");
    const pith_status wanted = is.holds ? PITH_OK : PITH_ERR_STATE,
                      of_view = is.holds && transform ? PITH_ERR_UNSUPPORTED : wanted;
    FUZZ_CHECK(pith_sparse_gather(e->work, e->stream, slot, &x->value.view, &values.view) ==
               of_view);
    FUZZ_CHECK(pith_sparse_scatter(e->work, e->stream, slot, &values.view, 0.5f, &x->out[i].view) ==
               of_view);
    if (fuzz_u8(s) & 1) {
        status = pith_sparse_clear(e->work, e->stream, slot);
        FUZZ_CHECK(status == (x->feedback ? wanted : PITH_ERR_STATE));
    }
    fuzz_tensor_free(&values);
    const uint8_t how = fuzz_u8(s);
    size_t bytes;
    if (!is.holds || how & 1) return;
    if (how & 2) { /* what is held is its own set now, which may be another */
        x->last[i][slot] = pith_stream_step(e->stream, slot);
        status = fuzz_encode(e->work, e->stream, slot, &x->value.view, PITH_SAME_BLOCKS, x->single,
                             x->cap, &bytes);
        FUZZ_CHECK(status == PITH_OK);
        status = fuzz_decode(e->work, e->stream, slot, x->single, bytes, &x->out[i].view, 0);
        FUZZ_CHECK(status == PITH_OK || status == PITH_ERR_BASE);
        return;
    }
    /* Its values without indices: the slot itself still holds their set. */
    x->last[i][slot] = pith_stream_step(e->stream, slot);
    FUZZ_CHECK(fuzz_encode(e->work, e->stream, slot, &x->value.view, PITH_SAME_SET, x->single,
                           x->cap, &bytes) == PITH_OK);
    FUZZ_CHECK(fuzz_decode(e->work, e->stream, slot, x->single, bytes, &x->out[i].view, 0) ==
               PITH_OK);
}

static void other_call(struct scene *x, int i, uint64_t slot, struct fuzz_source *s) {
    uint64_t step;
    switch (fuzz_u8(s) % 8) {
    case 0:
    case 1: residual(x, i, s); break;
    case 2:
        step = fuzz_u32(s);
        set_step(x, i, slot, step << 32 | fuzz_u32(s));
        break;
    case 3: set_ranks(x, i, s); break;
    case 4: get_base(x, i, slot); break;
    case 5:
    case 6: hold(x, i, slot, s); break;
    default: leave(x, i, s); break;
    }
}

static void one_call(struct scene *x, struct fuzz_source *s) {
    const uint8_t how = fuzz_u8(s);
    const int i = how >> 7;
    const struct fuzz_end *e = &x->end[i];
    const uint64_t slot = (how >> 4 & 7) % x->sizes.slots;
    pith_stream_options options = {0};
    const bool more = (how >> 4 & 7) >= FUZZ_SLOTS_MAX; /* numbers beyond every slot's */
    switch (how & 15) {
    case 0: reset(x, i); break;
    case 1:
        FUZZ_CHECK(pith_stream_set_base(e->work, e->stream, &x->value.view, fuzz_u32(s)) ==
                   (x->based ? PITH_OK : PITH_ERR_STATE));
        break;
    case 2:
        options.seed = fuzz_u32(s);
        options.rng_stream = fuzz_u32(s);
        set_random(x, i, options);
        break;
    case 3:
    case 4: load_patched(x, i, s); break;
    case 5: encode(x, i, slot, x->sizes.key_bytes); break;
    case 6:
    case 7:
        if (more)
            encode_list(x, i, s);
        else
            encode(x, i, slot, false);
        break;
    case 8: fuzz_fill(&x->value, s); break;
    case 9: encode_and_roll_back(x, i, slot, fuzz_u8(s)); break;
    case 10: roll_back(x, i, fuzz_u8(s)); break;
    case 11:
        options.seed = fuzz_u8(s);
        options.rng_stream = fuzz_u8(s);
        set_random(x, i, options);
        set_step(x, i, slot, fuzz_u8(s) & 7);
        break;
    case 12: adapt(x, i, slot, s); break;
    case 13: decode(x, i, slot, s); break;
    case 14:
        if (more)
            decode_list(x, i, s);
        else
            decode(x, i, slot, s);
        break;
    default:
        if (more)
            other_call(x, i, slot, s);
        else
            decode(x, i, slot, s);
        break;
    }
}

static void bind(struct scene *x, const struct fuzz_end *e, int at) {
    x->external[at] = guard_new((size_t)x->external_bytes);
    if (!(x->layout.layout.flags & PITH_LAYOUT_EXTERNAL_BASE)) return;
    if (x->external_bytes) memset(x->external[at], 0, (size_t)x->external_bytes);
    FUZZ_CHECK(pith_stream_bind_base(e->work, e->stream, x->external[at], 0) == PITH_OK);
}

static void open_scene(struct scene *x, struct fuzz_source *s) {
    const pith_layout *l = &x->layout.layout;
    const pith_env threads = {.size = sizeof threads,
                              .run = fuzz_run_backwards,
                              .threads = 3,
                              .max_output_bytes = FUZZ_OUTPUT_LIMIT};
    fuzz_tensor_new(&x->value, s, false, l->dtype, l->ndim, l->shape);
    fuzz_fill(&x->value, s);
    x->based = l->base_dtype != PITH_NONE;
    x->feedback = strstr(x->layout.spec, "ef=full") || strstr(x->layout.spec, "ef=ema");
    for (int k = 0; k < 2 * ENDS; k++)
        fuzz_tensor_new(&x->out[k], s, true, l->dtype, 1, &x->layout.count);
    x->external_bytes = x->layout.count * pith_dtype_bytes(l->base_dtype);
    x->saved = guard_new((size_t)x->sizes.save_bytes);
    x->again = guard_new((size_t)x->sizes.save_bytes);
    x->cap = (size_t)(x->sizes.slot_bytes > x->sizes.key_bytes ? x->sizes.slot_bytes
                                                               : x->sizes.key_bytes);
    for (size_t k = 0; k < FRAMES; k++) x->frame[k] = guard_new(x->cap);
    for (size_t k = 0; k < LIST_MAX; k++) x->listed[k] = guard_new(x->cap);
    x->single = guard_new(x->cap);
    for (int k = 0; k < ENDS; k++) {
        fuzz_end_new(&x->end[k], x->plan, &x->env.env, NULL);
        fuzz_end_new(&x->twin[k], x->plan, &x->env.env, NULL);
        bind(x, &x->end[k], k);
        bind(x, &x->twin[k], ENDS + k);
        forget(x, k);
    }
    fuzz_end_new(&x->threads, x->plan, &threads, NULL);
}

static void close_scene(struct scene *x) {
    fuzz_end_free(&x->threads);
    for (int k = 0; k < ENDS; k++) {
        fuzz_end_free(&x->end[k]);
        fuzz_end_free(&x->twin[k]);
    }
    for (int k = 0; k < 2 * ENDS; k++) {
        guard_free(x->external[k], (size_t)x->external_bytes);
        fuzz_tensor_free(&x->out[k]);
    }
    for (size_t k = 0; k < FRAMES; k++) guard_free(x->frame[k], x->cap);
    for (size_t k = 0; k < LIST_MAX; k++) guard_free(x->listed[k], x->cap);
    guard_free(x->single, x->cap);
    guard_free(x->saved, (size_t)x->sizes.save_bytes);
    guard_free(x->again, (size_t)x->sizes.save_bytes);
    fuzz_tensor_free(&x->value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_source bytes = {data, size}, s = fuzz_split(&bytes, PARAMETER_BYTES);
    struct scene x = {.sizes = {.size = sizeof x.sizes}};
    fuzz_env_init(&x.env);
    fuzz_draw_layout(&x.layout, &s);
    if (x.layout.layout.base_dtype && fuzz_u8(&s) & 1)
        x.layout.layout.flags |= PITH_LAYOUT_EXTERNAL_BASE;
    const pith_status status =
        pith_plan_create(&x.plan, x.layout.spec, &x.layout.layout, &x.env.env, NULL);
    FUZZ_CHECK((status == PITH_OK) == (x.plan != NULL));
    if (x.plan) {
        const uint32_t made = x.env.allocations;
        FUZZ_CHECK(pith_plan_sizes(x.plan, &x.sizes) == PITH_OK);
        open_scene(&x, &s);
        load(&x, 0, bytes.bytes, bytes.length);
        for (int n = 0; n < CALLS_MAX && s.length; n++) one_call(&x, &s);
        close_scene(&x);
        FUZZ_CHECK(x.env.allocations == made);
    }
    pith_plan_destroy(x.plan);
    fuzz_env_done(&x.env);
    return 0;
}
