/* stream.h - what one end of a sequence of frames remembers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STREAM_H
#define PITHI_STREAM_H

#include "frame_codec.h"

struct pithi_slot_state {
    uint64_t step; /* the step of the next frame */
    uint64_t base_hash;
    bool invalid; /* a call failed while it wrote the base, which is neither old nor new */
    bool taken;   /* an item of the running call has this slot */
    uint8_t side; /* which copy of the residual is the current one */
    bool undone;  /* nothing to roll back: no encode since the beginning, a load or a rollback */
    union pithi_slot_own own; /* codecs with frame hooks */
    /* Statistics; those of a stream that was loaded are all in slot 0. */
    uint64_t frames, key_frames, saturated, poisoned, exact, nonzero;
};

struct pith_stream {
    const pith_plan *plan;
    const void *busy;       /* the work of the call that uses the stream; NULL: none */
    uint8_t *base;          /* dense, all slots; NULL: an external base that is not bound yet */
    float *residual[2];     /* dense, all slots, or NULL */
    float *momentum[2];     /* the same, of the same side */
    uint64_t *slot_words;   /* what slots have for their codec (frame_hooks.h); NULL: nothing */
    uint64_t *block_hashes; /* of every block of the base, to compare with; NULL: none */
    struct pithi_slot_state *slot;
    struct pithi_random random;  /* the step, which each slot has its own, is not set */
    pith_stream_options options; /* what the stream began with */
};

/* Returns the memory that a stream of the plan takes; 0: more than a number of 64 bits says. */
uint64_t pithi_stream_bytes(const pith_plan *plan);
uint64_t pithi_stream_save_bytes(const pith_plan *plan);
/* Returns the bytes that a stream remembers for elements: the base, or one copy of the residual and
 * of the momentum. */
uint64_t pithi_stream_remembered_bytes(const pith_plan *plan);
/* Whether the stream is marked with this work. Where the work's call has marked nothing yet, the
 * mark is that of a call whose thread died, with a work in the same memory. */
bool pithi_stream_is_marked(const pith_stream *stream, const pith_work *work);
/* Marks the stream as used by this work; PITH_ERR_BUSY while a call with another work uses it. A
 * second mark of the same work changes nothing. */
pith_status pithi_stream_enter(pith_stream *stream, pith_work *work);
void pithi_stream_leave(pith_stream *stream, pith_work *work);
/* Begins a call that changes the stream; the other ends it and returns the status. */
pith_status pithi_stream_begin(pith_work *work, pith_stream *stream);
pith_status pithi_stream_end(pith_work *work, pith_stream *stream, pith_status status);
/* Begins a call that only reads the stream, of which any number run at once; the other ends it and
 * returns the status. */
pith_status pithi_stream_enter_reading(pith_work *work, const pith_stream *stream);
pith_status pithi_stream_leave_reading(pith_work *work, pith_status status);
/* Whether no call changes the stream; and PITH_ERR_BUSY, with its text. */
bool pithi_stream_is_free(const pith_stream *stream);
pith_status pithi_stream_busy(pith_error *error);
/* Whether the stream has the slot. */
pith_status pithi_stream_check_slot(const pith_stream *stream, uint64_t slot, pith_error *error);
/* These return PITH_ERR_STATE when a base is needed and none is bound, and when the slot's base is
 * invalid. */
pith_status pithi_stream_check_base(const pith_stream *stream, pith_error *error);
pith_status pithi_stream_check_slot_base(const pith_stream *stream, uint64_t slot,
                                         pith_error *error);
/* The same of all slots. */
pith_status pithi_stream_check_slot_bases(const pith_stream *stream, pith_error *error);
/* Returns the residual of a slot: the current one (next 0), or where the next one goes. */
float *pithi_stream_residual(const pith_stream *stream, uint64_t slot, int next);
/* The same of the momentum; NULL where there is none. */
float *pithi_stream_momentum(const pith_stream *stream, uint64_t slot, int next);
/* Whether the hashes of blocks are of every byte, as the base hash is, or of a sample. */
bool pithi_stream_hashes_all(const pith_plan *plan);
/* Returns the hashes of a slot's blocks; NULL where none are kept. */
uint64_t *pithi_stream_block_hashes(const pith_stream *stream, uint64_t slot);
/* Returns the words that a slot has for its codec; NULL where it has none. */
uint64_t *pithi_stream_slot_words(const pith_stream *stream, uint64_t slot);
/* Makes the hash of count base elements from a complete sum. */
uint64_t pithi_base_hash(const pith_plan *plan, uint64_t sum, uint64_t count);
/* Returns the hash of a slot's part of a base of all slots; 0 where bases have no hash. */
uint64_t pithi_slot_base_hash(const pith_plan *plan, const uint8_t *base, uint64_t slot);
/* Says of all slots that the base is being written: it stays so where the call never ends. */
void pithi_stream_invalidate(pith_stream *stream);
/* Computes the hashes of the blocks of all slots. */
void pithi_stream_hash_blocks(pith_stream *stream);
/* The codec's hooks; NULL where it has none. */
PITHI_INLINE const struct pithi_frame_hooks *pithi_frame_hooks_of(const pith_plan *plan) {
    return plan->params.codec->frame_hooks;
}

#endif
