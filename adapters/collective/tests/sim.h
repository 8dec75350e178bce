/* sim.h - tests of the collective layer: checks, values that every rank knows, and the sums of
 * pith_collective.h computed serially from the public API of pith.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdio.h>

#include "world.h"

#define CHECK(condition) sim_check((condition), #condition, __FILE__, __LINE__)
#define CHECK_STATUS(call, status) sim_check_status((call), (status), #call, __FILE__, __LINE__)

bool sim_check(bool good, const char *what, const char *file, int line);
bool sim_check_status(pith_status got, pith_status wanted, const char *what, const char *file,
                      int line);
int sim_failures(void); /* failures on this rank so far */

/* ---- Channels and calls ----------------------------------------------------------------------*/

/* Collective: makes a channel on a transport of its own, as sim_change leaves it. */
pith_status sim_create(pith_collective_channel **channel, const pith_collective_options *options,
                       pith_error *error);
/* Changes the transport of every channel made from now on; NULL: nothing. */
extern void (*sim_change)(pith_transport *transport);
/* These make calls with one view each. sim_reduce is for both kinds of sums. */
pith_status sim_start(pith_collective_channel *channel, const pith_view *in, const pith_view *out,
                      float scale, uint64_t step, pith_collective_request **request);
pith_status sim_reduce(pith_collective_channel *channel, const pith_view *in, const pith_view *out,
                       float scale, uint64_t step, pith_collective_report *report);
pith_status sim_gather(pith_collective_channel *channel, const pith_view *in, const pith_view *out,
                       uint32_t flags, uint64_t step, pith_collective_report *report);
pith_status sim_exchange(pith_collective_channel *channel, const pith_view *in,
                         const pith_view *out, uint64_t step, pith_collective_report *report);
bool sim_same_status(pith_status status);
double sim_now(void);

/* ---- Values ----------------------------------------------------------------------------------*/

void *sim_take(uint64_t bytes);
/* Returns the work of this process, large enough for both plans; b may be NULL. */
pith_work *sim_work(const pith_plan *a, const pith_plan *b);
/* Does pith_encode with a list of one item. */
pith_status sim_encode(pith_stream *stream, const pith_view *view, void *frame, size_t capacity,
                       size_t *written);

/* Returns the value of an element, which is exact in bf16 and f16 when `coarse`. */
float sim_value(uint32_t rank, uint64_t index, uint64_t step, bool coarse);
void sim_fill(void *data, uint32_t dtype, uint64_t count, uint32_t rank, uint64_t step);

/* ---- Serial sums -----------------------------------------------------------------------------
 * As the text of pith_collective.h has them, for channels with these options. Streams (error
 * feedback) live from step to step in the simulation. */
struct sim;
struct sim *sim_new(const pith_collective_options *o, uint32_t ranks);
void sim_free(struct sim *s);
uint64_t sim_shard(const struct sim *s, uint32_t rank, uint64_t *first);
/* Computes the shard of `owner` to out, dense. inputs are those of every rank, dense, in the
 * options' dtype. */
void sim_sum(struct sim *s, const void *const *inputs, uint32_t owner, float scale, uint64_t step,
             uint32_t out_dtype, void *out);

#endif
