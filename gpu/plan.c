/* plan.c - device plans: their sizes, their table on the device, their life.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/pad.h"

pith_status pithi_cuda_status(int number, pith_error *error) {
    if (number == 0) return PITH_OK;
    return pithi_cuda_fail(error,
                           pithi_gpu_too_old(number) ? PITH_ERR_UNSUPPORTED : PITH_ERR_DEVICE,
                           pithi_gpu_text(number), (uint64_t)number);
}

pith_status pith_cuda_available(int device, pith_error *error) {
    uint32_t processors;
    return pithi_cuda_status(pithi_gpu_open(device, &processors), error);
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

uint64_t pithi_cuda_state_bytes(const struct pithi_device_plan *t) {
    if (!pithi_cuda_has_base(t) && !t->device.counts && !t->device.set.stochastic) return 0;
    uint64_t bytes = pithi_state_memory_at(t);
    if (pithi_cuda_has_base(t) && !t->external) bytes += t->count * pithi_width(t->base_dtype);
    if (t->device.decay) bytes += 2 * sizeof(float) * t->count;
    return bytes;
}

static void sizes_of(const struct pithi_device_plan *t, pith_cuda_sizes *out) {
    const bool checks =
        t->checksums || t->longest_header > PITHI_SHORT_HEADER || t->device.base_hash;
    *out = (pith_cuda_sizes){.table_bytes = t->bytes,
                             .state_bytes = pithi_cuda_state_bytes(t),
                             .workspace_bytes = t->device.kind == PITHI_DEVICE_bounded ||
                                                        t->device.kind == PITHI_DEVICE_rows
                                                    ? PITHI_MARK_BYTES + pithi_room_bytes(t)
                                                : checks ? sizeof(struct pithi_gpu_work)
                                                         : 0,
                             .alignment = PITHI_CUDA_ALIGNMENT};
}

/* The table's beginning, if this library can read it. */
static pith_status head_of(const pith_plan *plan, struct pithi_device_plan *head,
                           pith_error *error) {
    size_t bytes;
    const pith_status status = pithi_device_plan_write(plan, head, sizeof *head, &bytes, error);
    if (status != PITH_OK || head->version == PITHI_TABLE_VERSION) return status;
    return pithi_cuda_fail(error, PITH_ERR_UNSUPPORTED, "libpith is of another version",
                           head->version);
}

pith_status pith_cuda_plan_sizes(const pith_plan *plan, pith_cuda_sizes *out, pith_error *error) {
    struct pithi_device_plan table;
    if (!plan || !out) return PITH_ERR_ARG;
    const pith_status status = head_of(plan, &table, error);
    if (status == PITH_OK) sizes_of(&table, out);
    return status;
}

/* ---- Life ------------------------------------------------------------------------------------*/

static pith_env environment(const pith_env *env) {
    pith_env e = {0};
    if (env) memcpy(&e, env, env->size < sizeof e ? env->size : sizeof e);
    return e;
}

void *pithi_cuda_take(const pith_env *e, size_t bytes) {
    return e->alloc ? e->alloc(e->alloc_user, bytes, 64) : malloc(bytes);
}

void pithi_cuda_give(const pith_env *e, void *p, size_t bytes) {
    if (!p) return;
    if (e->alloc)
        e->release(e->alloc_user, p, bytes);
    else
        free(p);
}

static pith_status upload(pith_cuda_plan *c, const pith_plan *plan, void *table, void *stream) {
    size_t bytes = (size_t)c->table.bytes;
    c->image = pithi_cuda_take(&c->env, bytes);
    if (!c->image)
        return pithi_cuda_fail(&c->error, PITH_ERR_MEMORY, "no memory for the table", bytes);
    const pith_status made = pithi_device_plan_write(plan, c->image, bytes, &bytes, &c->error);
    if (made != PITH_OK) return made;
    const pith_status opened =
        pithi_cuda_status(pithi_gpu_open(c->device, &c->processors), &c->error);
    if (opened != PITH_OK) return opened;
    return pithi_cuda_status(pithi_gpu_copy(c->device, table, c->image, bytes, stream), &c->error);
}

pith_status pith_cuda_plan_create(pith_cuda_plan **cuda, const pith_plan *plan, const pith_env *env,
                                  int device, void *table, size_t bytes, void *stream,
                                  pith_error *error) {
    pith_cuda_sizes sizes;
    if (!cuda || !plan) return PITH_ERR_ARG;
    *cuda = NULL;
    pith_status status = pith_cuda_plan_sizes(plan, &sizes, error);
    if (status != PITH_OK) return status;
    if (!table || (uintptr_t)table % PITHI_CUDA_ALIGNMENT)
        return pithi_cuda_fail(error, PITH_ERR_ARG, "the table's memory is not aligned",
                               PITHI_CUDA_ALIGNMENT);
    if (bytes < sizes.table_bytes)
        return pithi_cuda_fail(error, PITH_ERR_SPACE, "the table does not fit", sizes.table_bytes);
    const pith_env e = environment(env);
    pith_cuda_plan *c = pithi_cuda_take(&e, sizeof *c);
    if (!c) return pithi_cuda_fail(error, PITH_ERR_MEMORY, "no memory for the plan", sizeof *c);
    memset(c, 0, sizeof *c);
    c->env = e;
    c->device = device;
    c->device_table = table;
    c->error.text = "";
    status = head_of(plan, &c->table, &c->error);
    if (status == PITH_OK) status = upload(c, plan, table, stream);
    if (status == PITH_OK) {
        *cuda = c;
        return PITH_OK;
    }
    if (error) *error = c->error;
    pith_cuda_plan_destroy(c);
    return status;
}

void pith_cuda_plan_destroy(pith_cuda_plan *c) {
    if (!c) return;
    const pith_env e = c->env;
    pithi_cuda_give(&e, c->image, (size_t)c->table.bytes);
    pithi_cuda_give(&e, c, sizeof *c);
}

pith_error pith_cuda_plan_error(const pith_cuda_plan *c) { return c->error; }
