/* plans.c - plans over pieces of the tensor, with the exempt ranges moved along.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* The exempt ranges as the pieces, laid end to end, see them. Returns how many. */
static size_t move_exempt(const pith_mpi_channel *ch, const struct pithi_mpi_piece *pieces,
                          uint64_t count, pith_exempt *to) {
    size_t made = 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; at += pieces[i++].count) {
        const uint64_t from = pieces[i].first, end = from + pieces[i].count;
        for (size_t k = 0; k < ch->o.exempt_count; k++) {
            const pith_exempt *e = &ch->o.exempt[k];
            if (e->first > UINT64_MAX - e->count) continue;
            const uint64_t low = e->first > from ? e->first : from;
            const uint64_t high = e->first + e->count < end ? e->first + e->count : end;
            if (low < high) to[made++] = (pith_exempt){at + low - from, high - low, e->how};
        }
    }
    return made;
}

static pith_status create(pith_mpi_channel *ch, const char *spec, pith_layout *layout,
                          const struct pithi_mpi_piece *pieces, uint64_t count, uint64_t *counts,
                          pith_plan **plan, pith_error *error) {
    for (uint64_t i = 0; i < count; i++) layout->shape[0] += counts[i] = pieces[i].count;
    layout->slots = count;
    layout->slot_counts = counts;
    return pith_plan_create(plan, spec, layout, &ch->env, error);
}

/* Scratch of creation stays with the channel: it is small, and there is one way to free memory. */
pith_status pithi_mpi_make_plan(pith_mpi_channel *ch, const char *spec, uint32_t dtype,
                                const struct pithi_mpi_piece *pieces, uint64_t count,
                                pith_plan **plan, pith_error *error) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = dtype,
                          .base_dtype = ch->o.base_dtype,
                          .ndim = 1,
                          .flags = PITH_LAYOUT_CHECKSUMS};
    if (ch->o.flags & PITH_MPI_EXTERNAL_BASE) layout.flags |= PITH_LAYOUT_EXTERNAL_BASE;
    uint64_t *counts = pithi_mpi_take(ch, count, sizeof *counts);
    if (!counts) return PITH_ERR_MEMORY;
    if (ch->o.exempt_count && ch->packed) {
        const uint64_t most = count * ch->o.exempt_count;
        pith_exempt *moved = pithi_mpi_take(ch, most, sizeof *moved);
        if (!moved) return PITH_ERR_MEMORY;
        layout.exempt_count = move_exempt(ch, pieces, count, moved);
        layout.exempt = layout.exempt_count ? moved : NULL;
    }
    return create(ch, spec, &layout, pieces, count, counts, plan, error);
}

pith_status pithi_mpi_make_state(pith_mpi_channel *ch, struct pithi_mpi_hop *hop) {
    pith_sizes sizes;
    pith_plan_sizes(hop->encoder, &sizes);
    if (!sizes.state_bytes) return PITH_OK;
    void *memory = pithi_mpi_take(ch, 1, sizes.state_bytes);
    if (!memory) return PITH_ERR_MEMORY;
    hop->save_bytes = sizes.save_bytes;
    return pith_state_init(hop->encoder, memory, sizes.state_bytes, &hop->state);
}
