/* predict.c - calls on items of codecs with a bound: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

#include "device/bytes/memory.h"
#include "launch.h"

/* Launches a kernel of a team for every frame. */
static void of_frames(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel) {
    pithi_launch_teams(l, kernel, 1);
}
/* Launches a kernel that translates to or from strings, a team for each of so many things. */
static void of_strings(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel,
                       uint64_t teams) {
    l->call->memory = PITHI_MEMORY_STRINGS;
    pithi_launch_teams(l, kernel, teams);
    l->call->memory = PITHI_MEMORY_BLOCKS;
}
/* Launches one that works on words, a team for every sequence of the blocks. */
static void of_sequences(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel) {
    const uint32_t sequences = pithi_coding_sequences(&l->cuda->plan);
    l->call->predict.parts = sequences;
    of_strings(l, kernel, l->cuda->plan.most_blocks * sequences);
    l->call->predict.parts = 1;
}

static bool has_rows(const pith_cuda_plan *c) { return c->plan.device.kind == PITHI_KIND_ROWS; }
static bool has_zeros(const pith_cuda_plan *c) { return c->plan.device.kind == PITHI_KIND_ZEROS; }

/* What blocks come to that have strings: how they are cut, the strings, their lengths. */
static void code_strings(struct pithi_cuda_launches *l, enum pithi_gpu_kernel cut,
                         enum pithi_gpu_kernel measure) {
    const uint64_t blocks = l->cuda->plan.most_blocks;
    const uint64_t strings = blocks * l->call->coding.tried * l->call->coding.strings;
    of_sequences(l, cut);
    of_strings(l, PITHI_GPU_rans_encode, pithi_cuda_shares(strings, PITHI_RANS_WRITERS));
    of_strings(l, measure, blocks);
}
/* Codes, and what each block will look like. */
static void plan_blocks(struct pithi_cuda_launches *l) {
    pithi_launch_parts(l, PITHI_GPU_bounded_code);
    if (l->cuda->plan.device.coded) {
        pithi_launch_blocks(l, PITHI_GPU_coded_plan);
        if (pithi_interpolates(&l->cuda->plan)) pithi_launch_blocks(l, PITHI_GPU_interp_plan);
        pithi_launch_parts(l, PITHI_GPU_coded_words);
        code_strings(l, PITHI_GPU_strings_cut, PITHI_GPU_eb_measure);
        return;
    }
    if (pithi_workspace_parts(&l->cuda->plan) == 1) return;
    pithi_launch_parts(l, PITHI_GPU_bounded_sample);
    pithi_launch_parts(l, PITHI_GPU_bounded_widths);
    pithi_launch_blocks(l, PITHI_GPU_bounded_plan);
}
static void plan_rows(struct pithi_cuda_launches *l) {
    pithi_launch_parts(l, PITHI_GPU_rows_code);
    pithi_launch_parts(l, PITHI_GPU_rows_meet);
    pithi_launch_parts(l, PITHI_GPU_rows_first);
    pithi_launch_parts(l, PITHI_GPU_rows_name);
    pithi_launch_parts(l, PITHI_GPU_rows_numbers);
    pithi_launch_parts(l, PITHI_GPU_rows_widths);
    pithi_launch_blocks(l, PITHI_GPU_rows_plan);
    if (l->cuda->plan.device.coded) code_strings(l, PITHI_GPU_strings_cut, PITHI_GPU_embed_measure);
}
static void plan_zeros(struct pithi_cuda_launches *l) {
    pithi_launch_blocks(l, PITHI_GPU_zeros_code);
    if (l->cuda->plan.device.coded) code_strings(l, PITHI_GPU_act_cut, PITHI_GPU_act_measure);
}
/* Decodes the parts of frames that are entropy-coded, before the rest is looked at. */
static void read_strings(struct pithi_cuda_launches *l) {
    const struct pithi_device_plan *const t = &l->cuda->plan;
    const uint64_t strings = t->most_blocks * l->call->coding.tried * pithi_lossless_parts(t);
    const enum pithi_gpu_kernel read = has_zeros(l->cuda)  ? PITHI_GPU_act_read
                                       : has_rows(l->cuda) ? PITHI_GPU_embed_read
                                                           : PITHI_GPU_eb_read;
    of_strings(l, read, t->most_blocks);
    of_strings(l, PITHI_GPU_rans_decode, pithi_cuda_shares(strings, PITHI_RANS_READERS));
    of_sequences(l, PITHI_GPU_strings_join);
}

