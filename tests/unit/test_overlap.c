/* test_overlap.c - calls refuse memory that they would write before they have read it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "util.h"

enum { N = 1000, BYTES = N * 4, CAP = 8192, ARENA = 3 * CAP, PLACES = 5 };

/* Where n bytes lie that overlap m bytes in the middle of the arena, or touch them. */
static uint8_t *place(uint8_t *arena, size_t i, size_t n, size_t m) {
    const size_t at[PLACES] = {CAP - n, CAP - n + 1, CAP, CAP + m - 1, CAP + m};
    return arena + at[i];
}

/* Those that touch are taken. */
static pith_status wanted(size_t i) { return i == 0 || i + 1 == PLACES ? PITH_OK : PITH_ERR_ARG; }

static pith_view flat(const void *data) { return pith_view_flat(data, PITH_F32, N); }

static void open_bound(struct stream *s, const char *spec, uint64_t slots, void *base) {
    pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
    layout.slots = slots;
    stream_open(s, spec, &layout, NULL);
    CHECK_OK(pith_stream_bind_base(s->work, s->stream, base, 0));
}

static void open_plain(struct stream *s, const char *spec) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    stream_open(s, spec, &layout, NULL);
}

/* Opens a stream and makes a frame of noise with it. */
static struct frame open_with_a_frame(struct stream *s) {
    static float value[N];
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    open_plain(s, "grad");
    const pith_view v = flat(value);
    return stream_encode(s, &v, 0, false);
}

static void test_encode(void **state) {
    (void)state;
    static uint8_t arena[ARENA], before[ARENA];
    struct stream s;
    uint64_t step = 0;
    open_plain(&s, "grad");
    const size_t n = (size_t)s.sizes.frame_bytes;
    for (size_t i = 0; i < PLACES; i++) {
        size_t length = 1;
        context("place %zu", i);
        gen_fill(GEN_NOISE, i, PITH_F32, arena + CAP, N);
        memcpy(before, arena, ARENA);
        const pith_view v = flat(arena + CAP);
        CHECK_STATUS(wanted(i),
                     encode_one(s.work, s.stream, &v, 0, 0, place(arena, i, n, BYTES), n, &length));
        step += wanted(i) == PITH_OK;
        CHECK(pith_stream_step(s.stream, 0) == step);
        CHECK(wanted(i) == PITH_OK || (length == 0 && memcmp(arena, before, ARENA) == 0));
    }
    stream_close(&s);
}

static void test_encode_with_a_base(void **state) {
    (void)state;
    static uint8_t arena[ARENA];
    uint8_t frame[CAP];
    struct stream s;
    size_t length;
    gen_fill(GEN_NOISE, 1, PITH_F32, arena + CAP, N);
    open_bound(&s, "wdiff:group=16,block=64", 1, arena + CAP);
    const pith_view own = flat(arena + CAP), next = flat(arena + CAP + 4),
                    halves = pith_view_flat(arena + CAP, PITH_BF16, N);
    CHECK_STATUS(PITH_ERR_ARG, encode_one(s.work, s.stream, &next, 0, 0, frame, CAP, &length));
    CHECK_STATUS(PITH_ERR_DTYPE, encode_one(s.work, s.stream, &halves, 0, 0, frame, CAP, &length));
    CHECK_OK(encode_one(s.work, s.stream, &own, 0, 0, frame, CAP, &length));
    static float value[N];
    const pith_view v = flat(value);
    for (size_t i = 0; i < PLACES; i++) {
        const size_t n = (size_t)s.sizes.frame_bytes;
        context("place %zu", i);
        CHECK_STATUS(wanted(i),
                     encode_one(s.work, s.stream, &v, 0, 0, place(arena, i, n, BYTES), n, &length));
    }
    stream_close(&s);
}

