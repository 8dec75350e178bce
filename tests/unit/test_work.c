/* test_work.c - works and lists: memory, plans in turn, items together as one by one, failures of
 * some items, streams that are in another call, what errors tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>

#include "gen.h"
#include "util.h"

static const struct {
    const char *spec;
    uint32_t base_dtype;
} settings[] = {
    {"grad:ef=full", PITH_NONE},
    {"wdiff:group=64,block=256", PITH_F32},
    {"eb:abs=0.01,block=64", PITH_NONE},
    {"lossless", PITH_F32},
    {"raw", PITH_NONE},
    {"grad:round=stochastic,bits=3,ef=ema:0.9", PITH_NONE},
    {"wdiff:entropy=zstd,group=64,block=256", PITH_BF16},
    {"eb:mode=ratio,psnr=60", PITH_NONE},
    {"kv:group=16", PITH_NONE},
    {"wdiff:round=stochastic,group=64,key_every=2", PITH_F16},
    {"embed:abs=0.01,dim=8", PITH_NONE},
    {"act", PITH_NONE},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* ---- Memory of a work ------------------------------------------------------------------------*/

static void test_any_alignment(void **state) {
    (void)state;
    enum { N = 3000 };
    static float value[N];
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    pith_env env = test_env();
    struct stream s;
    stream_open(&s, "wdiff:entropy=zstd,group=64,block=256", &layout, NULL);
    env.threads = 3;
    env.run = run_backwards;
    const size_t bytes = (size_t)pith_work_bytes(&s.plan, 1, env.threads);
    const size_t cap = (size_t)s.sizes.slot_bytes;
    uint8_t *memory = allocate(bytes + 64), *frame = allocate(cap);
    for (size_t k = 0; k < 64; k++) {
        pith_work *work;
        size_t n;
        context("work at alignment %zu", k);
        gen_fill(GEN_NOISE, k, PITH_F32, value, N);
        memset(memory, 0x5A, bytes + 64);
        CHECK_OK(pith_work_init(memory + k, bytes, &env, &work, NULL));
        CHECK_OK(encode_one(work, s.stream, &v, 0, 0, frame, cap, &n));
        CHECK(all_bytes(memory, k, 0x5A) && all_bytes(memory + k + bytes, 64 - k, 0x5A));
        CHECK(pith_work_error(work)->text[0] == 0);
    }
    free(memory);
    free(frame);
    stream_close(&s);
}

static void test_works_refused(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct stream s;
    stream_open(&s, "raw", &layout, NULL);
    const size_t bytes = (size_t)pith_work_bytes(&s.plan, 1, 1);
    void *memory = allocate(bytes);
    pith_error error = {.size = sizeof error};
    pith_env env = {.size = sizeof env};
    context("works that are refused");
    CHECK(pith_work_bytes(&s.plan, 1, 0) == bytes);
    CHECK(pith_work_bytes(&s.plan, 1, 2) > bytes);
    for (size_t n = 0; n <= 16; n += 8) {
        pith_work *work = s.work;
        CHECK_STATUS(PITH_ERR_SPACE, pith_work_init(memory, n, NULL, &work, &error));
        CHECK(work == NULL && error.text[0] != 0);
    }
    pith_work *work = s.work;
    CHECK_STATUS(PITH_ERR_ARG, pith_work_init(NULL, bytes, NULL, &work, &error));
    CHECK(work == NULL);
    CHECK_STATUS(PITH_ERR_ARG, pith_work_init(memory, bytes, NULL, NULL, &error));
    env.threads = 1025;
    CHECK_STATUS(PITH_ERR_ARG, pith_work_init(memory, bytes, &env, &work, &error));
    env.threads = 1;
    env.size = 4;
    CHECK_STATUS(PITH_ERR_ARG, pith_work_init(memory, bytes, &env, &work, &error));
    struct {
        pith_env env;
        uint64_t more;
    } newer = {{.size = sizeof newer}, 0};
    CHECK_OK(pith_work_init(memory, bytes, &newer.env, &work, &error));
    CHECK(error.text[0] == 0);
    newer.more = 1;
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_work_init(memory, bytes, &newer.env, &work, &error));
    CHECK(strstr(error.text, "newer pith: update this one"));
    free(memory);
    stream_close(&s);
}

/* Encode and decode, whatever comes of it; the status of the first call that failed. */
static pith_status use(pith_work *work, struct stream *s, const pith_view *v, uint8_t *frame) {
    const size_t cap = (size_t)s->sizes.slot_bytes;
    const uint64_t step = pith_stream_step(s->stream, 0);
    struct stream end;
    size_t n = 1;
    pith_status status = encode_one(work, s->stream, v, 0, 0, frame, cap, &n);
    CHECK(pith_stream_step(s->stream, 0) == step + (status == PITH_OK));
    CHECK((n == 0) == (status != PITH_OK));
    if (status != PITH_OK) return status;
    stream_open_end(&end, s, NULL);
    float *const out = allocate((size_t)pith_view_count(v) * sizeof *out);
    const pith_view o = pith_view_flat(out, PITH_F32, pith_view_count(v));
    const pith_sizes *const sizes = &s->sizes;
    if (sizes->key_bytes && step) /* the other end knows nothing of the base */
        CHECK_OK(pith_stream_set_step(end.work, end.stream, 0, step));
    else
        status = decode_one(work, end.stream, 0, frame, n, &o, 0);
    free(out);
    stream_close(&end);
    return status;
}

/* From the least memory that a work takes to what its plan asks for: a call has space, or says
 * that it has not, and never writes behind the work. */
static void test_every_size_of_a_work(void **state) {
    (void)state;
    enum { N = 700 };
    static float value[N];
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    for (size_t i = 0; i < 2 * SETTINGS; i++) {
        const pith_layout layout = flat_layout(PITH_F32, settings[i / 2].base_dtype, N);
        pith_env env = test_env();
        struct stream s;
        env.threads = i % 2 ? 3 : 1;
        env.run = i % 2 ? run_backwards : NULL;
        stream_open(&s, settings[i / 2].spec, &layout, NULL);
        const size_t full = (size_t)pith_work_bytes(&s.plan, 1, env.threads);
        uint8_t *frame = allocate((size_t)s.sizes.slot_bytes);
        pith_status last = PITH_ERR_SPACE;
        size_t refused = 0;
        for (size_t bytes = 0; bytes <= full; bytes += full - bytes > full / 40 ? full / 40 : 1) {
            pith_work *work;
            void *memory = allocate(bytes); /* a sanitizer sees what lies behind */
            context("%s, %zu of %zu bytes for %u threads", settings[i / 2].spec, bytes, full,
                    env.threads);
            const pith_status status = pith_work_init(memory, bytes, &env, &work, NULL);
            CHECK(status == PITH_OK || (status == PITH_ERR_SPACE && last == PITH_ERR_SPACE));
            if (status == PITH_OK) {
                const pith_status used = use(work, &s, &v, frame);
                CHECK(used == PITH_OK || (used == PITH_ERR_SPACE && last == PITH_ERR_SPACE));
                if (used == PITH_ERR_SPACE) CHECK(pith_work_error(work)->text[0] != 0);
                last = used;
            }
            refused += last != PITH_OK;
            free(memory);
            if (full - bytes > full / 40 || bytes == full) continue;
            bytes = full - 1; /* the last is the whole */
        }
        CHECK(last == PITH_OK && refused > 0);
        free(frame);
        stream_close(&s);
    }
}

/* A work that is too small for one plan goes on serving a smaller one. */
static void test_smaller_plan(void **state) {
    (void)state;
    enum { LARGE = 100000, SMALL = 100 };
    static float value[LARGE], out[LARGE];
    const pith_layout large = flat_layout(PITH_F32, PITH_F32, LARGE),
                      small = flat_layout(PITH_F32, PITH_F32, SMALL);
    const pith_view v = pith_view_flat(value, PITH_F32, LARGE),
                    w = pith_view_flat(value, PITH_F32, SMALL),
                    o = pith_view_flat(out, PITH_F32, LARGE);
    struct stream s, t;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, LARGE);
    context("a work for a smaller plan");
    stream_open(&s, "wdiff:entropy=zstd,block=65536,group=64", &large, NULL);
    stream_open(&t, "wdiff:group=64,block=64", &small, NULL);
    CHECK(pith_work_bytes(&t.plan, 1, 1) < pith_work_bytes(&s.plan, 1, 1));
    struct frame f = stream_encode(&s, &v, 0, false), unused = {allocate(f.length), 0};
    memset(unused.bytes, 0x5A, f.length);
    for (int k = 0; k < 3; k++) {
        size_t n = 1;
        CHECK_STATUS(PITH_ERR_SPACE,
                     encode_one(t.work, s.stream, &v, 0, 0, unused.bytes, f.length, &n));
        CHECK(n == 0 && all_bytes(unused.bytes, f.length, 0x5A));
        CHECK(pith_stream_step(s.stream, 0) == 1);
        CHECK(pith_work_error(t.work)->text[0] != 0);
        /* Of several items the large one is named, and the small one is as it was. */
        pith_item items[2] = {{.size = sizeof *items, .stream = t.stream, .view = w},
                              {.size = sizeof *items, .stream = s.stream, .view = v}};
        uint8_t frames[2][1024];
        for (int i = 0; i < 2; i++)
            items[i].frame = frames[i], items[i].capacity = sizeof frames[i];
        items[1].frame = unused.bytes;
        items[1].capacity = f.length;
        CHECK_STATUS(PITH_ERR_SPACE, pith_encode(t.work, items, 2, 0));
        CHECK(items[1].status == PITH_ERR_SPACE && pith_work_error(t.work)->item == 1);
        CHECK(pith_stream_step(t.stream, 0) == (uint64_t)k);
        struct frame g = stream_encode(&t, &w, 0, false);
        CHECK(pith_work_error(t.work)->text[0] == 0 && pith_work_error(t.work)->item == 0);
        free(g.bytes);
    }
    struct stream end;
    stream_open_end(&end, &s, NULL);
    memset(out, 0x5A, sizeof out);
    CHECK_STATUS(PITH_ERR_SPACE, decode_one(t.work, end.stream, 0, f.bytes, f.length, &o, 0));
    CHECK(all_bytes((const uint8_t *)out, sizeof out, 0x5A) &&
          pith_stream_step(end.stream, 0) == 0);
    CHECK_OK(decode_one(end.work, end.stream, 0, f.bytes, f.length, &o, 0));
    free(f.bytes);
    free(unused.bytes);
    stream_close(&end);
    stream_close(&s);
    stream_close(&t);
}

