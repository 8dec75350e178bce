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

/* Numbers that a plan keeps of its setting, since they take a while to compute. */
enum { PITHI_KEPT = 3 };

struct pithi_whole {
    void (*keep)(const struct pithi_params *params, double kept[PITHI_KEPT]);
    /* Bytes that a worker needs besides what blocks of `count` elements do, in `floats`. */
    uint64_t (*scratch_bytes)(const struct pithi_params *params, uint64_t count);
    /* Look at the values and encode all blocks; `capacity` and `used` are of the payload. */
    pith_status (*encode)(struct pithi_coding *c, uint64_t capacity, uint64_t *used);

    /* The section of frames: its type (FORMAT.md) and the bytes of its body, write, read. A frame
     * without one is refused, unless has_section says that it may be. */
    uint32_t section, section_bytes;
    void (*write_section)(const struct pithi_frame *f, uint8_t *body);
    /* NULL, or what is wrong with a body of that many bytes. */
    const char *(*read_section)(const uint8_t *body, struct pithi_frame *f);
    bool (*has_section)(const struct pithi_frame *f);

    /* What a slot of a stream remembers: before and after it is encoded; saved and loaded, as a
     * word in place of the hash of a base, and this many bytes more for each slot behind them all.
     * */
    void (*begin)(const struct pithi_slot_state *slot, struct pithi_coding *c);
    void (*end)(const struct pithi_coding *c, struct pithi_slot_state *slot);
    uint32_t saved_bytes;
    uint64_t (*save)(const struct pithi_slot_state *slot, uint8_t *bytes);
    void (*load)(struct pithi_slot_state *slot, uint64_t word, const uint8_t *bytes);
    /* Whether a slot can have been saved so. */
    bool (*legal)(uint64_t word, const uint8_t *bytes);
};

#endif
