/* sparse.c - calls on items of codecs that send sets of elements: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sparse.h"

#include "device/predict/workspace.h"
#include "launch.h"

/* ---- The choice of elements ------------------------------------------------------------------*/

/* Finds the k-th largest magnitude of a round, where a frame wants it. */
static void find_kth(struct pithi_cuda_launches *l) {
    for (uint32_t level = 0; level < PITHI_SELECT_LEVELS; level++) {
        l->call->sparse.level = level;
        pithi_launch_tiles(l, PITHI_GPU_sparse_count);
    }
}

/* Has the rule of the threshold look at the values, as often as it may ask. */
static void look(struct pithi_cuda_launches *l) {
    const struct pithi_device_plan *const t = &l->cuda->plan;
    const uint32_t kind = t->device.sets.control;
    const uint64_t chunks = t->most_blocks * pithi_workspace_chunks(t);
    if (chunks) pithi_launch_teams(l, PITHI_GPU_sparse_moments, chunks / PITHI_MOMENT_CHUNKS + 1);
    if (chunks || pithi_control_samples(kind)) pithi_launch_teams(l, PITHI_GPU_sparse_estimate, 1);
    for (uint32_t i = 0; i < pithi_control_counts(kind); i++)
        pithi_launch_tiles(l, PITHI_GPU_sparse_look);
}

/* Whether the rule of the threshold may ask for the k-th largest magnitude, and whether more
 * elements may reach it than the hard limit has. */
static bool asks_for_kth(const pith_cuda_plan *c) {
    const uint32_t kind = c->plan.device.sets.control;
    if (c->plan.device.sets.rows) return false;
    return kind == PITHI_CONTROL_PROP || kind == PITHI_CONTROL_EXACT ||
           kind == PITHI_CONTROL_EVERY || kind == PITHI_CONTROL_OKTOPK || kind == PITHI_CONTROL_DGC;
}
static bool may_overflow(const pith_cuda_plan *c) {
    const uint32_t kind = c->plan.device.sets.control;
    /* An exact threshold does not, but one that is requested. */
    return kind != PITHI_CONTROL_NONZERO && !c->plan.device.sets.rows;
}

/* Returns the teams that take the rows of a slot by turns: one for each of its tiles, and while
 * these are few, enough to keep the device busy. */
static uint64_t row_teams(const pith_cuda_plan *c) {
    const uint64_t tiles = c->plan.most / PITHI_TILE + 1;
    const uint64_t enough = PITHI_CUDA_WAVES * (uint64_t)c->processors;
    return tiles < enough ? enough : tiles;
}

/* ---- Coefficients ----------------------------------------------------------------------------*/

/* Whether what is sent are coefficients of the values. */
static bool transforms(const pith_cuda_plan *c) { return c->plan.device.sets.run > 1; }

/* The items of a call have their coefficients in its workspace. */
static void place_coefficients(struct pithi_cuda_launches *l) {
    struct pithi_gpu_call *const a = l->call;
    const struct pithi_device_plan *const t = &l->cuda->plan;
    if (l->status != PITH_OK) return;
    a->sparse.coefficients = a->predict.workspace + l->items * a->per_item * PITHI_MARK_BYTES +
                             pithi_workspace_coefficients(t);
    a->sparse.coefficients_stride = a->per_item * pithi_workspace_bytes(t);
}

/* Launches see coefficients in place of tensors. */
static void see_coefficients(const struct pithi_gpu_call *a, struct pithi_gpu_items *items) {
    items->tensors = NULL;
    items->tensor = a->sparse.coefficients;
    items->tensor_stride = a->sparse.coefficients_stride;
    items->dtype = PITH_F32;
}

/* ---- Memory behind the workspace -------------------------------------------------------------*/