pith_status pithi_cuda_bounded_encode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error) {
    const struct pithi_requested *const requested = &c->plan.device.requested;
    const bool look = requested->target == PITHI_TARGET_PWREL ||
                      (requested->target == PITHI_TARGET_REL && !(requested->range > 0));
    struct pithi_cuda_launches l = pithi_cuda_blocks_open(c, a, items, cuda_stream, error);
    if (l.status == PITH_OK && look) {
        pithi_cuda_divide(a, c, items->count, c->plan.most);
        l.status =
            pithi_cuda_launch(c, PITHI_GPU_bounded_range, a, items->count, cuda_stream, error);
    }
    if (has_rows(c))
        plan_rows(&l);
    else if (has_zeros(c))
        plan_zeros(&l);
    else
        plan_blocks(&l);
    of_frames(&l, PITHI_GPU_bounded_place);
    if (has_zeros(c))
        pithi_launch_blocks(&l, PITHI_GPU_zeros_write);
    else
        pithi_launch_parts(&l, has_rows(c) ? PITHI_GPU_rows_write : PITHI_GPU_bounded_write);
    if (c->plan.device.coded)
        of_sequences(&l, has_zeros(c) ? PITHI_GPU_act_write : PITHI_GPU_strings_write);
    if (c->plan.checksums) pithi_launch_blocks(&l, PITHI_GPU_bounded_sum);
    return l.status;
}

/* The most dimensions of more than one element that a slot has. */
static uint32_t dimensions(const pith_cuda_plan *c) {
    const struct pithi_device_plan *const t = &c->plan;
    const struct pithi_device_plan_slot *const slots =
        (const struct pithi_device_plan_slot *)(const void *)(c->image + t->slots_at);
    uint32_t most = 1;
    for (uint64_t i = 0; i < t->slots; i++)
        for (uint32_t d = 0; d < PITHI_TILE_NDIM - most; d++)
            if (slots[i].tiling.shape[d] > 1) most = PITHI_TILE_NDIM - d;
    return most;
}

pith_status pithi_cuda_bounded_decode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      bool verify, const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error) {
    struct pithi_cuda_launches l = pithi_cuda_blocks_open(c, a, items, cuda_stream, error);
    of_frames(&l, PITHI_GPU_bounded_check);
    if (c->plan.device.coded) read_strings(&l);
    if (has_zeros(c))
        pithi_launch_blocks(&l, PITHI_GPU_zeros_judge);
    else
        pithi_launch_parts(&l, has_rows(c) ? PITHI_GPU_rows_judge : PITHI_GPU_bounded_judge);
    if (verify) {
        of_frames(&l, PITHI_GPU_bounded_answer);
    } else if (has_zeros(c)) {
        pithi_launch_blocks(&l, PITHI_GPU_zeros_decode);
    } else if (has_rows(c)) {
        pithi_launch_parts(&l, PITHI_GPU_rows_unpack);
        pithi_launch_parts(&l, PITHI_GPU_rows_decode);
    } else {
        const uint32_t order = pithi_workspace_parts(&c->plan) > 1 ? dimensions(c) : 1;
        if (pithi_interpolates(&c->plan)) pithi_launch_blocks(&l, PITHI_GPU_interp_decode);
        pithi_launch_parts(&l, PITHI_GPU_bounded_decode);
        for (a->predict.dimension = 1; a->predict.dimension < order; a->predict.dimension++)
            pithi_launch_parts(&l, PITHI_GPU_bounded_along);
        if (order > 1) pithi_launch_parts(&l, PITHI_GPU_bounded_values);
    }
    return l.status;
}