/* ---- Many streams ----------------------------------------------------------------------------*/

enum { MANY = 300, STEPS = 3, BIG = (1 << 20) + 77 };

/* Plans of all settings and of many sizes, one among them above a million elements. */
struct plans {
    const pith_plan *plan[MANY];
    size_t count[MANY];
    float *value[MANY];
};

static size_t count_of(size_t i) {
    if (i == 123) return BIG;
    if (i % 41 == 0) return 0;
    return i % 50 == 7 ? 20000 + i : i * 37 % 1300;
}

static void plans_open(struct plans *p) {
    for (size_t i = 0; i < MANY; i++) {
        const size_t k = i == 123 ? 1 : i % SETTINGS;
        const pith_layout layout = flat_layout(PITH_F32, settings[k].base_dtype, count_of(i));
        context("plan %zu, %s", i, settings[k].spec);
        p->count[i] = count_of(i);
        p->value[i] = allocate(p->count[i] * sizeof *p->value[i]);
        gen_fill(GEN_NOISE, i, PITH_F32, p->value[i], p->count[i]);
        CHECK_OK(pith_plan_create(&p->plan[i], settings[k].spec, &layout, NULL, NULL));
    }
}

static void plans_close(struct plans *p) {
    for (size_t i = 0; i < MANY; i++) {
        pith_plan_destroy(p->plan[i]);
        free(p->value[i]);
    }
}

/* Streams, one for each of many plans. */
struct many {
    pith_stream *stream[MANY];
    void *memory[MANY];
};

static void many_open(struct many *m, const struct plans *p) {
    for (size_t i = 0; i < MANY; i++) {
        pith_sizes sizes = {.size = sizeof sizes};
        const pith_stream_options options = {
            .size = sizeof options, .seed = i, .rng_stream = 3, .step = i % 7};
        CHECK_OK(pith_plan_sizes(p->plan[i], &sizes));
        m->memory[i] = allocate((size_t)sizes.stream_bytes);
        CHECK_OK(pith_stream_init(p->plan[i], m->memory[i], (size_t)sizes.stream_bytes, &options,
                                  &m->stream[i], NULL));
    }
}

static void many_close(struct many *m) {
    for (size_t i = 0; i < MANY; i++) free(m->memory[i]);
}

/* What a step sends and gives, and what the sender has counted. */
struct outcome {
    struct frame frame[STEPS][MANY];
    float *out[STEPS][MANY];
    pith_stats stats[MANY];
};

static void outcome_free(struct outcome *o) {
    for (size_t t = 0; t < STEPS; t++)
        for (size_t i = 0; i < MANY; i++) {
            free(o->frame[t][i].bytes);
            free(o->out[t][i]);
        }
    free(o);
}

static void make_item(pith_item *item, pith_stream *stream, const pith_view *view, void *frame,
                      size_t capacity, size_t length) {
    *item = (pith_item){.size = sizeof *item,
                        .stream = stream,
                        .view = *view,
                        .frame = frame,
                        .capacity = capacity,
                        .length = length,
                        .status = PITH_ERR_INTERNAL};
}

/* All items of a list in one call, or one by one. */
static void call(pith_work *work, pith_item *items, bool encode, bool together) {
    for (size_t i = 0; i < MANY; i += together ? MANY : 1) {
        const size_t n = together ? MANY : 1;
        CHECK_OK(encode ? pith_encode(work, items + i, n, 0) : pith_decode(work, items + i, n, 0));
    }
    for (size_t i = 0; i < MANY; i++) CHECK_OK(items[i].status);
    CHECK(pith_work_error(work)->text[0] == 0 && pith_work_error(work)->item == 0);
}

static struct outcome *run_many(const struct plans *p, const pith_env *env, bool together) {
    struct outcome *const o = allocate(sizeof *o);
    struct many sender, receiver;
    void *memory;
    pith_work *const work = work_for(p->plan, MANY, env, &memory);
    many_open(&sender, p);
    many_open(&receiver, p);
    for (size_t t = 0; t < STEPS; t++) {
        static pith_item items[MANY];
        for (size_t i = 0; i < MANY; i++) {
            const pith_view v = pith_view_flat(p->value[i], PITH_F32, p->count[i]);
            const int key = pith_plan_is_key(p->plan[i], pith_stream_step(sender.stream[i], 0));
            const size_t cap = (size_t)pith_plan_frame_bytes(p->plan[i], 0, key);
            o->frame[t][i].bytes = allocate(cap);
            o->out[t][i] = allocate(p->count[i] * sizeof(float));
            make_item(&items[i], sender.stream[i], &v, o->frame[t][i].bytes, cap, SIZE_MAX);
        }
        call(work, items, true, together);
        for (size_t i = 0; i < MANY; i++) {
            const pith_view v = pith_view_flat(o->out[t][i], PITH_F32, p->count[i]);
            o->frame[t][i].length = items[i].length;
            make_item(&items[i], receiver.stream[i], &v, o->frame[t][i].bytes, 0, items[i].length);
        }
        call(work, items, false, together);
    }
    for (size_t i = 0; i < MANY; i++) {
        o->stats[i].size = sizeof o->stats[i];
        CHECK_OK(pith_stream_stats(sender.stream[i], &o->stats[i]));
        CHECK(pith_stream_step(sender.stream[i], 0) == i % 7 + STEPS);
    }
    many_close(&sender);
    many_close(&receiver);
    free(memory);
    return o;
}

static void check_outcome(const struct plans *p, const struct outcome *got,
                          const struct outcome *wanted) {
    for (size_t t = 0; t < STEPS; t++)
        for (size_t i = 0; i < MANY; i++) {
            const struct frame *const a = &got->frame[t][i], *const b = &wanted->frame[t][i];
            CHECK(a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0);
            CHECK(memcmp(got->out[t][i], wanted->out[t][i], p->count[i] * sizeof(float)) == 0);
        }
    CHECK(memcmp(got->stats, wanted->stats, sizeof got->stats) == 0);
}

/* Threads and runners that lists are given to. */
static const struct {
    uint32_t threads;
    bool runner;
} variants[] = {
    {1, false}, {2, true},  {7, true},
#ifdef _OPENMP
    {2, false}, {7, false},
#endif
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static pith_env env_of(size_t variant) {
    pith_env env = test_env();
    env.threads = variants[variant].threads;
    env.run = variants[variant].runner ? run_backwards : NULL;
    context("%u %s", variants[variant].threads,
            variants[variant].runner ? "jobs, backwards" : "threads");
    return env;
}

/* One work, all plans, one list: the same bytes, values and counters as call by call. */
static void test_many_items(void **state) {
    (void)state;
    struct plans p;
    plans_open(&p);
    const pith_env plain = test_env();
    context("one by one");
    struct outcome *const wanted = run_many(&p, &plain, false);
    for (size_t i = 0; i < VARIANTS; i++) {
        const pith_env env = env_of(i);
        struct outcome *const got = run_many(&p, &env, true);
        check_outcome(&p, got, wanted);
        outcome_free(got);
    }
    outcome_free(wanted);
    plans_close(&p);
}

static pith_stream *stream_of(const pith_plan *plan, void **memory) {
    pith_sizes sizes = {.size = sizeof sizes};
    pith_stream *stream;
    CHECK_OK(pith_plan_sizes(plan, &sizes));
    *memory = allocate((size_t)sizes.stream_bytes);
    CHECK_OK(pith_stream_init(plan, *memory, (size_t)sizes.stream_bytes, NULL, &stream, NULL));
    return stream;
}

/* Items of one plan in a row, with slots of one length and a shorter one, share what is the plan's,
 * also where a key frame comes before or after another one: call by call they give the same bytes,
 * values and counters. */
enum { NEIGHBOURS = 2, PIECES = 3, STREAMS = SETTINGS * NEIGHBOURS, ROW = STREAMS * PIECES };
enum { PIECE = 79, TENSOR = PIECES * PIECE - 1, PIECE_FRAME = 2048 };

/* What senders [0] and receivers [1] count, send and give. */
struct row {
    pith_stats stats[2][STREAMS];
    size_t length[STEPS][ROW];
    uint8_t frame[STEPS][ROW][PIECE_FRAME];
    float out[STEPS][ROW][PIECE];
};

static void row_items(pith_item items[ROW], pith_stream *const stream[STREAMS], struct row *r,
                      size_t step, bool decode) {
    static float value[ROW][TENSOR];
    for (size_t i = 0; i < ROW; i++) {
        const uint64_t slot = i % PIECES, count = slot + 1 < PIECES ? PIECE : PIECE - 1;
        const pith_view in = pith_view_flat(value[i], PITH_F32, TENSOR);
        const pith_view out = pith_view_flat(r->out[step][i], PITH_F32, count);
        gen_fill(GEN_NOISE, i + step, PITH_F32, value[i], TENSOR);
        make_item(&items[i], stream[i / PIECES], decode ? &out : &in, r->frame[step][i],
                  PIECE_FRAME, r->length[step][i]);
        items[i].slot = slot;
    }
}

static struct row *run_row(const pith_plan *const *plan, const pith_env *env, size_t at_once) {
    static pith_item items[ROW];
    struct row *const r = allocate(sizeof *r);
    void *work_memory, *memory[2][STREAMS];
    pith_stream *stream[2][STREAMS];
    pith_work *const work = work_for(plan, SETTINGS, env, &work_memory);
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < STREAMS; i++)
        for (int end = 0; end < 2; end++)
            stream[end][i] = stream_of(plan[i / NEIGHBOURS], &memory[end][i]);
    for (size_t i = 0; i < ROW; i++) /* every second slot begins with an odd step */
        for (int end = 0; end < 2; end++)
            CHECK_OK(pith_stream_set_step(work, stream[end][i / PIECES], i % PIECES, i % 2));
    for (size_t step = 0; step < STEPS; step++)
        for (int decode = 0; decode < 2; decode++) {
            row_items(items, stream[decode], r, step, decode);
            for (size_t i = 0; i < ROW; i += at_once)
                CHECK_OK(decode ? pith_decode(work, items + i, at_once, 0)
                                : pith_encode(work, items + i, at_once, 0));
            for (size_t i = 0; i < ROW; i++) r->length[step][i] = items[i].length;
        }
    for (size_t i = 0; i < STREAMS; i++)
        for (int end = 0; end < 2; end++) {
            r->stats[end][i].size = sizeof r->stats[end][i];
            CHECK_OK(pith_stream_stats(stream[end][i], &r->stats[end][i]));
            free(memory[end][i]);
        }
    free(work_memory);
    return r;
}

