/* pairs.h - pages of codec kv without frames: pairs of tokens and pages in device memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_KV_PAIRS_H
#define PITHI_GPU_DEVICE_KV_PAIRS_H

#include "device/kv/decode.h"
#include "device/kv/encode.h"
#include "pith/kv.h"

/* The team's page of a call on pairs. */
PITHI_PHASE(pithi_page_pair, const struct pithi_gpu_side *side, uint64_t number) {
    struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_device_plan_slot *const slot =
        (const struct pithi_device_plan_slot *)(const void *)(side->plan_memory +
                                                              side->plan.slots_at);
    pithi_page_book(side, t, &s->paged);
    if (t->tid) return;
    s->paged.rough = 0;
    const struct pith_kv_pair *const pair = &a->kv.pairs[number / a->chunks];
    g->part = (uint32_t)(number % a->chunks);
    g->live = pair->values && pair->page && pair->tokens <= side->plan.device.pages.tokens;
    if (!g->part) side->items.status[number / a->chunks] = g->live ? PITH_OK : PITH_ERR_ARG;
    if (!g->live) return;
    g->number = g->first = 0;
    g->base = NULL;
    g->apart = false;
    g->tokens = side->plan.device.pages.tokens;
    g->heads = slot->pages.heads;
    g->dim = slot->pages.dim;
    g->outliers = slot->pages.outliers;
    g->bytes = (uint8_t *)pair->page;
    pithi_page_measure(&side->plan, g);
    g->whole = g->length;
    if (pair->tokens) g->tokens = pair->tokens;
    g->values = (uint8_t *)pair->values;
    g->at = 0;
    g->token_stride = a->kv.token_stride;
    g->head_stride = a->kv.head_stride;
    g->lo = 0;
    g->hi = g->tokens * g->heads * g->dim;
    pithi_page_measure(&side->plan, g);
    pithi_page_share(&side->plan, g);
    pithi_full_find(&side->plan, pithi_side_dtype(a, side), g);
}

PITHI_BODY(pithi_pairs_encode) {
    PITHI_RUN(pithi_page_pair, &a->to, number);
    if (s->paged.page.live) pithi_page_encode(a, s, t, team, PITHI_KEPT_NONE);
}

PITHI_BODY(pithi_pairs_encode_kept) {
    PITHI_RUN(pithi_page_pair, &a->to, number);
    if (s->paged.page.live) pithi_page_encode(a, s, t, team, PITHI_KEPT_ANY);
}

PITHI_BODY(pithi_pairs_encode_strips) {
    PITHI_RUN(pithi_page_pair, &a->to, number);
    if (s->paged.page.live) pithi_page_encode(a, s, t, team, PITHI_KEPT_STRIPS);
}

PITHI_BODY(pithi_pairs_decode) {
    PITHI_RUN(pithi_page_pair, &a->from, number);
    if (s->paged.page.live) pithi_page_decode(a, s, t, team);
}

#endif
