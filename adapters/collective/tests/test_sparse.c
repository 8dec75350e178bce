/* test_sparse.c - sparse all-reduce against sums of dense arrays that every rank computes for all
 * ranks, bit for bit, over steps with error feedback; damage, and ranks that do not come or die.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: test_sparse RANKS [exact|silent|late|die KIND] */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "sim.h"

enum { N = 3000, RANKS = 16, PIECES = 5, REFRESH = 3 };

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static uint32_t magnitude(float x) { return bits_of(x) & 0x7FFFFFFFu; }

/* ---- The model -------------------------------------------------------------------------------*/

/* A group of ranks, as it would be on one machine. */
struct model {
    uint32_t kind;
    uint64_t n, k, cap;
    uint64_t pieces, piece[PIECES];
    float acc[RANKS][N]; /* residuals, and in a step the accumulators */
    bool set[RANKS][N];  /* chosen */
    float out[N];
    uint64_t chosen[RANKS], summed;
    uint64_t calls, begin[RANKS + 1]; /* Ok-Topk */
    float threshold;
};

static const float *sorted;
static int larger_first(const void *a, const void *b) {
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const uint32_t x = magnitude(sorted[i]), y = magnitude(sorted[j]);
    return x != y ? (x < y ? 1 : -1) : i < j ? -1 : i > j;
}

/* Marks the k largest of elements [first, first + count) of x, of equal ones the first, but no 0.
 * Returns the magnitude of the last one. */
static uint32_t choose(const float *x, uint64_t first, uint64_t count, uint64_t k, bool *set) {
    static uint32_t order[N];
    uint32_t last = 1;
    for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)(first + i);
    sorted = x;
    qsort(order, count, sizeof *order, larger_first);
    for (uint64_t i = 0; i < k && i < count && magnitude(x[order[i]]); i++) {
        set[order[i]] = true;
        last = magnitude(x[order[i]]);
    }
    return last;
}

/* Marks those of at least a threshold, and of too many the largest. */
static uint64_t reach(const float *x, uint64_t first, uint64_t end, uint32_t threshold,
                      uint64_t most, bool *set) {
    uint64_t found = 0;
    for (uint64_t i = first; i < end; i++) found += magnitude(x[i]) >= threshold;
    if (found > most) {
        choose(x, first, end - first, most, set);
        return most;
    }
    for (uint64_t i = first; i < end; i++) set[i] = magnitude(x[i]) >= threshold;
    return found;
}

static uint64_t count_set(const bool *set, uint64_t n) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++) count += set[i];
    return count;
}

static void model_init(struct model *m, const pith_collective_options *o, uint64_t k) {
    memset(m, 0, sizeof *m);
    m->kind = o->kind;
    m->n = o->count;
    m->k = k;
    m->cap = 2;
    m->pieces = o->pieces ? o->piece_count : 1;
    m->piece[0] = o->count;
    for (uint64_t p = 0; o->pieces && p < o->piece_count; p++) m->piece[p] = o->pieces[p];
    const uint64_t ranks = (uint64_t)world_ranks;
    for (uint64_t r = 0; r < ranks; r++) m->begin[r] = m->n / ranks * r;
    m->begin[ranks] = m->n;
}

/* Adds inputs to residuals, and chooses; requests are those of every rank. */
static void model_choose(struct model *m, float (*const in)[N],
                         const pith_sparse_request (*requests)[PIECES]) {
    for (int r = 0; r < world_ranks; r++) {
        uint64_t at = 0;
        memset(m->set[r], 0, sizeof m->set[r]);
        for (uint64_t i = 0; i < m->n; i++) m->acc[r][i] += in[r][i];
        for (uint64_t p = 0; p < m->pieces; at += m->piece[p++]) {
            uint64_t first = 0, count = m->piece[p], k = m->k;
            if (requests) {
                const pith_sparse_request *const q = &requests[r][p];
                first = q->first;
                count = q->count ? q->count : count - first;
                if (q->k) k = q->k;
            }
            choose(m->acc[r], at + first, count, k, m->set[r]);
        }
        m->chosen[r] = count_set(m->set[r], m->n);
    }
}

static void model_gather(struct model *m, float scale) {
    for (uint64_t i = 0; i < m->n; i++) {
        float sum = 0;
        for (int r = 0; r < world_ranks; r++) {
            if (!m->set[r][i]) continue;
            sum += m->acc[r][i];
            m->acc[r][i] = 0;
        }
        m->out[i] = sum * scale;
    }
}

static void model_union(struct model *m, float scale) {
    m->summed = 0;
    for (uint64_t i = 0; i < m->n; i++) {
        bool any = false;
        float sum = m->acc[0][i];
        for (int r = 0; r < world_ranks; r++) any = any || m->set[r][i];
        for (int r = 1; r < world_ranks; r++) sum += m->acc[r][i];
        m->out[i] = any ? 0 + scale * sum : 0;
        m->summed += any;
        for (int r = 0; r < world_ranks && any; r++) m->acc[r][i] = 0;
    }
}

/* Returns where a rank's elements of at least a threshold are cut into equal parts. */
static void model_cuts(const struct model *m, const float *acc, uint32_t threshold, uint64_t *cut) {
    const uint64_t ranks = (uint64_t)world_ranks;
    uint64_t index[N], count = 0;
    for (uint64_t i = 0; i < m->n; i++)
        if (magnitude(acc[i]) >= threshold) index[count++] = i;
    for (uint64_t r = 1; r < ranks; r++)
        cut[r] += count ? index[count * r / ranks] : m->n / ranks * r;
}

