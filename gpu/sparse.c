/* sparse.c - calls on items of codecs that send sets of elements: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sparse.h"

#include "predict.h"

/* Launches a kernel with so many teams for each of `items` items or frames. */
static pith_status launch(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                          struct pithi_gpu_call *a, uint64_t teams, uint64_t items,
                          void *cuda_stream, pith_error *error) {
    a->span = PITHI_TILE;
    a->chunks = teams ? teams : 1;
    return pithi_cuda_launch(c, kernel, a, items, cuda_stream, error);
}

/* Launches a kernel with teams for every part of a block. */
static pith_status over_parts(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                              struct pithi_gpu_call *a, uint64_t items, void *cuda_stream,
                              pith_error *error) {
    a->predict.parts = pithi_workspace_parts(&c->plan);
    const pith_status status =
        launch(c, kernel, a, c->plan.most_blocks * a->predict.parts, items, cuda_stream, error);
    a->predict.parts = 1;
    return status;
}

/* Launches a kernel with teams for runs of tiles. */
static pith_status over_values(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                               struct pithi_gpu_call *a, uint64_t items, void *cuda_stream,
                               pith_error *error) {
    pithi_cuda_divide_tiles(a, c, items, c->plan.most);
    return pithi_cuda_launch(c, kernel, a, items, cuda_stream, error);
}

/* Finds the k-th largest magnitude of a round, where a frame wants it. */
static pith_status find_kth(const pith_cuda_plan *c, struct pithi_gpu_call *a, uint64_t items,
                            void *cuda_stream, pith_error *error) {
    for (a->sparse.level = 0; a->sparse.level < PITHI_SELECT_LEVELS; a->sparse.level++) {
        const pith_status status =
            over_values(c, PITHI_GPU_sparse_count, a, items, cuda_stream, error);
        if (status != PITH_OK) return status;
    }
    return PITH_OK;
}

