/* rows_decode.h - frames of codec embed to values, after rows.h has checked them: one launch makes
 * codes of the distinct rows, the next values of all, a team a part of a block.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PREDICT_ROWS_DECODE_H
#define PITHI_GPU_DEVICE_PREDICT_ROWS_DECODE_H

#include "device/predict/decode.h"
#include "device/predict/rows.h"

/* Codes of the strip's groups, unpacked before, of the distinct rows. */
PITHI_PHASE(pithi_distinct_make, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const uint32_t g = strip * PITHI_TEAM + t->tid, first = g * PITHI_GROUP;
    const uint32_t end = r->distinct * r->row;
    (void)a;
    for (uint32_t k = 0; k < PITHI_GROUP && first + k < end; k++)
        r->scratch[first + k] =
            s->strip.word[k][t->tid] + pithi_centre_get(r, (first + k) % r->row);
}

PITHI_PHASE(pithi_rows_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)number;
    for (uint32_t e = share.from + t->tid; e < share.to; e += PITHI_TEAM) {
        const uint32_t i = e / r->row, j = e - i * r->row;
        const uint32_t code = r->scratch[pithi_rows_number(r, i) * r->row + j];
        pithi_value_make(a, &s->from, b, e, b->before + e, pithi_own_value(&b->quant, code));
    }
}

PITHI_BODY(pithi_rows_unpack) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_rows_locate, number);
    if (!pithi_block_wanted(a, s, t, team, number, false)) return;
    if (b->plain || b->method != PITHI_EB_PACKED) return;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->named);
    pithi_strips_begin(a, s, t, team, strips.from, false);
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        pithi_strip_open(a, s, t, team, strip, false);
        PITHI_RUN(pithi_distinct_make, strip);
    }
}

PITHI_BODY(pithi_rows_decode) {
    PITHI_RUN(pithi_rows_locate, number);
    if (!pithi_block_wanted(a, s, t, team, number, true)) return;
    if (s->strip.block.plain) {
        PITHI_RUN(pithi_plain_read, pithi_dtype_bytes(a->from.plan.dtype));
        return;
    }
    PITHI_RUN(pithi_rows_read, number);
    pithi_exact_read(a, s, t, team, number);
}

#endif