static void test_items_of_one_plan(void **state) {
    (void)state;
    const pith_plan *plan[SETTINGS];
    for (size_t k = 0; k < SETTINGS; k++) {
        pith_layout layout = flat_layout(PITH_F32, settings[k].base_dtype, TENSOR);
        layout.slots = PIECES;
        context("%s", settings[k].spec);
        CHECK_OK(pith_plan_create(&plan[k], settings[k].spec, &layout, NULL, NULL));
    }
    const pith_env plain = test_env();
    context("one by one");
    struct row *const wanted = run_row(plan, &plain, 1);
    for (size_t i = 0; i < VARIANTS; i++) {
        const pith_env env = env_of(i);
        struct row *const got = run_row(plan, &env, ROW);
        CHECK(memcmp(got, wanted, sizeof *got) == 0);
        free(got);
    }
    free(wanted);
    for (size_t k = 0; k < SETTINGS; k++) pith_plan_destroy(plan[k]);
}

/* ---- Many sums -------------------------------------------------------------------------------*/

enum { SUMS = 300, FRAMES = 3 };

struct sums {
    const pith_plan *in[SUMS], *out[SUMS];
    struct frame frame[SUMS][FRAMES];
    const void *bytes[SUMS][FRAMES];
    size_t lengths[SUMS][FRAMES], count[SUMS];
};

/* Frames of one plan each, to be summed in pairs and triples. */
static void sums_open(struct sums *s) {
    static const char *const in[] = {"grad:bits=8", "raw", "grad:bits=4,rotate=0"},
                             *const out[] = {"grad:ef=full", "grad:ef=full,bits=2,rotate=0",
                                             "grad:round=stochastic"};
    for (size_t i = 0; i < SUMS; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, i * 29 % 900);
        struct stream one;
        context("sum %zu", i);
        s->count[i] = (size_t)layout.shape[0];
        CHECK_OK(pith_plan_create(&s->in[i], in[i % 3], &layout, NULL, NULL));
        CHECK_OK(pith_plan_create(&s->out[i], out[i / 3 % 3], &layout, NULL, NULL));
        stream_open(&one, in[i % 3], &layout, NULL);
        for (size_t k = 0; k < FRAMES; k++) {
            float *value = allocate(s->count[i] * sizeof *value);
            const pith_view v = pith_view_flat(value, PITH_F32, s->count[i]);
            gen_fill(GEN_NOISE, i * FRAMES + k, PITH_F32, value, s->count[i]);
            s->frame[i][k] = stream_encode(&one, &v, 0, false);
            s->bytes[i][k] = s->frame[i][k].bytes;
            s->lengths[i][k] = s->frame[i][k].length;
            free(value);
        }
        stream_close(&one);
    }
}

static void sums_close(struct sums *s) {
    for (size_t i = 0; i < SUMS; i++) {
        pith_plan_destroy(s->in[i]);
        pith_plan_destroy(s->out[i]);
        for (size_t k = 0; k < FRAMES; k++) free(s->frame[i][k].bytes);
    }
}

struct summed {
    float value[SUMS][900];
    uint8_t frame[2][SUMS][4096]; /* of two steps */
    size_t length[2][SUMS];
    uint64_t counted[SUMS];
};

static struct summed *run_sums(const struct sums *s, const pith_env *env, bool together) {
    static pith_sum sums[SUMS];
    static pith_item items[SUMS];
    struct summed *const r = calloc(1, sizeof *r);
    void *memory[2][SUMS], *work_memory;
    const pith_plan *plans[2 * SUMS];
    memcpy(plans, s->in, sizeof s->in);
    memcpy(plans + SUMS, s->out, sizeof s->out);
    pith_work *const work = work_for(plans, 2 * SUMS, env, &work_memory);
    for (size_t i = 0; i < SUMS; i++) {
        sums[i] = (pith_sum){.size = sizeof sums[i],
                             .stream = stream_of(s->in[i], &memory[0][i]),
                             .frames = s->bytes[i],
                             .lengths = s->lengths[i],
                             .count = 1 + i % FRAMES,
                             .scale = i % 2 ? 0.25f : 0,
                             .view = pith_view_flat(r->value[i], PITH_F32, s->count[i]),
                             .status = PITH_ERR_INTERNAL};
        items[i] =
            (pith_item){.size = sizeof items[i], .stream = stream_of(s->out[i], &memory[1][i])};
    }
    const size_t n = together ? SUMS : 1;
    for (size_t i = 0; i < SUMS; i += n) CHECK_OK(pith_reduce(work, sums + i, n));
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < SUMS; i++) {
            items[i].frame = r->frame[t][i];
            items[i].capacity = sizeof r->frame[t][i];
            items[i].status = PITH_ERR_INTERNAL;
        }
        for (size_t i = 0; i < SUMS; i += n)
            CHECK_OK(pith_reduce_encode(work, sums + i, items + i, n));
        for (size_t i = 0; i < SUMS; i++) {
            CHECK_OK(items[i].status);
            r->length[t][i] = items[i].length;
        }
    }
    for (size_t i = 0; i < SUMS; i++) {
        pith_stats stats = {.size = sizeof stats};
        CHECK_OK(sums[i].status);
        CHECK_OK(pith_stream_stats(sums[i].stream, &stats));
        r->counted[i] = stats.frames;
        CHECK(stats.frames > 0 && pith_stream_step(sums[i].stream, 0) == 0);
        CHECK(pith_stream_step(items[i].stream, 0) == 2);
        free(memory[0][i]);
        free(memory[1][i]);
    }
    free(work_memory);
    return r;
}

static void test_many_sums(void **state) {
    (void)state;
    static struct sums s;
    sums_open(&s);
    const pith_env plain = test_env();
    context("one by one");
    struct summed *const wanted = run_sums(&s, &plain, false);
    for (size_t i = 0; i < VARIANTS; i++) {
        const pith_env env = env_of(i);
        struct summed *const got = run_sums(&s, &env, true);
        CHECK(memcmp(got, wanted, sizeof *got) == 0);
        free(got);
    }
    /* No scale is a scale of 1. */
    for (size_t i = 0; i < SUMS; i += 6) {
        const pith_view v = pith_view_flat(wanted->value[1], PITH_F32, s.count[i]);
        float one[900];
        void *memory, *work_memory;
        pith_work *const work = work_for(&s.in[i], 1, NULL, &work_memory);
        pith_stream *const stream = stream_of(s.in[i], &memory);
        const pith_view o = pith_view_flat(one, PITH_F32, s.count[i]);
        CHECK_OK(reduce_one(work, stream, 0, s.bytes[i], s.lengths[i], 3, 0, &v));
        CHECK_OK(reduce_one(work, stream, 0, s.bytes[i], s.lengths[i], 3, 1, &o));
        CHECK(memcmp(one, wanted->value[1], s.count[i] * sizeof *one) == 0);
        free(memory);
        free(work_memory);
    }
    free(wanted);
    sums_close(&s);
}

/* Structs of a newer caller lie further apart. */
static void test_longer_items(void **state) {
    (void)state;
    enum { N = 100, ITEMS = 5 };
    struct longer {
        pith_item item;
        uint64_t more[3];
    } items[ITEMS] = {0};
    struct longer_sum {
        pith_sum sum;
        uint64_t more;
    } sums[ITEMS] = {0};
    float value[ITEMS][N], out[ITEMS][N];
    uint8_t frame[ITEMS][1024];
    const void *bytes[ITEMS];
    size_t lengths[ITEMS];
    struct stream s[ITEMS];
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    context("longer items");
    for (size_t i = 0; i < ITEMS; i++) {
        stream_open(&s[i], "raw", &layout, NULL);
        gen_fill(GEN_NOISE, i, PITH_F32, value[i], N);
        const pith_view v = pith_view_flat(value[i], PITH_F32, N);
        make_item(&items[i].item, s[i].stream, &v, frame[i], sizeof frame[i], 0);
        items[i].item.size = sizeof items[i];
    }
    CHECK_OK(pith_encode(s[0].work, &items[0].item, ITEMS, 0));
    for (size_t i = 0; i < ITEMS; i++) {
        CHECK(items[i].item.status == PITH_OK && items[i].item.length > N * 4);
        items[i].item.view.data = out[i];
    }
    CHECK_OK(pith_decode(s[0].work, &items[0].item, ITEMS, 0));
    CHECK(memcmp(out, value, sizeof out) == 0);
    for (size_t i = 0; i < ITEMS; i++) {
        bytes[i] = frame[i];
        lengths[i] = items[i].item.length;
        sums[i].sum = (pith_sum){.size = sizeof sums[i],
                                 .stream = s[i].stream,
                                 .frames = &bytes[i],
                                 .lengths = &lengths[i],
                                 .count = 1,
                                 .view = pith_view_flat(out[i], PITH_F32, N)};
    }
    memset(out, 0, sizeof out);
    CHECK_OK(pith_reduce(s[0].work, &sums[0].sum, ITEMS));
    CHECK(memcmp(out, value, sizeof out) == 0);
    items[3].more[1] = 1; /* a field that this library does not know */
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(s[0].work, &items[0].item, ITEMS, 0));
    items[3].more[1] = 0;
    items[3].item.size = sizeof(pith_item);
    CHECK_STATUS(PITH_ERR_ARG, pith_encode(s[0].work, &items[0].item, ITEMS, 0));
    items[3].item.size = sizeof items[3];
    for (size_t i = 0; i < ITEMS; i++) CHECK(pith_stream_step(s[i].stream, 0) == 1);
    CHECK_OK(pith_encode(s[0].work, &items[0].item, ITEMS, 0));
    CHECK_OK(pith_encode(s[0].work, NULL, 0, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_encode(s[0].work, NULL, 1, 0));
    for (size_t i = 0; i < ITEMS; i++) stream_close(&s[i]);
}

/* ---- Slots that come twice -------------------------------------------------------------------*/

