/* sim.c - the serial twin of the collective layer, and what its tests share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void (*sim_change)(pith_transport *transport);
static int failures;

/* ---- Checks ----------------------------------------------------------------------------------*/

bool sim_check(bool good, const char *what, const char *file, int line) {
    if (good) return true;
    if (failures++ < 10) printf("rank %d: %s:%d: not so: %s\n", world_rank, file, line, what);
    return false;
}

bool sim_check_status(pith_status got, pith_status wanted, const char *what, const char *file,
                      int line) {
    if (got == wanted) return true;
    if (failures++ < 10)
        printf("rank %d: %s:%d: %s: %s, not %s\n", world_rank, file, line, what,
               pith_status_name(got), pith_status_name(wanted));
    return false;
}

int sim_failures(void) { return failures; }

/* ---- Channels and calls ----------------------------------------------------------------------*/

pith_status sim_create(pith_collective_channel **channel, const pith_collective_options *options,
                       pith_error *error) {
    pith_transport transport;
    *channel = NULL;
    CHECK_STATUS(world_transport(&transport), PITH_OK);
    if (sim_change) sim_change(&transport);
    return pith_collective_create(channel, &transport, options, error);
}

static pith_collective_call call_of(const pith_view *in, const pith_view *out, float scale,
                                    uint32_t flags, uint64_t step) {
    return (pith_collective_call){.size = sizeof(pith_collective_call),
                                  .inputs = in,
                                  .outputs = out,
                                  .input_count = 1,
                                  .output_count = 1,
                                  .scale = scale,
                                  .flags = flags,
                                  .step = step};
}

pith_status sim_start(pith_collective_channel *channel, const pith_view *in, const pith_view *out,
                      float scale, uint64_t step, pith_collective_request **request) {
    const pith_collective_call call = call_of(in, out, scale, 0, step);
    return pith_collective_start(channel, &call, request);
}

pith_status sim_reduce(pith_collective_channel *channel, const pith_view *in, const pith_view *out,
                       float scale, uint64_t step, pith_collective_report *report) {
    const pith_collective_call call = call_of(in, out, scale, 0, step);
    return pith_collective_run(channel, &call, report);
}

pith_status sim_gather(pith_collective_channel *channel, const pith_view *in, const pith_view *out,
                       uint32_t flags, uint64_t step, pith_collective_report *report) {
    const pith_collective_call call = call_of(in, out, 0, flags, step);
    return pith_collective_run(channel, &call, report);
}

pith_status sim_exchange(pith_collective_channel *channel, const pith_view *in,
                         const pith_view *out, uint64_t step, pith_collective_report *report) {
    return sim_reduce(channel, in, out, 0, step, report);
}

bool sim_same_status(pith_status status) {
    const uint64_t own = (uint64_t)(100 + (int)status);
    const uint64_t low = world_lowest(own), high = 200 - world_lowest(200 - own);
    return low == high;
}

double sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *sim_take(uint64_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (memory) return memory;
    printf("no memory\n");
    exit(1);
}

pith_work *sim_work(const pith_plan *a, const pith_plan *b) {
    static void *memory;
    static size_t held;
    static pith_work *work;
    const pith_plan *const plans[] = {a, b};
    const size_t bytes = (size_t)pith_work_bytes(plans, b ? 2 : 1, 0);
    if (bytes <= held) return work;
    free(memory);
    memory = sim_take(bytes);
    held = bytes;
    CHECK_STATUS(pith_work_init(memory, bytes, NULL, &work, NULL), PITH_OK);
    return work;
}

pith_status sim_encode(pith_stream *stream, const pith_view *view, void *frame, size_t capacity,
                       size_t *written) {
    pith_item item = {
        .size = sizeof item, .stream = stream, .view = *view, .frame = frame, .capacity = capacity};
    const pith_status status = pith_encode(sim_work(pith_stream_plan(stream), NULL), &item, 1, 0);
    CHECK_STATUS(item.status, status);
    *written = item.length;
    return status;
}

/* ---- Values ----------------------------------------------------------------------------------*/

static uint32_t scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(x >> 32);
}

float sim_value(uint32_t rank, uint64_t index, uint64_t step, bool coarse) {
    const uint32_t h = scramble(index * 1000003 + rank * 10007 + step * 101 + 1);
    if (coarse) return (float)((int)(h % 255) - 127) / 64.0f;
    return (float)(int32_t)h * 0x1p-31f * (float)(1 + index % 7);
}

static uint16_t half(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    if (x == 0) return 0;
    return (uint16_t)((b >> 16 & 0x8000) | ((b >> 23 & 0xFF) - 112) << 10 | (b >> 13 & 0x3FF));
}

