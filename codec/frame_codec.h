/* frame_codec.h - one slot to one frame and back, block by block.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_FRAME_CODEC_H
#define PITHI_FRAME_CODEC_H

#include <string.h>

#include "parallel.h"

/* Codecs with a bound: what is requested besides the spec. */
struct pithi_request {
    double bound;  /* absolute, instead of the spec's; 0: none */
    double factor; /* of the bound; 0: 1 */
    uint64_t step; /* of the spec's schedule */
};

/* One encoding or decoding of one frame. The caller checks that counts and dtypes fit. */
struct pithi_coding {
    struct pithi_frame frame;
    const pith_plan *plan;         /* from here on 0 where nothing is said */
    pith_work *work;               /* attached to the plan */
    const struct pithi_span *view; /* values, or output; NULL: only the base is wanted */
    const struct pithi_span *base; /* NULL: none */
    bool update;                   /* write the new base; without one, only hash it */
    uint64_t *sums; /* a hash of every block of the base as the state left it; NULL: none */
    bool whole;     /* of all of its bytes, not of a sample */
    bool compare;   /* encode: with the base as it is, before a block is written */
    struct pithi_random random;
    struct pithi_exempt_values exempt_values; /* exempt elements; map NULL: none */
    const float *residual; /* encode: of the slot, before and after; NULL: none */
    float *residual_next;
    uint64_t first, count; /* decode: the elements that view holds, of the frame's */
    uint8_t *bytes;        /* of the payload; decode only reads */
    bool nontemporal;      /* what is made is too large to stay in cache and not read again */
    struct pithi_request request; /* encode, bounded */
    /* Results. */
    uint64_t hash, saturated, poisoned, exact, nonzero;
};

/* Everything but the frame, which the caller fills in. */
static inline void pithi_coding_open(struct pithi_coding *c, const pith_plan *plan, pith_work *work,
                                     const struct pithi_span *view) {
    const size_t begin = offsetof(struct pithi_coding, plan);
    memset((uint8_t *)c + begin, 0, sizeof *c - begin);
    c->plan = plan;
    c->work = work;
    c->view = view;
}

/* Outputs from this size on do not stay in cache, so stores that bypass it are faster. */
enum { PITHI_LARGE_OUTPUT = 8 << 20 };

/* Encode payload and header into dst and set frame.payload_bytes. hash_base: the frame's base
 * hash is that of the base as it is (one-shot); otherwise frame.base_hash is set already. */
pith_status pithi_encode_frame(struct pithi_coding *c, uint8_t *dst, size_t cap, bool hash_base,
                               size_t *written);
/* All blocks of a variable-rate frame; *used: of the payload. */
pith_status pithi_encode_waves(struct pithi_coding *c, uint64_t capacity, uint64_t *used);
/* Offsets of the blocks of a variable-rate payload; they must fill it exactly. */
pith_status pithi_find_blocks(const struct pithi_coding *c);
/* Parse a frame whose payload must be there as a whole and find its blocks. frame, bytes,
 * first and count (all elements) are set; everything else is the caller's. */
pith_status pithi_decode_open(struct pithi_coding *c, pith_work *work, const pith_plan *plan,
                              const void *frame, size_t bytes);
/* The checksums of the blocks that hold elements [first, first + count). */
pith_status pithi_check_blocks(struct pithi_coding *c);
/* Open and check all blocks; PITH_ERR_MISMATCH unless the plan's slot makes such frames. */
pith_status pithi_decode_slot(struct pithi_coding *c, pith_work *work, const pith_plan *plan,
                              uint64_t slot, const void *frame, size_t bytes);
/* Decode the blocks that hold elements [first, first + count). */
pith_status pithi_decode_blocks(struct pithi_coding *c);
/* pithi_parallel_for, with a failure's offset that of the block in the frame. */
pith_status pithi_parallel_blocks(const struct pithi_coding *c, uint64_t first, uint64_t count,
                                  pithi_block_fn *fn, void *arg);
/* Decode block number `block` into out (dense, out_dtype) with this base. */
pith_status pithi_decode_one(const struct pithi_coding *c, uint64_t block, void *out,
                             uint32_t out_dtype, void *base, struct pithi_worker *w);
/* Encode dense values as a block, of a fixed-rate frame to its place. values NULL: those of the
 * view, for codecs that take them there. */
pith_status pithi_encode_one(const struct pithi_coding *c, uint64_t block, const void *values,
                             void *base, struct pithi_worker *w);
/* Where the payload lies and what it holds: the beginning of every encoding. */
void pithi_encode_open(struct pithi_coding *c, uint8_t *dst);
/* Checksum of a block of which the bytes are written. */
void pithi_encode_check(const struct pithi_coding *c, uint64_t block, const uint8_t *bytes,
                        size_t length);
/* Zero the padding and write the header: the end of every encoding. */
void pithi_encode_close(struct pithi_coding *c, uint8_t *dst, uint64_t payload_bytes);
/* A block of c with nothing of its data filled in, and its results added to a worker's. */
struct pithi_block pithi_block_of(const struct pithi_coding *c, uint64_t block, void *base,
                                  struct pithi_worker *w);
void pithi_collect(struct pithi_worker *w, const struct pithi_block *b);
/* Bytes of one block of an opened frame. */
const uint8_t *pithi_block_at(const struct pithi_coding *c, uint64_t block, size_t *length,
                              bool *plain);

#endif