static void test_slot_twice(void **state) {
    (void)state;
    enum { SLOTS = 300, EACH = 4, N = SLOTS * EACH };
    static const size_t twice[][2] = {{0, 1}, {0, 299}, {150, 149}, {298, 299}, {7, 230}};
    static pith_item items[SLOTS];
    static uint8_t frame[SLOTS][128];
    static float value[N], out[N];
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    const pith_view v = pith_view_flat(value, PITH_F32, N);
    struct stream s, other;
    layout.slots = SLOTS;
    stream_open(&s, "raw", &layout, NULL);
    stream_open_end(&other, &s, NULL);
    gen_fill(GEN_NOISE, 1, PITH_F32, value, N);
    for (size_t k = 0; k <= sizeof twice / sizeof twice[0]; k++)
        for (int decode = 0; decode < 2; decode++) {
            const bool alone = k == sizeof twice / sizeof twice[0];
            const uint64_t step = pith_stream_step(s.stream, 0);
            const pith_view o = pith_view_flat(decode ? out : value, PITH_F32, N);
            context("slot twice, %zu, decode %d", k, decode);
            for (size_t i = 0; i < SLOTS; i++) {
                make_item(&items[i], s.stream, decode ? &o : &v, frame[i], sizeof frame[i],
                          sizeof frame[i]);
                items[i].slot = i;
            }
            if (!alone) items[twice[k][1]].slot = twice[k][0];
            memset(out, 0x5A, sizeof out);
            if (!decode) memset(frame, 0x5A, sizeof frame);
            CHECK_STATUS(alone ? PITH_OK : PITH_ERR_ARG,
                         decode ? pith_decode(s.work, items, SLOTS, 0)
                                : pith_encode(s.work, items, SLOTS, 0));
            for (size_t i = 0; i < SLOTS; i++)
                CHECK(pith_stream_step(s.stream, i) == step + (alone && !decode));
            if (alone) continue;
            const uint64_t item = pith_work_error(s.work)->item;
            CHECK(item == twice[k][0] || item == twice[k][1]);
            CHECK(pith_work_error(s.work)->text[0] != 0);
            CHECK(items[item].status == PITH_ERR_ARG);
            CHECK(all_bytes((const uint8_t *)out, sizeof out, 0x5A));
            if (!decode) CHECK(all_bytes((const uint8_t *)frame, sizeof frame, 0x5A));
            /* The marks are gone: the slots of another stream, and each alone. */
            items[twice[k][1]].stream = other.stream;
            if (decode) continue;
            CHECK_OK(pith_encode(s.work, items, SLOTS, 0));
            CHECK(pith_stream_step(other.stream, twice[k][0]) > 0);
            CHECK(pith_stream_step(s.stream, twice[k][1]) == step);
            for (size_t i = 0; i < SLOTS; i++)
                CHECK_OK(pith_stream_set_step(s.work, s.stream, i, step));
        }
    CHECK(memcmp(out, value, sizeof out) == 0);
    stream_close(&other);
    stream_close(&s);
}

/* ---- Errors of arguments ---------------------------------------------------------------------*/

enum { FEW = 5, LENGTH = 200, WRONG = 3 };

/* Items of which one will be wrong. */
struct few {
    struct stream s[FEW];
    pith_item items[FEW];
    float value[FEW][LENGTH];
    uint8_t frame[FEW][2048], before[FEW][2048];
    void *memory[FEW];
};

static void few_open(struct few *f, const char *spec, uint32_t base_dtype, uint32_t flags) {
    pith_layout layout = flat_layout(PITH_F32, base_dtype, LENGTH);
    layout.flags = flags;
    for (size_t i = 0; i < FEW; i++) {
        stream_open(&f->s[i], spec, &layout, NULL);
        gen_fill(GEN_NOISE, i, PITH_F32, f->value[i], LENGTH);
    }
}

static void few_items(struct few *f) {
    for (size_t i = 0; i < FEW; i++) {
        const pith_view v = pith_view_flat(f->value[i], PITH_F32, LENGTH);
        make_item(&f->items[i], f->s[i].stream, &v, f->frame[i], sizeof f->frame[i],
                  sizeof f->frame[i]);
    }
}

static void few_close(struct few *f) {
    for (size_t i = 0; i < FEW; i++) stream_close(&f->s[i]);
}

/* The call is refused for item WRONG, and nothing is written or moved on in any of them. */
static void few_refused(struct few *f, pith_status wanted, bool decode, uint32_t flags) {
    float values[FEW][LENGTH];
    memset(f->frame, 0x5A, sizeof f->frame);
    memcpy(values, f->value, sizeof values);
    for (size_t i = 0; i < FEW; i++)
        f->memory[i] = copy_of(f->s[i].memory, (size_t)f->s[i].sizes.stream_bytes);
    pith_work *const work = f->s[0].work;
    CHECK_STATUS(wanted, decode ? pith_decode(work, f->items, FEW, flags)
                                : pith_encode(work, f->items, FEW, flags));
    CHECK(f->items[WRONG].status == wanted);
    CHECK(pith_work_error(work)->item == WRONG && pith_work_error(work)->text[0] != 0);
    CHECK(all_bytes((const uint8_t *)f->frame, sizeof f->frame, 0x5A));
    CHECK(memcmp(values, f->value, sizeof values) == 0);
    for (size_t i = 0; i < FEW; i++) {
        CHECK(memcmp(f->memory[i], f->s[i].memory, (size_t)f->s[i].sizes.stream_bytes) == 0);
        if (!decode) CHECK(f->items[i].length == 0);
        free(f->memory[i]);
    }
    few_items(f);
}

static void test_arguments_of_one_item(void **state) {
    (void)state;
    static struct few f;
    for (int with_base = 0; with_base < 2; with_base++)
        for (int decode = 0; decode < 2; decode++) {
            const uint32_t add = decode ? PITH_ADD : 0;
            few_open(&f, with_base ? "wdiff:group=64" : "grad:ef=full",
                     with_base ? PITH_F32 : PITH_NONE, 0);
            few_items(&f);
            context("base %d, decode %d: stream", with_base, decode);
            f.items[WRONG].stream = NULL;
            few_refused(&f, PITH_ERR_ARG, decode, 0);
            context("base %d, decode %d: slot", with_base, decode);
            f.items[WRONG].slot = 1;
            few_refused(&f, PITH_ERR_ARG, decode, 0);
            f.items[WRONG].slot = UINT64_MAX;
            few_refused(&f, PITH_ERR_ARG, decode, add);
            context("base %d, decode %d: frame", with_base, decode);
            f.items[WRONG].frame = NULL;
            few_refused(&f, PITH_ERR_ARG, decode, 0);
            context("base %d, decode %d: count", with_base, decode);
            f.items[WRONG].view.shape[0] = LENGTH - 1;
            few_refused(&f, PITH_ERR_SHAPE, decode, 0);
            context("base %d, decode %d: dtype", with_base, decode);
            f.items[WRONG].view.dtype = PITH_I32;
            few_refused(&f, PITH_ERR_DTYPE, decode, 0);
            f.items[WRONG].view.dtype = PITH_I32;
            few_refused(&f, PITH_ERR_DTYPE, decode, add);
            context("base %d, decode %d: stride", with_base, decode);
            f.items[WRONG].view.stride[0] = 0;
            if (decode) few_refused(&f, PITH_ERR_SHAPE, decode, 0);
            few_items(&f);
            context("base %d, decode %d: data", with_base, decode);
            f.items[WRONG].view.data = NULL;
            few_refused(&f, PITH_ERR_ARG, decode, 0);
            few_close(&f);
        }
}

/* An item whose stream cannot take the call, as it stands or by its plan: the list is refused. */
static void test_streams_of_one_item(void **state) {
    (void)state;
    static struct few f;
    static float base[FEW][LENGTH];
    context("an item without a base bound");
    few_open(&f, "wdiff:group=64", PITH_F32, PITH_LAYOUT_EXTERNAL_BASE);
    few_items(&f);
    for (size_t i = 0; i < FEW; i++)
        if (i != WRONG) CHECK_OK(pith_stream_bind_base(f.s[0].work, f.s[i].stream, base[i], 0));
    few_refused(&f, PITH_ERR_STATE, false, 0);
    few_refused(&f, PITH_ERR_STATE, false, PITH_KEY_FRAME);
    few_refused(&f, PITH_ERR_STATE, true, 0);
    few_close(&f);
    context("an item that has no key frames");
    few_open(&f, "wdiff:group=64", PITH_F32, 0);
    few_items(&f);
    struct stream plain;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, LENGTH);
    stream_open(&plain, "raw", &layout, NULL);
    f.items[WRONG].stream = plain.stream;
    few_refused(&f, PITH_ERR_UNSUPPORTED, false, PITH_KEY_FRAME);
    stream_close(&plain);
    few_close(&f);
}

/* The item WRONG alone fails, and its stream is as it was; the others have their frames. */
static void few_fail(struct few *f, pith_status wanted, uint32_t flags) {
    void *const before = copy_of(f->s[WRONG].memory, (size_t)f->s[WRONG].sizes.stream_bytes);
    uint64_t steps[FEW];
    for (size_t i = 0; i < FEW; i++) steps[i] = pith_stream_step(f->s[i].stream, 0);
    CHECK_STATUS(wanted, pith_encode(f->s[0].work, f->items, FEW, flags));
    CHECK(pith_work_error(f->s[0].work)->item == WRONG);
    CHECK(pith_work_error(f->s[0].work)->text[0] != 0);
    for (size_t i = 0; i < FEW; i++) {
        CHECK_STATUS(i == WRONG ? wanted : PITH_OK, f->items[i].status);
        CHECK((f->items[i].length == 0) == (i == WRONG));
        CHECK(pith_stream_step(f->s[i].stream, 0) == steps[i] + (i != WRONG));
    }
    CHECK(memcmp(before, f->s[WRONG].memory, (size_t)f->s[WRONG].sizes.stream_bytes) == 0);
    free(before);
    few_items(f);
}

/* Where the size of a frame, or of the largest, is known before the call, too little capacity for
 * one is no list; where it is not, the item alone fails. */
static void test_capacity_of_one_item(void **state) {
    (void)state;
    static struct few f;
    static const struct {
        const char *spec;
        uint32_t base_dtype;
        bool known;
    } rows[] = {{"grad:ef=full", PITH_NONE, true},
                {"wdiff:group=64", PITH_F32, true},
                {"lossless", PITH_F32, true},
                {"lossless", PITH_NONE, false},
                {"eb:abs=0.01,block=64", PITH_NONE, false}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        context("an item with too little capacity, %s, base %u", rows[r].spec, rows[r].base_dtype);
        few_open(&f, rows[r].spec, rows[r].base_dtype, 0);
        few_items(&f);
        CHECK_OK(pith_encode(f.s[0].work, f.items, FEW, 0));
        const size_t made = f.items[WRONG].length,
                     bytes = (size_t)pith_plan_frame_bytes(f.s[0].plan, 0, 0),
                     key_bytes = (size_t)pith_plan_frame_bytes(f.s[0].plan, 0, 1);
        few_items(&f);
        for (size_t less = 1; less <= made; less += less < 20 ? 1 : 31) {
            f.items[WRONG].capacity = (rows[r].known ? bytes : made) - less;
            if (rows[r].known)
                few_refused(&f, PITH_ERR_SPACE, false, 0);
            else
                few_fail(&f, PITH_ERR_SPACE, 0);
        }
        f.items[WRONG].capacity = key_bytes - 1;
        if (rows[r].base_dtype) few_refused(&f, PITH_ERR_SPACE, false, PITH_KEY_FRAME);
        few_close(&f);
    }
}