/* Returns what lies behind the workspace of the frames, `each` bytes for every item. */
static uint8_t *behind(struct pithi_cuda_launches *l, const pith_cuda_items *items, uint64_t each) {
    const uint64_t frame = pithi_cuda_blocks_bytes(&l->cuda->plan);
    const uint64_t frames = items->count * l->call->per_item * frame, more = items->count * each;
    const struct pithi_words words = {.number = {frames, more}};
    if (l->status == PITH_OK && items->workspace_bytes - frames < more)
        l->status =
            pithi_fail_with(l->error, PITH_ERR_SPACE, frames + more,
                            "the call needs a workspace of # bytes and # behind it", &words);
    return l->status == PITH_OK ? l->call->predict.workspace + frames : NULL;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Finds out which elements are sent: their map. */
static void choose(struct pithi_cuda_launches *l) {
    const pith_cuda_plan *const c = l->cuda;
    struct pithi_gpu_call *const a = l->call;
    look(l);
    for (a->sparse.round = 0; a->sparse.round < 2; a->sparse.round++) {
        if (a->sparse.round && !may_overflow(c)) break;
        if (a->sparse.round || asks_for_kth(c)) find_kth(l);
        pithi_launch_tiles(l, PITHI_GPU_sparse_map);
    }
    if (c->plan.device.sets.rows) pithi_launch_teams(l, PITHI_GPU_sparse_rows, row_teams(c));
    if (c->plan.device.sets.unit) pithi_launch_tiles(l, PITHI_GPU_sparse_units);
}

pith_status pithi_cuda_sparse_encode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error) {
    struct pithi_cuda_launches l = pithi_cuda_blocks_open(c, a, items, cuda_stream, error);
    if (a->sparse.sends) a->sparse.scratch = behind(&l, items, pithi_workspace_whole(&c->plan));
    if (a->sparse.same_blocks)
        a->sparse.scratch = behind(&l, items, pithi_cuda_set_bytes(&c->plan));
    pithi_launch_teams(&l, PITHI_GPU_sparse_begin, 1);
    if (transforms(c) && !a->sparse.entered) {
        place_coefficients(&l);
        pithi_launch_tiles(&l, PITHI_GPU_sparse_enter);
        see_coefficients(a, &a->to.items);
    }
    if (!a->sparse.sends)
        choose(&l);
    else if (c->plan.device.feedback)
        pithi_launch_tiles(&l, PITHI_GPU_sparse_map); /* the residual, of a map that stays */
    pithi_launch_tiles(&l, PITHI_GPU_sparse_cut);
    pithi_launch_teams(&l, PITHI_GPU_sparse_list, 1);
    pithi_launch_blocks(&l, PITHI_GPU_sparse_code);
    pithi_launch_teams(&l, PITHI_GPU_sparse_place, 1);
    pithi_launch_blocks(&l, PITHI_GPU_sparse_write);
    return l.status;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Begins a call that reads frames, all of which are checked. */
static struct pithi_cuda_launches check(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                        const pith_cuda_items *items, void *cuda_stream,
                                        pith_error *error) {
    struct pithi_cuda_launches l = pithi_cuda_blocks_open(c, a, items, cuda_stream, error);
    l.items = items->count * a->per_item;
    pithi_launch_teams(&l, PITHI_GPU_sparse_check, 1);
    pithi_launch_blocks(&l, PITHI_GPU_sparse_judge);
    l.items = items->count;
    return l;
}

/* Launches what writes the values of frames that were checked. */
static void write_values(struct pithi_cuda_launches *l) {
    if (!l->call->add || transforms(l->cuda)) pithi_launch_parts(l, PITHI_GPU_sparse_zero);
    pithi_launch_blocks(l, PITHI_GPU_sparse_decode);
}

pith_status pithi_cuda_sparse_decode(const pith_cuda_plan *c, struct pithi_gpu_call *a, bool verify,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error) {
    struct pithi_cuda_launches l = check(c, a, items, cuda_stream, error);
    if (verify) {
        pithi_launch_teams(&l, PITHI_GPU_sparse_answer, 1);
    } else if (transforms(c)) {
        place_coefficients(&l);
        struct pithi_gpu_call values = *a;
        see_coefficients(a, &values.from.items);
        l.call = &values;
        write_values(&l);
        l.call = a;
        pithi_launch_tiles(&l, PITHI_GPU_sparse_leave);
    } else {
        write_values(&l);
    }
    return l.status;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* Launches the sums of frames that were checked. */
static void sum_up(struct pithi_cuda_launches *l) {
    pithi_launch_parts(l, PITHI_GPU_sparse_sums);
    pithi_launch_blocks(l, PITHI_GPU_sparse_reduce);
    if (l->call->sparse.sums || l->call->scale != 1.0f)
        pithi_launch_parts(l, PITHI_GPU_sparse_round);
}

/* The same of coefficients, where the call says, and of these the values. */
static void sum_coefficients(struct pithi_cuda_launches *l) {
    struct pithi_gpu_call *const a = l->call;
    struct pithi_gpu_call sums = *a;
    sums.scale = 1;
    see_coefficients(a, &sums.from.items);
    l->call = &sums;
    sum_up(l);
    l->call = a;
    pithi_launch_tiles(l, PITHI_GPU_sparse_leave);
}

pith_status pithi_cuda_sparse_reduce(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error) {
    struct pithi_cuda_launches l = check(c, a, items, cuda_stream, error);
    if (transforms(c)) {
        place_coefficients(&l);
        sum_coefficients(&l);
        return l.status;
    }
    if (items->dtype != PITH_F32)
        a->sparse.sums = behind(&l, items, pithi_cuda_sum_bytes(&c->plan));
    sum_up(&l);
    return l.status;
}

pith_status pithi_cuda_sparse_recode(const pith_cuda_plan *c, const struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, const pith_cuda_plan *out,
                                     const pith_cuda_items *made, void *cuda_stream,
                                     pith_error *error) {
    struct pithi_gpu_call sums = *a, encode = *a;
    const bool alike = c->plan.device.sets.run == out->plan.device.sets.run;
    sums.update = false; /* until the sums are encoded */
    struct pithi_cuda_launches l = check(c, &sums, items, cuda_stream, error);
    sums.sparse.coefficients = behind(&l, items, pithi_cuda_sum_bytes(&c->plan));
    sums.sparse.coefficients_stride = pithi_cuda_sum_bytes(&c->plan);
    see_coefficients(&sums, &sums.from.items);
    see_coefficients(&sums, &encode.to.items);
    encode.sparse.entered = alike;
    encode.sparse.summands = a->per_item;
    encode.sparse.marks = sums.predict.workspace;
    encode.per_item = 1;
    encode.scale = 1;
    if (transforms(c) && !alike)
        sum_coefficients(&l);
    else
        sum_up(&l);
    if (l.status != PITH_OK) return l.status;
    return pithi_cuda_sparse_encode(out, &encode, made, cuda_stream, error);
}

/* ---- Held sets -------------------------------------------------------------------------------*/

pith_status pithi_cuda_sparse_hold(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                   bool intersection, const pith_cuda_items *items,
                                   void *cuda_stream, pith_error *error) {
    struct pithi_cuda_launches l = check(c, a, items, cuda_stream, error);
    if (intersection) a->sparse.scratch = behind(&l, items, pithi_cuda_set_bytes(&c->plan));
    pithi_launch_blocks(&l, PITHI_GPU_sparse_hold);
    return l.status;
}

/* Nobody knows on the host how many elements are listed: a team for as many as the largest slot has
 * tiles, which take them by turns. */
pith_status pithi_cuda_sparse_hold_elements(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                            const pith_cuda_items *items, void *cuda_stream,
                                            pith_error *error) {
    const uint64_t tiles = c->plan.most / PITHI_TILE;
    struct pithi_cuda_launches l = pithi_cuda_blocks_open(c, a, items, cuda_stream, error);
    pithi_launch_teams(&l, PITHI_GPU_sparse_listed, tiles);
    pithi_launch_teams(&l, PITHI_GPU_sparse_empty, tiles);
    pithi_launch_teams(&l, PITHI_GPU_sparse_mark, tiles);
    return l.status;
}

pith_status pithi_cuda_sparse_move(const pith_cuda_plan *c, struct pithi_gpu_call *a, bool adds,
                                   const pith_cuda_items *items, void *cuda_stream,
                                   pith_error *error) {
    struct pithi_cuda_launches l = pithi_cuda_blocks_open(c, a, items, cuda_stream, error);
    pithi_launch_blocks(&l, PITHI_GPU_sparse_held);
    pithi_launch_teams(&l, PITHI_GPU_sparse_list, 1);
    pithi_launch_blocks(&l, adds ? PITHI_GPU_sparse_scatter : PITHI_GPU_sparse_gather);
    return l.status;
}

pith_status pithi_cuda_sparse_clear(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    const pith_cuda_items *items, void *cuda_stream,
                                    pith_error *error) {
    struct pithi_cuda_launches l = {c, a, items->count, cuda_stream, error, PITH_OK};
    pithi_launch_tiles(&l, PITHI_GPU_sparse_clear);
    return l.status;
}

/* ---- What slots remember of their choice -----------------------------------------------------*/

pith_status pithi_cuda_sparse_slots(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    const pith_cuda_items *items, void *cuda_stream,
                                    pith_error *error) {
    struct pithi_cuda_launches l = {c, a, items->count, cuda_stream, error, PITH_OK};
    if (a->sparse.states) {
        pithi_launch_teams(&l, PITHI_GPU_sparse_state, 1);
        pithi_launch_tiles(&l, PITHI_GPU_sparse_tally);
    } else {
        pithi_launch_teams(
            &l, a->sparse.chosen ? PITHI_GPU_sparse_report : PITHI_GPU_sparse_request, 1);
    }
    return l.status;
}
