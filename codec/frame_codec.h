/* frame_codec.h - one slot to one frame and back, block by block.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_FRAME_CODEC_H
#define PITHI_FRAME_CODEC_H

#include <string.h>

#include "parallel.h"

/* One encoding or decoding of one frame. The caller checks that counts and dtypes fit. */
struct pithi_coding {
    struct pithi_frame frame;
    const pith_plan *plan;         /* from here on fields that the caller does not set are 0 */
    pith_work *work;               /* attached to the plan */
    const struct pithi_span *view; /* values, or output; NULL: only the base is wanted */
    const struct pithi_span *base; /* NULL: none */
    bool update;                   /* write the new base; without one, only hash it */
    const void *next_value;        /* encode: where values and base of the next item lie; or NULL */
    const void *next_base;
    uint64_t *block_hashes; /* of every block of the base as the last call left it; NULL: none */
    bool hash_all;          /* the hashes are of all bytes of a block, not of a sample */
    bool compare;           /* encode: compare the base with its hashes before a block is written */
    struct pithi_random random;
    struct pithi_exempt_values exempt_values; /* exempt elements; map NULL: none */
    const float *residual; /* encode: the slot's residual before and after; NULL: none */
    float *residual_next;
    const float *momentum; /* encode: the slot's momentum, the same; NULL: none */
    float *momentum_next;
    uint64_t *slot_words;       /* what the slot's stream has for the codec; NULL: nothing */
    uint32_t flags;             /* encode: flags of the call */
    uint64_t first, count;      /* decode: the elements of the frame that view holds */
    uint8_t *bytes;             /* the payload, which decode only reads */
    bool nontemporal;           /* the output is too large for caches and not read again */
    union pithi_coding_own own; /* codecs with frame hooks */
    pithi_source_fn *source;    /* encode, codecs without tiles: in place of view; NULL: view */
    void *source_from;
    bool began; /* encode: blocks may have been written */
    bool add;   /* decode, codecs with a hook decode_add: values are added to those of the view */
    bool busy;  /* decode: another call changes the stream, so that nothing of a slot can be read */
    /* Decode, variable rate: the offset of one block in so many, from which the lengths of those
     * between are added. Stride 0 until pithi_find_blocks, unless a sum of several frames shares
     * the table among them; NULL: there is none. */
    uint64_t *block_offset, stride;
    /* Decode: blocks give what the codec's domain has. Encode: the source has it. */
    bool coefficients;
    /* Results. */
    uint64_t hash, saturated, poisoned, exact, nonzero;
};

/* Begins a coding with all fields behind the frame 0 but these; the caller fills in the frame. */
static inline void pithi_coding_open(struct pithi_coding *c, const pith_plan *plan, pith_work *work,
                                     const struct pithi_span *view) {
    const size_t begin = offsetof(struct pithi_coding, plan);
    memset((uint8_t *)c + begin, 0, sizeof *c - begin);
    c->plan = plan;
    c->work = work;
    c->view = view;
}

/* Makes a coding of a frame of `count` elements from the one before, which another call of the same
 * work and with the same flags has ended: what differs is results, and what every encoding sets.
 * False where more may differ: codecs with frame hooks keep what they found in the values. */
static inline bool pithi_coding_again(struct pithi_coding *c, const pith_plan *plan, uint64_t count,
                                      bool key) {
    if (c->plan != plan || !c->frame.written || c->frame.params.codec->frame_hooks ||
        c->frame.count != count || c->frame.params.key_frame != key)
        return false;
    c->began = false;
    return true;
}

/* Outputs from this size on do not stay in cache, so stores that bypass it are faster. */
enum { PITHI_LARGE_OUTPUT = 8 << 20 };

/* Encodes payload and header into dst and sets frame.payload_bytes. With hash_base the header gets
 * the hash of the base as it is now (one-shot calls); otherwise frame.base_hash is set already. */
pith_status pithi_encode_frame(struct pithi_coding *c, uint8_t *dst, size_t cap, bool hash_base,
                               size_t *written);
/* Reads elements of the values that are encoded, where blocks are runs of the tensor. */
pith_status pithi_read_values(const struct pithi_coding *c, uint64_t first, uint64_t count,
                              struct pithi_worker *w, const void **values);
/* Encodes all blocks of a variable-rate frame; *used becomes the bytes of its payload. */
pith_status pithi_encode_waves(struct pithi_coding *c, uint64_t capacity, uint64_t *used);
/* Finds the offsets of the blocks of a variable-rate payload, which they must fill exactly. */
pith_status pithi_find_blocks(struct pithi_coding *c);
/* Parses a frame whose payload must be there as a whole and finds its blocks. Sets frame, bytes,
 * first and count (all elements), and leaves the rest to the caller. */
pith_status pithi_decode_open(struct pithi_coding *c, pith_work *work, const pith_plan *plan,
                              const void *frame, size_t bytes);
/* Checks the checksums of the blocks that hold elements [first, first + count). */
pith_status pithi_check_blocks(struct pithi_coding *c);
/* Opens a frame and checks all of its blocks; PITH_ERR_MISMATCH unless the plan's slot makes such
 * frames. */
pith_status pithi_decode_slot(struct pithi_coding *c, pith_work *work, const pith_plan *plan,
                              uint64_t slot, const void *frame, size_t bytes);
/* Checks what the heads of the blocks say together, for codecs with frame hooks
 * (frame_hooks.h). Where only a part of the frame is decoded there is nothing to check. */
pith_status pithi_check_heads(const struct pithi_coding *c);
/* Checks a frame against what the stream holds, then its heads, before anything is decoded. */
pith_status pithi_admit(struct pithi_coding *c);
/* Decodes the blocks that hold elements [first, first + count). */
pith_status pithi_decode_blocks(struct pithi_coding *c);
/* Is pithi_parallel_for, but that the offset of a failure is that of the block in the frame. */
pith_status pithi_parallel_blocks(const struct pithi_coding *c, uint64_t first, uint64_t count,
                                  pithi_block_fn *fn, void *arg);
/* Decodes block number `block` into out (dense, out_dtype) with this base. */
pith_status pithi_decode_one(const struct pithi_coding *c, uint64_t block, void *out,
                             uint32_t out_dtype, void *base, struct pithi_worker *w);
/* Encodes dense values as a block: in a fixed-rate frame in its place, else in the worker's buffer.
 * values NULL: the codec takes those of the view where they lie. */
pith_status pithi_encode_one(const struct pithi_coding *c, uint64_t block, const void *values,
                             void *base, struct pithi_worker *w);
/* Begins an encoding: sets where the payload and its exempt values go. */
void pithi_encode_open(struct pithi_coding *c, uint8_t *dst);
/* Writes the checksum of a block whose bytes are written. */
void pithi_encode_check(const struct pithi_coding *c, uint64_t block, const uint8_t *bytes,
                        size_t length);
/* Ends an encoding: zeroes the padding and writes the header. */
void pithi_encode_close(struct pithi_coding *c, uint8_t *dst, uint64_t payload_bytes);
/* These make a block of c in which nothing of its data is filled in, in its final place, and add a
 * block's results to a worker's. */
void pithi_block_open(const struct pithi_coding *c, uint64_t block, void *base,
                      struct pithi_worker *w, struct pithi_block *b);
void pithi_collect(struct pithi_worker *w, const struct pithi_block *b);
/* Finds the bytes of one block of an opened frame. */
const uint8_t *pithi_block_at(const struct pithi_coding *c, uint64_t block, size_t *length,
                              bool *plain);

#endif
