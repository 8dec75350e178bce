/* channel.h - what the files of the collective layer share: a channel, its hops and its messages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call runs through hops. In a hop every rank sends frames to some ranks (targets) and gets some
 * from others (sources), slice by slice. Stage 0 encodes the input into hop 0; stage k makes the
 * sums of what hop k-1 brought into the frames of hop k, or, in the hop that forwards, takes them
 * as they are; the last stage decodes what the last hop brought, and the one before it where the
 * last forwards. Each stage goes through the slices in order, and a stage may take slice i as soon
 * as the hop before it has brought slice i. */
#ifndef PITHI_COLLECTIVE_CHANNEL_H
#define PITHI_COLLECTIVE_CHANNEL_H

#include <stdbool.h>

#include "pith/pith_collective.h"

/* At most three hops are encoded, and one more forwards. */
enum { PITHI_COLLECTIVE_HEADER = 64, PITHI_COLLECTIVE_ENCODED = 3, PITHI_COLLECTIVE_HOPS = 4 };
/* Messages of a hop have its number as their tag, those of votes the next one. */
enum { PITHI_COLLECTIVE_VOTE_TAG = PITHI_COLLECTIVE_HOPS };
_Static_assert((int)PITHI_COLLECTIVE_VOTE_TAG < (int)PITH_TRANSPORT_TAGS, "votes have no tag");

/* One message of one slice. cap 0: it would carry no element, and is not sent. What a rank sends to
 * itself stays where it was encoded: the incoming message has the outgoing one's bytes. */
struct pithi_collective_message {
    uint8_t *bytes;     /* header, then frames at multiples of 16 */
    uint64_t cap;       /* capacity, which suffices for key frames, too */
    uint64_t plain_cap; /* capacity that suffices for other frames */
    uint64_t values;    /* elements of its frames */
    uint32_t frames;    /* frames that fit in it */
    uint64_t payload;   /* bytes after the header; 0 unless it holds good frames */
    uint32_t rank;      /* the rank at the other end */
    uint32_t origin;    /* the rank that encoded its frames, which another one may forward */
    bool open;          /* posted, not yet completed */
    uint64_t request;   /* the number that the transport knows the request by */
    uint64_t posted;    /* bytes of the send or receive that the transport was given */
};

/* The parts whose frames stand in each message. A part of the tensor is what one rank owns or gets:
 * its shard, or in an all-to-all what one rank sends to one; slot part * slices + i of a plan is
 * slice i of it. Message `index` has the parts list[first[index]] .. list[first[index + 1] - 1]. */
struct pithi_collective_parts {
    uint32_t *list, *first;
};

struct pithi_collective_hop {
    const pith_plan *encoder, *decoder; /* may be one plan, which then has one stream */
    pith_stream *encoding, *decoding;   /* the streams of the two plans */
    pith_stream_options random;         /* options of the encoding stream */
    uint64_t slots, save_bytes; /* slots of the encoding stream, and its bytes in a checkpoint */
    uint32_t role;              /* 0: the first hop, 1: across nodes, 2: the gathering half */
    bool shared;                /* all ranks get the same frames */
    /* In the hop that forwards, for each target, which source of the hop before sent what it gets;
     * NULL in others. */
    const uint32_t *forwarded;
    bool encoded; /* this call has encoded something here, which a failure takes back */
    uint32_t targets, sources;
    uint32_t *target, *source;  /* ranks of targets and sources */
    const uint32_t *encoded_of; /* ranks whose shards the encoder has, one after the other */
    uint32_t encoded_count;
    struct pithi_collective_parts put, get; /* of each target's message, of each source's */
    struct pithi_collective_message *out;   /* [slice * targets + t] */
    struct pithi_collective_message *in;    /* [slice * sources + s] */
    const void **frames;                    /* of sums: a frame from each source, sum after sum */
    size_t *lengths;                        /* lengths of these frames */
};

/* A list of tensors that stands for one, in the caller's array. */
struct pithi_collective_list {
    const pith_view *views;
    size_t count;
};