static void model_oktopk(struct model *m, float scale) {
    static float sum[N], kept[N];
    static bool chosen[N], last[N];
    const bool refresh = m->calls % REFRESH == 0;
    const uint64_t most = m->k * m->cap < m->n ? m->k * m->cap : m->n;
    uint64_t cut[RANKS] = {0};
    memset(sum, 0, sizeof sum);
    memset(chosen, 0, sizeof chosen);
    memset(last, 0, sizeof last);
    for (int r = 0; r < world_ranks; r++) {
        uint32_t t = UINT32_MAX;
        for (uint64_t i = 0; i < m->n; i++)
            if (m->set[r][i] && magnitude(m->acc[r][i]) < t) t = magnitude(m->acc[r][i]);
        if (m->chosen[r] < m->k || m->k >= m->n) t = 1;
        if (refresh) model_cuts(m, m->acc[r], t, cut);
        memset(m->set[r], 0, sizeof m->set[r]);
        for (int d = 0; d < world_ranks; d++)
            reach(m->acc[r], m->begin[d], m->begin[d + 1], t, most, m->set[r]);
        for (uint64_t i = 0; i < m->n; i++)
            if (m->set[r][i]) sum[i] += m->acc[r][i];
    }
    for (int d = 0; d < world_ranks; d++)
        if (refresh)
            choose(sum, m->begin[d], m->begin[d + 1] - m->begin[d], m->k, chosen);
        else
            reach(sum, m->begin[d], m->begin[d + 1], bits_of(m->threshold), most, chosen);
    for (uint64_t i = 0; i < m->n; i++) kept[i] = chosen[i] ? sum[i] : 0;
    if (refresh) {
        uint32_t t = choose(kept, 0, m->n, m->k, last);
        if (count_set(last, m->n) < m->k || m->k >= m->n) t = 1;
        memcpy(&m->threshold, &t, sizeof t);
        for (int d = 1; d < world_ranks; d++) m->begin[d] = cut[d] / (uint64_t)world_ranks;
    } else {
        memcpy(last, chosen, sizeof last);
    }
    m->summed = 0;
    for (uint64_t i = 0; i < m->n; i++) {
        last[i] = last[i] && magnitude(sum[i]);
        m->summed += last[i];
        m->out[i] = last[i] ? sum[i] * scale : 0;
        for (int r = 0; r < world_ranks; r++)
            if (last[i] && m->set[r][i]) m->acc[r][i] = 0;
    }
    double t = (double)m->threshold;
    if ((double)m->summed < 2.0 / 3 * (double)m->k) t /= 1.012;
    if ((double)m->summed > 5.0 / 4 * (double)m->k) t *= 1.012;
    m->threshold = (float)t;
    m->calls++;
}

static void model_step(struct model *m, float (*const in)[N],
                       const pith_sparse_request (*requests)[PIECES], float scale) {
    model_choose(m, in, requests);
    if (m->kind == PITH_COLLECTIVE_SPARSE_GATHER) model_gather(m, scale);
    if (m->kind == PITH_COLLECTIVE_SPARSE_UNION) model_union(m, scale);
    if (m->kind == PITH_COLLECTIVE_SPARSE_OKTOPK) model_oktopk(m, scale);
}

/* ---- Channels --------------------------------------------------------------------------------*/

static const char spec[] = "topk:k=40,control=exact,ef=full,block=512";
enum { K = 40 };
static float inputs[RANKS][N], out_data[N], wanted[N];
static struct model model;

static pith_collective_options options(uint32_t kind) {
    return (pith_collective_options){
        .size = sizeof(pith_collective_options),
        .kind = kind,
        .dtype = PITH_F32,
        .count = N,
        .spec = spec,
        .ranks_per_node = 2,
        .timeout = 60,
        .refresh = kind == PITH_COLLECTIVE_SPARSE_OKTOPK ? REFRESH : 0};
}

static void fill(uint64_t n, uint64_t step, bool coarse) {
    for (int r = 0; r < world_ranks; r++)
        for (uint64_t i = 0; i < n; i++)
            inputs[r][i] = sim_value((uint32_t)r, i, step, coarse) * (coarse || i < n / 3 ? 1 : 4);
}

static pith_status call(pith_collective_channel *ch, uint64_t n, float scale, uint64_t step,
                        const pith_sparse_request *requests, pith_collective_report *report) {
    const pith_view in = pith_view_flat(inputs[world_rank], PITH_F32, n);
    const pith_view out = pith_view_flat(out_data, PITH_F32, n);
    const pith_collective_call c = {.size = sizeof c,
                                    .inputs = &in,
                                    .outputs = &out,
                                    .input_count = 1,
                                    .output_count = 1,
                                    .scale = scale,
                                    .step = step,
                                    .requests = requests};
    return pith_collective_run(ch, &c, report);
}

static pith_status sum(pith_collective_channel *ch, uint64_t step, pith_collective_report *report) {
    fill(N, step, false);
    return call(ch, N, 1, step, NULL, report);
}

/* Compares what a report says was sent with what the model's rank has to send. A message has a
 * header, a head, and then a table and frames, or values: their bytes are known but for those of
 * the frames, which are the same to all ranks. */
