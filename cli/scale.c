/* scale.c - how long ranks take to sum gradients, as a model of links says.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scale.h"

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

struct scale_time scale_sum(const struct scale_machine *m, const struct scale_scheme *s,
                            double values, double slice) {
    const uint32_t nodes = nodes_of(m);
    const double shard = values / m->ranks, slices = larger(shard / slice, 1);
    struct scale_time t = {0};
    t.links = exchange(m->per_node, values * s->sum_inside, m->inside, m->latency_inside) +
              exchange(m->per_node, values * s->back_inside, m->inside, m->latency_inside) +
              exchange(nodes, values * s->sum_across, m->across, m->latency_across) +
              exchange(nodes, values * s->back_across, m->across, m->latency_across);
    /* A rank adds as many values as it has, one frame of each of its node's ranks for its share of
     * them, then one of each node for its shard; sums are encoded once for each hop. */
    const double share = values / m->per_node;
    t.codecs = values * (s->encode + s->add + s->decode);
    if (nodes > 1 && m->per_node > 1) t.codecs += share * (s->encode + s->add);
    t.codecs += shard * s->encode;
    t.both = larger(t.links, t.codecs) + smaller(t.links, t.codecs) / slices;
    t.across_bytes = across_of(m, values * (s->sum_across + s->back_across));
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
    return t;
}