/* Has the rule of the threshold look at the values, as often as it may ask. */
static pith_status ask(const pith_cuda_plan *c, struct pithi_gpu_call *a, uint64_t items,
                       void *cuda_stream, pith_error *error) {
    const uint32_t kind = c->plan.device.sets.control;
    const uint64_t chunks = c->plan.most_blocks * pithi_workspace_chunks(&c->plan);
    pith_status status = PITH_OK;
    if (chunks)
        status = launch(c, PITHI_GPU_sparse_moments, a, chunks / PITHI_MOMENT_CHUNKS + 1, items,
                        cuda_stream, error);
    if (status == PITH_OK && (chunks || pithi_control_samples(kind)))
        status = launch(c, PITHI_GPU_sparse_estimate, a, 1, items, cuda_stream, error);
    for (uint32_t i = 0; i < pithi_control_counts(kind) && status == PITH_OK; i++)
        status = over_values(c, PITHI_GPU_sparse_look, a, items, cuda_stream, error);
    return status;
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

/* Teams that take the rows of a slot by turns: no more than it has tiles, while these are many. */
static uint64_t row_teams(const pith_cuda_plan *c) {
    const uint64_t tiles = c->plan.most / PITHI_TILE + 1, enough = 8 * c->processors;
    return tiles < enough ? enough : tiles;
}

/* *room := what lies behind the workspace of the frames, `each` bytes for every item. */
static pith_status behind(const pith_cuda_plan *c, const struct pithi_gpu_call *a,
                          const pith_cuda_items *items, uint64_t each, uint8_t **room,
                          pith_error *error) {
    const uint64_t frame = PITHI_MARK_BYTES + pithi_workspace_bytes(&c->plan);
    const uint64_t frames = items->count * a->per_item * frame, more = items->count * each;
    const struct pithi_words words = {.number = {frames, more}};
    if (items->workspace_bytes - frames < more)
        return pithi_fail_with(error, PITH_ERR_SPACE, frames + more,
                               "the call needs a workspace of # bytes and # behind it", &words);
    *room = a->predict.workspace + frames;
    return PITH_OK;
}

/* Whether what is sent are coefficients of the values. */
static bool transforms(const pith_cuda_plan *c) { return c->plan.device.sets.run > 1; }

/* The items of a call have their coefficients in its workspace. */
static void place_coefficients(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                               const pith_cuda_items *items) {
    a->sparse.coefficients = a->predict.workspace + items->count * a->per_item * PITHI_MARK_BYTES +
                             pithi_workspace_coefficients(&c->plan);
    a->sparse.coefficients_stride = a->per_item * pithi_workspace_bytes(&c->plan);
}

/* Launches see coefficients in place of tensors. */
static void see_coefficients(const struct pithi_gpu_call *a, struct pithi_gpu_items *items) {
    items->tensors = NULL;
    items->tensor = a->sparse.coefficients;
    items->tensor_stride = a->sparse.coefficients_stride;
    items->dtype = PITH_F32;
}

/* Has launches that follow see the coefficients of tensors. */
static pith_status enter(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                         const pith_cuda_items *items, void *cuda_stream, pith_error *error) {
    place_coefficients(c, a, items);
    const pith_status status =
        over_values(c, PITHI_GPU_sparse_enter, a, items->count, cuda_stream, error);
    see_coefficients(a, &a->to.items);
    return status;
}

pith_status pithi_cuda_sparse_encode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error) {
    const uint64_t n = items->count, blocks = c->plan.most_blocks;
    const bool chooses = !a->sparse.sends;
    pith_status status = pithi_cuda_open_workspace(c, a, items, cuda_stream, error);
    if (status == PITH_OK && !chooses)
        status = behind(c, a, items, pithi_workspace_whole(&c->plan), &a->sparse.scratch, error);
    if (status == PITH_OK) status = launch(c, PITHI_GPU_sparse_begin, a, 1, n, cuda_stream, error);
    if (status == PITH_OK && transforms(c) && !a->sparse.entered)
        status = enter(c, a, items, cuda_stream, error);
    if (status == PITH_OK && chooses) status = ask(c, a, n, cuda_stream, error);
    for (a->sparse.round = 0; a->sparse.round < 2; a->sparse.round++) {
        if (a->sparse.round && !(chooses && may_overflow(c))) break;
        if (status == PITH_OK && chooses && (a->sparse.round || asks_for_kth(c)))
            status = find_kth(c, a, n, cuda_stream, error);
        if (status == PITH_OK && (chooses || c->plan.device.decay))
            status = over_values(c, PITHI_GPU_sparse_map, a, n, cuda_stream, error);
    }
    if (status == PITH_OK && chooses && c->plan.device.sets.rows)
        status = launch(c, PITHI_GPU_sparse_rows, a, row_teams(c), n, cuda_stream, error);
    if (status == PITH_OK && chooses && c->plan.device.sets.unit)
        status = over_values(c, PITHI_GPU_sparse_units, a, n, cuda_stream, error);
    if (status == PITH_OK) status = over_values(c, PITHI_GPU_sparse_cut, a, n, cuda_stream, error);
    if (status == PITH_OK) status = launch(c, PITHI_GPU_sparse_list, a, 1, n, cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, PITHI_GPU_sparse_code, a, blocks, n, cuda_stream, error);
    if (status == PITH_OK) status = launch(c, PITHI_GPU_sparse_place, a, 1, n, cuda_stream, error);
    return status == PITH_OK ? launch(c, PITHI_GPU_sparse_write, a, blocks, n, cuda_stream, error)
                             : status;
}

/* Launches the checks of all frames of a call. */
static pith_status check(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                         const pith_cuda_items *items, void *cuda_stream, pith_error *error) {
    pith_status status = pithi_cuda_open_workspace(c, a, items, cuda_stream, error);
    if (status != PITH_OK) return status;
    const uint64_t frames = items->count * a->per_item;
    status = launch(c, PITHI_GPU_sparse_check, a, 1, frames, cuda_stream, error);
    if (status != PITH_OK) return status;
    return launch(c, PITHI_GPU_sparse_judge, a, c->plan.most_blocks, frames, cuda_stream, error);
}