struct pithi_collective_call {
    struct pithi_collective_list in, out;
    const pith_sparse_request *requests;
    bool has_out, key_frame;
    bool whole_in; /* all-gather: the input is the whole tensor, not this rank's shard */
    float scale;
    uint64_t step;
    uint64_t next[PITHI_COLLECTIVE_HOPS + 1]; /* the slice that each stage takes next */
    pith_status status;       /* the lowest status so far, met by this rank or told by others */
    int culprit;              /* the rank that met it */
    bool agreeing;            /* all hops are done, and ranks tell each other their statuses */
    double started, deadline; /* times of pithi_collective_now, in seconds */
};

struct pith_collective_request {
    pith_collective_channel *channel;
};

/* What ranks tell each other outside of hops. Votes of all ranks are merged in any order, some of
 * them twice, and the result is the same: it has minima, maxima, and what the lowest rank says. */
struct pithi_collective_vote {
    uint32_t magic;
    uint32_t lowest; /* the lowest rank heard of, whose number this is */
    uint64_t number;
    uint64_t most;   /* the largest of all ranks */
    int32_t status;  /* the lowest of all ranks */
    int32_t culprit; /* the lowest rank that has it */
    uint32_t from, to;
    uint64_t election; /* number of the election on this channel */
    uint64_t zero;
    uint64_t check; /* check of the bytes before it */
};

/* A vote that is sent and one that is received at the same time. */
struct pithi_collective_swap {
    struct pithi_collective_vote sent, got;
    uint64_t send, recv; /* numbers of the requests */
    bool sending, receiving;
};

/* The most rounds of an election: ranks are numbered with 32 bits, and round k reaches 2^k ranks
 * further. */
enum { PITHI_COLLECTIVE_ROUNDS = 32 };

struct pithi_collective_election {
    struct pithi_collective_swap swap[PITHI_COLLECTIVE_ROUNDS];
    struct pithi_collective_vote merged; /* the votes of the ranks heard of so far */
    uint32_t round, rounds;
    uint64_t number; /* number of elections so far */
};

/* What the body of a message says of a frame in it. */
struct pithi_collective_entry {
    uint64_t length, chosen; /* bytes, and elements that it holds */
};

/* What sparse all-reduces have besides hops, whose messages they make themselves; the first hop has
 * the plan and the stream by which elements are chosen. */
struct pithi_collective_sparse {
    uint64_t pieces;                        /* slots of the plans */
    uint64_t most;                          /* elements that a rank sends at most */
    uint64_t *chosen;                       /* elements that each rank chose, of all pieces */
    uint64_t *of_piece;                     /* elements of each piece that all ranks chose */
    size_t *length;                         /* of the frame that this rank made of each piece */
    const void **frames;                    /* [piece * ranks + rank], of the frames that arrived */
    size_t *lengths;                        /* of these */
    float *values;                          /* SPARSE_UNION: the values of the union */
    uint64_t united;                        /* how many there are in this call */
    bool nonfinite;                         /* a rank heard of had an input that is not finite */
    struct pithi_collective_oktopk *oktopk; /* oktopk.c has it */
    /* What Ok-Topk remembers besides streams: now, before the last call, whose step it was, and
     * after the call that goes on. */
    uint64_t *words, *before, *next;
    uint64_t word_count, word_step;
    bool taken_back; /* there is nothing before */
};

struct pithi_collective_block; /* memory.c has it */

