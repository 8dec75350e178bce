/* scale.c - how long ranks take to sum gradients, as a model of links says.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scale.h"

#include <math.h>

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* Returns what of `bytes`, of which each of `count` has an equal part, belongs to the others. */
static double of_others(uint32_t count, double bytes) { return bytes * (count - 1) / count; }

/* Returns the time in which each of `count` sends all but its own part of `bytes` to the others, a
 * message each. */
static double exchange(uint32_t count, double bytes, double bandwidth, double latency) {
    return (count - 1) * latency + of_others(count, bytes) / bandwidth;
}

static uint32_t nodes_of(const struct scale_machine *m) { return m->ranks / m->per_node; }

/* Returns how long all gradients of a rank take to be copied, and back. */
static double copies_of(const struct scale_machine *m, double values) {
    return m->ranks_per_core * values * sizeof(float) / m->copy;
}

/* Links and cores work side by side, slice by slice. */
static double side_by_side(double links, double cores, double slices) {
    return larger(links, cores) + smaller(links, cores) / slices;
}

struct scale_time scale_sum(const struct scale_machine *m, const struct scale_scheme *s,
                            double values, double slice) {
    const uint32_t nodes = nodes_of(m), per_node = m->per_node;
    const double shard = values / m->ranks, slices = larger(ceil(shard / slice), 1);
    /* Every slice is a message of its own. */
    const double inside = slices * m->latency_inside, across = slices * m->latency_across;
    /* To the owners of shards: at one level every rank sends its frames to all others, at two the
     * sums of a node leave it once. Bytes of a node across, then bytes of a rank inside. */
    const double out = values * s->across * (m->one_level ? per_node : 1);
    const double in = values * s->inside / (m->one_level ? nodes : 1);
    const double scatter = exchange(per_node, in, m->inside, inside) +
                           exchange(nodes, out, m->across, across * (m->one_level ? per_node : 1));
    /* The owner of a shard sends it to one rank of each other node, and to the ranks of its own. A
     * rank does the latter with a shard of each node: its own, and those that it forwards. */
    const double back = values * s->across;
    const double gather = exchange(per_node, back, m->inside, nodes * inside) +
                          exchange(nodes, back, m->across, across);
    /* A rank adds as many values as it has, one frame of each of its node's ranks for its share of
     * them, then one of each node for its shard; sums are encoded once for each hop. */
    const double share = nodes > 1 && per_node > 1 && !m->one_level ? values / per_node : 0;
    const double sums = m->ranks_per_core * (values + share) * (s->encode + s->add);
    const double sent = m->ranks_per_core / m->send; /* seconds of a rank for each byte */
    const double scatter_sent = sent * (of_others(per_node, in) + of_others(nodes, out) / per_node);
    const double gather_sent =
        sent * (of_others(per_node, back) + of_others(nodes, back) / per_node);
    struct scale_time t = {
        .links = scatter + gather,
        .codecs = sums + m->ranks_per_core * (shard * s->encode + values * s->decode),
        .transport = scatter_sent + gather_sent,
        .copies = copies_of(m, values),
        .across_bytes = of_others(nodes, out + back)};
    t.sum = t.copies + side_by_side(t.links, t.codecs + t.transport, slices);
    t.scatter = t.copies / 2 + side_by_side(scatter, sums + scatter_sent, slices);
    return t;
}

struct scale_time scale_ring(const struct scale_machine *m, double bytes, double values) {
    const double all = values * bytes, sent = 2 * of_others(m->ranks, all);
    const uint32_t nodes = nodes_of(m);
    const double levels = 2 * exchange(m->per_node, all, m->inside, m->latency_inside) +
                          2 * exchange(nodes, all, m->across, m->latency_across);
    const double bandwidth = nodes > 1 ? smaller(m->inside, m->across) : m->inside;
    const double latency = nodes > 1 ? m->latency_across : m->latency_inside;
    const double one = 2 * exchange(m->ranks, all, bandwidth, latency);
    const bool one_ring = m->one_level || one < levels;
    struct scale_time t = {.links = one_ring ? one : levels,
                           .transport = m->ranks_per_core * sent / m->send,
                           .copies = copies_of(m, values)};
    if (nodes > 1) t.across_bytes = one_ring ? sent : 2 * of_others(nodes, all);
    t.sum = t.copies + larger(t.links, t.transport);
    t.scatter = t.sum / 2;
    return t;
}
