/* scale.h - how long ranks take to sum gradients, as a model of links says.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The alpha-beta model: a message of b bytes over a link of bandwidth B takes latency + b / B, and
 * a rank sends its messages one after the other. doc/SCALE.md derives the formulas. */
#ifndef PITH_CLI_SCALE_H
#define PITH_CLI_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/* A machine has nodes of equal size. Bandwidths are in bytes per second: of a rank to the others of
 * its node, and of a whole node to other nodes, which its ranks share. Latencies are in seconds, of
 * a message. */
struct scale_machine {
    uint32_t ranks, per_node;
    bool one_level; /* ranks sum all together, not first inside nodes */
    double inside, across;
    double latency_inside, latency_across;
    double ranks_per_core; /* at least 1: work of a rank takes so many times as long */
    /* Bytes per second of a core that one rank has alone, or INFINITY: of messages, sent and
     * received; of f32 gradients, copied to where they are sent from and back. */
    double send, copy;
};

/* A scheme is the bytes of a value in frames, to be summed inside a node, and to be summed across
 * nodes and on the way back; and what codecs take, in seconds for a value: encoding, adding a value
 * of one frame to a sum, decoding. */
struct scale_scheme {
    double inside, across;
    double encode, add, decode;
};

struct scale_time {
    double links;     /* seconds */
    double codecs;    /* seconds of a core, as the next two */
    double transport; /* sending and receiving */
    double copies;
    double sum;          /* seconds of all: links side by side with codecs and transport */
    double scatter;      /* seconds of the reduce-scatter, which is the first half */
    double across_bytes; /* bytes that a node sends to other nodes */
};

/* Models an all-reduce of `values` values; `slice`: values of a shard that travel while the next
 * are encoded. */
struct scale_time scale_sum(const struct scale_machine *machine, const struct scale_scheme *scheme,
                            double values, double slice);
/* Models an all-reduce of numbers that links add on their way (plain rings), `bytes` for each
 * value, by the better of a ring over all ranks and of rings inside nodes and across. */
struct scale_time scale_ring(const struct scale_machine *machine, double bytes, double values);

#endif
