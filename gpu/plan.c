/* plan.c - device plans: their sizes, their memory on the device, their life.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include "caller.h"
#include "coded.h"
#include "device/predict/workspace.h"
#include "launch.h"

/* ---- Errors ----------------------------------------------------------------------------------*/

pith_status pithi_cuda_status(int number, pith_error *error) {
    if (number == 0) return PITH_OK;
    return pithi_fail_at(error, pithi_gpu_too_old(number) ? PITH_ERR_UNSUPPORTED : PITH_ERR_DEVICE,
                         pithi_gpu_error_string(number), (uint64_t)number);
}

pith_status pithi_cuda_null(const char *name, pith_error *error) {
    const struct pithi_words words = {.name = {name}};
    return pithi_fail_with(error, PITH_ERR_ARG, 0, "$ is NULL", &words);
}

pith_status pith_cuda_available(int device, pith_error *error) {
    uint32_t processors;
    pithi_clear(error);
    return pithi_cuda_status(pithi_gpu_open(device, &processors), error);
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

uint64_t pithi_cuda_stream_bytes(const struct pithi_device_plan *t) {
    uint64_t bytes = pithi_stream_memory_at(t);
    if (pithi_cuda_has_base(t) && !t->external)
        bytes += t->count * pithi_dtype_bytes(t->base_dtype);
    if (t->device.kind == PITHI_KIND_SETS)
        return pithi_stream_maps_at(t) + pithi_stream_maps_bytes(t);
    if (t->device.feedback) bytes += 2 * sizeof(float) * t->count;
    return bytes;
}

uint64_t pithi_cuda_sum_bytes(const struct pithi_device_plan *t) {
    return t->device.kind == PITHI_KIND_SETS ? pithi_workspace_whole(t) : 0;
}

uint64_t pithi_cuda_set_bytes(const struct pithi_device_plan *t) {
    return t->device.kind == PITHI_KIND_SETS ? pithi_workspace_map(t) : 0;
}

static uint64_t workspace_bytes(const struct pithi_device_plan *t) {
    if (t->device.kind == PITHI_KIND_BOUNDED || t->device.kind == PITHI_KIND_ROWS ||
        t->device.kind == PITHI_KIND_ZEROS || t->device.kind == PITHI_KIND_SETS)
        return pithi_cuda_blocks_bytes(t);
    if (t->device.coded) return pithi_cuda_coded_bytes(t);
    const bool checks =
        t->checksums || t->longest_header > PITHI_SHORT_HEADER || t->device.base_hash;
    return checks ? sizeof(struct pithi_gpu_checked) : 0;
}

/* Reads the beginning of a device plan, if this library can read it. */
static pith_status head_of(const pith_plan *plan, struct pithi_device_plan *head,
                           pith_error *error) {
    size_t bytes;
    const pith_status status = pithi_device_plan_write(plan, head, sizeof *head, &bytes, error);
    if (status != PITH_OK || head->version == PITHI_DEVICE_PLAN_VERSION) return status;
    return pithi_fail_at(error, PITH_ERR_UNSUPPORTED, "libpith is of another version",
                         head->version);
}

pith_status pith_cuda_plan_sizes(const pith_plan *plan, pith_cuda_sizes *out, pith_error *error) {
    struct pithi_device_plan head;
    pithi_clear(error);
    if (!plan) return pithi_cuda_null("plan", error);
    if (!out) return pithi_cuda_null("out", error);
    const pith_status status = head_of(plan, &head, error);
    if (status != PITH_OK) return status;
    const pith_cuda_sizes sizes = {.plan_bytes = head.bytes,
                                   .stream_bytes = pithi_cuda_stream_bytes(&head),
                                   .workspace_bytes = workspace_bytes(&head),
                                   .alignment = PITHI_CUDA_ALIGNMENT,
                                   .sum_bytes = pithi_cuda_sum_bytes(&head),
                                   .set_bytes = pithi_cuda_set_bytes(&head)};
    if (pithi_give(out, &sizes, sizeof sizes) == PITH_OK) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "the size of the sizes is not set");
}

/* ---- Life ------------------------------------------------------------------------------------*/

static pith_status upload(pith_cuda_plan *c, const pith_plan *plan, void *memory, void *cuda_stream,
                          pith_error *error) {
    size_t bytes = (size_t)c->plan.bytes;
    c->image = pithi_env_alloc(&c->env, bytes);
    if (!c->image)
        return pithi_fail_at(error, PITH_ERR_MEMORY, "no memory for the device plan", bytes);
    const pith_status made = pithi_device_plan_write(plan, c->image, bytes, &bytes, error);
    if (made != PITH_OK) return made;
    const pith_status opened = pithi_cuda_status(pithi_gpu_open(c->device, &c->processors), error);
    if (opened != PITH_OK) return opened;
    return pithi_cuda_status(pithi_gpu_copy(c->device, memory, c->image, bytes, cuda_stream),
                             error);
}

pith_status pith_cuda_plan_create(const pith_cuda_plan **cuda, const pith_plan *plan,
                                  const pith_env *env, int device, void *memory, size_t bytes,
                                  void *cuda_stream, pith_error *error) {
    struct pithi_device_plan head;
    pith_env e;
    pithi_clear(error);
    if (!cuda) return pithi_cuda_null("cuda", error);
    *cuda = NULL;
    if (!plan) return pithi_cuda_null("plan", error);
    pith_status status = head_of(plan, &head, error);
    if (status == PITH_OK) status = pithi_env_take(&e, env, error);
    if (status != PITH_OK) return status;
    if (!memory) return pithi_cuda_null("memory", error);
    if ((uintptr_t)memory % PITHI_CUDA_ALIGNMENT)
        return pithi_fail_at(error, PITH_ERR_ARG, "the plan's memory is not aligned",
                             PITHI_CUDA_ALIGNMENT);
    if (bytes < head.bytes) {
        const struct pithi_words words = {.number = {head.bytes, bytes}};
        return pithi_fail_with(error, PITH_ERR_SPACE, head.bytes,
                               "the plan needs # bytes of device memory, # given", &words);
    }
    pith_cuda_plan *const c = pithi_env_alloc(&e, sizeof *c);
    if (!c) return pithi_fail_at(error, PITH_ERR_MEMORY, "no memory for the plan", sizeof *c);
    *c = (pith_cuda_plan){.plan = head, .device_memory = memory, .device = device, .env = e};
    status = upload(c, plan, memory, cuda_stream, error);
    if (status == PITH_OK)
        *cuda = c;
    else
        pith_cuda_plan_destroy(c);
    return status;
}

void pith_cuda_plan_destroy(const pith_cuda_plan *c) {
    if (!c) return;
    const pith_env e = c->env;
    if (c->image) pithi_env_release(&e, c->image, (size_t)c->plan.bytes);
    pithi_env_release(&e, (void *)(uintptr_t)c, sizeof *c);
}
