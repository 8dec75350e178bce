/* test_plan.c - what a plan says of itself: spec, layout, sizes, fingerprint; structs of any size.
 * SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

static const pith_plan *plan_of(const char *spec, const pith_layout *layout) {
    const pith_plan *plan;
    context("%s", spec);
    CHECK_OK(pith_plan_create(&plan, spec, layout, NULL, NULL));
    return plan;
}

static pith_layout layout_of(uint64_t rows, uint64_t columns) {
    pith_layout l = {.size = sizeof l, .dtype = PITH_F32, .ndim = 2};
    l.shape[0] = rows, l.shape[1] = columns;
    return l;
}

static void test_spec_of_a_plan(void **state) {
    (void)state;
    const pith_layout layout = layout_of(64, 96);
    const pith_plan *plan = plan_of("grad:bits=2,preset=intra", &layout);
    char text[PITH_SPEC_MAX], wanted[PITH_SPEC_MAX];
    CHECK_OK(pith_spec_check("grad:bits=2,preset=intra", wanted, sizeof wanted, NULL));
    CHECK_OK(pith_plan_spec(plan, text, sizeof text));
    CHECK(strcmp(text, wanted) == 0);
    const size_t length = strlen(wanted);
    CHECK_STATUS(PITH_ERR_SPACE, pith_plan_spec(plan, text, length));
    CHECK_OK(pith_plan_spec(plan, text, length + 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_spec(plan, NULL, 10));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_spec(NULL, text, sizeof text));
    pith_plan_destroy(plan);
}

static void test_layout_of_a_plan(void **state) {
    (void)state;
    pith_layout layout = layout_of(64, 96), got = {.size = sizeof got};
    layout.base_dtype = PITH_BF16;
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    layout.slots = 5;
    const pith_plan *plan = plan_of("wdiff", &layout);
    CHECK_OK(pith_plan_layout(plan, &got));
    CHECK(got.size == sizeof got && got.dtype == PITH_F32 && got.base_dtype == PITH_BF16);
    CHECK(got.ndim == 2 && got.shape[0] == 64 && got.shape[1] == 96 && got.slots == 5);
    CHECK(got.flags == PITH_LAYOUT_CHECKSUMS && got.slot_count == (64 * 96 + 4) / 5);
    const pith_plan *again = plan_of("wdiff", &got);
    CHECK(pith_plan_fingerprint(again) == pith_plan_fingerprint(plan));
    got.size = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_layout(plan, &got));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_layout(NULL, &got));
    pith_plan_destroy(again);
    pith_plan_destroy(plan);
}

static void test_exempt_of_a_plan(void **state) {
    (void)state;
    static const pith_exempt given[3] = {
        {0, 5, PITH_EXEMPT_EXACT}, {5, 1, PITH_EXEMPT_16}, {70, 26, PITH_EXEMPT_EXACT}};
    pith_layout layout = layout_of(1, 96);
    const pith_plan *plan = plan_of("grad", &layout);
    CHECK(pith_plan_exempt(plan, NULL, 0) == 0);
    pith_plan_destroy(plan);
    layout.exempt = given;
    layout.exempt_count = 3;
    layout.slots = 4;
    plan = plan_of("grad", &layout);
    for (size_t capacity = 0; capacity <= 4; capacity++) {
        pith_exempt got[4];
        memset(got, 0xA5, sizeof got);
        pith_exempt wanted[4];
        memset(wanted, 0xA5, sizeof wanted);
        memcpy(wanted, given, (capacity < 3 ? capacity : 3) * sizeof *given);
        CHECK(pith_plan_exempt(plan, capacity ? got : NULL, capacity) == 3);
        CHECK(memcmp(got, wanted, sizeof got) == 0);
    }
    pith_plan_destroy(plan);
}

/* Plans with one fingerprint take each other's frames, others do not. */
/* A codec either takes a base of some dtype or has none, and then takes none of any. */
static void test_bases(void **state) {
    (void)state;
    pith_codec_info info = {.size = sizeof info};
    for (uint32_t i = 0; pith_codec_at(i, &info) == PITH_OK; i++) {
        bool taken = false;
        for (uint32_t dtype = 1; dtype < 32; dtype++)
            for (uint32_t base = 1; base < 32; base++) {
                const pith_layout layout = flat_layout(dtype, base, 100);
                const pith_plan *plan = NULL;
                pith_error error = {.size = sizeof error};
                context("%s of dtype %u over a base of dtype %u", info.name, dtype, base);
                const pith_status status =
                    pith_plan_create(&plan, info.name, &layout, NULL, &error);
                pith_plan_destroy(plan);
                CHECK(status == PITH_OK || status == PITH_ERR_DTYPE);
                taken = taken || status == PITH_OK;
            }
        context("codec %s", info.name);
        CHECK(taken == ((info.traits & PITH_TRAIT_BASE) != 0));
    }
}