static void test_decode(void **state) {
    (void)state;
    static uint8_t arena[ARENA];
    struct stream s;
    struct frame f = open_with_a_frame(&s);
    for (size_t k = 0; k < 2 * PLACES; k++) {
        const size_t i = k / 2;
        const pith_view to = flat(place(arena, i, BYTES, f.length));
        context("place %zu, %s", i, k % 2 ? "added" : "decoded");
        memset(arena, 0, ARENA);
        memcpy(arena + CAP, f.bytes, f.length);
        CHECK_STATUS(wanted(i), decode_one(s.work, s.stream, 0, arena + CAP, f.length, &to,
                                           k % 2 ? PITH_ADD : 0));
        CHECK(memcmp(arena + CAP, f.bytes, f.length) == 0);
    }
    free(f.bytes);
    stream_close(&s);
}

/* Values may take the place of their base, slot by slot too, and no other memory of it. */
static void test_decode_with_a_base(void **state) {
    (void)state;
    enum { SLOTS = 3 };
    static const char *const specs[] = {"wdiff:group=16,block=64", "lossless"};
    static uint8_t arena[ARENA];
    static float first[N], value[N], got[N];
    for (size_t k = 0; k < 2 * SLOTS; k++) {
        struct stream from, to;
        static float base[N];
        context("%s, slot %zu", specs[k % 2], k / 2);
        gen_fill(GEN_NOISE, 1, PITH_F32, first, N);
        gen_fill(GEN_NOISE, 2, PITH_F32, value, N);
        memcpy(base, first, sizeof base);
        memcpy(arena + CAP, first, sizeof first);
        open_bound(&from, specs[k % 2], SLOTS, base);
        open_bound(&to, specs[k % 2], SLOTS, arena + CAP);
        const pith_view v = flat(value);
        struct frame f = stream_encode(&from, &v, k / 2, false);
        uint64_t at, count;
        CHECK_OK(pith_plan_slot(to.plan, k / 2, &at, &count));
        for (size_t i = 1; i + 1 < PLACES; i++) {
            const pith_view bad =
                pith_view_flat(place(arena, i, (size_t)count * 4, BYTES), PITH_F32, count);
            if (bad.data == arena + CAP && at == 0) continue;
            CHECK_STATUS(PITH_ERR_ARG,
                         decode_one(to.work, to.stream, k / 2, f.bytes, f.length, &bad, 0));
        }
        CHECK(memcmp(arena + CAP, first, sizeof first) == 0);
        CHECK_STATUS(PITH_ERR_ARG,
                     decode_one(to.work, to.stream, k / 2, arena + CAP, BYTES, NULL, 0));
        const pith_view own =
            k % 4 < 2 ? flat(arena + CAP) : pith_view_flat(arena + CAP + at * 4, PITH_F32, count);
        CHECK_OK(decode_one(to.work, to.stream, k / 2, f.bytes, f.length, &own, 0));
        CHECK(memcmp(arena + CAP, base, sizeof base) == 0);
        CHECK_OK(pith_stream_verify(to.work, to.stream));
        const pith_view all = flat(got);
        CHECK_OK(pith_stream_get_base(to.work, to.stream, 0, &all));
        CHECK(memcmp(got, base, sizeof base) == 0);
        free(f.bytes);
        stream_close(&from);
        stream_close(&to);
    }
}

static void test_base_in_and_out(void **state) {
    (void)state;
    static float live[2 * N], first[N];
    struct stream s;
    gen_fill(GEN_NOISE, 1, PITH_F32, first, N);
    memcpy(live + 1, first, sizeof first);
    open_bound(&s, "wdiff", 1, live + 1);
    for (size_t i = 0; i < 3; i++) {
        const pith_view v = flat(live + i);
        const pith_status status = i == 1 ? PITH_OK : PITH_ERR_ARG;
        context("from element %zu", i);
        CHECK_STATUS(status, pith_stream_get_base(s.work, s.stream, 0, &v));
        CHECK_STATUS(status, pith_stream_set_base(s.work, s.stream, &v, 0));
        CHECK(memcmp(live + 1, first, sizeof first) == 0);
    }
    CHECK_OK(pith_stream_verify(s.work, s.stream));
    stream_close(&s);
}