static void compare_sent(const struct model *m, const pith_collective_report *report) {
    enum { HEADS = 64 + 16, ENTRY = 16 };
    const uint64_t ranks = (uint64_t)world_ranks, others = ranks - 1;
    const uint64_t hops = m->kind == PITH_COLLECTIVE_SPARSE_GATHER  ? 1
                          : m->kind == PITH_COLLECTIVE_SPARSE_UNION ? 3
                                                                    : 2;
    const uint64_t node = (uint64_t)world_rank / 2 * 2; /* its first rank; nodes have two */
    const uint64_t inside = node + 2 <= ranks ? 1 : 0;
    const uint64_t even = (m->summed + ranks - 1) / ranks, begin = (uint64_t)world_rank * even;
    const uint64_t part = begin >= m->summed         ? 0
                          : m->summed - begin < even ? m->summed - begin
                                                     : even;
    const uint64_t values = report->sent_values[0] + report->sent_values[1];
    uint64_t bytes = report->sent_bytes[0] + report->sent_bytes[1];
    CHECK(report->sent_messages[0] == (m->n ? hops * inside : 0));
    CHECK(report->sent_messages[1] == (m->n ? hops * (others - inside) : 0));
    CHECK(report->total_seconds > 0 && report->wait_seconds >= 0);
    CHECK(report->encode_seconds + report->recode_seconds + report->decode_seconds <=
          report->total_seconds);
    if (!m->n || !others) {
        CHECK(bytes == 0 && values == 0);
        return;
    }
    CHECK(report->encode_seconds > 0 && report->decode_seconds > 0 && report->cpu_seconds > 0);
    CHECK((report->recode_seconds > 0) == (hops > 1));
    if (m->kind == PITH_COLLECTIVE_SPARSE_OKTOPK) {
        CHECK(bytes >= values * sizeof(float) + hops * others * (HEADS + ENTRY));
        return;
    }
    if (m->kind == PITH_COLLECTIVE_SPARSE_UNION) {
        CHECK(values == m->chosen[world_rank] * others + m->summed - part + part * others);
        bytes -= 2 * others * HEADS + (m->summed - part + part * others) * sizeof(float);
    } else {
        CHECK(values == m->chosen[world_rank] * others);
    }
    const uint64_t message = bytes / others, least = HEADS + m->pieces * ENTRY;
    CHECK(message * others == bytes);
    CHECK(message >= least + (m->kind == PITH_COLLECTIVE_SPARSE_UNION
                                  ? 0
                                  : m->chosen[world_rank] * sizeof(float)));
    CHECK(message <= least + m->pieces * 256 + m->n * (sizeof(float) + 1));
}

/* Compares the output, the residual and the counts of a call with the model's. */
static void compare(pith_collective_channel *ch, const struct model *m,
                    const pith_collective_report *report) {
    static float residual[N];
    uint64_t chosen[RANKS], all = 0;
    CHECK(memcmp(out_data, m->out, m->n * sizeof *out_data) == 0);
    CHECK_STATUS(pith_collective_get_residual(ch, 0, m->n, 1, residual), PITH_OK);
    bool same = true;
    for (uint64_t i = 0; i < m->n; i++) same = same && residual[i] == m->acc[world_rank][i];
    CHECK(same);
    CHECK_STATUS(pith_collective_chosen(ch, chosen), PITH_OK);
    for (int r = 0; r < world_ranks; r++) {
        CHECK(chosen[r] == m->chosen[r]);
        all += chosen[r];
    }
    CHECK(report->chosen == all);
    CHECK(report->summed == m->summed);
    CHECK(report->levels == 1 && report->slices == 1 && report->compressed == 1);
    compare_sent(m, report);
}

/* What a group agreed to choose from in a step: its ranges, and how many of them. */
typedef void plan_fn(uint64_t step, const struct model *m, pith_sparse_request (*of)[PIECES]);

/* Ranges that rotate (MiCRO). */
static void rotate(uint64_t step, const struct model *m, pith_sparse_request (*of)[PIECES]) {
    const uint64_t ranks = (uint64_t)world_ranks;
    for (uint64_t r = 0; r < ranks; r++) {
        const uint64_t part = (step + r) % ranks;
        of[r][0].first = m->n * part / ranks;
        of[r][0].count = m->n * (part + 1) / ranks - of[r][0].first;
        of[r][0].k = K / ranks;
        if (!of[r][0].count) of[r][0].first = m->n;
    }
}

/* One rank chooses for all (CLT-k). */
static void lead(uint64_t step, const struct model *m, pith_sparse_request (*of)[PIECES]) {
    for (uint64_t r = 0; r < (uint64_t)world_ranks; r++)
        if (r != step % (uint64_t)world_ranks) of[r][0].first = m->n;
}

/* Each piece belongs to one rank, which chooses so many from it (DEFT). */
static void layers(uint64_t step, const struct model *m, pith_sparse_request (*of)[PIECES]) {
    for (uint64_t r = 0; r < (uint64_t)world_ranks; r++)
        for (uint64_t p = 0; p < m->pieces; p++) {
            of[r][p].k = 1 + 3 * p;
            if ((p + step) % (uint64_t)world_ranks != r) of[r][p].first = m->piece[p];
        }
}