void sim_fill(void *data, uint32_t dtype, uint64_t count, uint32_t rank, uint64_t step) {
    for (uint64_t i = 0; i < count; i++) {
        const float x = sim_value(rank, i, step, dtype != PITH_F32);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (dtype == PITH_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = dtype == PITH_F16 ? half(x) : (uint16_t)(bits >> 16);
    }
}

/* ---- Coders: one plan and stream for every frame that somebody makes --------------------------*/

struct coder {
    struct coder *next;
    uint32_t hop, rank, owner;
    uint64_t slice, count;
    const pith_plan *plan;
    pith_stream *stream;
    void *memory;
    unsigned char *frame;
    size_t bytes, cap;
};

struct sim {
    pith_collective_options o;
    uint32_t ranks, nodes;
    bool two_level, packed;
    struct coder *coders;
};

static uint32_t node_of(const struct sim *s, uint32_t rank) { return rank / s->o.ranks_per_node; }
static uint32_t local_of(const struct sim *s, uint32_t rank) { return rank % s->o.ranks_per_node; }
static uint32_t locals(const struct sim *s, uint32_t node) {
    const uint32_t left = s->ranks - node * s->o.ranks_per_node;
    return left < s->o.ranks_per_node ? left : s->o.ranks_per_node;
}

static const char *spec_of(const struct sim *s, uint32_t hop) {
    const char *last = s->two_level || (s->o.inter && s->nodes == s->ranks && s->nodes > 1)
                           ? s->o.inter
                           : s->o.spec;
    if (!s->packed) return "raw";
    if (hop == 0) return s->two_level ? s->o.spec : last;
    return hop == 2 && s->o.gather ? s->o.gather : last;
}

/* Sets the random bits that the text of pith_collective.h promises. */
static pith_stream_options random_of(const struct sim *s, const struct coder *c) {
    pith_stream_options random = {.size = sizeof random,
                                  .seed = s->o.seed,
                                  .rng_stream = s->o.rng_stream + c->hop * s->ranks + c->rank};
    if (c->hop == 2 || !strstr(spec_of(s, c->hop), "antithetic")) return random;
    const uint32_t node = node_of(s, c->rank);
    random.rng_stream =
        s->o.rng_stream + c->hop * s->ranks + (c->hop == 0 && s->two_level ? node : 0);
    random.rank = c->hop ? node : s->two_level ? local_of(s, c->rank) : c->rank;
    random.ranks = c->hop ? s->nodes : s->two_level ? locals(s, node) : s->ranks;
    return random;
}

static void make_coder(const struct sim *s, struct coder *c) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = c->hop ? PITH_F32 : s->o.dtype,
                                .ndim = 1,
                                .flags = PITH_LAYOUT_CHECKSUMS,
                                .shape = {c->count}};
    const pith_stream_options random = random_of(s, c);
    pith_sizes sizes = {.size = sizeof sizes};
    CHECK_STATUS(pith_plan_create(&c->plan, spec_of(s, c->hop), &layout, NULL, NULL), PITH_OK);
    CHECK_STATUS(pith_plan_sizes(c->plan, &sizes), PITH_OK);
    c->cap = sizes.slot_bytes;
    c->frame = sim_take(c->cap);
    c->memory = sim_take(sizes.stream_bytes);
    CHECK_STATUS(
        pith_stream_init(c->plan, c->memory, sizes.stream_bytes, &random, &c->stream, NULL),
        PITH_OK);
}

static struct coder *coder_of(struct sim *s, uint32_t hop, uint32_t rank, uint32_t owner,
                              uint64_t slice, uint64_t count) {
    struct coder *c = s->coders;
    while (c && (c->hop != hop || c->rank != rank || c->owner != owner || c->slice != slice))
        c = c->next;
    if (c) return c;
    c = sim_take(sizeof *c);
    *c = (struct coder){.next = s->coders, .hop = hop, .rank = rank, .owner = owner};
    c->slice = slice;
    c->count = count;
    make_coder(s, c);
    return s->coders = c;
}

