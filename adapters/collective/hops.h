/* hops.h - what the files of hops and stages share; channel.h says what hops and stages are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter, all-reduce, all-gather and all-to-all have a file each, with their hops and with
 * what no other kind computes. hops.c and stages.c have what several need; sparse sums are apart,
 * in sparse.c. */
#ifndef PITHI_COLLECTIVE_HOPS_H
#define PITHI_COLLECTIVE_HOPS_H

#include "channel.h"

/* ---- hops.c: makes hops ----------------------------------------------------------------------*/
/* Cuts a part of count elements, the first of which is `first`, into the runs of its slices.
 * Returns where the runs of the next part go. */
struct pithi_collective_run *pithi_collective_cut_slices(const pith_collective_channel *ch,
                                                         uint64_t first, uint64_t count,
                                                         struct pithi_collective_run *to);
/* Makes a plan with this spec, whose slots are the slices of some ranks' shards, one shard after
 * the other. */
pith_status pithi_collective_make_shard_plan(pith_collective_channel *ch, const char *spec,
                                             uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                             const pith_plan **plan, pith_error *error);
/* Does so for what a hop encodes, and remembers in the hop whose shards these are. */
pith_status pithi_collective_make_encoder(pith_collective_channel *ch,
                                          struct pithi_collective_hop *h, const char *spec,
                                          uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                          pith_error *error);
/* Does so for frames that a rank only decodes or adds up: without the keys of encoders, such as
 * error feedback, which would need memory. */
pith_status pithi_collective_make_decoder(pith_collective_channel *ch, const char *spec,
                                          uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                          const pith_plan **plan, pith_error *error);
/* Allocates a list of `count` numbers of ranks or parts; count may be 0. */
uint32_t *pithi_collective_take_ranks(pith_collective_channel *ch, uint64_t count);
/* Says which parts stand in messages, `each` in every one: message i has from[i * step] and the
 * ones behind it. With step 0 all messages have the same. */
bool pithi_collective_set_parts(pith_collective_channel *ch, struct pithi_collective_parts *g,
                                uint32_t messages, uint32_t each, const uint32_t *from,
                                uint32_t step);
/* Lists all ranks as targets and as sources of a hop. */
bool pithi_collective_connect_all(pith_collective_channel *ch, struct pithi_collective_hop *h);
/* Sets what the random bits of a hop depend on, by its role, which pithi_collective_hop has. */
void pithi_collective_set_random(const pith_collective_channel *ch, struct pithi_collective_hop *h,
                                 uint32_t role);

/* ---- stages.c: computes in stages ------------------------------------------------------------*/
/* Returns the elements of a slot. */
uint64_t pithi_collective_slot_count(const pith_plan *plan, uint64_t slot);
/* Returns the bytes from one frame of a message to the next. Only frames whose size follows from
 * the plan (of fixed rate) share a message, so that no rank need send places. */
uint64_t pithi_collective_frame_stride(const pith_plan *plan, uint64_t slot);
/* To be called with the status of a call that encoded n items: fails the collective where that
 * failed, and returns false. Items that have a frame nonetheless went a step on, which is
 * remembered, so that the end of the call takes it back. */
bool pithi_collective_note_encoded(pith_collective_channel *ch, struct pithi_collective_hop *h,
                                   const pith_item *items, size_t n, pith_status status);
/* Sets the length of message `number` of a slice, whose frames are complete: of every message where
 * all targets share the bytes, and of what this rank gets from itself, which does not travel. */
void pithi_collective_hand_over(pith_collective_channel *ch, struct pithi_collective_hop *h,
                                uint64_t slice, uint32_t number, uint64_t payload);
/* Finds the view from which a slot of the first hop is encoded, and which elements of the input it
 * is: *count of them, from *first on. True where it lies as it is: in a tensor of which pith takes
 * the slot, or in a part of one. Otherwise `view` is the scratch memory, to which the caller copies
 * them. */
