/* optimizer.c - Adam, the norm of the sharded gradient, and the schedule.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float mean_decay = 0.9f, square_decay = 0.98f, epsilon = 1e-8f;

int optimizer_create(struct optimizer *optimizer, const float *weights, size_t count) {
    memset(optimizer, 0, sizeof *optimizer);
    float *memory = calloc(4 * count + 1, sizeof(float));
    if (!memory) return -1;
    optimizer->count = count;
    optimizer->master = memory;
    optimizer->grad = memory + count;
    optimizer->mean = memory + 2 * count;
    optimizer->square = memory + 3 * count;
    memcpy(optimizer->master, weights, count * sizeof(float));
    return 0;
}

void optimizer_destroy(struct optimizer *optimizer) { free(optimizer->master); }

double optimizer_grad_norm(const struct optimizer *optimizer, const struct world *world) {
    double sum = 0;
    for (size_t i = 0; i < optimizer->count; i++)
        sum += (double)optimizer->grad[i] * optimizer->grad[i];
    return sqrt(world_sum(world, sum));
}

void optimizer_step(struct optimizer *o, double rate, double scale) {
    o->updates++;
    const double t = (double)o->updates;
    const float step = (float)(rate / (1 - pow(mean_decay, t)));
    const float whole = (float)(1 / (1 - pow(square_decay, t))), by = (float)scale;
    for (size_t i = 0; i < o->count; i++) {
        const float g = o->grad[i] * by;
        o->mean[i] = mean_decay * o->mean[i] + (1 - mean_decay) * g;
        o->square[i] = square_decay * o->square[i] + (1 - square_decay) * g * g;
        o->master[i] -= step * o->mean[i] / (sqrtf(o->square[i] * whole) + epsilon);
    }
}

double learning_rate(double peak, uint64_t step, uint64_t steps) {
    const double warm = 0.05 * (double)steps, at = (double)step + 1;
    if (at < warm) return peak * at / warm;
    const double done = (at - warm) / ((double)steps - warm);
    return peak * (0.505 + 0.495 * cos(3.14159265358979 * done));
}