/* A slot whose base a failed decode left half written: encode refuses the list, before it looks at
 * any value; decode, which may be given a key frame, only the item. */
static void test_invalid_slot_of_one_item(void **state) {
    (void)state;
    static struct few f;
    context("an invalid slot");
    few_open(&f, "wdiff:group=64", PITH_F32, 0);
    struct stream s, end[FEW];
    stream_open_end(&s, &f.s[0], NULL);
    for (size_t i = 0; i < FEW; i++) stream_open_end(&end[i], &f.s[0], NULL);
    const pith_view v = pith_view_flat(f.value[0], PITH_F32, LENGTH);
    struct frame key = stream_encode(&s, &v, 0, true);
    key.bytes[key.length - 1] ^= 1; /* not what it declares */
    CHECK_STATUS(PITH_ERR_CHECKSUM,
                 decode_one(end[WRONG].work, end[WRONG].stream, 0, key.bytes, key.length, NULL, 0));
    few_items(&f);
    f.items[WRONG].stream = end[WRONG].stream;
    few_refused(&f, PITH_ERR_STATE, false, 0);
    CHECK_OK(pith_encode(f.s[0].work, f.items, FEW, 0));
    for (size_t i = 0; i < FEW; i++) f.items[i].stream = end[i].stream;
    CHECK_STATUS(PITH_ERR_STATE, pith_decode(f.s[0].work, f.items, FEW, 0));
    CHECK(pith_work_error(f.s[0].work)->item == WRONG);
    for (size_t i = 0; i < FEW; i++) {
        CHECK_STATUS(i == WRONG ? PITH_ERR_STATE : PITH_OK, f.items[i].status);
        CHECK(pith_stream_step(end[i].stream, 0) == (i != WRONG));
    }
    key.bytes[key.length - 1] ^= 1;
    CHECK_OK(decode_one(end[WRONG].work, end[WRONG].stream, 0, key.bytes, key.length, NULL, 0));
    few_items(&f);
    f.items[WRONG].stream = end[WRONG].stream;
    CHECK_OK(pith_encode(f.s[0].work, f.items, FEW, 0));
    free(key.bytes);
    for (size_t i = 0; i < FEW; i++) stream_close(&end[i]);
    stream_close(&s);
    few_close(&f);
}

/* ---- Errors of data --------------------------------------------------------------------------*/

enum { TEN = 10, POINTS = 1500, KINDS = 5 };

/* Senders, receivers, and the frames of one step. */
struct ten {
    struct stream sender[TEN], receiver[TEN];
    float value[TEN][POINTS], wanted[TEN][POINTS], out[TEN][POINTS];
    struct frame frame[TEN];
    pith_item items[TEN];
};

static void ten_open(struct ten *t, const char *spec, uint32_t base_dtype) {
    pith_layout layout = flat_layout(PITH_F32, base_dtype, POINTS);
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    for (size_t i = 0; i < TEN; i++) {
        const pith_view v = pith_view_flat(t->value[i], PITH_F32, POINTS);
        stream_open(&t->sender[i], spec, &layout, NULL);
        stream_open_end(&t->receiver[i], &t->sender[i], NULL);
        gen_fill(GEN_NOISE, i, PITH_F32, t->value[i], POINTS);
        t->frame[i] = stream_encode(&t->sender[i], &v, 0, false);
        const pith_view w = pith_view_flat(t->wanted[i], PITH_F32, POINTS);
        struct stream end;
        stream_open_end(&end, &t->sender[i], NULL);
        CHECK_OK(decode_one(end.work, end.stream, 0, t->frame[i].bytes, t->frame[i].length, &w, 0));
        stream_close(&end);
    }
}

static void ten_items(struct ten *t) {
    memset(t->out, 0x5A, sizeof t->out);
    for (size_t i = 0; i < TEN; i++) {
        const pith_view o = pith_view_flat(t->out[i], PITH_F32, POINTS);
        make_item(&t->items[i], t->receiver[i].stream, &o, t->frame[i].bytes, 0,
                  t->frame[i].length);
        CHECK_OK(pith_stream_reset(t->receiver[0].work, t->receiver[i].stream));
    }
}

static void ten_close(struct ten *t) {
    for (size_t i = 0; i < TEN; i++) {
        free(t->frame[i].bytes);
        stream_close(&t->receiver[i]);
        stream_close(&t->sender[i]);
    }
}

/* Make frame i one that fails as `kind` says; the bytes are to be freed. */
static pith_status spoil(struct ten *t, size_t i, int kind, const struct frame *foreign) {
    struct frame bad = {copy_of(t->frame[i].bytes, t->frame[i].length), t->frame[i].length};
    static const pith_status wanted[KINDS] = {PITH_ERR_CHECKSUM, PITH_ERR_TRUNCATED, PITH_ERR_MAGIC,
                                              PITH_ERR_MISMATCH, PITH_ERR_CHECKSUM};
    if (kind == 0) bad.bytes[bad.length - 1] ^= 1;
    if (kind == 1) bad.length -= 1;
    if (kind == 2) bad.bytes[0] ^= 1;
    if (kind == 3) {
        free(bad.bytes);
        bad = (struct frame){copy_of(foreign->bytes, foreign->length), foreign->length};
    }
    if (kind == 4) bad.bytes[20] ^= 1; /* the header's */
    t->items[i].frame = bad.bytes;
    t->items[i].length = bad.length;
    return wanted[kind];
}

static void check_ten(struct ten *t, pith_work *work, pith_status got, const pith_status *wanted,
                      bool with_base) {
    size_t lowest = TEN;
    for (size_t i = TEN; i-- > 0;)
        if (wanted[i] != PITH_OK) lowest = i;
    CHECK_STATUS(wanted[lowest], got);
    CHECK(pith_work_error(work)->item == lowest && pith_work_error(work)->text[0] != 0);
    for (size_t i = 0; i < TEN; i++) {
        const uint64_t step = pith_stream_step(t->receiver[i].stream, 0);
        CHECK_STATUS(wanted[i], t->items[i].status);
        CHECK(step == (with_base && wanted[i] == PITH_OK));
        if (wanted[i] == PITH_OK) {
            CHECK(memcmp(t->out[i], t->wanted[i], sizeof t->out[i]) == 0);
            continue;
        }
        CHECK(all_bytes((const uint8_t *)t->out[i], sizeof t->out[i], 0x5A));
        free(t->items[i].frame);
    }
}

/* One damaged frame of ten, or two: the others are decoded, and each item tells its own. */
static void test_damaged_frames(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t base_dtype;
    } rows[] = {{"grad", PITH_NONE},
                {"wdiff:group=64,block=256", PITH_F32},
                {"lossless", PITH_F32},
                {"eb:abs=0.01,block=64", PITH_NONE}};
    static struct ten t;
    struct frame foreign;
    float zeros[99] = {0};
    const pith_view z = pith_view_flat(zeros, PITH_F32, 99);
    foreign = compress("raw", &z, NULL, 0);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ten_open(&t, rows[r].spec, rows[r].base_dtype);
        for (size_t variant = 0; variant < VARIANTS; variant++)
            for (int kind = 0; kind < KINDS; kind++)
                for (size_t i = 0; i < TEN; i += 3) {
                    const pith_env env = env_of(variant);
                    pith_status wanted[TEN] = {PITH_OK};
                    void *memory;
                    pith_work *const work = work_for(&t.sender[0].plan, 1, &env, &memory);
                    ten_items(&t);
                    context("%s, damage %d in %zu, variant %zu", rows[r].spec, kind, i, variant);
                    wanted[i] = spoil(&t, i, kind, &foreign);
                    if (i == 3) wanted[8] = spoil(&t, 8, (kind + 1) % KINDS, &foreign);
                    const pith_status got = pith_decode(work, t.items, TEN, 0);
                    check_ten(&t, work, got, wanted, rows[r].base_dtype != PITH_NONE);
                    free(memory);
                }
        ten_close(&t);
    }
    free(foreign.bytes);
}

/* One sum whose frame is damaged; the others are there, and its view is as it was. */
static void test_damaged_sums(void **state) {
    (void)state;
    static struct ten t;
    ten_open(&t, "grad", PITH_NONE);
    for (size_t variant = 0; variant < VARIANTS; variant++) {
        const pith_env env = env_of(variant);
        pith_sum sums[TEN];
        const void *frames[TEN][2];
        size_t lengths[TEN][2];
        void *memory;
        pith_work *const work = work_for(&t.sender[0].plan, 1, &env, &memory);
        ten_items(&t);
        CHECK(spoil(&t, 6, 0, NULL) == PITH_ERR_CHECKSUM);
        for (size_t i = 0; i < TEN; i++) {
            frames[i][0] = t.frame[i].bytes, frames[i][1] = t.items[i].frame;
            lengths[i][0] = lengths[i][1] = t.frame[i].length;
            sums[i] = (pith_sum){.size = sizeof sums[i],
                                 .stream = t.receiver[i].stream,
                                 .frames = frames[i],
                                 .lengths = lengths[i],
                                 .count = 2,
                                 .scale = 0.5f,
                                 .view = t.items[i].view,
                                 .status = PITH_ERR_INTERNAL};
        }
        CHECK_STATUS(PITH_ERR_CHECKSUM, pith_reduce(work, sums, TEN));
        CHECK(pith_work_error(work)->item == 6 && pith_work_error(work)->text[0] != 0);
        for (size_t i = 0; i < TEN; i++) {
            CHECK_STATUS(i == 6 ? PITH_ERR_CHECKSUM : PITH_OK, sums[i].status);
            for (size_t k = 0; k < POINTS && i != 6; k++) CHECK(t.out[i][k] == t.wanted[i][k]);
        }
        CHECK(all_bytes((const uint8_t *)t.out[6], sizeof t.out[6], 0x5A));
        free(t.items[6].frame);
        free(memory);
    }
    ten_close(&t);
}