/* Launches what writes the values of frames that were checked. */
static pith_status write_values(const pith_cuda_plan *c, struct pithi_gpu_call *a, uint64_t items,
                                void *cuda_stream, pith_error *error) {
    pith_status status = PITH_OK;
    if (!a->add || transforms(c))
        status = over_parts(c, PITHI_GPU_sparse_zero, a, items, cuda_stream, error);
    if (status != PITH_OK) return status;
    return launch(c, PITHI_GPU_sparse_decode, a, c->plan.most_blocks, items, cuda_stream, error);
}

pith_status pithi_cuda_sparse_decode(const pith_cuda_plan *c, struct pithi_gpu_call *a, bool verify,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error) {
    pith_status status = check(c, a, items, cuda_stream, error);
    if (status != PITH_OK) return status;
    if (verify) return launch(c, PITHI_GPU_sparse_answer, a, 1, items->count, cuda_stream, error);
    if (!transforms(c)) return write_values(c, a, items->count, cuda_stream, error);
    place_coefficients(c, a, items);
    struct pithi_gpu_call values = *a;
    see_coefficients(a, &values.from.items);
    status = write_values(c, &values, items->count, cuda_stream, error);
    if (status != PITH_OK) return status;
    return over_values(c, PITHI_GPU_sparse_leave, a, items->count, cuda_stream, error);
}

/* Launches the sums of frames that were checked. */
static pith_status sum_up(const pith_cuda_plan *c, struct pithi_gpu_call *a, uint64_t items,
                          void *cuda_stream, pith_error *error) {
    pith_status status = over_parts(c, PITHI_GPU_sparse_sums, a, items, cuda_stream, error);
    if (status == PITH_OK)
        status =
            launch(c, PITHI_GPU_sparse_reduce, a, c->plan.most_blocks, items, cuda_stream, error);
    if (status != PITH_OK || (!a->sparse.sums && a->scale == 1.0f)) return status;
    return over_parts(c, PITHI_GPU_sparse_round, a, items, cuda_stream, error);
}

/* The same of coefficients, where a->sparse says, and of these the values. */
static pith_status sum_coefficients(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    uint64_t items, void *cuda_stream, pith_error *error) {
    struct pithi_gpu_call sums = *a;
    sums.scale = 1;
    see_coefficients(a, &sums.from.items);
    const pith_status status = sum_up(c, &sums, items, cuda_stream, error);
    if (status != PITH_OK) return status;
    return over_values(c, PITHI_GPU_sparse_leave, a, items, cuda_stream, error);
}

pith_status pithi_cuda_sparse_reduce(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error) {
    pith_status status = check(c, a, items, cuda_stream, error);
    if (status == PITH_OK && transforms(c)) {
        place_coefficients(c, a, items);
        return sum_coefficients(c, a, items->count, cuda_stream, error);
    }
    if (status == PITH_OK && items->dtype != PITH_F32)
        status = behind(c, a, items, pithi_cuda_sum_bytes(&c->plan), &a->sparse.sums, error);
    return status == PITH_OK ? sum_up(c, a, items->count, cuda_stream, error) : status;
}

