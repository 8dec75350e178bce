/* channel.h - what the files of the MPI adapter share: a channel, its hops and its messages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call runs through hops. In a hop every rank sends frames to some ranks (targets) and gets some
 * from others (sources), slice by slice. Stage 0 encodes the input into hop 0; stage k makes the
 * sums of what hop k-1 brought into the frames of hop k; the last stage decodes what the last hop
 * brought. Each stage goes through the slices in order, and a stage may take slice i as soon as the
 * hop before it has brought slice i. */
#ifndef PITHI_MPI_CHANNEL_H
#define PITHI_MPI_CHANNEL_H

#include <stdbool.h>

#include "pith/pith_mpi.h"

enum { PITHI_MPI_HEADER = 64, PITHI_MPI_HOPS = 3 };

/* One message of one slice. cap 0: it would carry no element, and is not sent. What a rank sends to
 * itself stays where it was encoded: the incoming message has the outgoing one's bytes. */
struct pithi_mpi_message {
    uint8_t *bytes; /* header, then frames at multiples of 16 */
    uint64_t cap;
    uint64_t values;
    uint32_t frames;  /* that it has place for */
    uint64_t payload; /* bytes after the header; 0 unless it holds good frames */
    uint32_t rank;    /* the other end */
    bool open;        /* posted, not yet completed */
    MPI_Request request;
};

/* Slot group * slices + i of a plan is slice i of that group's piece. List `index` has the entries
 * list[first[index]] .. list[first[index + 1] - 1]. */
struct pithi_mpi_groups {
    uint32_t *list, *first;
};

struct pithi_mpi_hop {
    const pith_plan *encoder, *decoder; /* may be one plan, which then has one stream */
    pith_stream *encoding, *decoding;   /* the streams of the two plans */
    pith_stream_options random;         /* of the encoding stream */
    uint64_t slots, save_bytes;         /* of the encoding stream */
    uint32_t place;                     /* 0 the first hop, 1 across nodes, 2 the gathering half */
    bool shared;                        /* all targets get the same frame */
    bool encoded;                       /* in this call: there is something to take back */
    uint32_t targets, sources;
    uint32_t *target, *source;        /* ranks */
    struct pithi_mpi_groups put, get; /* whose frames stand in messages: of target t, source s */
    struct pithi_mpi_message *out;    /* [slice * targets + t] */
    struct pithi_mpi_message *in;     /* [slice * sources + s] */
    const void **frames;              /* of sums: one for each source, sum after sum */
    size_t *lengths;                  /* theirs */
};

struct pithi_mpi_call {
    pith_view in, out;
    bool has_out, key_frame, copy_all;
    float scale;
    uint64_t step;
    uint64_t next[PITHI_MPI_HOPS + 1]; /* of every stage: the slice it takes next */
    pith_status status;                /* lowest met so far, by this rank or told by others */
    int culprit;                       /* who met it */
    bool agreeing;
    double started, deadline;
};

struct pith_mpi_request {
    pith_mpi_channel *channel;
};

struct pithi_mpi_block; /* of memory */

struct pith_mpi_channel {
    pith_mpi_options o; /* as given, defaults filled in; pointers are not used after creation */
    pith_env env;
    MPI_Comm comm;
    pith_mpi_place place;
    uint32_t *node_of, *local_of; /* of every rank */
    uint32_t *node_size;          /* of every node */
    uint64_t *first;              /* of every rank's shard, and the end */
    /* The ranks whose shards this node's local rank j collects: share[share_first[j]] and on. At
     * one level: of every rank, itself. */
    uint32_t *share, *share_first;
    uint64_t slice, slices, longest; /* longest: elements of the longest piece of any rank */
    uint64_t in_count, out_count;    /* of the views */
    bool two_level, packed, with_base, invalid, bound;
    uint32_t hops;
    struct pithi_mpi_hop hop[PITHI_MPI_HOPS];
    pith_work *work;  /* of every call, for all plans */
    pith_item *items; /* the lists of one stage: as long as the longest stage of any hop needs */
    pith_sum *sums;
    void *scratch; /* a slice of a shard, where the caller's is scattered */
    struct pithi_mpi_block *blocks;

    bool busy, broken;
    uint64_t sequence;
    struct pithi_mpi_call call;
    struct pith_mpi_request request;
    pith_mpi_report report;
    pith_error error;
    MPI_Request agreement;
    int vote[2], verdict[2];
    uint64_t number, *numbers; /* this rank's, and every rank's, where they are to be the same */
};

#define PITHI_MPI_TRY(call)                     \
    do {                                        \
        const pith_status status_ = (call);     \
        if (status_ != PITH_OK) return status_; \
    } while (0)

