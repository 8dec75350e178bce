/* base.c - what a channel remembers between calls: bases and residuals.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* ---- Inside calls ----------------------------------------------------------------------------*/

static const struct pithi_mpi_hop *base_hop(const pith_mpi_channel *ch) { return &ch->hop[0]; }

static bool is_empty(const pith_mpi_channel *ch, uint64_t slot) {
    uint64_t first, count = 0;
    return pith_plan_slot(base_hop(ch)->encoder, slot, &first, &count) || !count;
}

static uint64_t slots(const pith_mpi_channel *ch) { return ch->slices * ch->place.ranks; }

/* Whether all slots have one next step, and which. Empty slots never move. */
static bool next_step(const pith_mpi_channel *ch, uint64_t *step) {
    bool found = false;
    for (uint64_t i = 0; i < slots(ch); i++) {
        if (is_empty(ch, i)) continue;
        const uint64_t at = pith_state_step(base_hop(ch)->state, i);
        if (found && at != *step) return false;
        *step = at;
        found = true;
    }
    return true;
}

static void fail_plan(pith_mpi_channel *ch, pith_status status) {
    pithi_mpi_fail(ch, status, (int)ch->place.rank, pith_plan_error(base_hop(ch)->encoder));
}

/* The base of a key call is replaced as a whole; only its step must be the others'. */
static void restart_base(pith_mpi_channel *ch) {
    static const float zero = 0;
    pith_view view = pith_view_flat(&zero, PITH_F32, ch->o.count);
    view.stride[0] = 0;
    const pith_status status =
        pith_state_set_base(base_hop(ch)->encoder, base_hop(ch)->state, &view, ch->call.step);
    if (status) fail_plan(ch, status);
}

void pithi_mpi_begin_base(pith_mpi_channel *ch) {
    uint64_t step = ch->call.step;
    const bool whole = next_step(ch, &step) && !ch->invalid;
    if ((ch->o.flags & PITH_MPI_EXTERNAL_BASE) && !ch->bound)
        pithi_mpi_fail_text(ch, PITH_ERR_STATE, "no base is bound");
    else if (ch->call.key && (!whole || step != ch->call.step))
        restart_base(ch);
    else if (!whole)
        pithi_mpi_fail_text(ch, PITH_ERR_STATE,
                            "a failed call left the base torn: key call needed");
    else if (step != ch->call.step)
        pithi_mpi_fail_text(ch, PITH_ERR_STEP, "the base has another next step");
}

void pithi_mpi_copy_base(pith_mpi_channel *ch) {
    const struct pithi_mpi_hop *h = base_hop(ch);
    const pith_status status = pith_state_get_base(h->encoder, h->state, 0, &ch->call.out);
    if (status) fail_plan(ch, status);
}

void pithi_mpi_end_states(pith_mpi_channel *ch, bool good) {
    if (ch->with_base) { /* other ranks may have encoded where this one did not */
        ch->invalid = !good;
        return;
    }
    for (uint32_t k = 0; k < ch->hops && !good; k++) {
        struct pithi_mpi_hop *h = &ch->hop[k];
        if (!h->encoded || !h->state) continue;
        const pith_status status = pith_state_rollback(h->encoder, h->state, ch->call.step);
        if (status && !ch->error.text[0]) ch->error = pith_plan_error(h->encoder);
    }
}

/* ---- Bases -----------------------------------------------------------------------------------*/

static pith_status refuse(const pith_mpi_channel *ch, bool base) {
    if (!ch) return PITH_ERR_ARG;
    if (ch->busy) return PITH_ERR_BUSY;
    return base && !ch->with_base ? PITH_ERR_STATE : PITH_OK;
}

/* Of a local call: kept where pith_mpi_last_error finds it. */
static pith_status keep_error(pith_mpi_channel *ch, const pith_plan *plan, pith_status status) {
    ch->error = status ? pith_plan_error(plan) : (pith_error){"", 0};
    return status;
}

pith_status pith_mpi_set_base(pith_mpi_channel *ch, const pith_view *view, uint64_t step) {
    PITHI_MPI_TRY(refuse(ch, true));
    const struct pithi_mpi_hop *h = base_hop(ch);
    PITHI_MPI_TRY(
        keep_error(ch, h->encoder, pith_state_set_base(h->encoder, h->state, view, step)));
    ch->invalid = false;
    return PITH_OK;
}

pith_status pith_mpi_bind_base(pith_mpi_channel *ch, void *base, uint64_t step) {
    PITHI_MPI_TRY(refuse(ch, true));
    const struct pithi_mpi_hop *h = base_hop(ch);
    PITHI_MPI_TRY(
        keep_error(ch, h->encoder, pith_state_bind_base(h->encoder, h->state, base, step)));
    ch->invalid = false;
    ch->bound = true;
    return PITH_OK;
}

pith_status pith_mpi_get_base(pith_mpi_channel *ch, const pith_view *view) {
    PITHI_MPI_TRY(refuse(ch, true));
    const struct pithi_mpi_hop *h = base_hop(ch);
    if (!view) return PITH_ERR_ARG;
    if (pith_view_count(view) != ch->o.count) return PITH_ERR_SHAPE;
    return keep_error(ch, h->encoder, pith_state_get_base(h->encoder, h->state, 0, view));
}

