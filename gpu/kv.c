/* kv.c - calls on items of codecs in pages: how teams share them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kv.h"

enum { WAVES = 32, TILES_MOST = 4 };

/* The most pages that so many neighbouring elements can be in, wherever they begin. */
static uint64_t pages_of(const pith_cuda_plan *c, uint64_t elements) {
    const struct pithi_tiling *const t = &pithi_cuda_first_slot(c)->tiling;
    if (c->table.most_blocks < 2) return c->table.most_blocks;
    const uint64_t page = t->extent[2] * t->shape[3], run = t->shape[2] * t->shape[3];
    const uint64_t pages = elements / run * t->grid[2] + elements % run / page + 4;
    return pages < c->table.most_blocks ? pages : c->table.most_blocks;
}

static uint64_t page_elements(const pith_cuda_plan *c) {
    const struct pithi_tiling *const t = &pithi_cuda_first_slot(c)->tiling;
    return c->table.most_blocks < 2 ? c->table.most : t->extent[2] * t->shape[3];
}

/* Whether units of a page do not begin at whole lanes of the base's hash, as pithi_page_apart. */
static bool apart(const pith_cuda_plan *c) {
    const struct pithi_table_slot *const slot = pithi_cuda_first_slot(c);
    return c->table.slots == 1 && c->table.device.identity && slot->dim % PITHI_UNIT &&
           slot->dim != slot->count;
}

/* Whole pages where those have checksums, or are hashed when all of them is done. */
uint32_t pithi_cuda_page_parts(const pith_cuda_plan *c, uint64_t pages) {
    const uint64_t tiles = page_elements(c) / PITHI_TILE + 1;
    uint64_t parts = tiles, each = 1;
    if (c->table.checksums || apart(c)) return 1;
    for (; each < TILES_MOST && pages * parts > WAVES * c->processors; each *= 2)
        parts = (parts + 1) / 2;
    return (uint32_t)parts;
}

void pithi_cuda_paged_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                             uint64_t elements) {
    const uint64_t pages = pages_of(c, elements);
    a->parts = pithi_cuda_page_parts(c, items * pages);
    a->span = 1;
    a->chunks = pages ? pages * a->parts : 1;
}