/* ---- errors.c --------------------------------------------------------------------------------*/
/* Replaces the text of an error of this library's own size, by printf's rules. */
void pithi_mpi_say(pith_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills in a caller's struct, whose first member says how much of it there is. PITH_ERR_ARG: it is
 * NULL, or its size is not set; nothing was written. */
pith_status pithi_mpi_give(void *to, const void *from, size_t bytes);
/* The same for an error, of which an older caller's struct may hold a part of the text. */
void pithi_mpi_give_error(pith_error *to, const pith_error *from);

/* ---- memory.c --------------------------------------------------------------------------------*/
/* Zeroed, aligned to 64, released by pithi_mpi_release_all. NULL: there is none. */
void *pithi_mpi_take(pith_mpi_channel *ch, uint64_t count, uint64_t bytes);
void pithi_mpi_release_all(pith_mpi_channel *ch);
/* The channel itself. */
pith_mpi_channel *pithi_mpi_new(const pith_env *env);
void pithi_mpi_free(pith_mpi_channel *ch);

/* ---- agree.c ---------------------------------------------------------------------------------*/
double pithi_mpi_now(void);
/* Lets others have the core after a round that found nothing to do; idle_rounds counts these. */
void pithi_mpi_idle(uint32_t *idle_rounds);
/* Remember the lowest status of the call, and whom it came from. why: NULL where others know. */
void pithi_mpi_fail(pith_mpi_channel *ch, pith_status status, int culprit, const pith_error *why);
void pithi_mpi_fail_text(pith_mpi_channel *ch, pith_status status, const char *text);
/* Collective: the lowest status of all ranks and the lowest rank that has it. */
pith_status pithi_mpi_agree(pith_mpi_channel *ch, pith_status status, int *culprit);
/* The same in two halves, for a call. */
bool pithi_mpi_vote(pith_mpi_channel *ch);
bool pithi_mpi_verdict(pith_mpi_channel *ch, bool *done);
/* Collective: PITH_ERR_MISMATCH unless all ranks have the same number; then *differs is the lowest
 * rank whose number is not that of rank 0. */
pith_status pithi_mpi_same(pith_mpi_channel *ch, uint64_t number, uint32_t *differs);
/* MPI failed, or time is up: nothing more is expected of this channel's communicator. */
void pithi_mpi_break(pith_mpi_channel *ch, pith_status status);

/* ---- place.c ---------------------------------------------------------------------------------*/
pith_status pithi_mpi_find_place(pith_mpi_channel *ch);
void pithi_mpi_find_shares(pith_mpi_channel *ch);
uint32_t pithi_mpi_local_rank(const pith_mpi_channel *ch, uint32_t node, uint32_t local);

/* ---- hops.c ----------------------------------------------------------------------------------*/
pith_status pithi_mpi_make_hops(pith_mpi_channel *ch, pith_error *error);
/* Elements of slice `slice` of a piece of count elements. */
uint64_t pithi_mpi_slice_count(const pith_mpi_channel *ch, uint64_t count, uint64_t slice);

/* ---- plans.c ---------------------------------------------------------------------------------*/
/* A run of elements of the whole tensor that is one slot of a plan. */
struct pithi_mpi_piece {
    uint64_t first, count;
};
pith_status pithi_mpi_make_plan(pith_mpi_channel *ch, const char *spec, uint32_t dtype,
                                const struct pithi_mpi_piece *pieces, uint64_t count,
                                const pith_plan **plan, pith_error *error);
/* What a decoder without a base needs of a spec. */
pith_status pithi_mpi_decoder_spec(const char *spec, char text[PITH_SPEC_MAX], pith_error *error);
pith_status pithi_mpi_make_streams(pith_mpi_channel *ch, struct pithi_mpi_hop *hop,
                                   pith_error *error);
/* One for the plans of all hops. */
pith_status pithi_mpi_make_work(pith_mpi_channel *ch, pith_error *error);
/* Equal on ranks that take each other's frames in every hop. */
pith_status pithi_mpi_fingerprint(pith_mpi_channel *ch, uint64_t *fingerprint, pith_error *error);

/* ---- message.c -------------------------------------------------------------------------------*/
uint64_t pithi_mpi_pad(uint64_t bytes);
/* Capacity for one frame of the slot, key or not. */
uint64_t pithi_mpi_frame_capacity(const pith_plan *plan, uint64_t slot);
pith_status pithi_mpi_make_messages(pith_mpi_channel *ch, struct pithi_mpi_hop *hop);
bool pithi_mpi_post(pith_mpi_channel *ch);
bool pithi_mpi_send(pith_mpi_channel *ch, uint32_t hop, uint64_t slice);
bool pithi_mpi_arrived(pith_mpi_channel *ch, uint32_t hop, uint64_t slice, bool *all);
bool pithi_mpi_sent(pith_mpi_channel *ch, bool *all);
/* Cancel what can be; true when MPI holds no buffer any more. */
bool pithi_mpi_abandon(pith_mpi_channel *ch);

/* ---- wire.c ----------------------------------------------------------------------------------*/
/* Writes the header of a message whose payload is in its place. */
void pithi_mpi_seal(const pith_mpi_channel *ch, uint32_t hop, uint64_t slice,
                    const struct pithi_mpi_message *m);
/* Fails the call when the header, or what it says of its sender, is not good. */
void pithi_mpi_open(pith_mpi_channel *ch, uint32_t hop, uint64_t slice, struct pithi_mpi_message *m,
                    uint64_t bytes);

/* ---- views.c ---------------------------------------------------------------------------------*/
bool pithi_mpi_cut(const pith_view *view, uint64_t first, uint64_t count, pith_view *piece);
void pithi_mpi_pack(const pith_view *view, uint64_t first, uint64_t count, void *to);

/* ---- stages.c, base.c ------------------------------------------------------------------------*/
void pithi_mpi_stage(pith_mpi_channel *ch, uint32_t stage, uint64_t slice);
/* The call begins: every stream has its step, or the call fails. */
void pithi_mpi_begin_streams(pith_mpi_channel *ch);
void pithi_mpi_copy_base(pith_mpi_channel *ch);
/* The call has ended, well or not. */
void pithi_mpi_end_streams(pith_mpi_channel *ch, bool good);

#endif