static void test_reduce(void **state) {
    (void)state;
    static uint8_t arena[ARENA];
    struct stream s;
    struct frame f = open_with_a_frame(&s);
    for (size_t k = 0; k < 2 * PLACES; k++) {
        const size_t i = k / 2;
        const void *frames[2] = {f.bytes, f.bytes};
        const size_t lengths[2] = {f.length, f.length};
        const pith_view to = flat(place(arena, i, BYTES, f.length));
        frames[k % 2] = arena + CAP;
        context("place %zu, frame %zu", i, k % 2);
        memcpy(arena + CAP, f.bytes, f.length);
        CHECK_STATUS(wanted(i), reduce_one(s.work, s.stream, 0, frames, lengths, 2, 1, &to));
        CHECK(memcmp(arena + CAP, f.bytes, f.length) == 0);
    }
    free(f.bytes);
    stream_close(&s);
}

static void test_without_a_stream(void **state) {
    (void)state;
    static uint8_t arena[ARENA];
    static float base[N], value[N], got[N];
    gen_fill(GEN_NOISE, 1, PITH_F32, base, N);
    gen_fill(GEN_NOISE, 2, PITH_F32, value, N);
    const char *const spec = "wdiff:group=16,block=64";
    const pith_view v = flat(value), b = flat(base), g = flat(got), in = flat(arena + CAP);
    struct frame f = compress(spec, &v, &b, 0);
    CHECK_OK(pith_decompress(f.bytes, f.length, &b, NULL, &g, NULL));
    uint64_t most;
    CHECK_OK(pith_compress_bound(spec, &v, &b, NULL, &most, NULL));
    for (size_t i = 0; i < PLACES; i++) {
        const size_t n = (size_t)most;
        size_t length;
        uint8_t *const dst = place(arena, i, n, BYTES);
        context("place %zu", i);
        CHECK_STATUS(wanted(i), pith_compress(spec, &in, &b, NULL, NULL, dst, n, &length, NULL));
        CHECK_STATUS(wanted(i), pith_compress(spec, &v, &in, NULL, NULL, dst, n, &length, NULL));
        const pith_view to = flat(place(arena, i, BYTES, f.length));
        memcpy(arena + CAP, f.bytes, f.length);
        CHECK_STATUS(wanted(i), pith_decompress(arena + CAP, f.length, &b, NULL, &to, NULL));
        CHECK_STATUS(wanted(i), pith_decode_range(arena + CAP, f.length, &b, 0, NULL, &to, NULL));
    }
    for (uint64_t first = 0; first < 5; first++) {
        const pith_view to = pith_view_flat(arena + CAP + 8, PITH_F32, N - 4);
        context("elements from %d on, in the place of those from 2 on", (int)first);
        memcpy(arena + CAP, base, sizeof base);
        CHECK_STATUS(first == 2 ? PITH_OK : PITH_ERR_ARG,
                     pith_decode_range(f.bytes, f.length, &in, first, NULL, &to, NULL));
        CHECK(first == 2 || memcmp(arena + CAP, base, sizeof base) == 0);
        CHECK(first != 2 || memcmp(to.data, got + 2, (N - 4) * 4) == 0);
    }
    memcpy(arena + CAP, base, sizeof base);
    CHECK_OK(pith_decompress(f.bytes, f.length, &in, NULL, &in, NULL));
    CHECK(memcmp(arena + CAP, got, sizeof got) == 0);
    free(f.bytes);
}

