/* test_slots.c - tensors cut into slots: even, ragged, short and empty ones; pieces and wholes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "util.h"

/* A way to cut N elements. */
struct cut {
    uint64_t count, slots, slot_count;
    const uint64_t *slot_counts;
};

static const uint64_t ragged[5] = {0, 700, 1, 0, 299}, all_in_last[3] = {0, 0, 1000}, none[2] = {0};
static const struct cut cuts[] = {
    {1000, 0, 0, NULL},    {1000, 1, 0, NULL},    {1000, 4, 0, NULL},
    {1000, 3, 0, NULL},    {1000, 3, 400, NULL},  {1000, 5, 400, NULL},
    {10, 64, 0, NULL},     {0, 3, 0, NULL},       {1, 1, 1, NULL},
    {1000, 2, 1000, NULL}, {1000, 5, 0, ragged},  {1000, 3, 0, all_in_last},
    {0, 2, 0, none},       {1000, 1000, 0, NULL}, {1000, 7, 1 << 20, NULL},
};
enum { CUTS = sizeof cuts / sizeof cuts[0] };

static const char *const specs[] = {
    "wdiff:group=16,block=64", "lossless:block=64", "wdiff:group=32,entropy=zstd,block=128",
    "wdiff:group=32,entropy=rans,block=512", "wdiff:group=16,key_every=2"};

static pith_layout cut_layout(const struct cut *c, uint32_t flags) {
    pith_layout l = flat_layout(PITH_F32, PITH_F32, c->count);
    l.slots = c->slots;
    l.slot_count = c->slot_count;
    l.slot_counts = c->slot_counts;
    l.flags = flags;
    return l;
}

static void expected_slot(const struct cut *c, uint64_t slot, uint64_t *first, uint64_t *count) {
    if (c->slot_counts) {
        *first = 0;
        for (uint64_t i = 0; i < slot; i++) *first += c->slot_counts[i];
        *count = c->slot_counts[slot];
        return;
    }
    const uint64_t slots = c->slots ? c->slots : 1;
    const uint64_t each = c->slot_count ? c->slot_count : (c->count + slots - 1) / slots;
    const uint64_t from = slot * each < c->count ? slot * each : c->count;
    const uint64_t to = (slot + 1) * each < c->count ? (slot + 1) * each : c->count;
    *first = from;
    *count = to - from;
}

static void check_geometry(const struct cut *c, const struct stream *s) {
    uint64_t first, count, wanted_first, wanted_count, sum = 0, largest = 0;
    const uint64_t slots = c->slots ? c->slots : 1;
    CHECK(s->sizes.slots == slots);
    for (uint64_t i = 0; i < slots; i++) {
        CHECK_OK(pith_plan_slot(s->plan, i, &first, &count));
        expected_slot(c, i, &wanted_first, &wanted_count);
        CHECK(count == wanted_count && (first == wanted_first || count == 0));
        sum += count;
        if (pith_plan_frame_bytes(s->plan, i, 0) > largest)
            largest = pith_plan_frame_bytes(s->plan, i, 0);
    }
    CHECK(sum == c->count);
    CHECK(largest <= s->sizes.slot_bytes && s->sizes.key_bytes > 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_slot(s->plan, slots, &first, &count));
    CHECK(pith_plan_frame_bytes(s->plan, slots, 0) == 0);
}

/* The frame of a slot is what the same values alone make: slots are independent. */
static void check_independent(const char *spec, const float *value, uint64_t count,
                              const struct frame *f, size_t header) {
    float *zeros = allocate(count * 4);
    memset(zeros, 0, count * 4);
    const pith_view v = pith_view_flat(value, PITH_F32, count);
    const pith_view b = pith_view_flat(zeros, PITH_F32, count);
    struct frame alone = compress(spec, &v, &b, PITH_LAYOUT_CHECKSUMS);
    CHECK(alone.length == f->length);
    CHECK(memcmp(alone.bytes + header, f->bytes + header, f->length - header) == 0);
    free(alone.bytes);
    free(zeros);
}

/* One step, first slot last, from whole and from piece views in turn. */
static void send_all(const struct cut *c, const char *spec, struct stream *a, struct stream *b,
                     float *value, float *out, int step) {
    const uint64_t slots = a->sizes.slots;
    for (uint64_t i = slots; i-- > 0;) {
        uint64_t first, count;
        CHECK_OK(pith_plan_slot(a->plan, i, &first, &count));
        const bool whole = i % 2 == 0;
        const pith_view in = whole ? pith_view_flat(value, PITH_F32, c->count)
                                   : pith_view_flat(value + first, PITH_F32, count);
        const pith_view to = whole ? pith_view_flat(out + first, PITH_F32, count)
                                   : pith_view_flat(out, PITH_F32, c->count);
        struct frame f = stream_encode(a, &in, i, false);
        CHECK_OK(decode_one(b->work, b->stream, i, f.bytes, f.length, &to, 0));
        CHECK(pith_stream_base_hash(a->stream, i) == pith_stream_base_hash(b->stream, i));
        CHECK(pith_stream_step(b->stream, i) == (uint64_t)step + 1);
        if (step == 0 && !strstr(spec, "key_every="))
            check_independent(spec, value + first, count, &f, header_of(&f));
        free(f.bytes);
    }
}

