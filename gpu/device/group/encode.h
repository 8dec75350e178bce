/* encode.h - values, or sums of frames, to a frame of groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team takes segments: a tile, or a whole group where that is larger. Each is read, its groups'
 * largest values are found, then scales, then codes; a segment of several tiles is read twice. The
 * arithmetic is that of group/group_value.h, which the scalar reference is made of. */
#ifndef PITHI_GPU_DEVICE_GROUP_ENCODE_H
#define PITHI_GPU_DEVICE_GROUP_ENCODE_H

#include "device/blocks.h"
#include "device/group/search.h"
#include "device/group/sum.h"
#include "device/group/whole.h"

/* Where an encode takes its values from. */
enum pithi_gpu_source { PITHI_OF_TENSOR, PITHI_OF_FRAMES };

/* ---- Opening ---------------------------------------------------------------------------------*/

/* Nothing is checked of the data: the frame must fit, and the base be whole. */
PITHI_DEVICE void pithi_encode_check(const struct pithi_gpu_call *a, struct pithi_gpu_item *it) {
    if (it->status != PITH_OK) return;
    if (!it->frame)
        it->status = PITH_ERR_ARG;
    else if (it->slot_state->invalid && !a->key)
        it->status = PITH_ERR_STATE;
    else if (a->to.items.capacity < it->form->header_bytes + it->form->payload_bytes)
        it->status = PITH_ERR_SPACE;
}

PITHI_PHASE(pithi_encode_open, uint64_t number) {
    pithi_thread_clear(t);
    for (uint32_t g = t->tid; g < PITHI_TILE_GROUPS; g += PITHI_TEAM) s->group.largest[g] = 0;
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_item_locate(a, &a->to, number, &s->to);
    pithi_encode_check(a, &s->to);
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* t->x := value - base; t->base keeps the base. All of it is fetched before any is looked at. */
PITHI_LOCAL(pithi_encode_load, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t width = pithi_dtype_bytes(p->dtype),
                   base_width = pithi_dtype_bytes(p->base_dtype);
    uint32_t value[PITHI_UNITS][PITHI_UNIT], base[PITHI_UNITS][PITHI_UNIT];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_tile_left(t, e, s->to.slot->count);
        pithi_unit_fetch(pithi_tile_place(t, s->to.tensor + e * width, 16), width, n, value[u]);
        if (p->base_dtype != PITH_NONE)
            pithi_unit_fetch(pithi_tile_place(t, s->to.base + e * base_width, 16), base_width, n,
                             base[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        uint32_t v[PITHI_UNIT];
        pithi_unit_read(p->dtype, value[u], v);
        if (p->ranges)
            pithi_exempt_take(p, &s->to, e, pithi_unit_left(e, s->to.slot->count),
                              s->to.tensor + e * width, p->dtype, v);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = pithi_float(v[k]);
        if (p->base_dtype == PITH_NONE) continue;
        pithi_unit_read(p->base_dtype, base[u], t->base[u]);
        pithi_unit_less(t->base[u], t->x[u]);
    }
}

PITHI_LOCAL(pithi_rotate_inner, uint64_t tile) {
    const struct pithi_rotation *const r = &a->to.plan.device.groups.rotation;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        if (r->signs) pithi_unit_signs(r->signs, e, t->x[u]);
        pithi_unit_inner(t, r->order, s->to.slot->count, e, t->x[u]);
    }
}
PITHI_LOCAL(pithi_rotate_across, uint64_t tile, uint32_t half) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_across(t, a->to.plan.device.groups.rotation.order, s->to.slot->count,
                          pithi_unit_at(t, tile, u), half, t->x[u], t->y[u]);
}

/* Where the stream keeps the slot's residual: what counts (next 0), and what comes next. */
PITHI_DEVICE float *pithi_residual(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   uint32_t next) {
    float *const both = (float *)(void *)pithi_stream_memory(a->to.stream);
    return both + (it->slot_state->side ^ next) * pithi_stream_copy(&a->to.plan) + it->slot->first;
}