static void test_fingerprint(void **state) {
    (void)state;
    const uint64_t counts[2] = {4000, 2144};
    const pith_exempt exempt = {100, 50, PITH_EXEMPT_EXACT};
    pith_layout wide = layout_of(64, 96), flat = layout_of(96, 64), slots = wide, ragged = wide,
                checked = wide, some = wide, half = wide;
    slots.slots = ragged.slots = 2;
    ragged.slot_counts = counts;
    checked.flags = PITH_LAYOUT_CHECKSUMS;
    some.exempt = &exempt;
    some.exempt_count = 1;
    half.dtype = PITH_BF16;
    const struct {
        const char *spec;
        const pith_layout *layout;
    } rows[] = {{"grad", &wide},
                {"grad:bits=8", &wide},
                {"grad:group=64", &wide},
                {"grad:sign_seed=3", &wide},
                {"grad:block=32768", &wide},
                {"grad", &flat},
                {"grad", &slots},
                {"grad", &ragged},
                {"grad", &checked},
                {"grad", &some},
                {"grad", &half},
                {"wdiff", &wide},
                {"raw", &wide}};
    enum { ROWS = sizeof rows / sizeof *rows };
    uint64_t found[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        const pith_plan *plan = plan_of(rows[i].spec, rows[i].layout);
        found[i] = pith_plan_fingerprint(plan);
        for (size_t k = 0; k < i; k++) CHECK(found[k] != found[i]);
        pith_plan_destroy(plan);
    }
    static const char *const alike[] = {"grad:round=stochastic", "grad:search=mse", "grad:ef=full",
                                        "grad:preset=inter"};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        const pith_plan *plan = plan_of(alike[i], &wide);
        CHECK(pith_plan_fingerprint(plan) == found[0]);
        pith_plan_destroy(plan);
    }
    CHECK(found[0] == UINT64_C(0x2f17493b56098848)); /* the same on every machine */
    CHECK(pith_plan_fingerprint(NULL) == 0);
}

/* ---- Sizes ------------------------------------------------------------------------------------*/

/* The largest frames of all slots, of steps that are no key frames and of those that are. */
static void largest_frames(const struct stream *s, uint64_t most[2]) {
    most[0] = most[1] = 0;
    for (uint64_t slot = 0; slot < s->sizes.slots; slot++)
        for (int key = 0; key < 2; key++) {
            const uint64_t bytes = pith_plan_frame_bytes(s->plan, slot, key);
            if (bytes > most[key]) most[key] = bytes;
        }
}

