/* gradients.c - sums of gradients through codec grad: over one hop or two, one step or many.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gradients.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pith/pith.h"
#include "weights.h"

/* ---- Where gradients come from ---------------------------------------------------------------*/

static int make_room(struct gradients *g, size_t rows, size_t count) {
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
    if (make_room(g, rows, count)) return 1;
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
    const int failed = rows && make_room(g, rows, count);
    for (size_t r = 0; !failed && r < rows && weights_at(file, r, &w); r++)
        widen(g->values + r * count, &w);
    free(file);
    return !rows ? GRADIENTS_UNEQUAL : failed ? GRADIENTS_UNREAD : GRADIENTS_GOOD;
}

/* ---- Hops ------------------------------------------------------------------------------------*/

/* A plan, a frame for each sender of one sum, a state for each sender of all sums. */
struct hop {
    pith_plan *plan;
    size_t senders, owners;
    pith_sizes sizes;
    uint8_t *bytes, *memory;
    const void **frames;
    size_t *lengths;
    pith_state **states; /* NULL without error feedback */
    int shared;          /* antithetic: all senders take the same random bits */
};

static int hop_states(struct hop *h, const char *spec) {
    if (!strstr(spec, "ef=")) return 0;
    h->memory = malloc(h->owners * h->sizes.state_bytes);
    h->states = malloc(h->owners * sizeof(pith_state *));
    for (size_t i = 0; h->memory && h->states && i < h->owners; i++)
        if (pith_state_init(h->plan, h->memory + i * h->sizes.state_bytes, h->sizes.state_bytes,
                            &h->states[i]))
            return 1;
    return !h->memory || !h->states;
}

static int hop_open(struct hop *h, const char *spec, size_t senders, size_t owners, size_t count) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {count}};
    const int shared = strstr(spec, "antithetic") != NULL;
    *h = (struct hop){.senders = senders, .owners = owners, .shared = shared};
    if (pith_plan_create(&h->plan, spec, &layout, NULL, NULL)) return 1;
    pith_plan_sizes(h->plan, &h->sizes);
    h->bytes = malloc(senders * h->sizes.slot_bytes);
    h->frames = malloc(senders * sizeof *h->frames);
    h->lengths = malloc(senders * sizeof *h->lengths);
    if (!h->bytes || !h->frames || !h->lengths) return 1;
    return hop_states(h, spec);
}

static void hop_close(struct hop *h) {
    pith_plan_destroy(h->plan);
    free(h->bytes);
    free(h->memory);
    free((void *)h->frames);
    free(h->lengths);
    free((void *)h->states);
}

/* The turn of sender i of a sum, which is `owner` among all. Where its frame goes. */
static uint8_t *hop_turn(struct hop *h, size_t i, size_t owner, uint64_t seed, size_t step) {
    uint8_t *const place = h->bytes + i * h->sizes.slot_bytes;
    h->frames[i] = place;
    pith_plan_set_random(h->plan, seed, h->shared ? 0 : (uint32_t)owner, step);
    return pith_plan_set_ranks(h->plan, (uint32_t)i, (uint32_t)h->senders) ? NULL : place;
}

static pith_state *hop_state(const struct hop *h, size_t owner) {
    return h->states ? h->states[owner] : NULL;
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

static int account_send(struct account *a, struct hop *h, size_t i, size_t owner, size_t step,
                        const float *x) {
    const pith_view v = pith_view_flat(x, PITH_F32, a->count);
    uint8_t *const place = hop_turn(h, i, owner, 1 + owner / h->senders, step);
    for (size_t k = 0; k < a->count; k++) a->exact[k] += (double)x[k];
    return !place || pith_encode(h->plan, hop_state(h, owner), &v, 0, place, h->sizes.slot_bytes,
                                 &h->lengths[i]);
}

static int account_receive(struct account *a, struct hop *h) {
    const pith_view v = pith_view_flat(a->sum, PITH_F32, a->count);
    if (pith_reduce(h->plan, NULL, 0, h->frames, h->lengths, h->senders, 1, &v)) return 1;
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
        if (account_send(a, intra, j, rank, step, g->values + row * g->count)) return 1;
    }
    uint8_t *const place = hop_turn(inter, node, node, 1000, step);
    return !place || pith_reduce_encode(intra->plan, NULL, 0, intra->frames, intra->lengths,
                                        intra->senders, 1, inter->plan, hop_state(inter, node), 0,
                                        place, inter->sizes.slot_bytes, &inter->lengths[node]);
}

double gradients_two_level(const struct gradients *g, const struct gradients_levels *l) {
    struct hop intra, inter;
    struct account a;
    int failed = hop_open(&intra, l->intra, l->per_node, l->per_node * l->nodes, g->count);
    failed |= hop_open(&inter, l->inter, l->nodes, l->nodes, g->count);
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
    int failed = hop_open(&hop, spec, g->rows, g->rows, g->count);
    failed |= account_open(&a, g->count);
    for (size_t r = 0; !failed && r < g->rows; r++)
        failed = account_send(&a, &hop, r, r, 0, g->values + r * g->count);
    failed = failed || account_receive(&a, &hop);
    const double nmse = failed ? -1 : account_nmse(&a);
    hop_close(&hop);
    account_close(&a);
    return nmse;
}