static void against_model(const pith_collective_options *o, uint64_t k, float scale, bool coarse,
                          plan_fn *plan, uint64_t steps) {
    pith_collective_channel *ch;
    pith_error error = {.size = sizeof error};
    pith_collective_report report = {.size = sizeof report};
    CHECK_STATUS(sim_create(&ch, o, &error), PITH_OK);
    if (!ch) {
        printf("%s\n", error.text);
        return;
    }
    model_init(&model, o, k);
    for (uint64_t step = 1; step <= steps; step++) {
        pith_sparse_request requests[RANKS][PIECES];
        memset(requests, 0, sizeof requests);
        for (int r = 0; r < RANKS; r++)
            for (int p = 0; p < PIECES; p++) requests[r][p].size = sizeof **requests;
        if (plan) plan(step, &model, requests);
        fill(o->count, step, coarse);
        model_step(&model, inputs, plan ? requests : NULL, scale);
        CHECK_STATUS(call(ch, o->count, scale, step, plan ? requests[world_rank] : NULL, &report),
                     PITH_OK);
        compare(ch, &model, &report);
    }
    pith_collective_destroy(ch);
}

static void kinds(void) {
    static const uint64_t pieces[] = {0, 1000, 7, N - 1507, 500};
    for (uint32_t kind = PITH_COLLECTIVE_SPARSE_GATHER; kind <= PITH_COLLECTIVE_SPARSE_OKTOPK;
         kind++) {
        pith_collective_options o = options(kind);
        against_model(&o, K, 1, false, NULL, 12);
        against_model(&o, K, 1.0f / 3, false, NULL, 3);
        against_model(&o, K, 1, true, NULL, 8); /* values that are equal */
        o.spec = "topk:k=5000,control=exact,ef=full";
        against_model(&o, 5000, 1, false, NULL, 3); /* all */
        o.spec = "topk:k=3,control=exact,ef=full,index=fast";
        for (o.count = 0; o.count < 20; o.count += o.count < 3 ? 1 : 5)
            against_model(&o, 3, 1, false, NULL, 5); /* empty regions and parts */
        if (kind == PITH_COLLECTIVE_SPARSE_OKTOPK) continue;
        o = options(kind);
        against_model(&o, K, 1, false, rotate, 2 * (uint64_t)world_ranks);
        against_model(&o, K, 1, false, lead, 2 * (uint64_t)world_ranks);
        o.pieces = pieces;
        o.piece_count = PIECES;
        against_model(&o, K, 0.5f, false, NULL, 4);
        against_model(&o, K, 1, false, layers, 6);
    }
}