/* Values of no slot stay 0, so that they cannot be a group's largest. */
PITHI_LOCAL(pithi_encode_residual, uint64_t tile) {
    const uint8_t *const r = (const uint8_t *)pithi_residual(a, &s->to, 0);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        uint32_t lost[PITHI_UNIT];
        pithi_unit_load(r + 4 * e, PITH_F32, pithi_unit_left(e, s->to.slot->count), lost);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] += pithi_float(lost[k]);
    }
}

/* Whether sums may stay in the domain they are formed in. */
PITHI_DEVICE bool pithi_alike(const struct pithi_gpu_call *a) {
    const struct pithi_rotation *const x = &a->from.plan.device.groups.rotation,
                                       *const y = &a->to.plan.device.groups.rotation;
    return a->from.plan.device.groups.domain &&
           a->from.plan.device.groups.domain == a->to.plan.device.groups.domain &&
           x->order == y->order && x->signs == y->signs;
}

/* The totals of exempt elements, to the frame; in values (stay: not in a domain) they become 0. */
PITHI_LOCAL(pithi_recode_exempt, uint64_t tile, bool stay) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, s->to.slot->count);
        uint32_t v[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_bits(t->x[u][k]);
        pithi_exempt_sum(a, &s->from, e, n, v);
        pithi_exempt_take(&a->to.plan, &s->to, e, n, NULL, PITH_F32, v);
        if (stay) continue;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = pithi_float(v[k]);
    }
}

/* Part of a body: t->x := what the groups of the tile are made of. */
#define PITHI_ENCODE_FILL(of, tile, again)                                                      \
    do {                                                                                        \
        const bool stay_ = (of) == PITHI_OF_FRAMES && pithi_alike(a);                           \
        if ((of) == PITHI_OF_TENSOR) {                                                          \
            PITHI_STEP(pithi_encode_load, tile);                                                \
        } else {                                                                                \
            PITHI_SUM(tile, again, true);                                                       \
            if (!stay_) PITHI_UNROTATE(tile);                                                   \
            if (a->scale != 1.0f) PITHI_STEP(pithi_scale_sum, tile);                            \
            if (a->to.plan.ranges) PITHI_STEP(pithi_recode_exempt, tile, stay_);                \
        }                                                                                       \
        if (a->to.plan.device.groups.rotation.order && !stay_) {                                \
            PITHI_STEP(pithi_rotate_inner, tile);                                               \
            PITHI_ROTATE_ACROSS(&a->to.plan.device.groups.rotation, pithi_rotate_across, tile); \
        }                                                                                       \
        if (a->to.plan.device.feedback) PITHI_STEP(pithi_encode_residual, tile);                \
    } while (0)

/* ---- Codes -----------------------------------------------------------------------------------*/

/* x := what codes decode to, each of them lifted. */
PITHI_DEVICE void pithi_encode_decoded(const float codes[8], float scale, float x[8]) {
    const bool poisoned = pithi_nonfinite(pithi_bits(scale));
    uint64_t ignored = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = pithi_lower(codes[k]) * scale;
    if (pithi_magnitude(pithi_bits(scale)) < PITHI_SCALE_LIMIT) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = pithi_float(
        poisoned ? PITHI_F32_NAN
                 : pithi_group_decoded((int)pithi_lower(codes[k]), scale, 0, false, &ignored));
}

/* The new base of one unit, from what its codes decode to; hashed and stored. */
PITHI_DEVICE void pithi_encode_rebase(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_item *it, struct pithi_gpu_thread *t,
                                      uint32_t u, uint64_t e, uint32_t n, const float x[8]) {
    const uint32_t dtype = p->base_dtype, width = pithi_dtype_bytes(dtype);
    uint32_t raw[PITHI_UNIT];
    pithi_unit_update(dtype, t->base[u], x, n, &t->made.saturated, raw);
    pithi_unit_put_raw(pithi_tile_place(t, it->base + e * width, 16), width, n, raw);
    if (p->device.base_hash) t->made.hash += pithi_unit_hash(width, e, n, raw);
}

