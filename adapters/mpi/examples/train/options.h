/* options.h - the command line of the example.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdint.h>

struct options {
    const char *data, *log, *exchange, *replica;
    const char *weights, *intra, *inter, *exempt, *sparse;
    uint64_t steps, seed, nodes, every;
    double rate, clip, slack;
};

/* Defaults, then --name=value. 0, or -1 with a message on stderr when `loud`. */
int options_read(struct options *options, int argc, char **argv, int loud);

#endif