/* One base that others changed: its item has no frame, the others have theirs. */
static void test_changed_base_of_one_item(void **state) {
    (void)state;
    static float base[2][TEN][POINTS], value[POINTS];
    const pith_view v = pith_view_flat(value, PITH_F32, POINTS);
    pith_layout layout = flat_layout(PITH_F32, PITH_F32, POINTS);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, POINTS);
    for (size_t variant = 0; variant < VARIANTS; variant++) {
        const pith_env env = env_of(variant);
        struct stream s[TEN], twin[TEN];
        static uint8_t frame[TEN][8192];
        pith_item items[TEN];
        for (size_t i = 0; i < TEN; i++) {
            stream_open(&s[i], "wdiff:group=64,block=256", &layout, NULL);
            stream_open(&twin[i], "wdiff:group=64,block=256", &layout, NULL);
            gen_fill(GEN_NOISE, i + 2, PITH_F32, base[0][i], POINTS);
            memcpy(base[1][i], base[0][i], sizeof base[1][i]);
            CHECK_OK(pith_stream_bind_base(s[i].work, s[i].stream, base[0][i], 3));
            CHECK_OK(pith_stream_bind_base(twin[i].work, twin[i].stream, base[1][i], 3));
            make_item(&items[i], s[i].stream, &v, frame[i], sizeof frame[i], SIZE_MAX);
        }
        void *memory;
        pith_work *const work = work_for(&s[0].plan, 1, &env, &memory);
        base[0][4][0] += 1;
        CHECK_STATUS(PITH_ERR_BASE, pith_encode(work, items, TEN, 0));
        CHECK(pith_work_error(work)->item == 4 && pith_work_error(work)->offset == 0);
        for (size_t i = 0; i < TEN; i++) {
            struct frame f = stream_encode(&twin[i], &v, 0, false);
            CHECK_STATUS(i == 4 ? PITH_ERR_BASE : PITH_OK, items[i].status);
            CHECK(i == 4 ? items[i].length == 0
                         : items[i].length == f.length && memcmp(frame[i], f.bytes, f.length) == 0);
            free(f.bytes);
            stream_close(&s[i]);
            stream_close(&twin[i]);
        }
        free(memory);
    }
}

/* ---- Streams and works in another call -------------------------------------------------------*/

enum { WIDE = 40000 };
static const char wide_spec[] = "grad:bits=8,block=1024,ef=full,search=none";

/* What a job of the outer call's runner does, and what it was told. */
struct inner {
    pith_work *same_work, *other_work;
    pith_stream *busy, *idle;
    struct frame frame; /* of the plan of both */
    const pith_view *view;
    size_t calls;
    bool done;
};

static void busy_calls(struct inner *in) {
    static uint8_t bytes[8 * WIDE];
    static float out[WIDE];
    pith_work *const w = in->other_work;
    const pith_stream_options options = {.size = sizeof options};
    const pith_view o = pith_view_flat(out, PITH_F32, WIDE);
    const void *const frames[1] = {in->frame.bytes};
    const uint64_t step = pith_stream_step(in->idle, 0);
    size_t n = 1;
    memset(bytes, 0x5A, sizeof bytes);
    memset(out, 0x5A, sizeof out);
    CHECK_STATUS(PITH_ERR_BUSY, encode_one(w, in->busy, in->view, 0, 0, bytes, sizeof bytes, &n));
    CHECK(n == 0 && pith_work_error(w)->text[0] != 0);
    CHECK_STATUS(PITH_ERR_BUSY,
                 decode_one(w, in->busy, 0, in->frame.bytes, in->frame.length, &o, 0));
    CHECK_STATUS(PITH_ERR_BUSY, reduce_one(w, in->busy, 0, frames, &in->frame.length, 1, 1, &o));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_set_step(w, in->busy, 0, 7));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_set_random(w, in->busy, &options));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_reset(w, in->busy));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_rollback(w, in->busy, 0));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_get_residual(w, in->busy, 0, &o));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_set_residual(w, in->busy, 0, in->view));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_save(w, in->busy, bytes, sizeof bytes, &n));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_load(w, in->busy, bytes, sizeof bytes));
    /* A list with one that is busy is refused as a whole. */
    pith_item items[2];
    make_item(&items[0], in->idle, in->view, bytes, sizeof bytes / 2, SIZE_MAX);
    make_item(&items[1], in->busy, in->view, bytes + sizeof bytes / 2, sizeof bytes / 2, SIZE_MAX);
    CHECK_STATUS(PITH_ERR_BUSY, pith_encode(w, items, 2, 0));
    CHECK(pith_work_error(w)->item == 1 && pith_stream_step(in->idle, 0) == step);
    /* The same work with a stream that is free. */
    make_item(&items[0], in->idle, in->view, bytes, sizeof bytes, SIZE_MAX);
    CHECK_STATUS(PITH_ERR_BUSY, pith_encode(in->same_work, items, 1, 0));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_reset(in->same_work, in->idle));
    CHECK(pith_stream_step(in->idle, 0) == step);
    CHECK(all_bytes(bytes, sizeof bytes, 0x5A));
    CHECK(all_bytes((const uint8_t *)out, sizeof out, 0x5A));
    /* Another work and another stream: a call like any other. What PITH_ADD reads of a stream, its
     * plan, does not change. */
    memset(out, 0, sizeof out);
    CHECK_OK(decode_one(w, in->busy, 0, in->frame.bytes, in->frame.length, &o, PITH_ADD));
    CHECK_OK(encode_one(w, in->idle, in->view, 0, 0, bytes, sizeof bytes, &n));
    CHECK(n > 0 && pith_stream_step(in->idle, 0) == step + 1);
}

static int run_inside(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    struct inner *const in = user;
    if (!in->done) {
        in->done = true;
        in->calls++;
        busy_calls(in);
    }
    return run_backwards(NULL, job, arg, count);
}

static void test_busy(void **state) {
    (void)state;
    static float value[WIDE], out[WIDE];
    static uint8_t second[2 * WIDE];
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, WIDE);
    const pith_view v = pith_view_flat(value, PITH_F32, WIDE),
                    o = pith_view_flat(out, PITH_F32, WIDE);
    struct stream s, twin, idle, hop;
    struct inner in = {.view = &v, .done = true};
    pith_env env = test_env();
    void *memory;
    size_t n;
    env.threads = 2;
    env.run = run_inside;
    env.run_user = &in;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, WIDE);
    stream_open(&s, wide_spec, &layout, NULL);
    stream_open_end(&twin, &s, NULL);
    stream_open_end(&idle, &s, NULL);
    stream_open_end(&hop, &s, NULL);
    pith_work *const work = work_for(&s.plan, 1, &env, &memory);
    in.same_work = work;
    in.other_work = idle.work;
    in.idle = idle.stream;
    in.frame = stream_encode(&twin, &v, 0, false);
    struct frame wanted = in.frame, got = {allocate(wanted.length), 0};
    const void *const frames[1] = {wanted.bytes};

    context("busy in encode");
    in.busy = s.stream;
    in.done = false;
    CHECK_OK(encode_one(work, s.stream, &v, 0, 0, got.bytes, wanted.length, &got.length));
    CHECK(got.length == wanted.length && memcmp(got.bytes, wanted.bytes, got.length) == 0);
    CHECK(pith_stream_step(s.stream, 0) == 1);
    context("busy in decode");
    in.done = false;
    CHECK_OK(decode_one(work, s.stream, 0, wanted.bytes, wanted.length, &o, 0));
    context("busy in a sum");
    in.done = false;
    CHECK_OK(reduce_one(work, s.stream, 0, frames, &wanted.length, 1, 1, &o));
    context("busy in a second hop");
    in.done = false;
    CHECK_OK(reduce_encode_one(work, s.stream, 0, frames, &wanted.length, 1, 1, hop.stream, 0,
                               second, sizeof second, &n));
    in.busy = hop.stream;
    in.done = false;
    CHECK_OK(reduce_encode_one(work, s.stream, 0, frames, &wanted.length, 1, 1, hop.stream, 0,
                               second, sizeof second, &n));
    CHECK(in.calls == 5 && pith_stream_step(idle.stream, 0) == 5);
    context("free again");
    in.done = true;
    struct frame a = stream_encode(&s, &v, 0, false), b = stream_encode(&twin, &v, 0, false);
    CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
    CHECK_OK(encode_one(work, idle.stream, &v, 0, 0, got.bytes, wanted.length, &got.length));
    free(a.bytes);
    free(b.bytes);
    free(got.bytes);
    free(wanted.bytes);
    free(memory);
    stream_close(&hop);
    stream_close(&idle);
    stream_close(&twin);
    stream_close(&s);
}

/* ---- Calls that never return -----------------------------------------------------------------*/

static jmp_buf out_of_the_call;

/* The caller's thread leaves in the middle of a call, as one that is killed does. */
static int run_away(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count) {
    (void)user;
    if (count) job(arg, 0);
    longjmp(out_of_the_call, 1);
}

static void abandon(struct stream *s, const pith_view *v, uint64_t slot) {
    pith_env env = test_env();
    void *memory;
    uint8_t *const frame = allocate((size_t)s->sizes.slot_bytes);
    env.threads = 2;
    env.run = run_away;
    pith_work *const work = work_for(&s->plan, 1, &env, &memory);
    if (setjmp(out_of_the_call) == 0) {
        size_t n;
        (void)encode_one(work, s->stream, v, slot, 0, frame, (size_t)s->sizes.slot_bytes, &n);
        check_failed("the call came back", __FILE__, __LINE__);
    }
    free(frame);
    free(memory);
}

