/* scale.c - how long ranks take to sum gradients, as a model of links says.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scale.h"

#include <math.h>

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* Returns the time in which each of `ranks` sends all but its own part of `bytes` to the others, a
 * message each. */
static double exchange(uint32_t ranks, double bytes, double bandwidth, double latency) {
    if (ranks < 2) return 0;
    return (ranks - 1) * latency + bytes * (ranks - 1) / ranks / bandwidth;
}

static uint32_t nodes_of(const struct scale_machine *m) { return m->ranks / m->per_node; }

static double across_of(const struct scale_machine *m, double bytes) {
    const uint32_t nodes = nodes_of(m);
    return nodes < 2 ? 0 : bytes * (nodes - 1) / nodes;
}

/* Links and codecs work side by side, slice by slice. */
static double side_by_side(double links, double codecs, double slices) {
    return larger(links, codecs) + smaller(links, codecs) / slices;
}

struct scale_time scale_sum(const struct scale_machine *m, const struct scale_scheme *s,
                            double values, double slice) {
    const uint32_t nodes = nodes_of(m);
    const double shard = values / m->ranks, slices = larger(ceil(shard / slice), 1);
    /* Every slice is a message of its own. */
    const double inside = slices * m->latency_inside, across = slices * m->latency_across;
    const double scatter = exchange(m->per_node, values * s->inside, m->inside, inside) +
                           exchange(nodes, values * s->across, m->across, across);
    /* The owner of a shard sends it to one rank of each other node, and to the ranks of its own. A
     * rank does the latter with a shard of each node: its own, and those that it forwards. */
    const double gather = exchange(m->per_node, values * s->across, m->inside, nodes * inside) +
                          exchange(nodes, values * s->across, m->across, across);
    /* A rank adds as many values as it has, one frame of each of its node's ranks for its share of
     * them, then one of each node for its shard; sums are encoded once for each hop. */
    const double share = nodes > 1 && m->per_node > 1 ? values / m->per_node : 0;
    const double sums = (values + share) * (s->encode + s->add);
    struct scale_time t = {.links = scatter + gather,
                           .codecs = sums + shard * s->encode + values * s->decode,
                           .scatter = side_by_side(scatter, sums, slices),
                           .across_bytes = 2 * across_of(m, values * s->across)};
    t.both = side_by_side(t.links, t.codecs, slices);
    return t;
}

struct scale_time scale_ring(const struct scale_machine *m, double bytes, double values) {
    const double all = values * bytes;
    const uint32_t nodes = nodes_of(m);
    struct scale_time t = {.across_bytes = 2 * across_of(m, all)};
    const double levels = 2 * exchange(m->per_node, all, m->inside, m->latency_inside) +
                          2 * exchange(nodes, all, m->across, m->latency_across);
    const double bandwidth = nodes > 1 ? smaller(m->inside, m->across) : m->inside;
    const double latency = nodes > 1 ? m->latency_across : m->latency_inside;
    const double one = 2 * exchange(m->ranks, all, bandwidth, latency);
    t.links = t.both = smaller(levels, one);
    t.scatter = t.both / 2;
    return t;
}
