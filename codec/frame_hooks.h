/* frame_hooks.h - hooks of codecs whose frames have something beside their blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Such a codec looks at all values before the first block is coded (for their range, or a
 * threshold), says in a section of the header what it found, and may let a stream remember
 * something of it for every slot. */
#ifndef PITHI_FRAME_HOOKS_H
#define PITHI_FRAME_HOOKS_H

#include "codec.h"

struct pithi_coding;
struct pithi_frame;
struct pithi_slot_state;

/* A plan keeps this many numbers that follow from its setting and take a while to compute. */
enum { PITHI_KEPT = 6 };

struct pithi_frame_hooks {
    void (*keep)(const struct pithi_params *params, double kept[PITHI_KEPT]);
    /* Returns the bytes of `floats` that a worker needs beyond those for blocks of `count`
     * elements. */
    uint64_t (*scratch_bytes)(const struct pithi_params *params, uint64_t count);
    /* Looks at the values and encodes all blocks; `capacity` and `used` are bytes of the
     * payload. */
    pith_status (*encode)(struct pithi_coding *c, uint64_t capacity, uint64_t *used);

    /* The section that frames have: its type (FORMAT.md), the bytes of its body, how it is written
     * and read into frame->own. A frame without one is refused. */
    uint32_t section, section_bytes;
    void (*write_section)(const struct pithi_frame *f, uint8_t *body);
    /* Returns NULL, or what is wrong with a body of section_bytes bytes. */
    const char *(*read_section)(const uint8_t *body, struct pithi_frame *f);

    /* Adds what the section says to what is told of the frame. */
    void (*inspect)(const struct pithi_frame *f, pith_info *info);
    /* Returns the bound that the section says. NULL: it is that of the blocks. */
    double (*bound)(const struct pithi_frame *f);
    /* Returns the largest |value| that the frame left out. NULL: none are. */
    double (*left_out)(const struct pithi_frame *f);
    /* Fills in w->own for the block that was opened, and lets it be the block's. NULL: blocks have
     * nothing of their own. */
    void (*open_block)(const struct pithi_coding *c, struct pithi_worker *w, struct pithi_block *b);
    /* Checks a frame that was opened against what the stream holds, before anything is written.
     * NULL: there is nothing to check. */
    pith_status (*admit)(struct pithi_coding *c);
    /* Returns what is wrong with what the heads of all blocks say together, or NULL. NULL: nothing
     * can be. */
    const char *(*check_heads)(const struct pithi_coding *c);

    /* Returns how many words that many slots of a stream, of so many elements together, have for
     * the codec, of which a slot's begin behind those that the slots before it have. Only the codec
     * writes there; they are not saved. NULL: they have none. */
    uint64_t (*slot_words)(uint64_t elements, uint64_t slots);
    /* Checks flags of an encode other than PITH_KEY_FRAME. NULL: the codec takes none. */
    pith_status (*allow)(const struct pith_stream *s, uint64_t slot, uint32_t flags,
                         pith_error *error);

    /* What a slot of a stream remembers: `begin` and `end` copy it before and after an encode. It
     * is saved as a word, in place of the hash of a base, and saved_bytes more for each slot behind
     * all slots. */
    void (*begin)(const struct pithi_slot_state *slot, struct pithi_coding *c);
    void (*end)(const struct pithi_coding *c, struct pithi_slot_state *slot);
    /* Is called in place of `end` when an encode failed that may have written blocks, and
     * c->slot_words. NULL: nothing becomes of that. */
    void (*fail)(const struct pithi_coding *c, struct pithi_slot_state *slot);
    /* Lets a decoding see what the slot remembers, before the frame is admitted. NULL: it needs
     * nothing of it. */
    void (*begin_decode)(const struct pithi_slot_state *slot, struct pithi_coding *c);
    /* Are called before and after a decoding that the slot follows, behind begin_decode: the other
     * end of the frames. NULL, both: the slot remembers nothing of it. */
    void (*follow)(struct pithi_slot_state *slot, struct pithi_coding *c);
    void (*end_decode)(const struct pithi_coding *c, struct pithi_slot_state *slot);
    void (*rollback)(struct pithi_slot_state *slot); /* takes back what `end` did; NULL: nothing */
    /* A call that was working on the slot never came back. NULL: nothing becomes of that. */
    void (*abandon)(struct pithi_slot_state *slot);
    uint32_t saved_bytes;
    uint64_t (*save)(const struct pithi_slot_state *slot, uint8_t *bytes);
    void (*load)(struct pithi_slot_state *slot, uint64_t word, const uint8_t *bytes);
    /* Whether a slot can have been saved as these. */
    bool (*legal)(uint64_t word, const uint8_t *bytes);
};

#endif
