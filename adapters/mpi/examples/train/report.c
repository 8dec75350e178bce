/* report.c - prints, logs and judges the curves of a run.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "report.h"

#include <math.h>
#include <stdio.h>

#include "model.h"

static const char *const path_names[PATHS] = {"gradients, inside nodes", "gradients, between nodes",
                                              "weights"};

static double last_loss(const struct curve *curve) {
    return curve->points ? curve->point[curve->points - 1].valid : NAN;
}

static double per_value(const struct traffic *traffic, int path) {
    return traffic->values[path] > 0 ? 8 * traffic->bytes[path] / traffic->values[path] : 0;
}

/* The share of all elements that the ranks chose in a step, on the mean. */
static double chosen_share(const struct curve *curve) {
    return curve->traffic.chosen / (double)(curve->steps * PARAMS);
}

static double mean_imbalance(const struct curve *curve) {
    return curve->traffic.imbalance / (double)curve->steps;
}

static struct point mean_errors(const struct curve *curve) {
    struct point mean = {0};
    for (size_t i = 0; i < curve->points; i++) {
        mean.grad_error += curve->point[i].grad_error / (double)curve->points;
        mean.weight_error += curve->point[i].weight_error / (double)curve->points;
    }
    return mean;
}

/* ---- The text ---------------------------------------------------------------------------------*/

static void print_curve(const struct curve *curve) {
    printf("%8s %10s %10s\n", "step", "training", "validation");
    for (size_t i = 0; i < curve->points; i++)
        printf("%8llu %10.4f %10.4f\n", (unsigned long long)curve->point[i].step,
               curve->point[i].train, curve->point[i].valid);
}

static void print_curves(const struct curve *plain, const struct curve *pith) {
    printf("%8s | %10s %10s | %10s %10s |\n", "", "plain", "", "pith", "");
    printf("%8s | %10s %10s | %10s %10s | %s\n", "step", "training", "validation", "training",
           "validation", "apart");
    for (size_t i = 0; i < plain->points; i++) {
        const struct point *a = &plain->point[i], *b = &pith->point[i];
        printf("%8llu | %10.4f %10.4f | %10.4f %10.4f | %+.3f %%\n", (unsigned long long)a->step,
               a->train, a->valid, b->train, b->valid, 100 * (b->valid / a->valid - 1));
    }
}

static void print_traffic(const struct world *world, const char *name, const struct curve *curve) {
    const struct traffic *t = &curve->traffic;
    const double calls = (double)(curve->steps * (uint64_t)world->ranks);
    printf("\n%s, per rank and step:\n", name);
    for (int i = 0; i < PATHS; i++)
        printf("  %-25s %10.0f bytes %7.3f bits per value\n", path_names[i], t->bytes[i] / calls,
               per_value(t, i));
    if (t->chosen > 0)
        printf("  %.3f %% of the gradients were chosen; the rank with most, %.2f times the mean\n",
               100 * chosen_share(curve), mean_imbalance(curve));
    printf("  model %.2f ms, exchange %.2f ms", 1e3 * curve->compute / (double)curve->steps,
           1e3 * t->total / calls);
    if (t->encode > 0)
        printf(" (encode %.2f, decode %.2f, wait %.2f)", 1e3 * t->encode / calls,
               1e3 * t->decode / calls, 1e3 * t->wait / calls);
    printf("; all steps %.1f s, skipped %llu\n", curve->seconds,
           (unsigned long long)curve->skipped);
    const struct point mean = mean_errors(curve);
    printf("  error (NMSE): %.1e of the summed gradient, %.1e of the weights\n", mean.grad_error,
           mean.weight_error);
}

void report_print(const struct world *world, const struct curve *plain, const struct curve *pith) {
    printf("%zu parameters, %d ranks on %d nodes; loss in nats per character\n\n", PARAMS,
           world->ranks, world->nodes);
    if (plain && pith)
        print_curves(plain, pith);
    else
        print_curve(plain ? plain : pith);
    if (plain) print_traffic(world, "plain", plain);
    if (pith) print_traffic(world, "pith", pith);
    printf("\nreplicas bit-identical after every step: yes\n");
}

/* ---- The log ----------------------------------------------------------------------------------*/

static void log_settings(FILE *file, const struct world *world, const struct options *options,
                         const char *name) {
    fprintf(file, "set\texchange\t%s\nset\tranks\t%d\nset\tnodes\t%d\nset\tparameters\t%zu\n", name,
            world->ranks, world->nodes, PARAMS);
    fprintf(file, "set\tseed\t%llu\nset\tsteps\t%llu\nset\treplica\t%s\nset\texempt\t%s\n",
            (unsigned long long)options->seed, (unsigned long long)options->steps, options->replica,
            options->exempt);
    fprintf(file, "set\tweights\t%s\nset\tintra\t%s\nset\tinter\t%s\nset\tsparse\t%s\n",
            options->weights, options->intra, options->inter, options->sparse);
}

static void log_point(FILE *file, const struct point *point) {
    fprintf(file, "point\t%llu\t%.6f\t%.6f\t%.4e\t%.4e\n", (unsigned long long)point->step,
            point->train, point->valid, point->grad_error, point->weight_error);
}

static void log_curve(FILE *file, const struct world *world, const struct curve *curve) {
    const struct traffic *t = &curve->traffic;
    const double calls = (double)(curve->steps * (uint64_t)world->ranks);
    for (size_t i = 0; i < curve->points; i++) log_point(file, &curve->point[i]);
    for (int i = 0; i < PATHS; i++)
        fprintf(file, "sent\t%s\t%.1f\t%.4f\n", path_names[i], t->bytes[i] / calls,
                per_value(t, i));
    if (t->chosen > 0)
        fprintf(file, "sparse\tchosen\t%.6f\nsparse\timbalance\t%.4f\n", chosen_share(curve),
                mean_imbalance(curve));
    fprintf(file, "time\tmodel\t%.6f\ntime\texchange\t%.6f\ntime\tencode\t%.6f\n",
            curve->compute / (double)curve->steps, t->total / calls, t->encode / calls);
    fprintf(file, "time\tdecode\t%.6f\ntime\twait\t%.6f\n", t->decode / calls, t->wait / calls);
    fprintf(file, "skipped\tsteps\t%llu\n", (unsigned long long)curve->skipped);
}

int report_log(const struct world *world, const struct options *options, const char *name,
               const struct curve *curve) {
    char path[4096];
    snprintf(path, sizeof path, "%s-%s.tsv", options->log, name);
    FILE *file = fopen(path, "w");
    if (file) {
        log_settings(file, world, options, name);
        log_curve(file, world, curve);
    }
    if (file && !fclose(file)) return 0;
    fprintf(stderr, "train: %s: cannot be written\n", path);
    return -1;
}

/* ---- The verdict ------------------------------------------------------------------------------*/

static int fell(const struct curve *curve, const char *name) {
    if (last_loss(curve) < log(VOCAB) - 0.5) return 1;
    fprintf(stderr, "train: %s: the loss did not fall\n", name);
    return 0;
}

int report_judge(const struct options *options, const struct curve *plain,
                 const struct curve *pith) {
    int good = (!plain || fell(plain, "plain")) && (!pith || fell(pith, "pith"));
    if (!plain || !pith || !(options->slack > 0)) return good ? 0 : -1;
    const double apart = fabs(last_loss(pith) / last_loss(plain) - 1);
    if (!(apart <= options->slack)) {
        fprintf(stderr, "train: the losses are %.2f %% apart\n", 100 * apart);
        good = 0;
    }
    return good ? 0 : -1;
}