/* Returns the nearest number of bf16, and of two the even one. */
static uint16_t bf16_of(float x) {
    const uint32_t u = bits_of(x);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

/* Lists of tensors, strides, and dtypes of 16 bits: the same as dense f32 where those are exact. */
static void lists(uint32_t kind) {
    static uint16_t halves[N];
    static float wide[2 * N], apart[N];
    const pith_collective_options o = options(kind);
    pith_collective_options half = o;
    pith_collective_channel *plain, *ch, *of_half;
    half.dtype = PITH_BF16;
    CHECK_STATUS(sim_create(&plain, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&of_half, &half, NULL), PITH_OK);
    pith_view in[3] = {pith_view_flat(wide, PITH_F32, 1000), pith_view_flat(NULL, PITH_F32, 0),
                       pith_view_flat(inputs[world_rank] + 1000, PITH_F32, N - 1000)};
    in[0].stride[0] = 2;
    pith_view out[2] = {pith_view_flat(apart + 1999, PITH_F32, 2000),
                        pith_view_flat(apart + 2000, PITH_F32, N - 2000)};
    out[0].stride[0] = -1;
    const pith_collective_call c = {.size = sizeof c,
                                    .inputs = in,
                                    .outputs = out,
                                    .input_count = 3,
                                    .output_count = 2,
                                    .step = 5};
    fill(N, 5, true);
    for (uint64_t i = 0; i < 1000; i++) wide[2 * i] = inputs[world_rank][i];
    CHECK_STATUS(call(plain, N, 1, 5, NULL, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_run(ch, &c, NULL), PITH_OK);
    bool same = true;
    for (uint64_t i = 0; i < N; i++) same = same && apart[i < 2000 ? 1999 - i : i] == out_data[i];
    CHECK(same);
    for (uint64_t i = 0; i < N; i++) halves[i] = (uint16_t)(bits_of(inputs[world_rank][i]) >> 16);
    const pith_view from = pith_view_flat(halves, PITH_BF16, N), to = from; /* in place */
    CHECK_STATUS(sim_reduce(of_half, &from, &to, 1, 5, NULL), PITH_OK);
    same = true;
    for (uint64_t i = 0; i < N; i++) same = same && bf16_of(out_data[i]) == halves[i];
    CHECK(same);
    pith_collective_destroy(plain);
    pith_collective_destroy(ch);
    pith_collective_destroy(of_half);
}

/* Nothing is lost: what came out and what is left are what went in, exactly where sums are. */
static void nothing_lost(uint32_t kind, const char *with) {
    pith_collective_options o = options(kind);
    static float in[N], out[N], left[N];
    pith_collective_channel *ch;
    o.spec = with;
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    for (uint64_t step = 1; step < 20; step++) {
        fill(N, step, true);
        CHECK_STATUS(call(ch, N, 1, step, NULL, NULL), PITH_OK);
        for (uint64_t i = 0; i < N; i++) {
            out[i] += out_data[i];
            for (int r = 0; r < world_ranks; r++) in[i] += inputs[r][i];
        }
    }
    /* Ranks without residuals call with zeros, and are told what others have left. */
    CHECK_STATUS(pith_collective_get_residual(ch, 0, N, 1, left), PITH_OK);
    pith_collective_destroy(ch);
    const pith_collective_options all = {.size = sizeof all,
                                         .kind = PITH_COLLECTIVE_ALLREDUCE,
                                         .dtype = PITH_F32,
                                         .count = N,
                                         .spec = "raw",
                                         .timeout = 60};
    const pith_view view = pith_view_flat(left, PITH_F32, N);
    CHECK_STATUS(sim_create(&ch, &all, NULL), PITH_OK);
    CHECK_STATUS(sim_reduce(ch, &view, &view, 1, 1, NULL), PITH_OK);
    pith_collective_destroy(ch);
    bool same = true;
    for (uint64_t i = 0; i < N; i++) same = same && out[i] + left[i] == in[i];
    CHECK(same);
}

static bool all_nan(const float *x, uint64_t n) {
    bool nan = true;
    for (uint64_t i = 0; i < n; i++) nan = nan && x[i] != x[i];
    return nan;
}

/* An input that is not finite is seen on every rank, also where nobody chose it, in each dtype and
 * however it lies; a step later nothing of it is left. */
static void not_finite(uint32_t kind) {
    static const uint32_t dtypes[] = {PITH_F32, PITH_F16, PITH_BF16};
    static const uint16_t infinity[] = {0, 0xFC00, 0x7F80}, number[] = {0, 0x7BFF, 0xFF7F};
    static float wide[2 * N];
    static uint16_t halves[N];
    const bool last = world_rank == world_ranks - 1;
    pith_sparse_request request = {.size = sizeof request, .count = N / 2};
    pith_collective_channel *ch;
    for (int d = 0; d < 3; d++) {
        pith_collective_options o = options(kind);
        o.dtype = dtypes[d];
        CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
        for (uint64_t step = 0; step < 3; step++) {
            fill(N, step, true);
            void *const data = d ? (void *)halves : (void *)wide;
            pith_view in = pith_view_flat(data, dtypes[d], N);
            if (!d) in.stride[0] = 2;
            for (uint64_t i = 0; i < N; i++) {
                wide[2 * i] = inputs[world_rank][i];
                wide[2 * i + 1] = INFINITY; /* between the elements */
                halves[i] = i % 7 ? 0 : number[d];
            }
            if (step == 1 && last) wide[2 * (N - 1)] = -INFINITY;
            if (step == 1 && last) halves[N - 1] = infinity[d];
            pith_collective_call c = {.size = sizeof c, .inputs = &in, .input_count = 1};
            const pith_view out = pith_view_flat(out_data, PITH_F32, N);
            c.outputs = &out, c.output_count = 1, c.step = step;
            if (kind != PITH_COLLECTIVE_SPARSE_OKTOPK) c.requests = &request;
            CHECK_STATUS(pith_collective_run(ch, &c, NULL), PITH_OK);
            CHECK(all_nan(out_data, N) == (step == 1));
            for (uint64_t i = 0; i < N && step != 1 && !d; i++) CHECK(isfinite(out_data[i]));
            if (step == 1) CHECK_STATUS(pith_collective_rollback(ch, step), PITH_OK);
        }
        pith_collective_destroy(ch);
    }
}

/* A controller hears how many all chose together: with ranges it steers the group to k. */
static void reported(void) {
    pith_collective_options o = options(PITH_COLLECTIVE_SPARSE_UNION);
    pith_collective_channel *ch;
    pith_collective_report report = {.size = sizeof report};
    pith_sparse_state state = {.size = sizeof state};
    pith_sparse_request requests[RANKS][PIECES];
    uint64_t all = 0;
    o.spec = "topk:k=200,cap=8,ef=full";
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_sparse_state(ch, 0, &state), PITH_OK);
    CHECK(state.k == 200 && state.most == 1600);
    CHECK_STATUS(pith_collective_sparse_state(ch, 1, &state), PITH_ERR_ARG);
    model_init(&model, &o, 200);
    for (uint64_t step = 1; step < 60; step++) {
        memset(requests, 0, sizeof requests);
        rotate(step, &model, requests);
        requests[world_rank][0].size = sizeof **requests;
        requests[world_rank][0].k = 0;
        fill(N, step, false);
        CHECK_STATUS(call(ch, N, 1, step, requests[world_rank], &report), PITH_OK);
        if (step >= 40) all += report.chosen;
    }
    CHECK(all > 20 * 140 && all < 20 * 280);
    pith_collective_destroy(ch);
}

/* Requests of a newer caller, whose structs are longer: the next one lies behind them. */
static void longer_requests(void) {
    static const uint64_t pieces[] = {1000, 7, N - 1507, 500, 0};
    pith_collective_options o = options(PITH_COLLECTIVE_SPARSE_GATHER);
    struct {
        pith_sparse_request request;
        uint64_t more;
    } longer[PIECES];
    pith_sparse_request own[PIECES];
    pith_collective_channel *ch[2];
    o.pieces = pieces;
    o.piece_count = PIECES;
    memset(longer, 0, sizeof longer);
    memset(own, 0, sizeof own);
    for (uint64_t p = 0; p < PIECES; p++) {
        own[p] = (pith_sparse_request){.size = sizeof own[p], .k = 2 * p + 1};
        longer[p].request = own[p];
        longer[p].request.size = sizeof longer[p];
    }
    for (int k = 0; k < 2; k++) CHECK_STATUS(sim_create(&ch[k], &o, NULL), PITH_OK);
    fill(N, 1, false);
    CHECK_STATUS(call(ch[0], N, 1, 1, own, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(call(ch[1], N, 1, 1, &longer[0].request, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    longer[2].request.size = sizeof own[0];
    CHECK_STATUS(call(ch[1], N, 1, 2, &longer[0].request, NULL), PITH_ERR_ARG);
    own[0].size = 0;
    CHECK_STATUS(call(ch[1], N, 1, 2, own, NULL), PITH_ERR_ARG);
    for (int k = 0; k < 2; k++) pith_collective_destroy(ch[k]);
}

/* One call twice in a list that is waited for ends once: what it remembers to be taken back stays
 * that of the call before. */
static void waited_for_twice(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_SPARSE_OKTOPK);
    pith_collective_channel *ch;
    pith_collective_request *request[3] = {NULL};
    pith_collective_report reports[3];
    size_t bytes[2];
    const pith_view in = pith_view_flat(inputs[world_rank], PITH_F32, N),
                    out = pith_view_flat(out_data, PITH_F32, N);
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    const uint64_t capacity = pith_collective_save_bytes(ch);
    unsigned char *const saved[2] = {sim_take(capacity), sim_take(capacity)};
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_save(ch, saved[0], capacity, &bytes[0]), PITH_OK);
    fill(N, 2, false);
    CHECK_STATUS(sim_start(ch, &in, &out, 1, 2, &request[0]), PITH_OK);
    request[2] = request[0];
    for (int k = 0; k < 3; k++) reports[k] = (pith_collective_report){.size = sizeof reports[k]};
    CHECK_STATUS(pith_collective_wait_all(3, request, reports), PITH_OK);
    CHECK(!request[0] && !request[2] && memcmp(&reports[0], &reports[2], sizeof reports[0]) == 0);
    CHECK(reports[0].slices == 1 && reports[1].slices == 0);
    CHECK_STATUS(pith_collective_rollback(ch, 2), PITH_OK);
    CHECK_STATUS(pith_collective_save(ch, saved[1], capacity, &bytes[1]), PITH_OK);
    /* Behind the words there are streams, which count the frames that were taken back, too. */
    CHECK(bytes[0] == bytes[1] && memcmp(saved[0], saved[1], 8 * (8 + (size_t)world_ranks)) == 0);
    free(saved[0]);
    free(saved[1]);
    pith_collective_destroy(ch);
}

/* ---- What goes wrong -------------------------------------------------------------------------*/

static bool is_data_error(pith_status status) { return (int)status <= -20 && (int)status > -40; }

/* Damages every hop at several places of a message; afterwards the channel works, as one that never
 * saw the failed calls. */
static void damaged(uint32_t kind) {
    const pith_collective_options o = options(kind);
    const long places[] = {0, 33, 60, 64, 70, 72, 80, 88, 95, 96, 130, 160, 200, -1, -20};
    const int hops = kind == PITH_COLLECTIVE_SPARSE_GATHER  ? 1
                     : kind == PITH_COLLECTIVE_SPARSE_UNION ? 3
                                                            : 2;
    pith_collective_channel *ch, *clean;
    pith_collective_report report = {.size = sizeof report};
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&clean, &o, NULL), PITH_OK);
    uint64_t step = 1;
    for (int hop = 0; hop < hops; hop++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++, step++) {
            fault_damage = (struct fault_damage){
                world_rank == world_ranks - 1, (uint32_t)hop, places[k], 0, 0, 0};
            if (k == 1) fault_damage.lost = 40;
            const pith_status status = sum(ch, step, &report);
            fault_damage.on = false;
            CHECK(sim_same_status(status));
            CHECK(is_data_error(status));
            CHECK(report.failed_rank >= 0 && report.failed_rank < world_ranks);
            CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
            memcpy(wanted, out_data, sizeof wanted);
            CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
            CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
        }
    /* A message to another rank, whole. */
    if (hops > 1 && world_ranks > 2) {
        const uint32_t tag = kind == PITH_COLLECTIVE_SPARSE_UNION;
        fault_astray = (struct fault_astray){world_rank == 2, tag, {0, 1}, 0};
        CHECK_STATUS(sum(ch, step, NULL), PITH_ERR_CORRUPT);
        fault_astray.on = false;
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
    }
    pith_collective_destroy(ch);
    pith_collective_destroy(clean);
}

/* What makes the bodies of messages whole again: their hash, as sparse.c has it. */
static void seal_body(unsigned char *body, size_t bytes) {
    uint64_t x, word;
    memcpy(&x, body + 8, sizeof x);
    for (size_t at = 16; at < 16 + bytes; at += sizeof word) {
        memcpy(&word, body + at, sizeof word);
        x = (x ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        x ^= x >> 32;
    }
    memcpy(body, &x, sizeof x);
}

static int (*honest_isend)(void *user, uint32_t peer, uint32_t tag, const void *data,
                           uint64_t bytes, uint64_t *request);
static uint64_t first_cut; /* where a rank says that the second region begins; 0: where it does */

/* Sends regions of Ok-Topk that do not ascend, in a message that is whole. */
static int descending_isend(void *user, uint32_t peer, uint32_t tag, const void *data,
                            uint64_t bytes, uint64_t *request) {
    enum { HEADER = 64, CUTS = 16 + 16 };
    unsigned char *const body = (unsigned char *)(uintptr_t)data + HEADER;
    const size_t cuts = ((size_t)world_ranks - 1) * sizeof(uint64_t);
    if (first_cut && tag == 1) {
        memset(body + CUTS, 0, cuts);
        memcpy(body + CUTS, &first_cut, sizeof first_cut);
        seal_body(body, 16 + (cuts + 15) / 16 * 16);
    }
    return honest_isend(user, peer, tag, data, bytes, request);
}

static void wrap_descending(pith_transport *t) {
    fault_wrap(t);
    honest_isend = t->isend;
    t->isend = descending_isend;
}

/* Regions that no rank cuts once ended a call well, and the next one could not use them. */
static void descending(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_SPARSE_OKTOPK);
    void (*const usual)(pith_transport *) = sim_change;
    pith_collective_channel *ch;
    sim_change = wrap_descending;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    sim_change = usual;
    for (int beyond = world_ranks < 3; beyond < 2; beyond++) {
        if (world_rank == world_ranks - 1) first_cut = (uint64_t)N + (uint64_t)beyond;
        CHECK_STATUS(sum(ch, 1, NULL), PITH_ERR_CORRUPT);
        first_cut = 0;
    }
    for (uint64_t step = 1; step < 2 + REFRESH; step++) CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
    pith_collective_destroy(ch);
}

/* A step that is taken back may be taken again, and a checkpoint goes on like the original. */
static void remembered(uint32_t kind) {
    pith_collective_options o = options(kind);
    pith_collective_channel *ch, *other;
    size_t bytes = 0;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&other, &o, NULL), PITH_OK);
    for (uint64_t step = 1; step < 8; step++) {
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
        memcpy(wanted, out_data, sizeof wanted);
        CHECK_STATUS(pith_collective_rollback(ch, step), PITH_OK);
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
        CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    }
    const uint64_t capacity = pith_collective_save_bytes(ch);
    unsigned char *const saved = sim_take(capacity);
    CHECK_STATUS(pith_collective_save(ch, saved, capacity, &bytes), PITH_OK);
    CHECK(bytes == capacity);
    CHECK_STATUS(pith_collective_load(other, saved, bytes), PITH_OK);
    for (uint64_t step = 8; step < 12; step++) {
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
        memcpy(wanted, out_data, sizeof wanted);
        CHECK_STATUS(sum(other, step, NULL), PITH_OK);
        CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    }
    if (kind == PITH_COLLECTIVE_SPARSE_OKTOPK) {
        saved[8 * 7 + 8 + 3] ^= 0x80; /* a threshold below 0 */
        CHECK_STATUS(pith_collective_load(other, saved, bytes), PITH_ERR_CORRUPT);
        saved[8 * 7 + 8 + 3] ^= 0x80;
    }
    CHECK_STATUS(pith_collective_load(other, saved, bytes), PITH_OK);
    saved[bytes - 1] ^= 1;
    CHECK(pith_collective_load(other, saved, bytes) != PITH_OK);
    pith_collective_destroy(other);
    CHECK_STATUS(sim_create(&other, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_reset(ch), PITH_OK);
    for (uint64_t step = 1; step < 4; step++) {
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
        memcpy(wanted, out_data, sizeof wanted);
        CHECK_STATUS(sum(other, step, NULL), PITH_OK);
        CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    }
    pith_collective_destroy(ch);
    pith_collective_destroy(other);
    free(saved);
}