struct pith_collective_channel {
    /* Options as given, with defaults filled in; its pointers are not used after creation. */
    pith_collective_options o;
    pith_env env;
    pith_transport t; /* node_of is not used after creation */
    pith_collective_place place;
    uint32_t *node_of, *local_of; /* node, and rank within the node, of every rank */
    uint32_t *node_size;          /* ranks of every node */
    uint64_t *first;              /* first element of every rank's shard, and the end */
    /* The ranks whose shards local rank j of this node collects: collected[collected_first[j]] and
     * on. At one level every rank collects its own shard. */
    uint32_t *collected, *collected_first;
    /* longest: elements of the longest shard, or, in an all-to-all, of the longest part that this
     * rank sends or gets; longest_of_all: of the longest part of any rank. */
    uint64_t slice, slices, longest, longest_of_all;
    uint64_t in_count, out_count; /* elements of the views */
    bool two_level;               /* sums are formed within nodes first, then across them */
    bool packed;    /* compressed: the tensor is long enough that this pays (options.threshold) */
    bool with_base; /* frames are differences from a base that all ranks have */
    bool base_invalid; /* a call failed that may have changed some ranks' bases and not others' */
    bool base_bound;   /* with PITH_COLLECTIVE_EXTERNAL_BASE: the caller has bound one */
    uint32_t hops, encoded_hops; /* all hops; those before the one that forwards */
    struct pithi_collective_hop hop[PITHI_COLLECTIVE_HOPS];
    pith_work *work;  /* serves every call, for all plans */
    pith_item *items; /* lists of one stage, as long as the longest stage of any hop needs */
    pith_sum *sums;
    void *scratch; /* memory for a slice, where the caller's is scattered */
    struct pithi_collective_sparse *sparse; /* NULL: the kind is another */
    struct pithi_collective_block *blocks;

    bool busy;         /* a call was started and is not done */
    bool broken;       /* the transport failed, or time was up: nothing more is sent */
    uint64_t sequence; /* number of calls so far, which headers of messages carry */
    struct pithi_collective_call call;
    struct pith_collective_request request;
    pith_collective_report report;
    pith_error error;
    struct pithi_collective_election election;
};

#define PITHI_COLLECTIVE_TRY(call)              \
    do {                                        \
        const pith_status status_ = (call);     \
        if (status_ != PITH_OK) return status_; \
    } while (0)

/* ---- create.c --------------------------------------------------------------------------------*/
/* These copy structs of an older or newer caller's: fields that an older one does not know become
 * 0, and those of a newer one that this library does not know must be 0 (PITH_ERR_UNSUPPORTED).
 * PITH_ERR_ARG: the struct is NULL, its size is not set, or the transport is not valid. */
pith_status pithi_collective_copy_options(pith_collective_options *to,
                                          const pith_collective_options *from, pith_error *error);
pith_status pithi_collective_copy_transport(pith_transport *to, const pith_transport *from);

