/* gradients.c - sums of gradients through codec grad: over one hop or two, one step or many.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gradients.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"
#include "weights.h"

/* ---- Where gradients come from ---------------------------------------------------------------*/

static int allocate_rows(struct gradients *g, size_t rows, size_t count) {
    *g = (struct gradients){rows, count, malloc(rows * count * sizeof *g->values + 1)};
    return !g->values;
}

void gradients_free(struct gradients *g) {
    free(g->values);
    *g = (struct gradients){0};
}

/* xorshift64*; (0, 1). */
static double uniform(uint64_t *x) {
    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return ((double)((*x * 0x2545F4914F6CDD1Du) >> 12) + 0.5) * 0x1p-52;
}

static double normal(uint64_t *x) {
    const double r = sqrt(-2 * log(uniform(x)));
    return r * cos(6.283185307179586 * uniform(x));
}

static double student3(uint64_t *x) {
    const double n = normal(x), a = normal(x), b = normal(x), c = normal(x);
    return n / sqrt((a * a + b * b + c * c) / 3);
}

int gradients_simulate(struct gradients *g, size_t rows, size_t count) {
    uint64_t random = 0x9E3779B97F4A7C15u;
    if (allocate_rows(g, rows, count)) return 1;
    for (size_t i = 0; i < count; i++) {
        const double shared = student3(&random);
        for (size_t r = 0; r < rows; r++)
            g->values[r * count + i] = (float)(shared + student3(&random));
    }
    return 0;
}

static void widen(float *to, const struct weights *from) {
    for (size_t i = 0; i < from->count; i++) {
        uint32_t u = 0;
        if (from->dtype == PITH_F32)
            memcpy(&u, (const char *)from->data + 4 * i, 4);
        else
            memcpy((char *)&u + 2, (const char *)from->data + 2 * i, 2);
        memcpy(&to[i], &u, 4);
    }
}

/* How many tensors a file has; 0 where they differ in their element count. */
static size_t count_rows(const void *file, size_t *count) {
    struct weights w;
    size_t rows = 0;
    *count = 0;
    for (; weights_at(file, rows, &w); rows++) {
        if (rows && w.count != *count) return 0;
        *count = w.count;
    }
    return rows;
}

enum gradients_load gradients_load(struct gradients *g, const char *directory, const char *name) {
    void *file = weights_load(directory, name);
    struct weights w;
    size_t count;
    *g = (struct gradients){0};
    if (!file || !weights_at(file, 0, &w)) {
        free(file);
        return GRADIENTS_UNREAD;
    }
    const size_t rows = count_rows(file, &count);
    const int failed = rows && allocate_rows(g, rows, count);
    for (size_t r = 0; !failed && r < rows && weights_at(file, r, &w); r++)
        widen(g->values + r * count, &w);
    free(file);
    return !rows ? GRADIENTS_UNEQUAL : failed ? GRADIENTS_UNREAD : GRADIENTS_GOOD;
}

/* ---- Hops ------------------------------------------------------------------------------------*/

/* A frame for each sender of one sum, an end for each sender of all sums. */
struct hop {
    size_t senders, owners;
    uint8_t *bytes;
    size_t stride;
    const void **frames;
    size_t *lengths;
    struct end *ends; /* the first has the plan of all, and adds frames up */
};

/* Sender i of a sum is rank i of its senders, with random bits of its own; those of antithetic
 * rounding are the sum's. */
static int hop_end(struct hop *h, size_t owner, const char *spec, const pith_layout *layout,
                   uint64_t seed) {
    const int shared = strstr(spec, "antithetic") != NULL;
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = seed + owner / h->senders,
                                         .rng_stream = shared ? 0 : (uint32_t)owner,
                                         .rank = (uint32_t)(owner % h->senders),
                                         .ranks = (uint32_t)h->senders};
    if (owner) return end_open_other(&h->ends[owner], &h->ends[0], &options);
    return end_open(&h->ends[0], spec, layout, NULL, &options);
}

/* seed: of the first sum; those of the others follow. */
static int hop_open(struct hop *h, const char *spec, size_t senders, size_t owners, size_t count,
                    uint64_t seed) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {count}};
    *h = (struct hop){.senders = senders, .owners = owners};
    h->ends = calloc(owners, sizeof *h->ends);
    for (size_t i = 0; h->ends && i < owners; i++)
        if (hop_end(h, i, spec, &layout, seed)) return 1;
    if (!h->ends) return 1;
    h->stride = (size_t)h->ends[0].sizes.slot_bytes;
    h->bytes = malloc(senders * h->stride);
    h->frames = malloc(senders * sizeof *h->frames);
    h->lengths = malloc(senders * sizeof *h->lengths);
    for (size_t i = 0; h->bytes && h->frames && i < senders; i++)
        h->frames[i] = h->bytes + i * h->stride;
    return !h->bytes || !h->frames || !h->lengths;
}