/* Makes the new base of one unit from its codes, as pithi_encode_rebase. */
PITHI_DEVICE void pithi_encode_update(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_item *it, struct pithi_gpu_thread *t,
                                      uint32_t u, uint64_t e, uint32_t n, const float codes[8],
                                      float scale) {
    float x[PITHI_UNIT];
    pithi_encode_decoded(codes, scale, x);
    pithi_encode_rebase(p, it, t, u, e, n, x);
}

/* What encoding x loses, faded into what was lost before. */
PITHI_DEVICE void pithi_encode_fade(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                    uint64_t e, uint32_t n, const float x[8],
                                    const float decoded[8]) {
    const uint8_t *const before = (const uint8_t *)(pithi_residual(a, it, 0) + e);
    uint8_t *const after = (uint8_t *)(pithi_residual(a, it, 1) + e);
    const uint32_t ef = a->to.plan.device.feedback;
    const float decay = (float)(ef - 1) / 1000.0f, gain = (float)(1001 - ef) / 1000.0f;
    uint32_t faded[PITHI_UNIT];
    pithi_unit_get(before, 4, n, faded);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const float lost = x[k] - decoded[k], held = pithi_float(faded[k]);
        const uint32_t next = pithi_bits(ef == 1 ? lost : decay * held + gain * lost);
        if (!pithi_nonfinite(next)) faded[k] = next;
    }
    pithi_unit_put(after, 4, n, faded);
}

/* The code of x by 16 random bits, lifted; of a group without codes any. As pithi_group_quantize,
 * which clamps last: these bits given, rounding is monotone and leaves integers as they are. */
PITHI_DEVICE float pithi_encode_randomly(const struct pithi_group_setting *set, float x,
                                         float reciprocal, uint32_t random16) {
    const float most = (float)pithi_group_levels(set);
    const float v = pithi_smaller(pithi_larger(x * reciprocal, -most), most); /* NaN: -most */
    const uint32_t t = (uint32_t)pithi_floor(v * 65536.0f) + (1u << 25) + 65535u - random16;
    return pithi_float(pithi_bits(PITHI_LIFT) + (t >> 16) - (1u << 9));
}

/* codes := those of the unit x at e, rounded at random. */
PITHI_DEVICE void pithi_encode_draw(const struct pithi_group_setting *set,
                                    const struct pithi_random *random, uint64_t e, float reciprocal,
                                    const float x[8], float codes[8]) {
    uint32_t words[4];
    pithi_philox(random, e / 8, words);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) codes[k] =
        pithi_encode_randomly(set, x[k], reciprocal, pithi_random_pick(random, words, k));
}

/* codes := those of x, each lifted; of groups without codes anything. */
PITHI_DEVICE void pithi_encode_quantize(const struct pithi_device_plan *p,
                                        const struct pithi_random *random, uint64_t e,
                                        float reciprocal, const float x[8], float codes[8]) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    if (set->stochastic) {
        pithi_encode_draw(set, random, e, reciprocal, x, codes);
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) codes[k] =
        pithi_group_lifted(set, x[k], reciprocal);
}

PITHI_PHASE(pithi_encode_codes, uint64_t segment, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t bits = p->device.groups.set.bits;
    struct pithi_random random = {0, 0, 0, 0};
    if (p->device.groups.set.stochastic) random = pithi_item_random(a, it);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_tile_left(t, e, it->slot->count);
        if (!n) continue;
        const uint32_t g = (uint32_t)(e - segment) / p->device.groups.set.group;
        const float reciprocal = s->group.reciprocal[g];
        float codes[PITHI_UNIT];
        pithi_unit_end(n, t->x[u]);
        pithi_encode_quantize(p, &random, e, reciprocal, t->x[u], codes);
        const uint64_t word =
            reciprocal == 0 ? 0
                            : pithi_unit_pack(codes, bits, pithi_unit_half(&p->device.groups.set));
        const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, e);
        uint8_t *const to = pithi_tile_place(t, it->payload + pithi_spot_codes(p, &spot), bits);
        pithi_unit_put_codes(to, bits, n, word);
        if (p->base_dtype != PITH_NONE)
            pithi_encode_update(p, it, t, u, e, n, codes, s->group.scale[g]);
        if (!p->device.feedback) continue;
        float decoded[PITHI_UNIT];
        pithi_encode_decoded(codes, s->group.scale[g], decoded);
        pithi_encode_fade(a, it, e, n, t->x[u], decoded);
    }
}