static void test_unlock(void **state) {
    (void)state;
    static float value[WIDE], decoded[WIDE];
    const pith_view v = pith_view_flat(value, PITH_F32, WIDE),
                    out = pith_view_flat(decoded, PITH_F32, WIDE);
    gen_fill(GEN_NOISE, 1, PITH_F32, value, WIDE);
    for (int with_base = 0; with_base < 2; with_base++) {
        const char *const spec = with_base ? "wdiff:group=64,block=1024" : "raw:block=1024";
        pith_layout layout = flat_layout(PITH_F32, with_base ? PITH_F32 : PITH_NONE, WIDE);
        struct stream s, end;
        size_t n;
        layout.slots = 2;
        context("a call that never returned, %s", spec);
        stream_open(&s, spec, &layout, NULL);
        stream_open_end(&end, &s, NULL);
        pith_stream_unlock(s.stream); /* nothing to take away */
        struct frame f = stream_encode(&s, &v, 1, false);
        CHECK_OK(
            decode_one(end.work, end.stream, 1, f.bytes, f.length, with_base ? NULL : &out, 0));
        free(f.bytes);
        abandon(&s, &v, 1);
        const size_t cap = (size_t)(s.sizes.slot_bytes + s.sizes.key_bytes);
        uint8_t *const frame = allocate(cap);
        for (uint64_t slot = 0; slot < 2; slot++)
            CHECK_STATUS(PITH_ERR_BUSY, encode_one(s.work, s.stream, &v, slot, 0, frame, cap, &n));
        CHECK_STATUS(PITH_ERR_BUSY, pith_stream_reset(s.work, s.stream));
        pith_stream_unlock(s.stream);
        CHECK_OK(encode_one(s.work, s.stream, &v, 0, 0, frame, cap, &n));
        CHECK_STATUS(with_base ? PITH_ERR_STATE : PITH_OK,
                     encode_one(s.work, s.stream, &v, 1, 0, frame, cap, &n));
        if (with_base) {
            CHECK_STATUS(PITH_ERR_STATE, encode_one(s.work, s.stream, &v, 1, 0, frame, cap, &n));
            CHECK_OK(encode_one(s.work, s.stream, &v, 1, PITH_KEY_FRAME, frame, cap, &n));
            CHECK_OK(decode_one(end.work, end.stream, 1, frame, n, NULL, 0));
            CHECK_OK(encode_one(s.work, s.stream, &v, 1, 0, frame, cap, &n));
            CHECK_OK(decode_one(end.work, end.stream, 1, frame, n, NULL, 0));
            CHECK(pith_stream_base_hash(s.stream, 1) == pith_stream_base_hash(end.stream, 1));
        }
        free(frame);
        stream_close(&end);
        stream_close(&s);
    }
}

/* Lists of the other slot of a stream that a lost call left marked, and of a stream that is free:
 * the item with the first is named, and nothing is done. */
static void check_lost_in_lists(pith_work *work, pith_stream *lost, pith_stream *other,
                                const pith_view *v) {
    static uint8_t frame[2][8 * WIDE];
    static float out[2][WIDE];
    for (size_t at = 0; at < 2; at++) {
        pith_item items[2];
        pith_sum sums[2];
        const void *const frames[1] = {frame[0]};
        const size_t lengths[1] = {sizeof frame[0]};
        for (size_t i = 0; i < 2; i++) {
            const pith_view to = pith_view_flat(out[i], PITH_F32, WIDE);
            pith_stream *const stream = i == at ? lost : other;
            items[i] = (pith_item){.size = sizeof items[i],
                                   .stream = stream,
                                   .slot = 1,
                                   .view = *v,
                                   .frame = frame[i],
                                   .capacity = sizeof frame[i]};
            sums[i] = (pith_sum){.size = sizeof sums[i],
                                 .stream = stream,
                                 .slot = 1,
                                 .view = to,
                                 .frames = frames,
                                 .lengths = lengths,
                                 .count = 1};
        }
        /* Adding marks nothing and takes no mark away, also where there is nothing to add. */
        CHECK(pith_decode(work, items, 2, PITH_ADD) != PITH_OK);
        CHECK_STATUS(PITH_ERR_BUSY, pith_encode(work, items, 2, 0));
        CHECK(pith_work_error(work)->item == at && items[1 - at].status == PITH_ERR_BUSY);
        CHECK_STATUS(PITH_ERR_BUSY, pith_decode(work, items, 2, 0));
        CHECK(pith_work_error(work)->item == at);
        CHECK_STATUS(PITH_ERR_BUSY, pith_reduce(work, sums, 2));
        CHECK(pith_work_error(work)->item == at);
        CHECK_STATUS(PITH_ERR_BUSY, pith_reduce_encode(work, &sums[at], &items[1 - at], 1));
        CHECK_STATUS(PITH_ERR_BUSY, pith_reduce_encode(work, &sums[1 - at], &items[at], 1));
    }
    CHECK(pith_stream_step(lost, 1) == 0 && pith_stream_step(other, 1) == 0);
}

/* A lost call's work is made anew in its own memory. The mark of the stream names it, and was taken
 * for one of the call that found it. */
static void test_work_of_a_lost_call(void **state) {
    static float value[WIDE];
    const pith_view v = pith_view_flat(value, PITH_F32, WIDE);
    pith_layout layout = flat_layout(PITH_F32, PITH_F32, WIDE);
    const size_t bytes = 1 << 20;
    struct stream s, other;
    pith_work *work;
    size_t n;
    (void)state;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, WIDE);
    layout.slots = 2;
    stream_open(&s, "wdiff:group=64,block=1024", &layout, NULL);
    stream_open_end(&other, &s, NULL);
    uint8_t *const memory = allocate(bytes), *const frame = allocate((size_t)s.sizes.key_bytes);
    pith_env env = test_env();
    env.threads = 2;
    env.run = run_away;
    CHECK(pith_work_bytes(&s.plan, 1, 2) <= bytes);
    CHECK_OK(pith_work_init(memory, bytes, &env, &work, NULL));
    if (setjmp(out_of_the_call) == 0) {
        (void)encode_one(work, s.stream, &v, 0, 0, frame, (size_t)s.sizes.slot_bytes, &n);
        check_failed("the call came back", __FILE__, __LINE__);
    }
    work = NULL;
    env = test_env();
    CHECK_OK(pith_work_init(memory, bytes, &env, &work, NULL));
    const pith_stream_options options = {.size = sizeof options};
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_reset(work, s.stream));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_set_step(work, s.stream, 0, 7));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_set_random(work, s.stream, &options));
    CHECK_STATUS(PITH_ERR_BUSY, pith_stream_set_base(work, s.stream, &v, 0));
    CHECK(strcmp(pith_work_error(work)->text, "another call is using the stream") == 0);
    CHECK_STATUS(PITH_ERR_BUSY,
                 encode_one(work, s.stream, &v, 0, 0, frame, (size_t)s.sizes.slot_bytes, &n));
    check_lost_in_lists(work, s.stream, other.stream, &v);
    pith_stream_unlock(s.stream);
    CHECK_OK(pith_stream_set_base(work, s.stream, &v, 0));
    CHECK_OK(encode_one(work, s.stream, &v, 0, 0, frame, (size_t)s.sizes.slot_bytes, &n));
    CHECK_OK(encode_one(work, other.stream, &v, 1, 0, frame, (size_t)s.sizes.slot_bytes, &n));
    free(frame);
    free(memory);
    stream_close(&other);
    stream_close(&s);
}

/* The set of a slot lies where an encode writes the next one. */
static void test_unlock_of_a_set(void **state) {
    static float value[WIDE];
    struct stream s;
    size_t n;
    (void)state;
    const pith_view v = pith_view_flat(value, PITH_F32, WIDE);
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, WIDE);
    layout.slots = 2;
    gen_fill(GEN_NOISE, 1, PITH_F32, value, WIDE);
    stream_open(&s, "topk:density=0.1,control=nonzero,block=1024", &layout, NULL);
    const size_t cap = (size_t)s.sizes.slot_bytes;
    uint8_t *const frame = allocate(cap);
    for (uint64_t slot = 0; slot < 2; slot++)
        CHECK_OK(encode_one(s.work, s.stream, &v, slot, 0, frame, cap, &n));
    abandon(&s, &v, 1);
    pith_stream_unlock(s.stream);
    for (uint64_t slot = 0; slot < 2; slot++) {
        pith_sparse_state held = {.size = sizeof held};
        CHECK_OK(pith_sparse_get_state(s.stream, slot, &held));
        CHECK(held.holds == !slot);
        CHECK_STATUS(slot ? PITH_ERR_STATE : PITH_OK,
                     encode_one(s.work, s.stream, &v, slot, PITH_SAME_SET, frame, cap, &n));
    }
    free(frame);
    stream_close(&s);
}

/* ---- What errors tell ------------------------------------------------------------------------*/

/* Whether the text has the number, and not only as a part of a longer one. */
static bool tells(const char *text, uint64_t number) {
    char digits[24];
    const size_t n = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    for (const char *at = strstr(text, digits); at; at = strstr(at + 1, digits)) {
        const bool begins = at == text || at[-1] < '0' || at[-1] > '9';
        if (begins && (at[n] < '0' || at[n] > '9')) return true;
    }
    return false;
}

static void check_told(const pith_work *work, uint64_t expected, uint64_t found) {
    const char *const text = pith_work_error(work)->text;
    if (tells(text, expected) && tells(text, found)) return;
    fprintf(stderr, "'%s' has not %llu and %llu\n", text, (unsigned long long)expected,
            (unsigned long long)found);
    check_failed("the text tells the numbers", __FILE__, __LINE__);
}

static void check_named(const pith_work *work, const char *expected, const char *found) {
    const char *const text = pith_work_error(work)->text;
    if (strstr(text, expected) && strstr(text, found)) return;
    fprintf(stderr, "'%s' has not %s and %s\n", text, expected, found);
    check_failed("the text tells the names", __FILE__, __LINE__);
}

static void test_texts_of_arguments(void **state) {
    (void)state;
    static float value[2345];
    static uint8_t frame[20000];
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 2345);
    const pith_view whole = pith_view_flat(value, PITH_F32, 2345),
                    wrong = pith_view_flat(value, PITH_F32, 777),
                    half = pith_view_flat(value, PITH_BF16, 2345);
    struct stream s;
    size_t n;
    layout.slots = 5;
    stream_open(&s, "raw", &layout, NULL);
    pith_work *const w = s.work;
    context("texts of arguments");
    CHECK_STATUS(PITH_ERR_SHAPE, encode_one(w, s.stream, &wrong, 1, 0, frame, sizeof frame, &n));
    check_told(w, 469, 777);
    CHECK_STATUS(PITH_ERR_ARG, encode_one(w, s.stream, &whole, 9, 0, frame, sizeof frame, &n));
    check_told(w, 5, 9);
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_step(w, s.stream, 6, 0));
    check_told(w, 5, 6);
    CHECK_STATUS(PITH_ERR_SPACE, encode_one(w, s.stream, &whole, 1, 0, frame, 333, &n));
    check_told(w, pith_plan_frame_bytes(s.plan, 1, 0), 333);
    CHECK_STATUS(PITH_ERR_DTYPE, encode_one(w, s.stream, &half, 1, 0, frame, sizeof frame, &n));
    check_named(w, "f32", "bf16");
    CHECK_STATUS(PITH_ERR_SPACE, pith_stream_save(w, s.stream, frame, 17, &n));
    check_told(w, s.sizes.save_bytes, 17);
    const pith_stream_options rank = {.size = sizeof rank, .rank = 43, .ranks = 41},
                              many = {.size = sizeof many, .rank = 1, .ranks = 65537};
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(w, s.stream, &rank));
    check_told(w, 41, 43);
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(w, s.stream, &many));
    check_told(w, 65536, 65537);
    stream_close(&s);
}