static void one_cut(const char *spec, const struct cut *c) {
    struct stream a, b;
    const pith_layout layout = cut_layout(c, PITH_LAYOUT_CHECKSUMS);
    stream_open(&a, spec, &layout, NULL);
    stream_open(&b, spec, &layout, NULL);
    check_geometry(c, &a);
    float *value = allocate(c->count * 4), *out = allocate(c->count * 4),
          *base = allocate(c->count * 4);
    for (int step = 0; step < 3; step++) {
        gen_fill(GEN_NOISE, (uint64_t)step, PITH_F32, value, c->count);
        send_all(c, spec, &a, &b, value, out, step);
        const pith_view view = pith_view_flat(base, PITH_F32, c->count);
        CHECK_OK(pith_stream_get_base(a.work, a.stream, 0, &view));
        CHECK(memcmp(base, out, c->count * 4) == 0);
    }
    CHECK_OK(pith_stream_verify(a.work, a.stream));
    CHECK_OK(pith_stream_verify(b.work, b.stream));
    stream_close(&a);
    stream_close(&b);
    free(value);
    free(out);
    free(base);
}

static void test_cuts(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (size_t i = 0; i < CUTS; i++) {
            context("%s, cut %zu", specs[s], i);
            one_cut(specs[s], &cuts[i]);
        }
}

/* Slots lie at one stride in one buffer; a frame's slot may be longer than the frame. */
static void test_strided_buffer(void **state) {
    (void)state;
    context("strided buffer");
    float value[1000], out[1000];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, 1000);
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 1000);
    layout.slots = 7;
    struct stream s;
    stream_open(&s, "wdiff:bits=8", &layout, NULL);
    const size_t stride = (size_t)s.sizes.slot_bytes;
    uint8_t *buffer = allocate(7 * stride);
    memset(buffer, 0xEE, 7 * stride);
    const pith_view in = pith_view_flat(value, PITH_F32, 1000);
    const pith_view to = pith_view_flat(out, PITH_F32, 1000);
    CHECK(s.sizes.fixed && s.sizes.stream_bytes > 0 && s.sizes.save_bytes > 0);
    for (size_t i = 0; i < 7; i++) {
        size_t written;
        CHECK_OK(encode_one(s.work, s.stream, &in, i, 0, buffer + i * stride, stride, &written));
        CHECK(written == pith_plan_frame_bytes(s.plan, i, 0));
        CHECK(all_bytes(buffer + i * stride + written, stride - written, 0xEE));
    }
    for (size_t i = 0; i < 7; i++)
        CHECK_OK(decode_one(s.work, s.stream, i, buffer + i * stride, stride, &to, 0));
    for (size_t i = 0; i < 1000; i++) CHECK(out[i] - value[i] < 2e-3f && value[i] - out[i] < 2e-3f);
    free(buffer);
    stream_close(&s);
}

/* The short frame of the last slot is not the frame of a full one. */
static void test_frame_of_another_slot(void **state) {
    (void)state;
    context("frame of another slot");
    float value[10] = {0}, out[10];
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    layout.slots = 3;
    struct stream s;
    stream_open(&s, "raw", &layout, NULL);
    const pith_view in = pith_view_flat(value, PITH_F32, 10),
                    to = pith_view_flat(out, PITH_F32, 10);
    struct frame f = stream_encode(&s, &in, 2, false);
    CHECK_STATUS(PITH_ERR_MISMATCH, decode_one(s.work, s.stream, 0, f.bytes, f.length, &to, 0));
    CHECK_STATUS(PITH_ERR_ARG, decode_one(s.work, s.stream, 3, f.bytes, f.length, &to, 0));
    CHECK_OK(decode_one(s.work, s.stream, 2, f.bytes, f.length, &to, 0));
    free(f.bytes);
    stream_close(&s);
}

/* Decode slot `from`, whose frame is given, as slot `to`. */
static void cross(struct stream *s, const struct frame *f, uint64_t to, pith_status wanted,
                  const float *values) {
    float out[4] = {7, 7, 7, 7};
    const pith_view view = pith_view_flat(out, PITH_F32, 4);
    CHECK_STATUS(wanted, decode_one(s->work, s->stream, to, f->bytes, f->length, &view, 0));
    for (int i = 0; i < 4; i++) CHECK(out[i] == (wanted == PITH_OK ? values[i] : 7));
}