static void test_frame_bytes(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t base_dtype;
        bool keys; /* pith_encode makes key frames by itself */
    } rows[] = {
        {"wdiff:bits=2,group=64", PITH_F32, false},
        {"wdiff:bits=2,group=64,key_every=3", PITH_F32, true},
        {"wdiff:bits=2,group=64,key_every=1", PITH_BF16, true},
        {"wdiff:entropy=zstd,group=64,key_every=3", PITH_F32, true},
        {"lossless", PITH_F32, false},
        {"lossless:key_every=2", PITH_F32, true},
        {"kv:group=16,page=16", PITH_F32, false},
        {"wdiff:bits=2,group=64", PITH_NONE, false},
        {"wdiff:bits=2,group=64,key_every=3", PITH_NONE, false},
        {"grad:ef=full", PITH_NONE, false},
        {"eb:abs=0.01", PITH_NONE, false},
        {"raw", PITH_NONE, false},
    };
    const uint64_t counts[3] = {100, 0, 1900};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stream s;
        uint64_t most[2];
        pith_layout layout = flat_layout(PITH_F32, rows[i].base_dtype, 2000);
        layout.slots = 3;
        layout.slot_counts = counts;
        context("%s, base %s", rows[i].spec, pith_dtype_name(rows[i].base_dtype));
        stream_open(&s, rows[i].spec, &layout, NULL);
        largest_frames(&s, most);
        CHECK(s.sizes.frame_bytes == most[0]);
        CHECK(s.sizes.key_bytes == (rows[i].base_dtype ? most[1] : 0));
        const uint64_t longest = most[1] > most[0] ? most[1] : most[0];
        CHECK(s.sizes.slot_bytes == (rows[i].keys ? longest : most[0]));
        CHECK(s.sizes.stream_bytes > 0 && s.sizes.save_bytes > 0);
        stream_close(&s);
    }
}

/* With frame_bytes for a frame every step is taken but those that are key frames. */
static void test_capacity_of_frame_bytes(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static float value[COUNT];
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, COUNT);
    const pith_view v = pith_view_flat(value, PITH_F32, COUNT);
    struct stream s;
    stream_open(&s, "wdiff:bits=2,group=64,key_every=4", &layout, NULL);
    const size_t small = (size_t)s.sizes.frame_bytes, large = (size_t)s.sizes.slot_bytes;
    uint8_t *frame = allocate(large);
    for (uint64_t step = 0; step < 9; step++) {
        const bool key = pith_plan_is_key(s.plan, step);
        size_t n = 1;
        context("step %u", (unsigned)step);
        CHECK(key == (step % 4 == 0));
        CHECK_STATUS(key ? PITH_ERR_SPACE : PITH_OK,
                     encode_one(s.work, s.stream, &v, 0, 0, frame, small, &n));
        CHECK(key ? n == 0 : n <= small);
        CHECK(pith_stream_step(s.stream, 0) == step + !key);
        if (key) CHECK_OK(encode_one(s.work, s.stream, &v, 0, 0, frame, large, &n));
    }
    free(frame);
    stream_close(&s);
}

/* ---- Structs that calls fill in ---------------------------------------------------------------*/

/* What the calls below ask. */
static const pith_plan *queried_plan;
static const pith_stream *queried_stream;
static const pith_kv *queried_cache;
static struct frame queried_frame;

static pith_status query_sizes(void *out) { return pith_plan_sizes(queried_plan, out); }
static pith_status query_layout(void *out) { return pith_plan_layout(queried_plan, out); }
static pith_status query_codec(void *out) { return pith_codec_at(1, out); }
static pith_status query_key(void *out) { return pith_codec_key_at(1, 1, out); }
static pith_status query_stats(void *out) { return pith_stream_stats(queried_stream, out); }
static pith_status query_kv_stats(void *out) { return pith_kv_stats(queried_cache, out); }
static pith_status query_info(void *out) {
    return pith_inspect(queried_frame.bytes, queried_frame.length, out, NULL);
}
static pith_status query_error(void *out) {
    return pith_spec_check("wdiff:bits=5", NULL, 0, out) == PITH_ERR_SPEC ? PITH_OK
                                                                          : PITH_ERR_INTERNAL;
}

enum { BEYOND = 600, STRUCT_MAX = 2048 };

/* A struct that holds 0xA5 but for its size. */
static void prepare(uint8_t *place, size_t size) {
    memset(place, 0xA5, STRUCT_MAX);
    memcpy(place, &size, sizeof size);
}

/* No byte behind the caller's size is written, what the library does not know becomes 0, and what
 * both know is what a caller of the library's own version gets. */