/* Makes the codes of a tile all of whose elements exist. */
PITHI_LOCAL(pithi_whole_codes, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t bits = p->device.groups.set.bits;
    struct pithi_random random = {0, 0, 0, 0};
    if (p->device.groups.set.stochastic) random = pithi_item_random(a, &s->to);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const float reciprocal = pithi_whole_step(t, u, 0);
        float codes[PITHI_UNIT];
        if (p->device.groups.set.stochastic) {
            pithi_encode_draw(&p->device.groups.set, &random, pithi_unit_at(t, tile, u), reciprocal,
                              t->x[u], codes);
        } else {
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) codes[k] =
                pithi_whole_lifted(t->x[u][k], reciprocal);
        }
        const uint64_t word =
            reciprocal == 0 ? 0
                            : pithi_unit_pack(codes, bits, pithi_unit_half(&p->device.groups.set));
        pithi_unit_put_codes(
            pithi_tile_place(t, t->group.to_codes + u * (PITHI_ROW / 8 * bits), bits), bits,
            PITHI_UNIT, word);
        if (p->base_dtype == PITH_NONE) continue;
        pithi_encode_update(p, &s->to, t, u, pithi_unit_at(t, tile, u), PITHI_UNIT, codes,
                            pithi_whole_step(t, u, 1));
    }
}

/* ---- Padding, header, stream -----------------------------------------------------------------*/

PITHI_DEVICE void pithi_clear(uint8_t *p, uint64_t from, uint64_t to) {
    for (; from < to; from++) p[from] = 0;
}

/* Writes the zeros behind scales and codes of the blocks that begin in the team's span. */
PITHI_PHASE(pithi_encode_padding, uint64_t size) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    uint64_t e = (it->begin + size - 1) / size * size + (uint64_t)t->tid * size;
    for (; e < it->end; e += PITHI_TEAM * size) {
        const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, e);
        const uint64_t codes = pithi_group_codes_at(&p->device.groups.set, spot.count);
        pithi_clear(it->payload + spot.at,
                    pithi_group_scale_bytes(&p->device.groups.set, spot.count), codes);
        pithi_clear(it->payload + spot.at,
                    codes + pithi_group_code_bytes(&p->device.groups.set, spot.count),
                    pithi_group_block_bytes(&p->device.groups.set, spot.count));
    }
}

/* Writes the header as the plan has it, and what no block writes; the item's first team does. */
PITHI_PHASE(pithi_write_header, struct pithi_gpu_item *it) {
    const uint8_t *const mine = it->plan_memory + it->form->header;
    const uint64_t checks = a->to.plan.checksums ? 8 * it->slot->checks : 0;
    const uint64_t exempt_end = it->slot->exempt_values + it->slot->exempt_bytes;
    (void)s;
    for (uint64_t i = t->tid; i < it->form->header_bytes; i += PITHI_TEAM) it->frame[i] = mine[i];
    for (uint64_t i = it->form->checks + checks + t->tid; i < it->form->data; i += PITHI_TEAM)
        it->payload[i] = 0;
    if (!it->slot->exempt_bytes) return;
    for (uint64_t i = exempt_end + t->tid; i < pithi_pad16(exempt_end); i += PITHI_TEAM)
        it->payload[i] = 0;
}

/* Writes all exempt values of the slot; the item's first team does, so that it can make a checksum
 * of them, though other teams write them as well. */
