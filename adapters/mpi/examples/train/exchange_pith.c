/* exchange_pith.c - the same exchange through pith: how a trainer calls pith_mpi.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Gradients: one reduce-scatter channel; codes of 8 bits inside a node, of 4 bits between nodes.
 * Or, with --sparse, a sparse all-reduce of the largest ones, of which this rank takes its shard:
 * every rank chooses from a part of its own, and parts move until all choose alike many (ExDyna).
 * Error feedback keeps the rest. Gains and biases take part: no element is exempt from a choice.
 * Weights: one all-gather channel of differences. The live replica is its base, so that nothing is
 * kept twice: each owner sends how its master weights differ from what all ranks hold, and all
 * ranks, the owner too, add the same codes to the same bits.
 */
#include <pith/pith_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "model.h"
#include "options.h"

struct pith {
    struct exchange exchange; /* first: the trainer's pointer is this one */
    const struct world *world;
    struct replica *replica;
    uint32_t replica_type;
    pith_collective_channel *grads, *weights;
    int differences; /* weights travel as differences, not as they are */
    uint64_t weight_step;
    float *sparse_mean;               /* of all gradients; NULL: gradients are not sparse */
    pith_exdyna parts, parts_of_last; /* who chooses where: in the next step, in the last one */
};

static int failed(pith_status status, const char *what, const char *text) {
    if (status != PITH_OK)
        fprintf(stderr, "train: %s: %s: %s\n", what, pith_status_name(status), text);
    return status != PITH_OK;
}

/* ---- Channels ---------------------------------------------------------------------------------*/

static pith_collective_options common(const struct pith *pith, const struct options *options) {
    pith_collective_options common = {.size = sizeof common};
    common.dtype = PITH_F32;
    common.count = pith->replica->count;
    common.ranks_per_node = (uint32_t)pith->world->per_node;
    common.seed = options->seed;
    common.timeout = 120;
    return common;
}

static size_t list_exempt(pith_exempt ranges[VECTORS], const char *how) {
    struct range vectors[VECTORS];
    if (!strcmp(how, "no")) return 0;
    model_vectors(vectors);
    for (size_t i = 0; i < VECTORS; i++)
        ranges[i] = (pith_exempt){vectors[i].first, vectors[i].count,
                                  strcmp(how, "16") ? PITH_EXEMPT_EXACT : PITH_EXEMPT_16};
    return VECTORS;
}

static int open_sparse_grads(struct pith *pith, const struct options *options) {
    pith_error error = {.size = sizeof error};
    pith_collective_options grads = common(pith, options);
    grads.kind = PITH_COLLECTIVE_SPARSE_UNION;
    grads.spec = options->sparse;
    pith->sparse_mean = calloc(pith->replica->count, sizeof *pith->sparse_mean);
    if (world_sum(pith->world, !pith->sparse_mean) != 0) return -1;
    pith->parts.size = sizeof pith->parts;
    if (failed(pith_exdyna_init(&pith->parts, pith->replica->count, (uint32_t)pith->world->ranks,
                                &error),
               "parts of gradients", error.text))
        return -1;
    return failed(pith_mpi_create(&pith->grads, pith->world->comm, &grads, &error),
                  "channel of sparse gradients", error.text);
}

static int open_grads(struct pith *pith, const struct options *options) {
    if (*options->sparse) return open_sparse_grads(pith, options);
    pith_exempt ranges[VECTORS];
    pith_error error = {.size = sizeof error};
    pith_collective_options grads = common(pith, options);
    grads.kind = PITH_COLLECTIVE_REDUCE_SCATTER;
    grads.spec = options->intra;
    grads.inter = options->inter;
    grads.exempt = ranges;
    grads.exempt_count = list_exempt(ranges, options->exempt);
    return failed(pith_mpi_create(&pith->grads, pith->world->comm, &grads, &error),
                  "channel of gradients", error.text);
}

static int open_weights(struct pith *pith, const struct options *options) {
    pith_error error = {.size = sizeof error};
    pith_collective_options weights = common(pith, options);
    weights.kind = PITH_COLLECTIVE_ALLGATHER;
    weights.spec = options->weights;
    weights.rng_stream = 3 * (uint32_t)pith->world->ranks; /* after those of the gradients */
    pith->differences = !strncmp(options->weights, "wdiff", 5);
    if (pith->differences) {
        weights.base_dtype = pith->replica_type;
        weights.flags = PITH_COLLECTIVE_EXTERNAL_BASE;
    }
    if (failed(pith_mpi_create(&pith->weights, pith->world->comm, &weights, &error),
               "channel of weights", error.text))
        return -1;
    if (!pith->differences) return 0;
    return failed(pith_collective_bind_base(pith->weights, pith->replica->live, 0),
                  "base of weights", "");
}

/* ---- Steps ------------------------------------------------------------------------------------*/

static void count_times(struct traffic *traffic, const pith_collective_report *report) {
    traffic->encode += report->encode_seconds + report->recode_seconds;
    traffic->decode += report->decode_seconds;
    traffic->wait += report->wait_seconds;
    traffic->total += report->total_seconds;
}

static void count_sent(struct traffic *traffic, int path, const pith_collective_report *report,
                       int level) {
    traffic->bytes[path] += (double)report->sent_bytes[level];
    traffic->values[path] += (double)report->sent_values[level];
}