/* Of a strided view the elements count, and not what lies between them. */
static void test_strided(void **state) {
    (void)state;
    static float arena[N][4], value[N];
    struct stream s;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    open_plain(&s, "topk:k=1");
    const pith_view v = flat(value);
    struct frame f = stream_encode(&s, &v, 0, false);
    const void *const at = arena[0] + 1;
    for (int column = 0; column < 4; column++) {
        pith_view to = {arena[0] + column, PITH_F32, 2, {N / 2, 2}, {8, 4}};
        for (int up = 0; up < 2; up++) {
            context("column %d, %s", column, up ? "upwards" : "downwards");
            memcpy(arena[0] + 1, f.bytes, f.length);
            CHECK(f.length > 12);
            CHECK_STATUS(PITH_ERR_ARG, decode_one(s.work, s.stream, 0, at, f.length, &to, 0));
            CHECK_STATUS(PITH_ERR_ARG,
                         decode_one(s.work, s.stream, 0, at, f.length, &to, PITH_ADD));
            CHECK_STATUS(PITH_ERR_ARG, reduce_one(s.work, s.stream, 0, &at, &f.length, 1, 1, &to));
            CHECK_STATUS(PITH_ERR_ARG, pith_decompress(at, f.length, NULL, NULL, &to, NULL));
            CHECK(memcmp(at, f.bytes, f.length) == 0);
            to.data = arena[N - 2] + column;
            to.stride[0] = -8;
        }
    }
    free(f.bytes);
    stream_close(&s);
}

/* The base in another order of elements, or of every second one. */
static void test_strided_in_the_base(void **state) {
    (void)state;
    static float live[2 * N];
    uint8_t frame[CAP];
    size_t length;
    struct stream s;
    gen_fill(GEN_NOISE, 1, PITH_F32, live, N);
    open_bound(&s, "wdiff", 1, live);
    const pith_view turned = {live, PITH_F32, 2, {10, N / 10}, {1, 10}},
                    every = {live, PITH_F32, 1, {N}, {2}};
    CHECK_STATUS(PITH_ERR_ARG, encode_one(s.work, s.stream, &turned, 0, 0, frame, CAP, &length));
    CHECK_STATUS(PITH_ERR_ARG, encode_one(s.work, s.stream, &every, 0, 0, frame, CAP, &length));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_get_base(s.work, s.stream, 0, &turned));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_base(s.work, s.stream, &every, 0));
    CHECK_OK(pith_stream_verify(s.work, s.stream));
    stream_close(&s);
}

/* Between the elements of a strided view there may be anything: a frame, or the base. */
static void test_between_elements(void **state) {
    (void)state;
    static float arena[2][2 * N], value[N];
    struct stream s;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    const pith_view v = flat(value), rows = {arena, PITH_F32, 2, {2, N / 2}, {2 * N, 1}};
    open_bound(&s, "wdiff", 1, arena[0] + N);
    struct frame f = stream_encode(&s, &v, 0, true);
    stream_close(&s);
    memset(arena, 0, sizeof arena);
    open_bound(&s, "wdiff", 1, arena[0] + N);
    CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &rows, 0));
    CHECK(memcmp(arena[0], value, BYTES / 2) == 0);
    CHECK(memcmp(arena[1], value + N / 2, BYTES / 2) == 0);
    CHECK(memcmp(arena[0] + N, value, BYTES) == 0);
    CHECK(f.length <= sizeof arena[0] - BYTES / 2);
    memcpy(arena[0] + N / 2, f.bytes, f.length);
    CHECK_OK(pith_decompress(arena[0] + N / 2, f.length, NULL, NULL, &rows, NULL));
    CHECK(memcmp(arena[1], value + N / 2, BYTES / 2) == 0);
    free(f.bytes);
    stream_close(&s);
}

/* ---- Pages -----------------------------------------------------------------------------------*/

enum { TOKENS = 16, HEADS = 2, DIM = 32, ROW = HEADS * DIM };

static void open_pages(struct stream *s, const char *spec) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 0);
    layout.ndim = 3;
    layout.shape[0] = 2 * TOKENS;
    layout.shape[1] = HEADS;
    layout.shape[2] = DIM;
    stream_open(s, spec, &layout, NULL);
}

static pith_view tokens_at(const void *data, uint64_t tokens) {
    const uint64_t shape[3] = {tokens, HEADS, DIM};
    return pith_view_dense(data, PITH_F32, 3, shape);
}

/* A view of more elements than anybody can look at one by one: two rows, over and over, and a frame
 * between these, which is too small. */