PITHI_PHASE(pithi_encode_exempt, int of) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    const struct pithi_device_plan_range *const r = pithi_ranges(p, it);
    const uint64_t first = it->slot->first, end = first + it->slot->count;
    for (uint64_t i = pithi_range_after(p, it, first); i < p->ranges && r[i].first < end; i++) {
        const uint64_t stop = r[i].first + r[i].count < end ? r[i].first + r[i].count : end;
        uint64_t e = (r[i].first > first ? r[i].first : first) + t->tid;
        for (; e < stop; e += PITHI_TEAM) {
            const uint8_t *const from = of == PITHI_OF_TENSOR
                                            ? it->tensor + (e - first) * pithi_dtype_bytes(p->dtype)
                                            : NULL;
            uint32_t v[PITHI_UNIT] = {0};
            if (from)
                v[0] = pithi_load(from, p->dtype, 0);
            else
                pithi_exempt_sum(a, &s->from, e - first, 1, v);
            pithi_exempt_take(p, it, e - first, 1, from, p->dtype, v);
        }
    }
}

/* Writes what differs in a header from step to step, and its checksum; called by one thread. Key
 * frames bring the hash of the base they hold. */
PITHI_DEVICE void pithi_write_stream(const struct pithi_gpu_call *a, struct pithi_gpu_item *it,
                                     uint64_t base_hash) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint64_t fixed = it->slot->fixed_bytes;
    if (p->base_dtype == PITH_NONE) return;
    uint8_t *const stream = pithi_item_stream(it);
    pithi_put64(stream + PITHI_STREAM_STEP, it->slot_state->step);
    pithi_put64(stream + PITHI_STREAM_BASE, p->device.base_hash ? base_hash : 0);
    pithi_put32(stream + PITHI_STREAM_ID, a->to.stream->random.rng_stream);
    pithi_put64(it->frame + fixed - 8, pithi_header_hash(it->frame, fixed, it->form->header_bytes));
}

PITHI_DEVICE void pithi_encode_finish(const struct pithi_gpu_call *a, struct pithi_gpu_item *it) {
    const struct pithi_device_plan *const p = &a->to.plan;
    struct pithi_gpu_slot_state *const slot = it->slot_state;
    const uint64_t hash = pithi_results_finish(a->to.stream, slot, 1, false);
    if (p->device.feedback) slot->side ^= 1;
    slot->undone = 0;
    pithi_advance(slot, slot->step, pithi_item_base_hash(p, it, hash));
}

PITHI_PHASE(pithi_encode_close, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    (void)number;
    if (t->tid) return;
    if (it->first) {
        pithi_write_stream(a, it, it->slot_state->base_hash);
        pithi_item_answer(&a->to.items, it, it->form->header_bytes + it->form->payload_bytes);
    }
    if (pithi_encode_depends(&a->to.plan)) {
        if (pithi_results_hand(a, &s->made, it->slot_state)) pithi_encode_finish(a, it);
        return;
    }
    pithi_results_count(a->to.stream, &s->made, it->first);
    if (it->first) pithi_step_count(it->slot_state);
}

PITHI_PHASE(pithi_encode_refuse, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->to.first) pithi_item_answer(&a->to.items, &s->to, 1);
}

/* Part of a body: opens the item; returns whether it is encoded. */
PITHI_DEVICE bool pithi_encode_begin(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t number) {
    PITHI_RUN(pithi_encode_open, number);
    if (s->to.status == PITH_OK) return true;
    PITHI_RUN(pithi_encode_refuse, number);
    return false;
}

/* ---- The kernel ------------------------------------------------------------------------------*/

/* Part of a body: the scales of a segment's groups. */
#define PITHI_ENCODE_SCALES(segment)                 \
    do {                                             \
        if (a->to.plan.device.groups.set.search)     \
            pithi_search(a, s, t, team, (segment));  \
        else                                         \
            PITHI_RUN(pithi_encode_scales, segment); \
    } while (0)