static void hop_close(struct hop *h) {
    for (size_t i = h->ends ? h->owners : 0; i--;) end_close(&h->ends[i]);
    free(h->ends);
    free(h->bytes);
    free((void *)h->frames);
    free(h->lengths);
}

/* ---- Accounts --------------------------------------------------------------------------------*/

/* What was sent and what arrived, over all steps; `sum` is one step's. */
struct account {
    size_t count;
    float *sum;
    double *got, *exact;
};

static int account_open(struct account *a, size_t count) {
    a->count = count;
    a->sum = malloc(count * sizeof *a->sum);
    a->got = calloc(count, sizeof *a->got);
    a->exact = calloc(count, sizeof *a->exact);
    return !a->sum || !a->got || !a->exact;
}

static void account_close(struct account *a) {
    free(a->sum);
    free(a->got);
    free(a->exact);
}

static int account_send(struct account *a, struct hop *h, size_t i, size_t owner, const float *x) {
    const pith_view v = pith_view_flat(x, PITH_F32, a->count);
    for (size_t k = 0; k < a->count; k++) a->exact[k] += (double)x[k];
    return end_encode(&h->ends[owner], &v, h->bytes + i * h->stride, h->stride, &h->lengths[i]);
}

static int account_receive(struct account *a, struct hop *h) {
    const pith_view v = pith_view_flat(a->sum, PITH_F32, a->count);
    if (end_reduce(&h->ends[0], h->frames, h->lengths, h->senders, &v)) return 1;
    for (size_t k = 0; k < a->count; k++) a->got[k] += (double)a->sum[k];
    return 0;
}

static double account_nmse(const struct account *a) {
    double error = 0, power = 0;
    for (size_t k = 0; k < a->count; k++) {
        error += (a->got[k] - a->exact[k]) * (a->got[k] - a->exact[k]);
        power += a->exact[k] * a->exact[k];
    }
    return error / power;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* What one node sends to the others. */
static int send_node(const struct gradients *g, size_t step, size_t node, struct hop *intra,
                     struct hop *inter, struct account *a) {
    for (size_t j = 0; j < intra->senders; j++) {
        const size_t rank = node * intra->senders + j;
        const size_t row = (step * (intra->owners + 1) + rank) % g->rows;
        if (account_send(a, intra, j, rank, g->values + row * g->count)) return 1;
    }
    return end_reduce_encode(&intra->ends[0], intra->frames, intra->lengths, intra->senders,
                             &inter->ends[node], inter->bytes + node * inter->stride, inter->stride,
                             &inter->lengths[node]);
}

double gradients_two_level(const struct gradients *g, const struct gradients_levels *l) {
    struct hop intra, inter;
    struct account a;
    int failed = hop_open(&intra, l->intra, l->per_node, l->per_node * l->nodes, g->count, 1);
    failed |= hop_open(&inter, l->inter, l->nodes, l->nodes, g->count, 1000);
    failed = failed || end_widen(&intra.ends[0], &inter.ends[0]);
    failed |= account_open(&a, g->count);
    for (size_t t = 0; t < l->steps; t++) {
        for (size_t m = 0; !failed && m < l->nodes; m++)
            failed = send_node(g, t, m, &intra, &inter, &a);
        failed = failed || account_receive(&a, &inter);
    }
    const double nmse = failed ? -1 : account_nmse(&a);
    hop_close(&intra);
    hop_close(&inter);
    account_close(&a);
    return nmse;
}

double gradients_one_level(const struct gradients *g, const char *spec) {
    struct hop hop;
    struct account a;
    int failed = hop_open(&hop, spec, g->rows, g->rows, g->count, 1);
    failed |= account_open(&a, g->count);
    for (size_t r = 0; !failed && r < g->rows; r++)
        failed = account_send(&a, &hop, r, r, g->values + r * g->count);
    failed = failed || account_receive(&a, &hop);
    const double nmse = failed ? -1 : account_nmse(&a);
    hop_close(&hop);
    account_close(&a);
    return nmse;
}
