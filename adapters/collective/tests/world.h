/* world.h - the ranks of a test: processes that run one program, and what it needs of them besides
 * the channels that it tests.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two files have it: world_fork.c, where the processes are forked and connected by sockets, and
 * world_mpi.c, which is for the tests of adapters/mpi, where mpirun starts them. The calls below
 * but world_end wait for the other ranks without limit. */
#ifndef WORLD_H
#define WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "pith/pith_collective.h"

extern int world_rank, world_ranks;

/* The first thing in main. Leaves the arguments that are the test's own. */
void world_begin(int *argc, char ***argv);
/* The last thing: the exit code, 0 when no rank has failures. Nothing waits for ranks that died. */
int world_end(const char *name, int failures);
/* Makes a new transport for one channel. */
pith_status world_transport(pith_transport *transport);
/* Gives every rank the bytes of rank 0. */
void world_spread(void *data, size_t bytes);
uint64_t world_lowest(uint64_t x);
void world_barrier(void);

#endif