static void test_sizes_of_output_structs(void **state) {
    (void)state;
    static const struct {
        const char *name;
        pith_status (*ask)(void *);
        size_t size, end; /* end: of the last field */
        bool text;        /* the last field is a text, which may be cut */
    } rows[] = {
        {"pith_sizes", query_sizes, sizeof(pith_sizes), offsetof(pith_sizes, fixed) + 4, false},
        {"pith_layout", query_layout, sizeof(pith_layout), sizeof(pith_layout), false},
        {"pith_codec_info", query_codec, sizeof(pith_codec_info), sizeof(pith_codec_info), false},
        {"pith_key_info", query_key, sizeof(pith_key_info), offsetof(pith_key_info, traits) + 4,
         false},
        {"pith_stats", query_stats, sizeof(pith_stats), sizeof(pith_stats), false},
        {"pith_stats of a cache", query_kv_stats, sizeof(pith_stats), sizeof(pith_stats), false},
        {"pith_info", query_info, sizeof(pith_info), sizeof(pith_info), false},
        {"pith_error", query_error, sizeof(pith_error), offsetof(pith_error, text), true},
    };
    const uint64_t shape[3] = {64, 1, 16};
    float value[64 * 16] = {0};
    const pith_view v = pith_view_dense(value, PITH_F32, 3, shape);
    pith_layout layout = {.size = sizeof layout, .dtype = PITH_F32, .ndim = 3};
    struct stream s;
    pith_kv *cache;
    memcpy(layout.shape, shape, sizeof shape);
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) value[i] = (float)i;
    stream_open(&s, "kv:page=16,group=16", &layout, NULL);
    const size_t bytes = (size_t)pith_kv_bytes(s.plan, 0);
    void *memory = allocate(bytes);
    CHECK_OK(pith_kv_init(s.plan, memory, bytes, &cache, NULL));
    CHECK_OK(pith_kv_append(s.work, &cache, &v, 1));
    queried_plan = s.plan;
    queried_stream = s.stream;
    queried_cache = cache;
    queried_frame = stream_encode(&s, &v, 0, false);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t known = rows[i].size;
        const size_t sizes[] = {known, known + 8, known + BEYOND, known - 8, 24, 16};
        static uint8_t reference[STRUCT_MAX], got[STRUCT_MAX];
        prepare(reference, known);
        context("%s", rows[i].name);
        CHECK_OK(rows[i].ask(reference));
        CHECK(all_bytes(reference + known, STRUCT_MAX - known, 0xA5));
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            /* An error that ends before its text is left alone. */
            if (rows[i].text && sizes[k] <= rows[i].end) continue;
            const size_t both = sizes[k] < known ? sizes[k] : known;
            const size_t alike = both < rows[i].end ? both : rows[i].end;
            size_t size;
            context("%s of %zu bytes instead of %zu", rows[i].name, sizes[k], known);
            prepare(got, sizes[k]);
            CHECK_OK(rows[i].ask(got));
            memcpy(&size, got, sizeof size);
            CHECK(size == sizes[k]);
            CHECK(memcmp(got + sizeof size, reference + sizeof size, alike - sizeof size) == 0);
            if (rows[i].text && both == known)
                CHECK(strcmp((char *)got + rows[i].end, (char *)reference + rows[i].end) == 0);
            if (sizes[k] > known) CHECK(all_bytes(got + known, sizes[k] - known, 0));
            CHECK(all_bytes(got + sizes[k], STRUCT_MAX - sizes[k], 0xA5));
        }
    }
    free(queried_frame.bytes);
    free(memory);
    stream_close(&s);
}

