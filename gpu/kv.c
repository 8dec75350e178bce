/* kv.c - calls on items of codecs in pages: how teams share them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kv.h"

/* Returns the most pages that so many neighbouring elements can be in, wherever they begin. */
static uint64_t pages_of(const pith_cuda_plan *c, uint64_t elements) {
    const struct pithi_tiling *const t = &pithi_cuda_first_slot(c)->tiling;
    if (c->plan.most_blocks < 2) return c->plan.most_blocks;
    const uint64_t page = t->extent[2] * t->shape[3], run = t->shape[2] * t->shape[3];
    const uint64_t pages = elements / run * t->grid[2] + elements % run / page + 4;
    return pages < c->plan.most_blocks ? pages : c->plan.most_blocks;
}

static uint64_t page_elements(const pith_cuda_plan *c) {
    const struct pithi_tiling *const t = &pithi_cuda_first_slot(c)->tiling;
    return c->plan.most_blocks < 2 ? c->plan.most : t->extent[2] * t->shape[3];
}

/* Whether units of a page do not begin at whole lanes of the base's hash, as pithi_page_apart. */
static bool apart(const pith_cuda_plan *c) {
    const struct pithi_device_plan_slot *const slot = pithi_cuda_first_slot(c);
    return c->plan.slots == 1 && c->plan.device.base_hash && slot->pages.dim % PITHI_UNIT &&
           slot->pages.dim != slot->count;
}

static uint64_t parts_of(uint64_t n, uint64_t part) { return (n + part - 1) / part; }

/* Returns the tiles of a page, as pithi_page_share counts them where groups fill their threads. */
static uint64_t page_tiles(const pith_cuda_plan *c) {
    const struct pithi_device_plan_slot *const slot = pithi_cuda_first_slot(c);
    const uint64_t elements = page_elements(c), row = (uint64_t)slot->pages.heads * slot->pages.dim;
    if (!c->plan.device.pages.channel || !row) return parts_of(elements, PITHI_TILE);
    const uint64_t units = slot->pages.heads * parts_of(slot->pages.dim, PITHI_UNIT);
    if (pithi_pages_strips(&c->plan))
        return parts_of(elements / row, PITHI_STRIP_TOKENS) * parts_of(units, PITHI_STRIP_LANES);
    return parts_of(elements / row, c->plan.device.groups.set.group) *
           parts_of(units, pithi_pages_lanes(&c->plan));
}

/* Teams take whole pages where those have checksums, or are hashed when all of a page is done. Else
 * they take few tiles while there are few teams: opening a page takes as long as some tiles do. */
uint32_t pithi_cuda_page_parts(const pith_cuda_plan *c, uint64_t pages) {
    uint64_t parts = page_tiles(c);
    if (c->plan.checksums || apart(c)) return 1;
    while (parts > 1 && pages * parts > PITHI_CUDA_WAVES * c->processors) parts = (parts + 1) / 2;
    return parts ? (uint32_t)parts : 1;
}

void pithi_cuda_paged_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                             uint64_t elements) {
    const uint64_t pages = pages_of(c, elements);
    a->memory = PITHI_MEMORY_PAGES;
    a->kv.parts = pithi_cuda_page_parts(c, items * pages);
    a->span = 1;
    a->chunks = pages ? pages * a->kv.parts : 1;
}