pith_status pithi_cuda_sparse_recode(const pith_cuda_plan *c, const struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, const pith_cuda_plan *out,
                                     const pith_cuda_items *made, void *cuda_stream,
                                     pith_error *error) {
    struct pithi_gpu_call sums = *a, encode = *a;
    const bool alike = c->plan.device.sets.run == out->plan.device.sets.run;
    uint8_t *room = NULL;
    sums.update = false; /* until the sums are encoded */
    pith_status status = check(c, &sums, items, cuda_stream, error);
    if (status == PITH_OK)
        status = behind(c, &sums, items, pithi_cuda_sum_bytes(&c->plan), &room, error);
    if (status != PITH_OK) return status;
    sums.sparse.coefficients = room;
    sums.sparse.coefficients_stride = pithi_cuda_sum_bytes(&c->plan);
    see_coefficients(&sums, &sums.from.items);
    see_coefficients(&sums, &encode.to.items);
    encode.sparse.entered = alike;
    encode.sparse.summands = a->per_item;
    encode.sparse.marks = sums.predict.workspace;
    encode.per_item = 1;
    encode.scale = 1;
    status = transforms(c) && !alike ? sum_coefficients(c, &sums, items->count, cuda_stream, error)
                                     : sum_up(c, &sums, items->count, cuda_stream, error);
    if (status != PITH_OK) return status;
    return pithi_cuda_sparse_encode(out, &encode, made, cuda_stream, error);
}

pith_status pithi_cuda_sparse_hold(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                   bool intersection, const pith_cuda_items *items,
                                   void *cuda_stream, pith_error *error) {
    pith_status status = check(c, a, items, cuda_stream, error);
    if (status == PITH_OK && intersection)
        status = behind(c, a, items, pithi_cuda_set_bytes(&c->plan), &a->sparse.scratch, error);
    if (status != PITH_OK) return status;
    return launch(c, PITHI_GPU_sparse_hold, a, c->plan.most_blocks, items->count, cuda_stream,
                  error);
}

/* Nobody knows on the host how many elements are listed: a team for as many as the largest slot has
 * tiles, which take them by turns. */
pith_status pithi_cuda_sparse_hold_elements(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                            const pith_cuda_items *items, void *cuda_stream,
                                            pith_error *error) {
    const uint64_t n = items->count, tiles = c->plan.most / PITHI_TILE;
    pith_status status = pithi_cuda_open_workspace(c, a, items, cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, PITHI_GPU_sparse_listed, a, tiles, n, cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, PITHI_GPU_sparse_empty, a, tiles, n, cuda_stream, error);
    if (status != PITH_OK) return status;
    return launch(c, PITHI_GPU_sparse_mark, a, tiles, n, cuda_stream, error);
}

pith_status pithi_cuda_sparse_move(const pith_cuda_plan *c, struct pithi_gpu_call *a, bool adds,
                                   const pith_cuda_items *items, void *cuda_stream,
                                   pith_error *error) {
    const uint64_t n = items->count, blocks = c->plan.most_blocks;
    pith_status status = pithi_cuda_open_workspace(c, a, items, cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, PITHI_GPU_sparse_held, a, blocks, n, cuda_stream, error);
    if (status == PITH_OK) status = launch(c, PITHI_GPU_sparse_list, a, 1, n, cuda_stream, error);
    if (status != PITH_OK) return status;
    return launch(c, adds ? PITHI_GPU_sparse_scatter : PITHI_GPU_sparse_gather, a, blocks, n,
                  cuda_stream, error);
}

pith_status pithi_cuda_sparse_clear(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    const pith_cuda_items *items, void *cuda_stream,
                                    pith_error *error) {
    return over_values(c, PITHI_GPU_sparse_clear, a, items->count, cuda_stream, error);
}

pith_status pithi_cuda_sparse_slots(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    const pith_cuda_items *items, void *cuda_stream,
                                    pith_error *error) {
    const enum pithi_gpu_kernel kernel = a->sparse.states   ? PITHI_GPU_sparse_state
                                         : a->sparse.chosen ? PITHI_GPU_sparse_report
                                                            : PITHI_GPU_sparse_request;
    const pith_status status = launch(c, kernel, a, 1, items->count, cuda_stream, error);
    if (status != PITH_OK || !a->sparse.states) return status;
    return over_values(c, PITHI_GPU_sparse_tally, a, items->count, cuda_stream, error);
}