static const float three_slots[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* Frames do not carry their slot: without a base those of slots of one size are one another's. */
static void test_frame_of_an_equal_slot(void **state) {
    (void)state;
    context("frame of another slot of the same size");
    const pith_view in = pith_view_flat(three_slots, PITH_F32, 12);
    const pith_exempt ends[2] = {{0, 1, PITH_EXEMPT_EXACT}, {8, 1, PITH_EXEMPT_EXACT}};
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 12);
    struct stream s;
    layout.slots = 3;
    stream_open(&s, "raw", &layout, NULL);
    struct frame f = stream_encode(&s, &in, 2, false);
    for (uint64_t to = 0; to < 3; to++) cross(&s, &f, to, PITH_OK, three_slots + 8);
    const void *frames[2] = {f.bytes, f.bytes};
    const size_t lengths[2] = {f.length, f.length};
    float sum[4];
    const pith_view view = pith_view_flat(sum, PITH_F32, 4);
    CHECK_OK(reduce_one(s.work, s.stream, 0, frames, lengths, 2, 1, &view));
    CHECK(sum[0] == 18 && sum[3] == 24);
    free(f.bytes);
    stream_close(&s);
    layout.exempt = ends;
    layout.exempt_count = 2;
    stream_open(&s, "grad:group=32,rotate=0", &layout, NULL);
    f = stream_encode(&s, &in, 2, false);
    frames[0] = f.bytes;
    CHECK_OK(reduce_one(s.work, s.stream, 0, frames, &f.length, 1, 1, &view));
    CHECK_STATUS(PITH_ERR_MISMATCH,
                 reduce_one(s.work, s.stream, 1, frames, &f.length, 1, 1, &view));
    free(f.bytes);
    stream_close(&s);
}

/* With a base its hash tells slots apart as far as the bases differ. */
static void test_base_of_an_equal_slot(void **state) {
    (void)state;
    static const char *const names[2] = {"lossless", "lossless:base_hash=off"};
    const pith_view in = pith_view_flat(three_slots, PITH_F32, 12);
    for (int off = 0; off < 2; off++) {
        const float start[12] = {1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}; /* slots 1 and 2 alike */
        const pith_view base = pith_view_flat(start, PITH_F32, 12);
        pith_layout layout = flat_layout(PITH_F32, PITH_F32, 12);
        struct stream a, b;
        layout.slots = 3;
        context("%s, frame of another slot of the same size", names[off]);
        stream_open(&a, names[off], &layout, NULL);
        stream_open(&b, names[off], &layout, NULL);
        CHECK_OK(pith_stream_set_base(a.work, a.stream, &base, 0));
        CHECK_OK(pith_stream_set_base(b.work, b.stream, &base, 0));
        struct frame f = stream_encode(&a, &in, 2, false), next = stream_encode(&a, &in, 2, false);
        struct frame key = stream_encode(&a, &in, 2, true);
        cross(&b, &next, 2, PITH_ERR_STEP, NULL);
        if (!off) cross(&b, &f, 0, PITH_ERR_BASE, NULL);
        cross(&b, &f, 1, PITH_OK, three_slots + 8);
        cross(&b, &f, 1, PITH_ERR_STEP, NULL);
        cross(&b, &key, 0, PITH_OK, three_slots + 8);
        free(f.bytes);
        free(next.bytes);
        free(key.bytes);
        stream_close(&a);
        stream_close(&b);
    }
}

static void test_bad_cuts(void **state) {
    (void)state;
    const uint64_t less[2] = {4, 5}, more[2] = {6, 5}, wraps[2] = {UINT64_MAX, 11};
    const struct cut bad[] = {
        {10, 3, 3, NULL}, {10, 1, 9, NULL}, {10, 2, 0, less}, {10, 2, 0, more}, {10, 2, 0, wraps}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const pith_plan *plan = (const pith_plan *)(uintptr_t)1;
        pith_error error = {.size = sizeof error};
        const pith_layout layout = cut_layout(&bad[i], 0);
        context("bad cut %zu", i);
        CHECK_STATUS(PITH_ERR_SHAPE, pith_plan_create(&plan, "wdiff", &layout, NULL, &error));
        CHECK(plan == NULL && error.text[0] != 0);
    }
    const pith_plan *plan;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    layout.slots = UINT64_MAX;
    CHECK(pith_plan_create(&plan, "raw", &layout, NULL, NULL) != PITH_OK && plan == NULL);
}

static void test_view_of_neither(void **state) {
    (void)state;
    context("views that are neither slot nor tensor");
    float value[12] = {0};
    uint8_t buffer[256];
    size_t written = 99;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    layout.slots = 2;
    struct stream s;
    stream_open(&s, "raw", &layout, NULL);
    for (uint64_t n = 0; n <= 12; n++) {
        const pith_view v = pith_view_flat(value, PITH_F32, n);
        const pith_status wanted = n == 5 || n == 10 ? PITH_OK : PITH_ERR_SHAPE;
        CHECK_STATUS(wanted,
                     encode_one(s.work, s.stream, &v, 0, 0, buffer, sizeof buffer, &written));
        CHECK(wanted == PITH_OK || written == 0);
    }
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_strided_buffer),
        cmocka_unit_test(test_frame_of_another_slot),
        cmocka_unit_test(test_frame_of_an_equal_slot),
        cmocka_unit_test(test_base_of_an_equal_slot),
        cmocka_unit_test(test_bad_cuts),
        cmocka_unit_test(test_view_of_neither),
    };
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