/* A size of 0 asks for nothing of an error; a text is cut where the struct ends, with its 0. */
/* The momentum doubles what a stream has of the residual, of which there are two. */
static void test_streams_whose_bytes_are_no_number(void **state) {
    (void)state;
    const pith_plan *plan;
    pith_layout layout = layout_of(1, UINT64_C(1) << 59);
    plan = plan_of("topk:k=9,values=f16,ef=full,momentum=0.9", &layout);
    pith_sizes sizes = {.size = sizeof sizes};
    CHECK_OK(pith_plan_sizes(plan, &sizes));
    CHECK(sizes.stream_bytes > UINT64_C(1) << 63);
    pith_plan_destroy(plan);
    layout.shape[1] = (UINT64_C(1) << 60) - 1;
    plan = plan_of("topk:k=9,values=f16,ef=full", &layout);
    CHECK_OK(pith_plan_sizes(plan, &sizes));
    CHECK(sizes.stream_bytes > UINT64_C(1) << 63);
    pith_plan_destroy(plan);
    CHECK_STATUS(PITH_ERR_SHAPE, pith_plan_create(&plan, "topk:k=9,values=f16,ef=full,momentum=0.9",
                                                  &layout, NULL, NULL));
    CHECK(!plan);
}

static void test_short_errors(void **state) {
    (void)state;
    for (size_t size = 0; size <= sizeof(pith_error); size++) {
        static uint8_t got[STRUCT_MAX];
        const size_t head = offsetof(pith_error, text);
        context("an error of %zu bytes", size);
        prepare(got, size);
        CHECK_OK(query_error(got));
        const size_t end = size < sizeof size ? sizeof size : size;
        CHECK(all_bytes(got + end, STRUCT_MAX - end, 0xA5));
        if (size > head) CHECK(memchr(got + head, 0, size - head) != NULL);
    }
}

static void test_statuses(void **state) {
    (void)state;
    CHECK(strcmp(pith_status_name(PITH_ERR_TIMEOUT), "PITH_ERR_TIMEOUT") == 0);
    CHECK(strcmp(pith_status_text(PITH_ERR_BASE), "the base is not the encoder's") == 0);
    CHECK(strstr(pith_status_text(PITH_ERR_BUSY), "stream") != NULL); /* not of channels alone */
    for (int s = 0; s >= -100; s--) {
        const bool known = strcmp(pith_status_name((pith_status)s), "PITH_ERR_UNKNOWN") != 0;
        const char *const text = pith_status_text((pith_status)s);
        CHECK(text && text[0]);
        CHECK(known == (strcmp(text, "a status that this pith does not know") != 0));
    }
}