static void test_repeated_rows(void **state) {
    (void)state;
    static float rows[3];
    size_t written = 1;
    const pith_view v = {rows, PITH_F32, 2, {UINT64_C(1) << 40, 2}, {0, 2}};
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_compress("grad", &v, NULL, NULL, NULL, rows + 1, 4, &written, NULL));
    CHECK(written == 0);
}

static void test_pages(void **state) {
    (void)state;
    static uint8_t arena[ARENA];
    struct stream s;
    open_pages(&s, "kv:page=16");
    const size_t n = (size_t)pith_kv_page_bytes(s.plan, TOKENS);
    const pith_view like = tokens_at(NULL, TOKENS);
    for (size_t i = 0; i < PLACES; i++) {
        const pith_kv_pair pair = {arena + CAP, place(arena, i, n, TOKENS * ROW * 4), 0};
        context("place %zu", i);
        CHECK_STATUS(wanted(i), pith_kv_encode_pages(s.work, s.plan, &like, &pair, 1));
        CHECK_STATUS(wanted(i), pith_kv_decode_pages(s.work, s.plan, &like, &pair, 1));
    }
    stream_close(&s);
}

static void test_append_delta(void **state) {
    (void)state;
    static float base[(TOKENS + 1) * ROW];
    struct stream s;
    pith_kv *cache;
    open_pages(&s, "kv:page=16,window=0,axis=token");
    const size_t bytes = (size_t)pith_kv_bytes(s.plan, 0);
    uint8_t *const memory = allocate(bytes);
    CHECK_OK(pith_kv_init(s.plan, memory, bytes, &cache, NULL));
    const pith_view b = tokens_at(base, TOKENS), next = tokens_at(base + 1, TOKENS);
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_append_delta(s.work, cache, &next, &b));
    CHECK(pith_kv_count(cache) == 0);
    CHECK_OK(pith_kv_append_delta(s.work, cache, &b, &b));
    free(memory);
    stream_close(&s);
}

static void test_accumulate(void **state) {
    (void)state;
    static uint8_t arena[6 * CAP];
    static float value[2 * TOKENS * ROW];
    struct stream s;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, 2 * TOKENS * ROW);
    open_pages(&s, "kv:page=16");
    const pith_view v = tokens_at(value, 2 * TOKENS);
    struct frame f = stream_encode(&s, &v, 0, false);
    uint8_t *const frame = arena + 2 * CAP;
    for (size_t i = 0; i < 4; i++) {
        const bool apart = i == 0 || i == 3;
        uint8_t *const at = i == 0   ? frame - sizeof value
                            : i == 1 ? frame - sizeof value + 1
                            : i == 2 ? frame + f.length - 1
                                     : frame + f.length;
        const pith_view to = tokens_at(at, 2 * TOKENS);
        context("place %zu", i);
        memcpy(frame, f.bytes, f.length);
        CHECK_STATUS(
            apart ? PITH_OK : PITH_ERR_ARG,
            pith_kv_accumulate(s.work, s.plan, frame, f.length, s.plan, f.bytes, f.length, &to));
        CHECK(apart || memcmp(frame, f.bytes, f.length) == 0);
        memcpy(frame, f.bytes, f.length);
        CHECK_STATUS(
            apart ? PITH_OK : PITH_ERR_ARG,
            pith_kv_accumulate(s.work, s.plan, f.bytes, f.length, s.plan, frame, f.length, &to));
    }
    memcpy(frame + 1, f.bytes, f.length);
    CHECK_STATUS(PITH_ERR_ARG, pith_kv_accumulate(s.work, s.plan, frame, f.length, s.plan,
                                                  frame + 1, f.length, NULL));
    free(f.bytes);
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_encode_with_a_base),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_decode_with_a_base),
        cmocka_unit_test(test_base_in_and_out),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_without_a_stream),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(test_strided_in_the_base),
        cmocka_unit_test(test_between_elements),
        cmocka_unit_test(test_repeated_rows),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_append_delta),
        cmocka_unit_test(test_accumulate),
    };
    return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
