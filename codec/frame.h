/* frame.h - the wire format: header, sections, payload layout (doc/FORMAT.md).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_FRAME_H
#define PITHI_FRAME_H

#include "codec.h"
#include "families.h"
#include "frame_header.h"
#include "frame_hooks.h"

/* The most bytes of all sections of a header together. */
#define PITHI_SECTIONS_MAX (2u * PITH_SOURCE_MAX)
/* The top bit of a block's length in the index: the block is stored without entropy coding. */
#define PITHI_PLAIN 0x80000000u

/* Where the parts of a payload lie. All offsets count from the payload's beginning. */
struct pithi_payload {
    uint64_t blocks;
    uint64_t checks, data;  /* offsets; the index of a variable rate begins the payload */
    uint64_t data_bytes;    /* exact when fixed, else the most it can be */
    uint64_t exempt_values; /* offset of the exempt values, which end the payload */
    uint64_t check_count;   /* entries of the checksum table */
    /* Fixed rate: blocks come in runs of run_blocks blocks and run_bytes bytes, in which all but
     * the last have block_bytes. Without pages there is one run. */
    uint64_t run_blocks, run_bytes, block_bytes;
    bool fixed;
};

/* A header, decoded or about to be written. */
struct pithi_frame {
    struct pithi_params params; /* with block, dtypes, key_frame */
    bool checksums, has_stream, has_base_hash;
    uint32_t ndim, rng_stream;
    uint64_t shape[PITH_MAX_NDIM];
    uint64_t count;
    uint64_t step, base_hash;
    const void *source;
    size_t source_bytes;
    /* Exempt elements: the map of a plan, whose slot begins at exempt_origin, or, in a frame that
     * was read, the entries of its header (map NULL). */
    const struct pithi_exempt_map *exempt;
    uint64_t exempt_origin;
    const uint8_t *exempt_entries;
    size_t exempt_ranges;
    uint64_t exempt_count, exempt_bytes;
    struct pithi_tiling tiling; /* codecs with a hook `cut` */
    union pithi_frame_own own;  /* codecs with frame hooks: what their section says */
    bool has_own;
    bool constant; /* nothing in the header depends on the values or the step */
    uint64_t header_bytes, payload_bytes;
    struct pithi_payload payload;
    /* NULL, or a header that was written for another step of the same slot, from which is copied
     * what stays the same; and of a fixed rate the hash of what of it precedes its checksum. */
    const uint8_t *written;
    uint64_t written_hash;
};

static inline bool pithi_is_tiled(const struct pithi_frame *f) { return f->params.codec->cut; }

/* Returns the elements of a block: params.block, but for the last, in codecs without tiles. */
static inline uint64_t pithi_block_count(const struct pithi_frame *f, uint64_t block) {
    if (f->tiling.tiles == 1) return f->count;
    if (pithi_is_tiled(f)) return pithi_tile_at(&f->tiling, block).count;
    const uint64_t left = f->count - block * f->params.block;
    return left < f->params.block ? left : f->params.block;
}

/* Returns where in the slot a block's first element is; meaningless for tiles that are no runs. */
static inline uint64_t pithi_block_first(const struct pithi_frame *f, uint64_t block) {
    if (!f->tiling.runs) return block * f->params.block;
    const struct pithi_tile tile = pithi_tile_at(&f->tiling, block);
    return (tile.origin[1] * f->tiling.shape[2] + tile.origin[2]) * f->tiling.shape[3];
}

/* Returns the bytes of a payload: exact when fixed, else the most they can be. */
static inline uint64_t pithi_payload_most(const struct pithi_payload *p) {
    return p->data + p->data_bytes;
}
/* Returns the bytes of a frame: exact when fixed, else the most they can be. */
static inline uint64_t pithi_frame_total(const struct pithi_frame *f) {
    return f->header_bytes + pithi_payload_most(&f->payload);
}
/* Returns the offset of a block in a fixed-rate payload. */
static inline uint64_t pithi_block_offset(const struct pithi_payload *p, uint64_t block) {
    if (block < p->run_blocks) return p->data + block * p->block_bytes; /* without division */
    return p->data + block / p->run_blocks * p->run_bytes + block % p->run_blocks * p->block_bytes;
}
/* Computes the payload's layout from the other fields; false when a size does not fit in 63
 * bits. */
bool pithi_payload_of(const struct pithi_frame *frame, struct pithi_payload *payload);

/* Returns the exempt ranges of a frame that was read, in the numbering of the frame. */
struct pithi_exempt_source pithi_frame_exempt(const struct pithi_frame *frame);
/* Gives the frame the exempt elements of a slot that begins at element `origin` of the map. */
void pithi_frame_set_exempt(struct pithi_frame *frame, const struct pithi_exempt_map *map,
                            uint64_t origin);
/* Whether a frame that was read has the exempt elements of a frame made from a plan. */
bool pithi_frame_same_exempt(const struct pithi_frame *read, const struct pithi_frame *made);
/* Whether the blocks of two frames of one setting hold the same elements. */
bool pithi_frame_same_tiles(const struct pithi_frame *a, const struct pithi_frame *b);
/* Whether two frames made from plans have the same exempt elements. */
bool pithi_frame_like_exempt(const struct pithi_frame *a, const struct pithi_frame *b);
/* Returns the bytes of the header before its sections. */
uint64_t pithi_frame_fixed_bytes(const struct pithi_frame *frame);
uint64_t pithi_sections_bytes(bool has_stream, const struct pithi_frame_hooks *hooks,
                              size_t exempt_ranges, size_t source_bytes);
/* Fills in header_bytes and payload from the other fields. */
void pithi_frame_size(struct pithi_frame *frame);
/* Writes header and sections to `header`, and lets frames of other steps be written from these. */
void pithi_frame_keep(struct pithi_frame *frame, uint8_t *header);
/* Writes header and sections: frame->header_bytes bytes. */
void pithi_frame_write(const struct pithi_frame *frame, uint8_t *dst);
/* Whether bytes begin with the header that all frames of the slot have, from which frame was made,
 * whatever the step. The frame then becomes what reading the header would make of it. */
bool pithi_frame_recognize(struct pithi_frame *frame, const uint8_t *bytes, size_t length);
/* These read the header of a frame that pithi_frame_read has accepted. */
uint64_t pithi_frame_header_bytes(const uint8_t *frame);
bool pithi_frame_has_checksums(const uint8_t *frame);
/* Returns the body of a section of the frame, which has it. */
const uint8_t *pithi_frame_section(const uint8_t *frame, uint32_t type);
/* Checks and reads a header and its sections. On PITH_ERR_TRUNCATED header_bytes is what is needed.
 * The payload may be missing, but its declared size has been checked against the header. */
pith_status pithi_frame_read(const uint8_t *bytes, size_t length, struct pithi_frame *frame,
                             pith_error *error);

#endif
