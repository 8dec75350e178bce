/* frame.h - entropy-coded frames: where their blocks lie, here and at a fixed rate.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A frame lies in a staging buffer as if every block were plain and had its whole length, so that
 * kernels of groups make and read it; those here translate between that and the frame itself. */
#ifndef PITHI_GPU_DEVICE_BYTES_FRAME_H
#define PITHI_GPU_DEVICE_BYTES_FRAME_H

#include "device/blocks.h"

enum { PITHI_CODES_PACKED = 0, PITHI_CODES_CONSTANT = 1, PITHI_CODES_RANS = 4 };
/* The kind of entropy-coded codes, and the length of a string behind it. */
enum { PITHI_CODES_KIND = 1, PITHI_CODES_HEAD = 4 };
#define PITHI_BLOCK_PLAIN 0x80000000u

PITHI_DEVICE uint8_t *pithi_coding_of(const struct pithi_gpu_call *a, uint64_t frame) {
    return a->coding.memory + frame * a->coding.each;
}
PITHI_DEVICE struct pithi_rans_entry *pithi_coding_entry(const struct pithi_gpu_call *a,
                                                         uint64_t frame, uint64_t block) {
    return (struct pithi_rans_entry *)(void *)pithi_coding_of(a, frame) + block;
}

/* A block of a slot, in a frame of fixed rate. */
struct pithi_coded_block {
    uint64_t at;            /* in the payload */
    uint64_t first;         /* element of the slot */
    uint32_t count;         /* elements */
    uint32_t scales, codes; /* bytes: scales with their padding, codes without */
};
PITHI_DEVICE struct pithi_coded_block pithi_coded_block(const struct pithi_device_plan *p,
                                                        const struct pithi_gpu_item *it,
                                                        uint64_t number) {
    struct pithi_coded_block b;
    b.first = number << p->block_log2;
    const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, b.first);
    b.at = spot.at;
    b.count = spot.count;
    b.scales = (uint32_t)pithi_group_codes_at(&p->device.groups.set, spot.count);
    b.codes = (uint32_t)pithi_group_code_bytes(&p->device.groups.set, spot.count);
    return b;
}

/* Returns the payload of the frame of fixed rate in the staging buffer. */
PITHI_DEVICE uint8_t *pithi_staging_payload(const struct pithi_gpu_call *a,
                                            const struct pithi_gpu_item *it) {
    return pithi_coding_of(a, it->index) + a->coding.staging + it->form->header_bytes;
}

/* The sum of t->rans.total over the threads before, and of all: part of a body, a barrier before
 * and after. */
PITHI_PHASE(pithi_coded_publish, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP == PITHI_WARP - 1) s->sums[t->tid / PITHI_WARP] = t->rans.total;
}
PITHI_DEVICE uint64_t pithi_coded_before(const struct pithi_gpu_shared *s,
                                         const struct pithi_gpu_thread *t) {
    uint64_t sum = t->rans.total - t->rans.own;
    for (uint32_t w = 0; w < t->tid / PITHI_WARP; w++) sum += s->sums[w];
    return sum;
}
PITHI_DEVICE uint64_t pithi_coded_all(const struct pithi_gpu_shared *s) {
    uint64_t sum = 0;
    for (uint32_t w = 0; w < PITHI_TEAM / PITHI_WARP; w++) sum += s->sums[w];
    return sum;
}

/* The threads of a team, or of a warp, copy n bytes from anywhere to anywhere: i of so many. */
PITHI_DEVICE void pithi_coded_copy(uint32_t i, uint32_t threads, uint8_t *to, const uint8_t *from,
                                   uint64_t n) {
    uint64_t head = (0 - (uint64_t)(uintptr_t)to) % 4;
    if (head > n) head = n;
    const uint64_t words = (n - head) / 4, tail = head + 4 * words;
    for (uint64_t k = i; k < head; k += threads) to[k] = from[k];
    if (pithi_is_aligned(from + head, 4)) {
        for (uint64_t k = i; k < words; k += threads)
            pithi_put_aligned32(to + head + 4 * k, pithi_get_aligned32(from + head + 4 * k));
    } else {
        for (uint64_t k = i; k < words; k += threads)
            pithi_put_aligned32(to + head + 4 * k, pithi_get32(from + head + 4 * k));
    }
    for (uint64_t k = tail + i; k < n; k += threads) to[k] = from[k];
}