static void refused_spec(uint32_t kind, const char *with, pith_status status) {
    pith_collective_options o = options(kind);
    pith_collective_channel *ch;
    pith_error error = {.size = sizeof error};
    o.spec = with;
    CHECK_STATUS(sim_create(&ch, &o, &error), status);
    CHECK(!ch && error.text[0]);
}

static void arguments(void) {
    enum {
        GATHER = PITH_COLLECTIVE_SPARSE_GATHER,
        UNION = PITH_COLLECTIVE_SPARSE_UNION,
        OKTOPK = PITH_COLLECTIVE_SPARSE_OKTOPK
    };
    const bool failing = world_rank == world_ranks / 2;
    static const uint64_t pieces[] = {N - 1, 2};
    uint64_t counts[RANKS];
    pith_collective_channel *ch;
    refused_spec(GATHER, "grad", PITH_ERR_UNSUPPORTED);
    refused_spec(GATHER, "topk:ef=full,clear=call", PITH_ERR_UNSUPPORTED);
    refused_spec(GATHER, "topk:values=none", PITH_ERR_UNSUPPORTED);
    refused_spec(UNION, "topk", PITH_ERR_UNSUPPORTED);
    refused_spec(UNION, "topk:ef=ema:0.5", PITH_ERR_UNSUPPORTED);
    refused_spec(UNION, "topk:ef=full,values=f16", PITH_ERR_UNSUPPORTED);
    refused_spec(UNION, "topk:ef=full,transform=dct", PITH_ERR_UNSUPPORTED);
    refused_spec(OKTOPK, "topk:ef=full,transform=hadamard", PITH_ERR_UNSUPPORTED);
    refused_spec(OKTOPK, "topk:density=0", PITH_ERR_SPEC);
    if (world_ranks > 1) {
        refused_spec(GATHER, failing ? "topk:k=40" : "topk:k=41", PITH_ERR_MISMATCH);
        refused_spec(UNION, failing ? "topk:ef=full,index=fast" : "topk:ef=full",
                     PITH_ERR_MISMATCH);
    }
    pith_collective_options o = options(UNION);
    o.pieces = pieces;
    o.piece_count = 2;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_ERR_ARG);
    o = options(UNION);
    o.threshold = 5;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_ERR_ARG);
    o = options(PITH_COLLECTIVE_ALLREDUCE);
    o.spec = "grad";
    o.refresh = 5;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_ERR_ARG);
    o.refresh = 0;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_chosen(ch, counts), PITH_ERR_ARG);
    pith_sparse_request request = {.size = sizeof request};
    CHECK_STATUS(call(ch, N, 1, 1, failing ? &request : NULL, NULL), PITH_ERR_UNSUPPORTED);
    pith_collective_destroy(ch);
    o = options(UNION);
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_collective_chosen(ch, NULL), PITH_ERR_ARG);
    request.first = failing ? N + 1 : 0;
    CHECK_STATUS(call(ch, N, 1, 1, &request, NULL), PITH_ERR_ARG);
    CHECK(failing == (pith_collective_last_error(ch)->text[0] != 0));
    CHECK_STATUS(call(ch, N, 1, failing ? 2 : 1, NULL, NULL),
                 world_ranks > 1 ? PITH_ERR_STEP : PITH_OK);
    CHECK_STATUS(call(ch, N, 1, 3, NULL, NULL), PITH_OK);
    pith_collective_destroy(ch);
}