/* What is wrong with a layout is said with what was found and expected. */
static void test_texts_of_layouts(void **state) {
    (void)state;
    static pith_exempt ranges[PITH_EXEMPT_MAX];
    for (size_t i = 0; i < PITH_EXEMPT_MAX; i++)
        ranges[i] = (pith_exempt){2 * i, 1, PITH_EXEMPT_EXACT};
    const char source = 0; /* nothing of it is read */
    const struct {
        const char *spec;
        pith_layout layout;
        pith_status status;
        const char *text;
    } rows[] = {
        {"raw",
         {.ndim = 1, .flags = 0x90000001},
         PITH_ERR_UNSUPPORTED,
         "layout flags 2415919105, of which this pith does not know 2415919104"},
        {"wdiff",
         {.ndim = 1, .flags = PITH_LAYOUT_CHECK_BASE},
         PITH_ERR_UNSUPPORTED,
         "base_dtype is none: no base to check"},
        {"grad",
         {.ndim = 1, .base_dtype = PITH_F32, .flags = PITH_LAYOUT_CHECK_BASE},
         PITH_ERR_DTYPE,
         "grad takes no base"},
        {"wdiff:base_hash=off",
         {.ndim = 1, .base_dtype = PITH_F32, .flags = PITH_LAYOUT_CHECK_BASE},
         PITH_ERR_UNSUPPORTED,
         "base_hash=off keeps no hash to check the base with"},
        {"raw", {.ndim = 1, .source_bytes = 3}, PITH_ERR_ARG, "source is NULL, source_bytes is 3"},
        {"raw",
         {.ndim = 1, .source = &source, .source_bytes = PITH_SOURCE_MAX + 1},
         PITH_ERR_ARG,
         "at most 1048576 bytes of source, not 1048577"},
        {"raw",
         {.ndim = 3, .shape = {7, UINT64_C(1) << 62, 1}},
         PITH_ERR_SHAPE,
         "at most 1152921504606846975 elements, more in the first 2 extents"},
        {"raw",
         {.ndim = 1, .shape = {UINT64_C(1) << 61}},
         PITH_ERR_SHAPE,
         "at most 1152921504606846975 elements, more in the first 1 extent"},
        {"eb:block=whole,abs=1",
         {.ndim = 1, .shape = {(1 << 24) + 1}},
         PITH_ERR_UNSUPPORTED,
         "block=whole takes at most 16777216 elements, not 16777217"},
        {"grad",
         {.ndim = 1,
          .shape = {2 * PITH_EXEMPT_MAX},
          .source = &source,
          .source_bytes = PITH_SOURCE_MAX,
          .exempt = ranges,
          .exempt_count = PITH_EXEMPT_MAX},
         PITH_ERR_ARG,
         "a header has space for 2097152 bytes of exempt ranges and source, not 2097184"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pith_layout layout = rows[i].layout;
        const pith_plan *plan;
        pith_error error = {.size = sizeof error};
        layout.size = sizeof layout;
        layout.dtype = PITH_F32;
        context("%s", rows[i].text);
        CHECK_STATUS(rows[i].status, pith_plan_create(&plan, rows[i].spec, &layout, NULL, &error));
        CHECK(!plan && strcmp(error.text, rows[i].text) == 0);
    }
}

/* Frames of more bytes than readers take were planned; those of kv were said to have 112, and
 * encoding wrote past these. */
static void test_frames_too_large_to_be_read(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype;
        pith_status status;
    } rows[] = {
        {"kv", PITH_F32, PITH_ERR_SHAPE},  {"kv:page=16", PITH_BF16, PITH_ERR_SHAPE},
        {"raw", PITH_F64, PITH_ERR_SHAPE}, {"lossless", PITH_I64, PITH_ERR_SHAPE},
        {"eb", PITH_F64, PITH_ERR_SHAPE},  {"raw", PITH_F32, PITH_OK},
        {"grad", PITH_F32, PITH_OK},       {"topk:k=9", PITH_F32, PITH_ERR_SHAPE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int ragged = 0; ragged < 2; ragged++) {
            const uint64_t count = (UINT64_C(1) << 60) - 1, counts[2] = {7, count - 7};
            const pith_view view =
                pith_view_dense(NULL, rows[i].dtype, 2, (const uint64_t[]){count, 1});
            const bool kv = strncmp(rows[i].spec, "kv", 2) == 0;
            const pith_layout layout = {.size = sizeof layout,
                                        .dtype = rows[i].dtype,
                                        .ndim = 2,
                                        .shape = {count, 1},
                                        .slots = ragged && !kv ? 2 : 0,
                                        .slot_counts = ragged && !kv ? counts : NULL};
            const pith_plan *plan;
            uint64_t bytes = 0;
            context("%s of %s", rows[i].spec, pith_dtype_name(rows[i].dtype));
            CHECK_STATUS(rows[i].status,
                         pith_plan_create(&plan, rows[i].spec, &layout, NULL, NULL));
            CHECK_STATUS(rows[i].status,
                         pith_compress_bound(rows[i].spec, &view, NULL, NULL, &bytes, NULL));
            CHECK((plan != NULL) == (rows[i].status == PITH_OK));
            CHECK((bytes != 0) == (rows[i].status == PITH_OK));
            pith_plan_destroy(plan);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_of_a_plan),
        cmocka_unit_test(test_texts_of_layouts),
        cmocka_unit_test(test_frames_too_large_to_be_read),
        cmocka_unit_test(test_layout_of_a_plan),
        cmocka_unit_test(test_exempt_of_a_plan),
        cmocka_unit_test(test_bases),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_frame_bytes),
        cmocka_unit_test(test_capacity_of_frame_bytes),
        cmocka_unit_test(test_sizes_of_output_structs),
        cmocka_unit_test(test_streams_whose_bytes_are_no_number),
        cmocka_unit_test(test_short_errors),
        cmocka_unit_test(test_statuses),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