/* ---- errors.c --------------------------------------------------------------------------------*/
/* Replaces an error's text, by printf's rules. The error must have this library's own size. */
void pithi_collective_say(pith_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills in a caller's struct, whose first member says how much of it there is. PITH_ERR_ARG: it is
 * NULL, or its size is not set; nothing was written. */
pith_status pithi_collective_give(void *to, const void *from, size_t bytes);
/* Fills in a caller's error; an older caller's may hold a part of the text. */
void pithi_collective_give_error(pith_error *to, const pith_error *from);
/* Remembers the lowest status of the call, and the rank that it came from. why: NULL where others
 * know. */
void pithi_collective_fail(pith_collective_channel *ch, pith_status status, int culprit,
                           const pith_error *why);
void pithi_collective_fail_text(pith_collective_channel *ch, pith_status status, const char *text);
/* Fails the call unless a call of pith on this rank was good; returns whether it was. */
bool pithi_collective_good(pith_collective_channel *ch, pith_status status);
/* Breaks the channel: the transport failed, or time is up, and nothing more is expected of it. */
void pithi_collective_break(pith_collective_channel *ch, pith_status status);
/* Whether a rank can have met this status and go on to tell it: a failure, but not of what tells
 * it. */
bool pithi_collective_is_told(int status);

/* ---- memory.c --------------------------------------------------------------------------------*/
/* Allocates zeroed memory, aligned to 64, which is released with the channel. NULL: there is
 * none. */
void *pithi_collective_take(pith_collective_channel *ch, uint64_t count, uint64_t bytes);
/* Allocates the channel itself; frees it and what was taken for it. */
pith_collective_channel *pithi_collective_new(const pith_env *env);
void pithi_collective_free(pith_collective_channel *ch);

/* ---- hash.c ----------------------------------------------------------------------------------*/
uint64_t pithi_collective_hash(const void *data, size_t bytes, uint64_t seed);

/* ---- clock.c ---------------------------------------------------------------------------------*/
/* Seconds of a clock that is never set back. */
double pithi_collective_now(void);
/* CPU time of the calling thread: it stands still while another rank has the core. */
double pithi_collective_cpu(void);
/* Lets others have the core after a round that found nothing to do; idle_rounds counts such
 * rounds. */
void pithi_collective_nap(uint32_t *idle_rounds);
/* Waits a little, as pithi_collective_nap does, or, where the transport can wait, until something
 * happens, the time is `until`, or a short while has passed. False: the transport failed. */
bool pithi_collective_idle(pith_collective_channel *ch, uint32_t *idle_rounds, double until);

/* ---- agree.c ---------------------------------------------------------------------------------*/
/* Begin and continue an election, in which every rank hears of every other; election.merged has the
 * result when it is done. False: the transport failed. */
void pithi_collective_begin_vote(pith_collective_channel *ch, uint64_t number, uint64_t most);
bool pithi_collective_voted(pith_collective_channel *ch, bool *done);
/* Collective: returns the lowest status of all ranks, and the lowest rank that has it. */
pith_status pithi_collective_agree(pith_collective_channel *ch, pith_status status, int *culprit);
/* Collective: does the same, and makes the text of ranks that did not fail themselves. */
pith_status pithi_collective_agree_text(pith_collective_channel *ch, pith_status own,
                                        pith_error *error);
/* Collective: PITH_ERR_MISMATCH unless all ranks have the same number; then *differs is the lowest
 * rank whose number is not that of rank 0. */
pith_status pithi_collective_same(pith_collective_channel *ch, uint64_t number, uint32_t *differs);
/* Collective: finds the largest number of all ranks. */
pith_status pithi_collective_largest(pith_collective_channel *ch, uint64_t *number);
/* Collective: gives numbers[r] to rank r, and gets heard[r] from it. */
pith_status pithi_collective_transpose(pith_collective_channel *ch, const uint64_t *numbers,
                                       uint64_t *heard);
/* Cancels what can be cancelled; true when the transport holds no vote any more. */
bool pithi_collective_abandon_votes(pith_collective_channel *ch);

/* ---- nodes.c ---------------------------------------------------------------------------------*/
/* Finds which ranks share a node: what the caller, or the transport, says. */
void pithi_collective_find_nodes(pith_collective_channel *ch);
uint32_t pithi_collective_local_rank(const pith_collective_channel *ch, uint32_t node,
                                     uint32_t local);
/* Return the list of all ranks, 0, 1, 2, ..., and that of the ranks of this rank's node. NULL:
 * there is no memory. */
uint32_t *pithi_collective_all_ranks(pith_collective_channel *ch);
uint32_t *pithi_collective_ranks_of_node(pith_collective_channel *ch);
/* Returns the counterpart of this rank on a node: the rank there whose local rank is this one's,
 * modulo the number of ranks of that node. */
uint32_t pithi_collective_counterpart(const pith_collective_channel *ch, uint32_t node);

/* ---- shards.c --------------------------------------------------------------------------------*/
/* Finds which shard each rank owns: one after the other, of the caller's counts or else of
 * ceil(count / ranks) elements while there are any; and how many slices the longest has. */
pith_status pithi_collective_find_shards(pith_collective_channel *ch, pith_error *error);
/* Finds which shards each rank collects. At one level every rank collects its own. At two levels
 * local rank j of a node of R ranks collects for every rank whose local rank is j mod R: on nodes
 * of equal size these are the ranks with its own local rank (pith_slot_order). */
void pithi_collective_find_collectors(pith_collective_channel *ch);
/* Finds how many slices there are: those of the longest part. */
pith_status pithi_collective_count_slices(pith_collective_channel *ch, pith_error *error);
/* Returns the elements of slice `slice` of a part of count elements. */
uint64_t pithi_collective_slice_count(const pith_collective_channel *ch, uint64_t count,
                                      uint64_t slice);

/* ---- hops.c ----------------------------------------------------------------------------------*/
pith_status pithi_collective_make_hops(pith_collective_channel *ch, pith_error *error);

/* ---- plans.c ---------------------------------------------------------------------------------*/
/* A run of elements of the whole tensor that is one slot of a plan. */
struct pithi_collective_run {
    uint64_t first, count;
};
pith_status pithi_collective_make_plan(pith_collective_channel *ch, const char *spec,
                                       uint32_t dtype, const struct pithi_collective_run *runs,
                                       uint64_t count, const pith_plan **plan, pith_error *error);
/* Makes the spec of a decoder without a base, which does without keys of streams. */
pith_status pithi_collective_decoder_spec(const char *spec, char text[PITH_SPEC_MAX],
                                          pith_error *error);
pith_status pithi_collective_make_streams(pith_collective_channel *ch,
                                          struct pithi_collective_hop *hop, pith_error *error);
/* Makes the channel's work, for calls on these plans. */
pith_status pithi_collective_make_work(pith_collective_channel *ch, const pith_plan *const *plans,
                                       size_t count, pith_error *error);
/* Makes for each hop that encodes a number that is equal on ranks that take each other's frames in
 * that hop; 0 for others. */
pith_status pithi_collective_fingerprints(pith_collective_channel *ch,
                                          uint64_t to[PITHI_COLLECTIVE_ENCODED], pith_error *error);

/* ---- message.c -------------------------------------------------------------------------------*/
/* Returns the next multiple of 16, at which the next frame of a message begins. */
uint64_t pithi_collective_pad(uint64_t bytes);
/* Makes the messages of a hop, with their buffers. PITH_ERR_ARG where one may be longer than the
 * transport takes. */
pith_status pithi_collective_make_messages(pith_collective_channel *ch,
                                           struct pithi_collective_hop *hop, pith_error *error);
/* These return false when the transport failed. The first posts the receives of all hops. */
bool pithi_collective_post(pith_collective_channel *ch);
/* Sends the messages of a slice; headers alone once the call has failed. */
bool pithi_collective_send(pith_collective_channel *ch, uint32_t hop, uint64_t slice);
/* Tests what a slice waits for, and opens the messages that have come; *all: every one has. */
bool pithi_collective_arrived(pith_collective_channel *ch, uint32_t hop, uint64_t slice, bool *all);
/* Tests what was sent; *all: the transport needs no buffer any more. */
bool pithi_collective_sent(pith_collective_channel *ch, bool *all);
/* Cancels what can be cancelled; true when the transport holds no buffer any more. */
bool pithi_collective_abandon(pith_collective_channel *ch);

/* ---- message_header.c ------------------------------------------------------------------------*/
/* Writes the header of a message whose payload is in its place. */
void pithi_collective_seal(const pith_collective_channel *ch, uint32_t hop, uint64_t slice,
                           const struct pithi_collective_message *m);
/* Reads the header of a message; fails the call when it, or what it says of its sender, is not
 * good. */
void pithi_collective_open(pith_collective_channel *ch, uint32_t hop, uint64_t slice,
                           struct pithi_collective_message *m, uint64_t bytes);

/* ---- sparse.c, oktopk.c ----------------------------------------------------------------------*/
bool pithi_collective_is_sparse(uint32_t kind);
/* Returns what a call asks of the choice from a piece; NULL: nothing. Requests of one list have one
 * size, which an older or newer caller's differs in from this library's. */
const pith_sparse_request *pithi_collective_request_of(const struct pithi_collective_call *call,
                                                       uint64_t piece);
/* Makes everything of a sparse all-reduce. */
pith_status pithi_collective_make_sparse(pith_collective_channel *ch, pith_error *error);
void pithi_collective_sparse_stage(pith_collective_channel *ch, uint32_t stage);
void pithi_collective_destroy_sparse(pith_collective_channel *ch);
/* Makes hop k, in which every rank sends a message of at most so many bytes behind the head of its
 * body to every rank: the same to all where it is shared. */
pith_status pithi_collective_make_sparse_hop(pith_collective_channel *ch, uint32_t k, bool shared,
                                             uint64_t bytes, pith_error *error);
/* Returns where the body of a message begins. It is checked as far as it is no frame. */
uint8_t *pithi_collective_body(const struct pithi_collective_message *m);
/* What a sender says of a body that it has written. */
struct pithi_collective_body_info {
    uint64_t number;  /* what the receiver is told beside the body: a count of elements */
    uint64_t bytes;   /* bytes of the body */
    uint64_t checked; /* how many of these, from the first on, have their hash in the head */
    uint64_t values;  /* elements that are in the body */
};
/* Writes the head of message t of a hop, which is then ready to be sent: where the hop is shared
 * that to every rank. */
void pithi_collective_close_body(pith_collective_channel *ch, uint32_t hop, uint32_t t,
                                 const struct pithi_collective_body_info *body);
/* Opens the body of the message that rank r sent: *number is what the sender told, *bytes how many
 * bytes the body has. False, and the call fails, unless the first `checked` of them are there and
 * have the hash that the head says. */
bool pithi_collective_open_body(pith_collective_channel *ch, uint32_t hop, uint32_t r,
                                uint64_t checked, uint64_t *number, uint64_t *bytes);
/* Adds this rank's input to its residual and chooses elements of every piece: frames in `to`, one
 * behind the other at the distances that their capacities ask for. */
bool pithi_collective_choose(pith_collective_channel *ch, uint8_t *to);
/* Sums frames of a piece to the output. */
bool pithi_collective_sum_frames(pith_collective_channel *ch, pith_stream *stream, uint64_t piece,
                                 const void **frames, const size_t *lengths, size_t count);
pith_status pithi_collective_make_oktopk(pith_collective_channel *ch, pith_error *error);
void pithi_collective_oktopk_stage(pith_collective_channel *ch, uint32_t stage);
void pithi_collective_destroy_oktopk(pith_collective_channel *ch);
/* Copies the value of a key of a canonical spec; empty where it has its default. */
void pithi_collective_spec_value(const char *spec, const char *key, char value[PITH_SPEC_MAX]);
/* Words of Ok-Topk, for calls that end well, are taken back, reset and load; channels of other
 * kinds have none. False: no channel can have saved them. */
void pithi_collective_keep_words(pith_collective_channel *ch);
void pithi_collective_take_back_words(pith_collective_channel *ch, uint64_t step);
void pithi_collective_reset_words(pith_collective_channel *ch);
bool pithi_collective_take_words(pith_collective_channel *ch, const uint64_t *words);

/* ---- views.c ---------------------------------------------------------------------------------*/
/* Finds elements [first, first + count) of the list as one view of one dimension; false when they
 * are scattered, or lie in several tensors. */
bool pithi_collective_cut(const struct pithi_collective_list *list, uint64_t first, uint64_t count,
                          pith_view *run);
/* Copy elements [first, first + count) of the list to and from memory where they lie close
 * together. */
void pithi_collective_pack(const struct pithi_collective_list *list, uint64_t first, uint64_t count,
                           void *to);
void pithi_collective_unpack(const struct pithi_collective_list *list, uint64_t first,
                             uint64_t count, void *from);
/* Whether all elements of a list of f32, bf16 or f16 are finite. */
bool pithi_collective_is_finite(const struct pithi_collective_list *list);
/* Makes all elements of such a list NaN. */
void pithi_collective_make_nan(const struct pithi_collective_list *list);

/* ---- stages.c, state.c -----------------------------------------------------------------------*/
void pithi_collective_stage(pith_collective_channel *ch, uint32_t stage, uint64_t slice);
/* Begins a call: every stream has its step, or the call fails. */
void pithi_collective_begin_streams(pith_collective_channel *ch);
/* Ends a call, well or not. */
void pithi_collective_end_streams(pith_collective_channel *ch, bool good);

#endif