bool pithi_collective_input_of(const pith_collective_channel *ch, uint64_t slot, uint64_t slice,
                               uint64_t *first, uint64_t *count, pith_view *view);
/* Finds the view to which a slot is decoded. True where that is its final place; otherwise `view`
 * is the scratch memory, from which pithi_collective_copy_out copies it afterwards. */
bool pithi_collective_output_of(const pith_collective_channel *ch,
                                const struct pithi_collective_hop *h, uint64_t slot,
                                pith_view *view);
void pithi_collective_copy_out(const pith_collective_channel *ch,
                               const struct pithi_collective_hop *h, uint64_t slot);

/* ---- reduce_scatter.c ------------------------------------------------------------------------*/
/* Makes the hops of a reduce-scatter: one, or two where there are nodes of several ranks. */
pith_status pithi_collective_reduce_scatter_hops(pith_collective_channel *ch, pith_error *error);
/* Returns the spec of the hop that ends at the owners of shards: the caller's `inter` where it
 * crosses nodes, else `spec`; raw where the tensor is too small to compress. */
const char *pithi_collective_owner_spec(const pith_collective_channel *ch);
/* Makes the frames of a hop: of the sums of the frames that the hop before has brought. */
void pithi_collective_recode(pith_collective_channel *ch, uint32_t hop, uint64_t slice);
/* Writes the output, this rank's shard: the sum of the frames that the last hop has brought. */
void pithi_collective_decode_sum(pith_collective_channel *ch, uint64_t slice);

/* ---- allreduce.c -----------------------------------------------------------------------------*/
/* Makes the hops of an all-reduce: those of a reduce-scatter, and one that gathers its sums. */
pith_status pithi_collective_allreduce_hops(pith_collective_channel *ch, pith_error *error);
/* Decodes n frames of finished sums, as sums of one frame each: these can be written to a view of
 * any float dtype, as all-reduce promises, which pith_decode does not do for every codec. */
bool pithi_collective_decode_finished(pith_collective_channel *ch,
                                      const struct pithi_collective_hop *h, const pith_item *items,
                                      size_t n);

/* ---- allgather.c -----------------------------------------------------------------------------*/
/* Makes the hop in which each rank's shard goes to all, or to those who forward it. */
pith_status pithi_collective_allgather_hop(pith_collective_channel *ch, pith_error *error);
/* Lists as targets the ranks of this node and this rank's counterpart on each other node, and as
 * sources those and the ranks whose counterpart it is. */
bool pithi_collective_connect_counterparts(pith_collective_channel *ch,
                                           struct pithi_collective_hop *h);
/* Makes the hop in which frames that came from other nodes go to the other ranks of this node. It
 * has the plans and the decoding stream of the hop before, and encodes nothing. */
pith_status pithi_collective_forwarding_hop(pith_collective_channel *ch, pith_error *error);
/* Finds the message that the last hop forwards to a target. */
const struct pithi_collective_message *pithi_collective_forwarded(const pith_collective_channel *ch,
                                                                  uint64_t slice, uint32_t target);
/* Takes over the lengths of the messages that the hop before has brought from other nodes; they are
 * sent on from the buffers they came into. */
void pithi_collective_forward(pith_collective_channel *ch, struct pithi_collective_hop *h,
                              uint64_t slice);
/* With a base, puts this rank's own shard into the output: it need not be decoded, since encoding
 * it has made it the base. */
bool pithi_collective_own_base(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                               uint64_t slot);

/* ---- alltoall.c ------------------------------------------------------------------------------*/
/* Collective: cuts what ranks send each other into slices, of which the longest part that this rank
 * sends or gets gives the number: what others send each other needs no memory here. Fails where a
 * rank sends another count than the other expects. */
pith_status pithi_collective_cut_alltoall(pith_collective_channel *ch, pith_error *error);
/* Makes the hop in which each rank's part of the input goes to that rank. */
pith_status pithi_collective_alltoall_hop(pith_collective_channel *ch, pith_error *error);

#endif
