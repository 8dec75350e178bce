/* trainer.c - the loop: gradient, reduce, Adam on the shard, spread, compare the replicas.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "model.h"
#include "optimizer.h"

struct trainer {
    const struct world *world;
    const struct data *data;
    const struct options *options;
    struct params *weights, *grads; /* f32 copy of the replica while a step computes */
    struct pass *pass;
    struct replica replica;
    struct optimizer optimizer;
    struct exchange *exchange;
    struct curve *curve;
    double loss; /* of this rank since the last point */
};

static int say(const struct trainer *t, const char *text) {
    if (t->world->rank == 0) fprintf(stderr, "train: %s\n", text);
    return -1;
}

/* Every rank makes the same first weights; masters keep them in f32, replicas in their type. */
static int setup(struct trainer *t, int with_pith) {
    t->weights = calloc(1, sizeof *t->weights);
    t->grads = calloc(1, sizeof *t->grads);
    t->pass = pass_create();
    const size_t width = strcmp(t->options->replica, "f32") ? 2 : 4;
    if (!t->weights || !t->grads || !t->pass || replica_create(&t->replica, PARAMS, width))
        return say(t, "no memory");
    model_init(t->weights, t->options->seed);
    const float *flat = params_flat(t->weights);
    if (optimizer_create(&t->optimizer, flat + t->world->first, t->world->count))
        return say(t, "no memory");
    replica_round(&t->replica, t->replica.live, flat, PARAMS);
    t->exchange = with_pith ? exchange_pith(t->world, &t->replica, t->options)
                            : exchange_plain(t->world, &t->replica);
    return t->exchange ? 0 : -1;
}

static void teardown(struct trainer *t) {
    if (t->exchange) t->exchange->destroy(t->exchange);
    optimizer_destroy(&t->optimizer);
    replica_destroy(&t->replica);
    pass_destroy(t->pass);
    free(t->grads);
    free(t->weights);
}

static double validate(struct trainer *t) {
    struct batch batch;
    double sum = 0;
    const size_t count = data_valid_batches(t->data), ranks = (size_t)t->world->ranks;
    for (size_t i = (size_t)t->world->rank; i < count; i += ranks) {
        data_valid_batch(t->data, i, &batch);
        sum += model_loss(t->weights, &batch, t->pass);
    }
    return world_sum(t->world, sum) / (double)count;
}

static void add_point(struct trainer *t, uint64_t step, uint64_t since) {
    struct curve *curve = t->curve;
    replica_read(&t->replica, params_flat(t->weights));
    const double train = world_sum(t->world, t->loss) / t->world->ranks / (double)since;
    const double valid = validate(t);
    const float *weights = params_flat(t->weights), *grads = params_flat(t->grads);
    const double grad_error = accuracy_of_grads(t->world, grads, t->optimizer.grad);
    const double weight_error = accuracy_of_weights(t->world, weights, t->optimizer.master);
    t->loss = 0;
    if (curve->points < POINTS_MAX)
        curve->point[curve->points++] =
            (struct point){step, train, valid, grad_error, weight_error};
}

static void compute(struct trainer *t, uint64_t step) {
    struct batch batch;
    const double start = MPI_Wtime();
    replica_read(&t->replica, params_flat(t->weights));
    data_batch(t->data, t->options->seed, step, (uint64_t)t->world->rank, &batch);
    t->loss += model_gradient(t->weights, &batch, t->pass, t->grads);
    t->curve->compute += MPI_Wtime() - start;
}

/* A gradient that is not finite anywhere is seen by all ranks in the norm; all skip the step. */
static int update(struct trainer *t, uint64_t step) {
    struct exchange *exchange = t->exchange;
    if (exchange->reduce(exchange, params_flat(t->grads), t->optimizer.grad, step)) return -1;
    const double norm = optimizer_grad_norm(&t->optimizer, t->world);
    if (!isfinite(norm)) {
        t->curve->skipped++;
        return exchange->skip(exchange, step);
    }
    const double clip = norm > t->options->clip ? t->options->clip / norm : 1;
    const double rate = learning_rate(t->options->rate, step, t->options->steps);
    optimizer_step(&t->optimizer, rate, clip);
    return exchange->spread(exchange, t->optimizer.master);
}

static int run_steps(struct trainer *t) {
    const uint64_t steps = t->options->steps, every = t->options->every;
    for (uint64_t step = 0; step < steps; step++) {
        const double start = MPI_Wtime();
        compute(t, step);
        if (update(t, step)) return -1;
        t->curve->seconds += MPI_Wtime() - start;
        if (!replica_agrees(&t->replica, t->world)) return say(t, "the replicas differ");
        if ((step + 1) % every == 0 || step + 1 == steps)
            add_point(t, step + 1, (step + 1) % every ? (step + 1) % every : every);
    }
    return 0;
}

static void collect(struct trainer *t) {
    const struct world *world = t->world;
    struct traffic *sum = &t->curve->traffic;
    *sum = t->exchange->traffic;
    for (int i = 0; i < PATHS; i++) {
        sum->bytes[i] = world_sum(world, sum->bytes[i]);
        sum->values[i] = world_sum(world, sum->values[i]);
    }
    sum->chosen = world_sum(world, sum->chosen);
    sum->encode = world_sum(world, sum->encode);
    sum->decode = world_sum(world, sum->decode);
    sum->wait = world_sum(world, sum->wait);
    sum->total = world_sum(world, sum->total);
    t->curve->compute = world_sum(world, t->curve->compute) / world->ranks;
    t->curve->steps = t->options->steps;
}

int trainer_run(const struct world *world, const struct data *data, const struct options *options,
                int with_pith, struct curve *curve) {
    struct trainer trainer = {.world = world, .data = data, .options = options, .curve = curve};
    memset(curve, 0, sizeof *curve);
    int bad = setup(&trainer, with_pith);
    if (world_sum(world, bad) != 0) bad = -1;
    if (!bad) bad = run_steps(&trainer);
    if (!bad) collect(&trainer);
    teardown(&trainer);
    return bad ? -1 : 0;
}