uint64_t pith_mpi_identity(const pith_mpi_channel *ch) {
    uint64_t x = 0;
    if (!ch || !ch->with_base) return 0;
    for (uint64_t i = 0; i < slots(ch); i++) {
        if (is_empty(ch, i)) continue;
        x = (x ^ pith_state_identity(base_hop(ch)->state, i)) * UINT64_C(0x9E3779B97F4A7C15);
        x = (x ^ (x >> 32) ^ pith_state_step(base_hop(ch)->state, i)) * UINT64_C(0x100000001B3);
    }
    return x;
}

pith_status pith_mpi_verify_base(pith_mpi_channel *ch) {
    PITHI_MPI_TRY(refuse(ch, true));
    const struct pithi_mpi_hop *h = base_hop(ch);
    return keep_error(ch, h->encoder, pith_state_verify(h->encoder, h->state));
}

/* ---- All hops --------------------------------------------------------------------------------*/

pith_status pith_mpi_rollback(pith_mpi_channel *ch, uint64_t step) {
    PITHI_MPI_TRY(refuse(ch, false));
    if (ch->with_base) return PITH_ERR_STATE;
    for (uint32_t k = 0; k < ch->hops; k++) {
        const struct pithi_mpi_hop *h = &ch->hop[k];
        if (!h->state) continue;
        PITHI_MPI_TRY(keep_error(ch, h->encoder, pith_state_rollback(h->encoder, h->state, step)));
    }
    return PITH_OK;
}

pith_status pith_mpi_reset(pith_mpi_channel *ch) {
    PITHI_MPI_TRY(refuse(ch, false));
    for (uint32_t k = 0; k < ch->hops; k++) {
        const struct pithi_mpi_hop *h = &ch->hop[k];
        if (!h->state) continue;
        PITHI_MPI_TRY(keep_error(ch, h->encoder, pith_state_reset(h->encoder, h->state)));
    }
    ch->invalid = false;
    return PITH_OK;
}

void pith_mpi_stats(const pith_mpi_channel *ch, uint32_t hop, pith_stats *out) {
    *out = (pith_stats){0};
    if (!ch || hop >= PITHI_MPI_HOPS) return;
    for (uint32_t k = 0; k < ch->hops; k++)
        if (ch->hop[k].place == hop && ch->hop[k].state) pith_state_stats(ch->hop[k].state, out);
}

/* ---- Checkpoints: magic, hops, bytes of each hop's state, the states --------------------------*/

#define SAVE_MAGIC UINT64_C(0x50544853504D4931)

static uint64_t save_head(const pith_mpi_channel *ch) { return 8 * (2 + (uint64_t)ch->hops); }

static void put64(uint8_t *to, uint64_t x) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t get64(const uint8_t *from) {
    uint64_t x = 0;
    for (int i = 8; i-- > 0;) x = x << 8 | from[i];
    return x;
}

uint64_t pith_mpi_save_bytes(const pith_mpi_channel *ch) {
    if (!ch) return 0;
    uint64_t bytes = save_head(ch);
    for (uint32_t k = 0; k < ch->hops; k++) bytes += ch->hop[k].save_bytes;
    return bytes;
}

pith_status pith_mpi_save(pith_mpi_channel *ch, void *dst, size_t cap, size_t *written) {
    if (written) *written = 0;
    PITHI_MPI_TRY(refuse(ch, false));
    if (!dst || !written) return PITH_ERR_ARG;
    if (ch->invalid) return PITH_ERR_STATE;
    if (cap < pith_mpi_save_bytes(ch)) return PITH_ERR_SPACE;
    uint8_t *head = dst;
    uint64_t at = save_head(ch);
    put64(head, SAVE_MAGIC);
    put64(head + 8, ch->hops);
    for (uint32_t k = 0; k < ch->hops; k++) {
        const struct pithi_mpi_hop *h = &ch->hop[k];
        size_t bytes = 0;
        if (h->state)
            PITHI_MPI_TRY(
                keep_error(ch, h->encoder,
                           pith_state_save(h->encoder, h->state, head + at, cap - at, &bytes)));
        put64(head + 16 + 8 * k, bytes);
        at += bytes;
    }
    *written = (size_t)at;
    return PITH_OK;
}

static pith_status load_states(pith_mpi_channel *ch, const uint8_t *head, size_t bytes) {
    uint64_t at = save_head(ch);
    if (bytes < at) return PITH_ERR_TRUNCATED;
    if (get64(head) != SAVE_MAGIC) return PITH_ERR_MAGIC;
    if (get64(head + 8) != ch->hops) return PITH_ERR_MISMATCH;
    for (uint32_t k = 0; k < ch->hops; k++) {
        const struct pithi_mpi_hop *h = &ch->hop[k];
        const uint64_t own = get64(head + 16 + 8 * k);
        if (own > bytes - at) return PITH_ERR_TRUNCATED;
        if (!h->state && own) return PITH_ERR_MISMATCH;
        if (h->state)
            PITHI_MPI_TRY(keep_error(
                ch, h->encoder, pith_state_load(h->encoder, h->state, head + at, (size_t)own)));
        at += own;
    }
    return PITH_OK;
}

pith_status pith_mpi_load(pith_mpi_channel *ch, const void *src, size_t bytes) {
    PITHI_MPI_TRY(refuse(ch, false));
    if (!src) return PITH_ERR_ARG;
    const pith_status status = load_states(ch, src, bytes);
    ch->invalid = false;
    if (status) PITHI_MPI_TRY(pith_mpi_reset(ch));
    return status;
}