static void set_step(struct coder *c, uint64_t step) {
    CHECK_STATUS(pith_stream_set_step(sim_work(c->plan, NULL), c->stream, 0, step), PITH_OK);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

struct sim *sim_new(const pith_collective_options *o, uint32_t ranks) {
    struct sim *s = sim_take(sizeof *s);
    s->o = *o;
    s->ranks = ranks;
    if (!s->o.slice) s->o.slice = 131072;
    if (!s->o.ranks_per_node) s->o.ranks_per_node = ranks;
    s->nodes = (ranks + s->o.ranks_per_node - 1) / s->o.ranks_per_node;
    s->packed = o->count >= o->threshold;
    s->two_level = s->packed && o->inter && s->nodes > 1 && s->nodes < ranks;
    return s;
}

void sim_free(struct sim *s) {
    while (s->coders) {
        struct coder *c = s->coders;
        s->coders = c->next;
        pith_plan_destroy(c->plan);
        free(c->memory);
        free(c->frame);
        free(c);
    }
    free(s);
}

uint64_t sim_shard(const struct sim *s, uint32_t rank, uint64_t *first) {
    const uint64_t n = s->o.count, even = (n + s->ranks - 1) / s->ranks;
    *first = 0;
    if (!s->o.counts) {
        *first = rank * even < n ? rank * even : n;
        return n - *first < even ? n - *first : even;
    }
    for (uint32_t r = 0; r < rank; r++) *first += s->o.counts[r];
    return s->o.counts[rank];
}

struct frames {
    const void *frame[64];
    size_t bytes[64];
    size_t count;
    struct coder *last;
};

static void add_frame(struct frames *f, struct coder *c) {
    f->frame[f->count] = c->frame;
    f->bytes[f->count++] = c->bytes;
    f->last = c;
}

static struct coder *encode(struct sim *s, const void *input, uint32_t rank, uint32_t owner,
                            uint64_t slice, uint64_t first, uint64_t count, uint64_t step) {
    struct coder *c = coder_of(s, 0, rank, owner, slice, count);
    const char *at = (const char *)input + first * pith_dtype_bytes(s->o.dtype);
    const pith_view view = pith_view_flat(at, s->o.dtype, count);
    set_step(c, step);
    CHECK_STATUS(sim_encode(c->stream, &view, c->frame, c->cap, &c->bytes), PITH_OK);
    return c;
}

static pith_sum sum_of(const struct frames *f, float scale) {
    return (pith_sum){.size = sizeof(pith_sum),
                      .stream = f->last->stream,
                      .frames = f->frame,
                      .lengths = f->bytes,
                      .count = f->count,
                      .scale = scale};
}

static struct coder *recode(struct sim *s, const struct frames *f, uint32_t hop, uint32_t rank,
                            uint32_t owner, uint64_t slice, float scale, uint64_t step) {
    struct coder *c = coder_of(s, hop, rank, owner, slice, f->last->count);
    const pith_sum sum = sum_of(f, scale);
    pith_item item = {
        .size = sizeof item, .stream = c->stream, .frame = c->frame, .capacity = c->cap};
    set_step(c, step);
    CHECK_STATUS(pith_reduce_encode(sim_work(f->last->plan, c->plan), &sum, &item, 1), PITH_OK);
    c->bytes = item.length;
    return c;
}

/* Collects all frames that reach the owner for one slice. */
static void collect(struct sim *s, const void *const *inputs, uint32_t owner, uint64_t slice,
                    uint64_t first, uint64_t count, uint64_t step, struct frames *f) {
    if (!s->two_level) {
        for (uint32_t r = 0; r < s->ranks; r++)
            add_frame(f, encode(s, inputs[r], r, owner, slice, first, count, step));
        return;
    }
    for (uint32_t m = 0; m < s->nodes; m++) {
        const uint32_t lowest = m * s->o.ranks_per_node, size = locals(s, m);
        struct frames of_node = {.count = 0};
        for (uint32_t j = 0; j < size; j++)
            add_frame(&of_node,
                      encode(s, inputs[lowest + j], lowest + j, owner, slice, first, count, step));
        add_frame(f, recode(s, &of_node, 1, lowest + local_of(s, owner) % size, owner, slice, 1.0f,
                            step));
    }
}

void sim_sum(struct sim *s, const void *const *inputs, uint32_t owner, float scale, uint64_t step,
             uint32_t out_dtype, void *out) {
    uint64_t first;
    const uint64_t total = sim_shard(s, owner, &first);
    for (uint64_t at = 0; at < total; at += s->o.slice) {
        const uint64_t slice = at / s->o.slice;
        const uint64_t count = total - at < s->o.slice ? total - at : s->o.slice;
        const pith_view view =
            pith_view_flat((char *)out + at * pith_dtype_bytes(out_dtype), out_dtype, count);
        struct frames f = {.count = 0};
        float factor = scale;
        collect(s, inputs, owner, slice, first + at, count, step, &f);
        if (s->o.kind == PITH_COLLECTIVE_ALLREDUCE) {
            struct coder *c = recode(s, &f, 2, owner, owner, slice, scale, step);
            f.count = 0;
            factor = 1;
            add_frame(&f, c);
        }
        pith_sum sum = sum_of(&f, factor);
        sum.view = view;
        CHECK_STATUS(pith_reduce(sim_work(f.last->plan, NULL), &sum, 1), PITH_OK);
    }
}