/* Part of a body: the largest values of the tile's groups, which lie in a segment. */
#define PITHI_ENCODE_MEASURE(segment, tile)                                    \
    do {                                                                       \
        PITHI_STEP(pithi_encode_largest, tile);                                \
        PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)             \
            PITHI_WARP_MAX(group.largest[u_], pithi_group_lanes(&a->to.plan)); \
        PITHI_RUN(pithi_encode_publish, segment, tile);                        \
    } while (0)

/* Whether whole tiles move by the widest accesses, to the frame too. */
PITHI_DEVICE bool pithi_encode_aligned(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_shared *s, int of) {
    const struct pithi_gpu_item *const it = &s->to;
    if (of == PITHI_OF_FRAMES && !pithi_frames_aligned(a, s, true)) return false;
    if (!pithi_is_aligned(it->payload, 8)) return false;
    if (a->to.plan.base_dtype != PITH_NONE && !pithi_is_aligned(it->base, 16)) return false;
    return pithi_is_aligned(it->tensor, 16);
}

/* A segment of one whole tile. */
PITHI_DEVICE void pithi_encode_whole(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team, int of,
                                     uint64_t tile) {
    /* Tiles of a block lie side by side; sums have no registers to remember that. */
    const bool next = of == PITHI_OF_TENSOR && tile != s->to.begin &&
                      tile & (((uint64_t)1 << a->to.plan.block_log2) - 1);
    PITHI_STEP(pithi_tile_whole, true);
    PITHI_ENCODE_FILL(of, tile, false);
    PITHI_STEP(pithi_whole_aim, tile, next);
    PITHI_WHOLE_SCALES(tile);
    PITHI_STEP(pithi_whole_codes, tile);
}

/* Any other. */
PITHI_DEVICE void pithi_encode_segment(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team, int of,
                                       uint64_t at, uint64_t end) {
    PITHI_STEP(pithi_tile_whole, false);
    for (uint64_t tile = at; tile < end; tile += PITHI_TILE) {
        PITHI_ENCODE_FILL(of, tile, false);
        PITHI_ENCODE_MEASURE(at, tile);
    }
    PITHI_ENCODE_SCALES(at);
    for (uint64_t tile = at; tile < end; tile += PITHI_TILE) {
        if (a->to.plan.device.groups.set.group > PITHI_TILE) PITHI_ENCODE_FILL(of, tile, true);
        PITHI_RUN(pithi_encode_codes, at, tile);
    }
}

PITHI_DEVICE void pithi_encode_groups(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team, int of) {
    const uint32_t group = a->to.plan.device.groups.set.group;
    const uint64_t segment = group > PITHI_TILE ? group : PITHI_TILE;
    const bool aligned =
        t->special && pithi_whole_suits(&a->to.plan) && pithi_encode_aligned(a, s, of);
    for (uint64_t at = s->to.begin; at < s->to.end; at += segment) {
        const uint64_t end = s->to.end - at < segment ? s->to.end : at + segment;
        if (aligned && s->to.end - at >= PITHI_TILE)
            pithi_encode_whole(a, s, t, team, of, at);
        else
            pithi_encode_segment(a, s, t, team, of, at, end);
    }
}

/* What follows a frame's blocks, but for what is known of the whole. */
PITHI_DEVICE void pithi_encode_end(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team, int of) {
    const struct pithi_device_plan *const p = &a->to.plan;
    if (s->to.first) PITHI_RUN(pithi_write_header, &s->to);
    if (!p->checksums) return;
    if (s->to.first && p->ranges) PITHI_RUN(pithi_encode_exempt, of);
    pithi_blocks(a, s, t, team, p, &s->to, NULL);
}

PITHI_BODY(pithi_encode) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    pithi_encode_groups(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_RUN(pithi_encode_padding, (uint64_t)1 << a->to.plan.block_log2);
    pithi_encode_end(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_GATHER_HASHED(false, a->to.plan.base_dtype != PITH_NONE, number);
    PITHI_RUN(pithi_encode_close, number);
}

#endif