struct budget {
    int left;
    long blocks;
};

static void *take(void *user, size_t bytes, size_t align) {
    struct budget *const b = user;
    if (b->left-- <= 0) return NULL;
    b->blocks++;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void give(void *user, void *memory, size_t bytes) {
    struct budget *const b = user;
    (void)bytes;
    if (memory) b->blocks--;
    free(memory);
}

/* One rank runs out of memory at any place: all hear of it, and nothing is lost. Calls allocate
 * nothing. */
static void no_memory(uint32_t kind) {
    struct budget budget = {0};
    const pith_env env = {
        .size = sizeof env, .alloc = take, .release = give, .alloc_user = &budget};
    pith_collective_options o = options(kind);
    pith_collective_channel *ch = NULL;
    pith_status status = PITH_ERR_MEMORY;
    o.env = &env;
    for (int left = 0; status == PITH_ERR_MEMORY && left < 1000; left++) {
        budget.left = world_rank == 0 ? left : 100000;
        status = sim_create(&ch, &o, NULL);
        CHECK(sim_same_status(status));
        CHECK(status == PITH_OK || (status == PITH_ERR_MEMORY && budget.blocks == 0));
    }
    CHECK_STATUS(status, PITH_OK);
    budget.left = 0;
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    pith_collective_destroy(ch);
    CHECK(budget.blocks == 0);
}

static void late(uint32_t kind) {
    const struct timespec nap = {0, 10000000};
    pith_collective_options o = options(kind);
    pith_collective_channel *ch;
    o.timeout = 1;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    for (double end = sim_now() + 2; world_rank == world_ranks - 1 && sim_now() < end;)
        nanosleep(&nap, NULL);
    const double begin = sim_now();
    CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_TIMEOUT);
    CHECK(sim_now() - begin < 4);
    CHECK_STATUS(sum(ch, 2, NULL), PITH_ERR_BROKEN);
    world_barrier();
    pith_collective_destroy(ch);
}