/* Calls on caches, residuals and tensors without a stream once said that something was another,
 * and neither what was expected nor what was found. */
static void test_texts_of_caches(void **state) {
    static float value[64 * 64];
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 3, .shape = {64, 1, 64}};
    const uint64_t shape[3] = {17, 1, 64};
    const pith_view doubles = pith_view_dense(value, PITH_F64, 3, shape),
                    tokens = pith_view_dense(value, PITH_BF16, 3, shape);
    const pith_plan *plan;
    void *memory;
    pith_kv *cache;
    (void)state;
    context("texts of caches");
    CHECK_OK(pith_plan_create(&plan, "kv:page=16,group=64", &layout, NULL, NULL));
    pith_work *const w = work_for(&plan, 1, NULL, &memory);
    const size_t bytes = (size_t)pith_kv_bytes(plan, 0);
    uint8_t *const place = allocate(bytes);
    CHECK_OK(pith_kv_init(plan, place, bytes, &cache, NULL));
    const pith_view whole = pith_view_dense(value, PITH_F32, 3, layout.shape);
    CHECK_OK(pith_kv_append(w, &cache, &whole, 1));
    const pith_kv_range range = {cache, 0, 19, 0, 1, tokens}, wide = {cache, 0, 17, 0, 1, doubles};
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_read(w, &range, 1));
    check_told(w, 19, 17);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_read(w, &wide, 1));
    check_named(w, "bf16", "f64");
    CHECK_STATUS(PITH_ERR_SHAPE, pith_kv_read_add(w, cache, 0, 19, &tokens));
    check_told(w, 19, 17);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_read_add(w, cache, 0, 17, &doubles));
    check_named(w, "bf16", "f64");
    const pith_kv_pair pair = {value, place, 0};
    const pith_view page = pith_view_dense(value, PITH_F16, 3, (uint64_t[]){16, 1, 64}),
                    other = pith_view_dense(value, PITH_F64, 3, (uint64_t[]){16, 1, 64});
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_encode_pages(w, plan, &page, &pair, 1));
    check_named(w, "f16", "f32");
    CHECK_STATUS(PITH_ERR_DTYPE, pith_kv_decode_pages(w, plan, &other, &pair, 1));
    check_named(w, "bf16", "f64");
    free(place);
    free(memory);
    pith_plan_destroy(plan);
}

static void test_texts_without_a_work(void **state) {
    static float value[100];
    static uint8_t frame[2000];
    const pith_view v = pith_view_flat(value, PITH_F32, 100),
                    doubles = pith_view_flat(value, PITH_F64, 50);
    const pith_layout half = {.size = sizeof half, .dtype = PITH_BF16},
                      based = {.size = sizeof based, .base_dtype = PITH_F16},
                      flat = flat_layout(PITH_F32, 99, 100);
    pith_error error = {.size = sizeof error};
    const pith_plan *plan;
    struct stream s;
    uint64_t bytes;
    size_t n;
    (void)state;
    context("texts of calls without a work");
    CHECK_STATUS(PITH_ERR_ARG, pith_compress_bound("wdiff", &v, NULL, &half, &bytes, &error));
    CHECK(strstr(error.text, "f32") && strstr(error.text, "bf16"));
    CHECK_STATUS(PITH_ERR_ARG, pith_compress_bound("wdiff", &v, &v, &based, &bytes, &error));
    CHECK(strstr(error.text, "f32") && strstr(error.text, "f16"));
    CHECK_STATUS(PITH_ERR_DTYPE, pith_plan_create(&plan, "wdiff", &flat, NULL, &error));
    CHECK(tells(error.text, 99));
    CHECK_OK(pith_compress("wdiff", &v, &v, NULL, NULL, frame, sizeof frame, &n, &error));
    CHECK_STATUS(PITH_ERR_BASE, pith_decompress(frame, n, NULL, NULL, &v, &error));
    CHECK(strstr(error.text, "f32"));
    double norm;
    CHECK_STATUS(PITH_ERR_DTYPE, pith_sparse_norm(&doubles, &norm, &error));
    CHECK(strstr(error.text, "f64"));
    const char *const specs[2] = {"embed:dim=4", "embed:dim=8"};
    pith_row_statistics rows = {.size = sizeof rows};
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&rows, specs, 2, &v, NULL, &error));
    CHECK(tells(error.text, 4) && tells(error.text, 8));
    CHECK_STATUS(PITH_ERR_ARG, pith_row_statistics_sample(&rows, specs, 9, &v, NULL, &error));
    CHECK(tells(error.text, PITH_ROW_STATISTICS_MAX) && tells(error.text, 9));
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    stream_open(&s, "grad:ef=full", &layout, NULL);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_stream_get_residual(s.work, s.stream, 0, &doubles));
    check_named(s.work, "bf16", "f64");
    stream_close(&s);
}

static void test_texts_of_frames(void **state) {
    (void)state;
    static float value[2345], out[2345];
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, 2345),
                      shorter = flat_layout(PITH_F32, PITH_F32, 2344);
    const pith_view v = pith_view_flat(value, PITH_F32, 2345),
                    u = pith_view_flat(value, PITH_F32, 2344),
                    o = pith_view_flat(out, PITH_F32, 2345);
    const pith_stream_options at = {.size = sizeof at, .step = 4321},
                              later = {.size = sizeof later, .step = 8765};
    struct stream s, end, other, wider;
    context("texts of frames");
    stream_open_with(&s, "wdiff:group=64", &layout, NULL, &at);
    stream_open_end(&end, &s, &later);
    stream_open_with(&other, "wdiff:group=64", &shorter, NULL, &later);
    stream_open_with(&wider, "wdiff:bits=8,group=64", &layout, NULL, &later);
    pith_work *const w = end.work;
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK_STATUS(PITH_ERR_STEP, decode_one(w, end.stream, 0, f.bytes, f.length, &o, 0));
    check_told(w, 8765, 4321);
    CHECK_STATUS(PITH_ERR_TRUNCATED, decode_one(w, end.stream, 0, f.bytes, f.length - 5, &o, 0));
    check_told(w, f.length, f.length - 5);
    free(f.bytes);
    f = stream_encode(&other, &u, 0, false);
    CHECK_STATUS(PITH_ERR_MISMATCH, decode_one(w, end.stream, 0, f.bytes, f.length, &o, 0));
    check_told(w, 2345, 2344);
    free(f.bytes);
    f = stream_encode(&wider, &v, 0, false);
    CHECK_STATUS(PITH_ERR_MISMATCH, decode_one(w, end.stream, 0, f.bytes, f.length, &o, 0));
    check_named(w, "expected a frame of wdiff:group=64", "found wdiff:bits=8");
    free(f.bytes);
    f = compress("raw", &v, NULL, 0);
    CHECK_STATUS(PITH_ERR_MISMATCH, decode_one(w, end.stream, 0, f.bytes, f.length, &o, 0));
    check_named(w, "of codec raw", "expected wdiff");
    free(f.bytes);
    stream_close(&end);
    stream_close(&s);
    stream_close(&other);
    stream_close(&wider);
    pith_env env = test_env();
    env.max_output_bytes = 9379;
    stream_open(
        &s, "raw",
        &(pith_layout){.size = sizeof(pith_layout), .dtype = PITH_F32, .ndim = 1, .shape = {2345}},
        &env);
    f = stream_encode(&s, &v, 0, false);
    CHECK_STATUS(PITH_ERR_LIMIT, decode_one(s.work, s.stream, 0, f.bytes, f.length, &o, 0));
    check_told(s.work, 9379, 9380);
    free(f.bytes);
    stream_close(&s);
}

/* A call that succeeds leaves no text of the one before. */
static void test_texts_go_away(void **state) {
    (void)state;
    float value[10] = {0};
    uint8_t frame[256];
    size_t n;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
    const pith_view v = pith_view_flat(value, PITH_F32, 10);
    struct stream s;
    context("texts of calls that succeed");
    stream_open(&s, "raw", &layout, NULL);
    const pith_error *const error = pith_work_error(s.work);
    CHECK(error->size == sizeof *error && error->text[0] == 0);
    CHECK_STATUS(PITH_ERR_ARG, encode_one(s.work, s.stream, &v, 3, 0, frame, sizeof frame, &n));
    CHECK(error->text[0] != 0);
    CHECK_OK(encode_one(s.work, s.stream, &v, 0, 0, frame, sizeof frame, &n));
    CHECK(error->text[0] == 0 && error->offset == 0 && error->item == 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_step(s.work, s.stream, 1, 0));
    CHECK(error->text[0] != 0);
    CHECK_OK(pith_stream_set_step(s.work, s.stream, 0, 0));
    CHECK(error->text[0] == 0);
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_alignment),
        cmocka_unit_test(test_works_refused),
        cmocka_unit_test(test_every_size_of_a_work),
        cmocka_unit_test(test_smaller_plan),
        cmocka_unit_test(test_many_items),
        cmocka_unit_test(test_items_of_one_plan),
        cmocka_unit_test(test_many_sums),
        cmocka_unit_test(test_longer_items),
        cmocka_unit_test(test_slot_twice),
        cmocka_unit_test(test_arguments_of_one_item),
        cmocka_unit_test(test_streams_of_one_item),
        cmocka_unit_test(test_capacity_of_one_item),
        cmocka_unit_test(test_invalid_slot_of_one_item),
        cmocka_unit_test(test_damaged_frames),
        cmocka_unit_test(test_damaged_sums),
        cmocka_unit_test(test_changed_base_of_one_item),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_unlock),
        cmocka_unit_test(test_work_of_a_lost_call),
        cmocka_unit_test(test_unlock_of_a_set),
        cmocka_unit_test(test_texts_of_arguments),
        cmocka_unit_test(test_texts_of_caches),
        cmocka_unit_test(test_texts_without_a_work),
        cmocka_unit_test(test_texts_of_frames),
        cmocka_unit_test(test_texts_go_away),
    };
    return cmocka_run_group_tests_name("work", tests, NULL, NULL);
}
