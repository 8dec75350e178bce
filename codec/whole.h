/* whole.h - hooks of codecs whose frames have something as a whole, beside their blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Such a codec looks at all values before the first block is coded (their range today, a threshold
 * for instance), says in a section of the header what it found, and may let a stream remember
 * something of it for every slot. */
#ifndef PITHI_WHOLE_H
#define PITHI_WHOLE_H

#include "codec.h"

struct pithi_coding;
struct pithi_frame;
struct pithi_slot_state;

/* A plan keeps this many numbers that follow from its setting and take a while to compute. */
enum { PITHI_KEPT = 6 };

struct pithi_whole {
    void (*keep)(const struct pithi_params *params, double kept[PITHI_KEPT]);
    /* Returns the bytes of `floats` that a worker needs beyond those for blocks of `count`
     * elements. */
    uint64_t (*scratch_bytes)(const struct pithi_params *params, uint64_t count);
    /* Looks at the values and encodes all blocks; `capacity` and `used` are bytes of the
     * payload. */
    pith_status (*encode)(struct pithi_coding *c, uint64_t capacity, uint64_t *used);

    /* The section that frames have: its type (FORMAT.md), the bytes of its body, how it is written
     * and read. A frame without one is refused, unless has_section says that it may be. */
    uint32_t section, section_bytes;
    void (*write_section)(const struct pithi_frame *f, uint8_t *body);
    /* Returns NULL, or what is wrong with a body of section_bytes bytes. */
    const char *(*read_section)(const uint8_t *body, struct pithi_frame *f);
    bool (*has_section)(const struct pithi_frame *f);

    /* Returns the largest |value| that the frame left out. NULL: none are. */
    double (*left_out)(const struct pithi_frame *f);
    /* Checks a frame that was opened against what the stream holds, before anything is written.
     * NULL: there is nothing to check. */
    pith_status (*admit)(struct pithi_coding *c);
    /* Returns what is wrong with what the heads of all blocks say together, or NULL. NULL: nothing
     * can be. */
    const char *(*check_heads)(const struct pithi_coding *c);

    /* Whether a stream holds, for every slot, the set of elements of its last frame. */
    bool holds_sets;

    /* What a slot of a stream remembers: `begin` and `end` copy it before and after an encode. It
     * is saved as a word, in place of the hash of a base, and saved_bytes more for each slot behind
     * all slots. */
    void (*begin)(const struct pithi_slot_state *slot, struct pithi_coding *c);
    void (*end)(const struct pithi_coding *c, struct pithi_slot_state *slot);
    void (*rollback)(struct pithi_slot_state *slot); /* takes back what `end` did; NULL: nothing */
    uint32_t saved_bytes;
    uint64_t (*save)(const struct pithi_slot_state *slot, uint8_t *bytes);
    void (*load)(struct pithi_slot_state *slot, uint64_t word, const uint8_t *bytes);
    /* Whether a slot can have been saved as these. */
    bool (*legal)(uint64_t word, const uint8_t *bytes);
};

#endif