static void leave(void) { _exit(0); }

/* The last rank dies in the second hop of a call, or in the only one. */
static void die(uint32_t kind) {
    pith_collective_options o = options(kind);
    pith_collective_channel *ch;
    o.timeout = 2;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    if (world_rank == world_ranks - 1) {
        fault_at_send = leave;
        fault_sends_left = kind == PITH_COLLECTIVE_SPARSE_GATHER ? 0 : world_ranks - 1;
        CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
        _exit(1); /* it should have died in the call */
    }
    const double begin = sim_now();
    const pith_status status = sum(ch, 2, NULL);
    CHECK(status == PITH_ERR_TIMEOUT || status == PITH_ERR_TRANSPORT);
    CHECK(sim_now() - begin < 5);
    CHECK_STATUS(sum(ch, 3, NULL), PITH_ERR_BROKEN);
    pith_collective_destroy(ch);
    _exit(sim_failures() != 0);
}

int main(int argc, char **argv) {
    world_begin(&argc, &argv);
    const char *const mode = argc > 1 ? argv[1] : "";
    sim_change = !strcmp(mode, "exact") ? fault_exact : fault_wrap;
    if (!strcmp(mode, "silent")) sim_change = fault_silent;
    if (!strcmp(mode, "die")) die((uint32_t)atoi(argv[2]));
    for (uint32_t kind = PITH_COLLECTIVE_SPARSE_GATHER;
         kind <= PITH_COLLECTIVE_SPARSE_OKTOPK && !strcmp(mode, "late"); kind++)
        late(kind);
    if (!strcmp(mode, "late")) return world_end("sparse", sim_failures());
    kinds();
    for (uint32_t kind = PITH_COLLECTIVE_SPARSE_GATHER; kind <= PITH_COLLECTIVE_SPARSE_OKTOPK;
         kind++) {
        lists(kind);
        not_finite(kind);
        nothing_lost(kind, "topk:k=40,ef=full");
        nothing_lost(kind, spec);
        remembered(kind);
        if (world_ranks > 1 && !mode[0]) damaged(kind);
        if (!mode[0]) no_memory(kind);
    }
    nothing_lost(PITH_COLLECTIVE_SPARSE_GATHER, "topk:density=0.02,values=f16,ef=full");
    if (world_ranks > 1 && !mode[0]) descending();
    reported();
    longer_requests();
    waited_for_twice();
    if (!mode[0]) arguments();
    fault_end();
    return world_end("sparse", sim_failures());
}
