/* hops.h - what hops and stages of all kinds are made of, and what each kind makes of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of collective but the sparse ones has a file, which makes its hops and computes in its
 * stages what no other kind does. */
#ifndef PITHI_COLLECTIVE_HOPS_H
#define PITHI_COLLECTIVE_HOPS_H

#include "channel.h"

/* ---- hops.c: makes hops ----------------------------------------------------------------------*/
/* Cuts a part of count elements, the first of which is `first`, into the runs of its slices.
 * Returns where the runs of the next part go. */
struct pithi_collective_run *pithi_collective_cut_slices(const pith_collective_channel *ch,
                                                         uint64_t first, uint64_t count,
                                                         struct pithi_collective_run *to);
/* Makes a plan over the shards of some ranks. */
pith_status pithi_collective_make_shard_plan(pith_collective_channel *ch, const char *spec,
                                             uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                             const pith_plan **plan, pith_error *error);
/* Makes the plan of what a hop encodes: shards of some ranks. */
pith_status pithi_collective_make_encoder(pith_collective_channel *ch,
                                          struct pithi_collective_hop *h, const char *spec,
                                          uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                          pith_error *error);
/* Makes a plan for frames that a rank only decodes or adds up. */
pith_status pithi_collective_make_decoder(pith_collective_channel *ch, const char *spec,
                                          uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                          const pith_plan **plan, pith_error *error);
/* Allocates a list of so many ranks or parts, which may be none. */
uint32_t *pithi_collective_take_ranks(pith_collective_channel *ch, uint64_t count);
/* Gives message i `each` parts: from[i * step] and on. first[1] is there without messages, too. */
bool pithi_collective_set_parts(pith_collective_channel *ch, struct pithi_collective_parts *g,
                                uint32_t messages, uint32_t each, const uint32_t *from,
                                uint32_t step);
/* Connects this rank with all ranks. */
bool pithi_collective_connect_all(pith_collective_channel *ch, struct pithi_collective_hop *h);
/* Sets the random bits of a hop by its role: 0 the first, 1 the second, 2 the gathering one. */
void pithi_collective_set_random(const pith_collective_channel *ch, struct pithi_collective_hop *h,
                                 uint32_t role);

/* ---- stages.c: computes in stages ------------------------------------------------------------*/
/* Returns the elements of a slot. */
uint64_t pithi_collective_slot_count(const pith_plan *plan, uint64_t slot);
/* Returns the bytes from one frame of a message to the next. Where a message has several they are
 * of fixed rate, so that their places follow from the plan. */
uint64_t pithi_collective_frame_stride(const pith_plan *plan, uint64_t slot);
/* Notes that n items were encoded, with this status: the slot of every item that has a frame has
 * moved on, also where the call failed. */
bool pithi_collective_note_encoded(pith_collective_channel *ch, struct pithi_collective_hop *h,
                                   const pith_item *items, size_t n, pith_status status);
/* Hands over the bytes of message `from` of a slice: to every target when they share them, and to
 * this rank without travelling. */
void pithi_collective_hand_over(pith_collective_channel *ch, struct pithi_collective_hop *h,
                                uint64_t slice, uint32_t from, uint64_t payload);
/* Finds the view to which a slot is decoded. True where that is its final place; otherwise `view`
 * is the scratch memory, from which pithi_collective_copy_out copies it afterwards. */
bool pithi_collective_output_of(const pith_collective_channel *ch,
                                const struct pithi_collective_hop *h, uint64_t slot,
                                pith_view *view);
void pithi_collective_copy_out(const pith_collective_channel *ch,
                               const struct pithi_collective_hop *h, uint64_t slot);

/* ---- reduce_scatter.c ------------------------------------------------------------------------*/
/* Makes the hops of a reduce-scatter, as pith_collective.h promises for the number of nodes found
 * and the threshold. */
pith_status pithi_collective_reduce_scatter_hops(pith_collective_channel *ch, pith_error *error);
/* Returns the spec of the hop that ends at the owners of shards: `inter` where that hop crosses
 * nodes. */
const char *pithi_collective_owner_spec(const pith_collective_channel *ch);
/* Encodes the sums of what the hop before brought to the frames of this hop. */
void pithi_collective_recode(pith_collective_channel *ch, uint32_t hop, uint64_t slice);
/* Decodes the sum of what the last hop brought to the output, which is this rank's shard. */
void pithi_collective_decode_sum(pith_collective_channel *ch, uint64_t slice);

/* ---- allreduce.c -----------------------------------------------------------------------------*/
/* Makes the hops of an all-reduce: those of a reduce-scatter, and one that gathers its sums. */
pith_status pithi_collective_allreduce_hops(pith_collective_channel *ch, pith_error *error);
/* Decodes n frames of finished sums. All-reduce takes any float view, which decoding may not, so
 * that they are decoded as sums of one frame. */
bool pithi_collective_decode_finished(pith_collective_channel *ch,
                                      const struct pithi_collective_hop *h, const pith_item *items,
                                      size_t n);

/* ---- allgather.c -----------------------------------------------------------------------------*/
/* Makes the hop in which each rank's shard goes to all, or to those who forward it. */
pith_status pithi_collective_allgather_hop(pith_collective_channel *ch, pith_error *error);
/* Connects a rank with those of its node and its counterpart on each other node, and with the ranks
 * whose counterpart it is. */
bool pithi_collective_connect_counterparts(pith_collective_channel *ch,
                                           struct pithi_collective_hop *h);
/* Makes the hop in which frames that came from other nodes go to the other ranks of this node. It
 * has the plans and the decoding stream of the hop before, and encodes nothing. */
pith_status pithi_collective_forwarding_hop(pith_collective_channel *ch, pith_error *error);
/* Finds the message that the last hop forwards to a target. */
const struct pithi_collective_message *pithi_collective_forwarded(const pith_collective_channel *ch,
                                                                  uint64_t slice, uint32_t target);
/* Takes what the hop before has brought from other nodes as it is: the buffers are the same. */
void pithi_collective_forward(pith_collective_channel *ch, struct pithi_collective_hop *h,
                              uint64_t slice);
/* Puts this rank's own shard into the output. The owner of a base holds the new one since it
 * encoded. */
bool pithi_collective_own_base(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                               uint64_t slot);

/* ---- alltoall.c ------------------------------------------------------------------------------*/
/* Collective: cuts an exchange, where the longest part anywhere gives the number of slices. What is
 * sent must be what is expected. */
pith_status pithi_collective_find_exchange(pith_collective_channel *ch, pith_error *error);
/* Makes the hop in which each rank's part of the input goes to that rank. */
pith_status pithi_collective_alltoall_hop(pith_collective_channel *ch, pith_error *error);

#endif
