/* coded.c - calls on entropy-coded items: launches around those of groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of each frame the workspace has what a check leaves of it, then a pointer to its staging buffer,
 * both side by side for all frames, in PITHI_BESIDE bytes; then its part, see
 * device/bytes/memory.h. */
#include "coded.h"

#include "device/bytes/memory.h"
#include "launch.h"

enum { PITHI_BESIDE = 256 };
_Static_assert(sizeof(struct pithi_gpu_checked) + sizeof(uint8_t *) <= PITHI_BESIDE, "they fit");

uint64_t pithi_cuda_coded_bytes(const struct pithi_device_plan *t) {
    return PITHI_BESIDE + pithi_coding_layout(t).each;
}

/* Takes the workspace of a call. */
static pith_status open(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                        const pith_cuda_items *items, pith_error *error) {
    const struct pithi_device_plan *const t = &c->plan;
    uint64_t frames;
    const pith_status status = pithi_cuda_workspace(a, items, pithi_cuda_coded_bytes(t),
                                                    PITHI_CUDA_ALIGNMENT, &frames, error);
    if (status != PITH_OK) return status;
    uint8_t *const beside = items->workspace;
    a->coding = pithi_coding_layout(t);
    a->coding.memory = beside + frames * PITHI_BESIDE;
    a->coding.frames = (uint8_t **)(void *)(beside + frames * sizeof(struct pithi_gpu_checked));
    return PITH_OK;
}

/* The launches besides those that all have. parts: 0 where a block has one string; else how many of
 * a block may be left to be read by the launch of strings. */
struct translation {
    uint64_t parts;
    enum pithi_gpu_kernel spread, measure, write, read, join;
};
static struct translation translation_of(const pith_cuda_plan *c) {
    const struct pithi_device_plan *const t = &c->plan;
    switch (t->device.kind) {
    case PITHI_KIND_PAGES:
        return (struct translation){t->device.pages.most_heads, PITHI_GPU_rans_spread,
                                    PITHI_GPU_rans_measure,     PITHI_GPU_rans_page,
                                    PITHI_GPU_rans_planes,      PITHI_GPU_rans_join};
    case PITHI_KIND_RAW:
        return (struct translation){pithi_lossless_parts(t),    PITHI_GPU_lossless_cut,
                                    PITHI_GPU_lossless_measure, PITHI_GPU_lossless_write,
                                    PITHI_GPU_lossless_read,    PITHI_GPU_lossless_join};
    default: return (struct translation){.write = PITHI_GPU_rans_write};
    }
}

/* What kernels of groups are given in place of the call's frames. */
static void stage(struct pithi_gpu_items *items, const struct pithi_gpu_coding *coding) {
    items->frame = NULL;
    items->frames = coding->frames;
}

/* Begins launches on strings: `strings` is the call as they see it, which stays what it is for
 * kernels of groups. */
static struct pithi_cuda_launches begin(const pith_cuda_plan *c, const struct pithi_gpu_call *a,
                                        struct pithi_gpu_call *strings, uint64_t items,
                                        void *cuda_stream, pith_error *error) {
    *strings = *a;
    strings->memory = PITHI_MEMORY_STRINGS;
    return (struct pithi_cuda_launches){c, strings, items, cuda_stream, error, PITH_OK};
}

/* Makes strings of what the staging buffers have; of exact values those of so many forms, from
 * `form` on. */
static void make_strings(struct pithi_cuda_launches *l, uint32_t form, uint32_t tried) {
    const uint64_t blocks = l->cuda->plan.most_blocks;
    const struct translation by = translation_of(l->cuda);
    struct pithi_gpu_coding *const coding = &l->call->coding;
    const uint64_t strings = by.parts ? blocks * tried * coding->strings : blocks;
    coding->form = form;
    coding->tried = tried;
    if (by.parts) pithi_launch_teams(l, by.spread, blocks * tried);
    pithi_launch_teams(l, PITHI_GPU_rans_encode, pithi_cuda_shares(strings, PITHI_RANS_WRITERS));
    if (by.parts) pithi_launch_blocks(l, by.measure);
}

pith_status pithi_cuda_coded_encode(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                                    struct pithi_gpu_call *a, const pith_cuda_items *items,
                                    void *cuda_stream, pith_error *error) {
    const uint64_t n = items->count;
    const pith_status status = open(c, a, items, error);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call groups = *a, strings;
    struct pithi_cuda_launches l =
        begin(c, a, &strings, pithi_cuda_shares(n, PITHI_TEAM), cuda_stream, error);
    pithi_launch_teams(&l, PITHI_GPU_rans_aim, 1);
    if (l.status != PITH_OK) return l.status;
    stage(&groups.to.items, &a->coding);
    groups.to.plan.checksums = false; /* they are those of the strings */
    /* A base changes with the codes, so that space is needed before their lengths are known. */
    if (!pithi_cuda_has_base(&c->plan)) groups.to.items.capacity = UINT64_MAX;
    l.status = pithi_cuda_launch(c, kernel, &groups, n, cuda_stream, error);
    l.items = n;
    const bool updates =
        c->plan.device.kind == PITHI_KIND_RAW && pithi_cuda_has_base(&c->plan) && !a->key;
    if (updates) make_strings(&l, PITHI_FORM_UPDATE, 1);
    make_strings(&l, PITHI_FORM_VALUES, updates ? 2 : 1);
    pithi_launch_teams(&l, PITHI_GPU_rans_place, 1);
    pithi_launch_blocks(&l, translation_of(c).write);
    return l.status;
}

pith_status pithi_cuda_coded_read(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                  const pith_cuda_items *items, void *cuda_stream,
                                  pith_error *error) {
    const struct translation by = translation_of(c);
    const uint64_t strings = c->plan.most_blocks * (by.parts ? by.parts : 1);
    const pith_status status = open(c, a, items, error);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call read;
    struct pithi_cuda_launches l =
        begin(c, a, &read, items->count * a->per_item, cuda_stream, error);
    pithi_launch_teams(&l, PITHI_GPU_rans_index, 1);
    if (by.parts) pithi_launch_blocks(&l, by.read);
    pithi_launch_teams(&l, PITHI_GPU_rans_decode, pithi_cuda_shares(strings, PITHI_RANS_READERS));
    if (by.parts) pithi_launch_blocks(&l, by.join);
    stage(&a->from.items, &a->coding);
    return l.status;
}