static int run_grads(struct pith *pith, const float *grads, const pith_view *out,
                     const pith_sparse_request *request, uint64_t step) {
    const pith_view in = pith_view_flat(grads, PITH_F32, pith->replica->count);
    const float mean = 1.0f / (float)pith->world->ranks;
    struct traffic *traffic = &pith->exchange.traffic;
    pith_collective_report report = {.size = sizeof report};
    const pith_collective_call call = {.size = sizeof call,
                                       .inputs = &in,
                                       .outputs = out,
                                       .input_count = 1,
                                       .output_count = 1,
                                       .scale = mean,
                                       .step = step,
                                       .requests = request};
    const pith_status status = pith_collective_run(pith->grads, &call, &report);
    count_times(traffic, &report);
    count_sent(traffic, GRAD_INTRA, &report, 0);
    count_sent(traffic, GRAD_INTER, &report, 1);
    return failed(status, "gradients", pith_collective_last_error(pith->grads)->text);
}

static int pith_exchange_reduce(struct exchange *exchange, const float *grads, float *shard,
                                uint64_t step) {
    struct pith *pith = (struct pith *)exchange;
    const pith_view out = pith_view_flat(shard, PITH_F32, pith->world->count);
    return run_grads(pith, grads, &out, NULL, step);
}

/* Every rank gets all of the sparse mean, and keeps its shard. What each rank chose moves the parts
 * for the next step, on all ranks alike. */
static int pith_exchange_reduce_sparse(struct exchange *exchange, const float *grads, float *shard,
                                       uint64_t step) {
    struct pith *pith = (struct pith *)exchange;
    const struct world *world = pith->world;
    const pith_view out = pith_view_flat(pith->sparse_mean, PITH_F32, pith->replica->count);
    pith_error error = {.size = sizeof error};
    uint64_t first, count, chosen[RANKS_MAX];
    if (failed(pith_exdyna_range(&pith->parts, (uint32_t)world->rank, &first, &count, &error),
               "part of gradients", error.text))
        return -1;
    pith_sparse_state state = {.size = sizeof state};
    if (failed(pith_collective_sparse_state(pith->grads, 0, &state), "sparse gradients", ""))
        return -1;
    /* All ranks want the same number, whatever their parts: so they begin with one threshold. */
    const pith_sparse_request request = {.size = sizeof request,
                                         .first = first,
                                         .count = count,
                                         .k = state.k / (uint64_t)world->ranks};
    if (run_grads(pith, grads, &out, &request, step)) return -1;
    memcpy(shard, pith->sparse_mean + world->first, world->count * sizeof *shard);

    if (failed(pith_collective_chosen(pith->grads, chosen), "chosen gradients", "")) return -1;
    exchange->traffic.chosen += (double)chosen[world->rank];
    exchange->traffic.imbalance += 1 + pith_sparse_imbalance(chosen, (uint32_t)world->ranks);
    pith->parts_of_last = pith->parts;
    return failed(pith_exdyna_update(&pith->parts, chosen, &error), "parts of gradients",
                  error.text);
}

static int pith_exchange_spread(struct exchange *exchange, const float *master) {
    struct pith *pith = (struct pith *)exchange;
    const struct replica *replica = pith->replica;
    const pith_view in = pith_view_flat(master, PITH_F32, pith->world->count);
    const pith_view out = pith_view_flat(replica->live, pith->replica_type, replica->count);
    pith_collective_report report = {.size = sizeof report};
    const pith_collective_call call = {.size = sizeof call,
                                       .inputs = &in,
                                       .outputs = pith->differences ? NULL : &out,
                                       .input_count = 1,
                                       .output_count = 1,
                                       .step = pith->weight_step++};
    const pith_status status = pith_collective_run(pith->weights, &call, &report);
    count_times(&exchange->traffic, &report);
    count_sent(&exchange->traffic, WEIGHTS, &report, 0);
    count_sent(&exchange->traffic, WEIGHTS, &report, 1);
    return failed(status, "weights", pith_collective_last_error(pith->weights)->text);
}

static int pith_exchange_skip(struct exchange *exchange, uint64_t step) {
    struct pith *pith = (struct pith *)exchange;
    if (pith->sparse_mean) pith->parts = pith->parts_of_last;
    return failed(pith_collective_rollback(pith->grads, step), "skipped step", "");
}

static void pith_exchange_destroy(struct exchange *exchange) {
    struct pith *pith = (struct pith *)exchange;
    pith_collective_destroy(pith->grads);
    pith_collective_destroy(pith->weights);
    free(pith->sparse_mean);
    free(pith);
}

struct exchange *exchange_pith(const struct world *world, struct replica *replica,
                               const struct options *options) {
    struct pith *pith = calloc(1, sizeof *pith);
    if (!pith) return NULL;
    pith->exchange = (struct exchange){
        .reduce = *options->sparse ? pith_exchange_reduce_sparse : pith_exchange_reduce,
        .spread = pith_exchange_spread,
        .skip = pith_exchange_skip,
        .destroy = pith_exchange_destroy};
    pith->world = world;
    pith->replica = replica;
    pith->replica_type = replica->width == sizeof(float) ? PITH_F32 : PITH_BF16;
    if (!open_grads(pith, options) && !open_weights(pith, options)) return &pith->exchange;
    pith_exchange_destroy(&pith->exchange);
    return NULL;
}