/* ---- Buckets ---------------------------------------------------------------------------------*/

/* The next main symbol, or rare one, from s on, of those below `end`. */
PITHI_DEVICE uint32_t pithi_rans_main(const uint16_t *frequency, uint32_t end, uint32_t width,
                                      uint32_t s) {
    while (s < end && frequency[s] < width) s++;
    return s;
}
PITHI_DEVICE uint32_t pithi_rans_rare(const uint16_t *frequency, uint32_t end, uint32_t width,
                                      uint32_t s) {
    while (s < end && (frequency[s] == 0 || frequency[s] >= width)) s++;
    return s;
}

/* The next bucket, in ascending order: its symbols, where it parts, and how many slots its first
 * symbol has before it. */
struct pithi_rans_filler {
    const uint16_t *frequency;
    uint32_t end, width, main, rare, taken;
    uint32_t split, symbol[2], used;
};
PITHI_DEVICE uint32_t pithi_rans_log2_width(const uint16_t *frequency, uint32_t end) {
    uint32_t kinds = 0, log2_buckets = 5;
    for (uint32_t s = 0; s < end; s++) kinds += frequency[s] > 0;
    while (kinds > 1u << log2_buckets) log2_buckets++;
    return PITHI_RANS_LOG2_SLOTS - log2_buckets;
}
PITHI_DEVICE void pithi_rans_fill_open(struct pithi_rans_filler *f, const uint16_t *frequency,
                                       uint32_t end, uint32_t log2_width) {
    f->frequency = frequency;
    f->end = end;
    f->width = 1u << log2_width;
    f->main = pithi_rans_main(frequency, end, f->width, 0);
    f->rare = pithi_rans_rare(frequency, end, f->width, 0);
    f->taken = 0;
}
PITHI_DEVICE void pithi_rans_fill(struct pithi_rans_filler *f) {
    const uint32_t left = f->frequency[f->main] - f->taken;
    f->symbol[0] = f->symbol[1] = f->main;
    f->used = f->taken;
    f->split = f->width;
    if (left >= f->width && f->rare < f->end) {
        f->split = f->width - f->frequency[f->rare];
        f->symbol[1] = f->rare;
        f->rare = pithi_rans_rare(f->frequency, f->end, f->width, f->rare + 1);
        f->taken += f->split;
    } else if (left > f->width) {
        f->taken += f->width;
    } else {
        f->split = left;
        f->main = pithi_rans_main(f->frequency, f->end, f->width, f->main + 1);
        f->taken = f->width - left;
        if (f->taken) f->symbol[1] = f->main;
    }
}

/* ---- States that take turns ------------------------------------------------------------------*/

/* Symbols of a step, and states of a thread. */
PITHI_DEVICE uint32_t pithi_rans_lanes(uint32_t log2_states) {
    return log2_states < 5 ? 1u << log2_states : PITHI_WARP;
}
PITHI_DEVICE uint32_t pithi_rans_turns(uint32_t log2_states) {
    return log2_states < 5 ? 1 : 1u << (log2_states - 5);
}
/* x is what the first state became; the next one comes first. */
PITHI_DEVICE void pithi_rans_turn(struct pithi_gpu_thread *t, uint32_t turns, uint32_t x) {
    uint32_t *const state = t->rans.x;
    if (turns == 1) {
        state[0] = x;
        return;
    }
    state[0] = state[1];
    if (turns == 2) {
        state[1] = x;
        return;
    }
    state[1] = state[2];
    state[2] = state[3];
    state[3] = x;
}

/* Codes of unit u of a string. */
PITHI_DEVICE uint8_t *pithi_rans_unit(const struct pithi_rans_string *r, uint32_t u) {
    return r->codes + u * (uint64_t)r->bits;
}
PITHI_DEVICE uint32_t pithi_rans_units(const struct pithi_rans_string *r) {
    return (r->n + PITHI_UNIT - 1) / PITHI_UNIT;
}

#endif
