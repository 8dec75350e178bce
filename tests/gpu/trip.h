/* trip.h - frames made by the CPU; the device under test makes and reads them too.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_TRIP_H
#define PITH_TESTS_TRIP_H

#include "rig.h"

/* f32, bf16, f16. */
extern const uint32_t trip_reals[3];
/* Dtypes of every width and kind. */
enum { TRIP_DTYPES = 12 };
extern const uint32_t trip_dtypes[TRIP_DTYPES];
/* Dimensions, then their sizes. */
pith_layout shape_layout(const uint64_t shape[5], uint32_t dtype, uint32_t flags);

struct trip {
    struct rig r;
    size_t bytes, offset; /* offset: of tensors and frames on the device */
    uint8_t *value, *decoded;
    struct frame frame;
    pith_stats encoded, counted; /* what the CPU counted when it encoded, and when it decoded */
};
/* The caller fills `value` between the two; the second makes the frame, and what it decodes to. */
void trip_open(struct trip *t, const char *spec, const pith_layout *layout, size_t offset);
/* The number chooses the dtype, of f32, bf16 and f16, whether there are checksums, the order of
 * threads, and the offset. */
void trip_open_varied(struct trip *t, const char *spec, const uint64_t shape[5], uint64_t number);
/* Opens a trip as trip_open_varied does, for a frame that is attacked: spec `number` of a list. */
void trip_open_attacked(struct trip *t, const char *spec, const uint64_t shape[5], uint64_t number);
void trip_encode(struct trip *t);
void trip_close(struct trip *t);

/* ---- The device does as the CPU does ---------------------------------------------------------*/

void trip_check_encode(struct trip *t);
void trip_check_decode(struct trip *t); /* and verify */
void trip_check_range(struct trip *t, uint64_t first, uint64_t count);
/* Decoded to another dtype, or added to what is there. */
void trip_check_other(struct trip *t, uint32_t dtype, bool add);
/* A range, or decoded to another dtype or added, as the number says. */
void trip_check_part(struct trip *t, uint64_t number);
/* All of these; the number chooses the range and the dtype. */
void trip_check_all(struct trip *t, uint64_t number);
/* Blocks of 256 that take about as much as their values, and a few bytes more or less: the CPU does
 * not begin a string that may not fit. Of `spread` numbers in the first block, two more in each
 * that follows; one in `zeros` is 0, none where that is 0. */
void trip_check_tight(const char *spec, uint32_t spread, uint32_t zeros);
/* A frame that another spec makes of the values: read, or refused with nothing written. */
void trip_check_frame_of(struct trip *t, const char *spec, pith_status wanted);
/* Values of every generator, in every order of threads. */
void trip_check_generators(const char *spec);
/* A frame that is longer than its capacity is not begun. */
void trip_check_space(struct trip *t);
/* Codes that are coded have no sums, and want the workspace that the plan says. */
void trip_check_coded_refused(const char *spec);
/* Devices do not code the spec: the status, and a text that has `what`, which they do code. */
void trip_check_unsupported(const char *spec, uint32_t dtype, const char *what);
/* The frame cut and flipped in many places: the CPU's status, or one of those that only devices
 * have; nothing written where it is not OK. */
void trip_attack(struct trip *t, uint64_t seed);
/* One bit flipped in each byte from `from` to `near`, in the `last` ones, and in one of `between`
 * of those that are left. */
void trip_flip(struct trip *t, size_t from, size_t near, size_t last, size_t between,
               uint64_t seed);

/* ---- Slots -----------------------------------------------------------------------------------*/

/* Item i of a call that encoded holds the CPU's frame of the slot. */
void trip_check_frame(struct rig *r, const struct job *j, uint64_t i, uint64_t slot);
/* All slots of a tensor with these values, there and back. */
void trip_check_slots(struct rig *r, const void *value);
/* 1000 values in three slots. */
void trip_check_three_slots(const char *spec, uint32_t dtype);

/* ---- Frames of any set -----------------------------------------------------------------------*/

/* A call on all slots with space for frames of any set. */
void open_sender(struct job *j, const struct rig *r);
/* Encodes the values of the job's tensor, every slot on both sides: statuses, frames and streams
 * are the same. */
void send_filled(struct rig *r, struct job *j, uint32_t flags);
/* The same of values of a kind (gen.h). */
void send_both(struct rig *r, struct job *j, int kind, uint64_t seed, uint32_t flags);
/* Encodes as send_both does, in a call of its own, which succeeds for all slots. */
void encode_both(struct rig *r, int kind, uint64_t seed);

#endif
