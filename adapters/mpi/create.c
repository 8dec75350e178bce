/* create.c - make a channel, with the agreement of all ranks, and take it apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* ---- Options ---------------------------------------------------------------------------------*/

static pith_status fail(pith_error *error, pith_status status, const char *text) {
    pithi_mpi_say(error, "%s", text);
    return status;
}

/* Older and newer callers: what they do not know is 0, what this does not know must be. */
static pith_status copy_options(pith_mpi_options *to, const pith_mpi_options *from,
                                pith_error *error) {
    *to = (pith_mpi_options){0};
    if (!from || from->size < offsetof(pith_mpi_options, count))
        return fail(error, PITH_ERR_ARG, "options are NULL, or their size is not set");
    if (from->size > 4096) return fail(error, PITH_ERR_ARG, "options have an impossible size");
    const unsigned char *bytes = (const void *)from;
    for (size_t i = sizeof *to; i < from->size; i++)
        if (bytes[i]) return fail(error, PITH_ERR_UNSUPPORTED, "options of a newer pith_mpi");
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return PITH_OK;
}

static bool is_sum(const pith_mpi_options *o) {
    return o->kind == PITH_MPI_REDUCE_SCATTER || o->kind == PITH_MPI_ALLREDUCE;
}

static pith_status check_sum(const pith_mpi_options *o, pith_error *error) {
    if (o->dtype != PITH_F32 && o->dtype != PITH_BF16 && o->dtype != PITH_F16)
        return fail(error, PITH_ERR_DTYPE, "sums are of f32, bf16 or f16");
    if (o->gather && o->kind != PITH_MPI_ALLREDUCE)
        return fail(error, PITH_ERR_ARG, "gather is a spec of all-reduce");
    return PITH_OK;
}

static pith_status check_other(const pith_mpi_options *o, pith_error *error) {
    if (o->inter || o->gather || o->exempt_count)
        return fail(error, PITH_ERR_ARG, "inter, gather and exempt are for sums");
    if (o->kind == PITH_MPI_ALLTOALLV &&
        (!o->send_counts || !o->recv_counts || o->counts || o->count || o->threshold))
        return fail(error, PITH_ERR_ARG,
                    "all-to-all takes send_counts and recv_counts, no count or threshold");
    return PITH_OK;
}

static pith_status check_options(pith_mpi_options *o, pith_error *error) {
    if (o->kind < PITH_MPI_REDUCE_SCATTER || o->kind > PITH_MPI_ALLTOALLV || !o->spec)
        return fail(error, PITH_ERR_ARG, "no such kind, or no spec");
    if (!(o->timeout >= 0) || o->timeout > 1e9 || (o->flags & ~(uint32_t)PITH_MPI_EXTERNAL_BASE))
        return fail(error, PITH_ERR_ARG, "timeout or flags are out of range");
    if (o->count >= UINT64_C(1) << 48 || o->ranks_per_node > INT32_MAX)
        return fail(error, PITH_ERR_ARG, "count or ranks_per_node are too large");
    if (o->exempt_count > PITH_EXEMPT_MAX || (o->exempt_count && !o->exempt))
        return fail(error, PITH_ERR_ARG, "the exempt ranges are not there or too many");
    if (o->base_dtype && (o->kind != PITH_MPI_ALLGATHER || o->threshold))
        return fail(error, PITH_ERR_ARG, "a base is for all-gather, without a threshold");
    if (o->flags && !o->base_dtype)
        return fail(error, PITH_ERR_ARG, "an external base needs base_dtype");
    o->size = sizeof *o;
    if (o->timeout == 0) o->timeout = 300;
    if (!o->slice) o->slice = 131072;
    return is_sum(o) ? check_sum(o, error) : check_other(o, error);
}

static uint64_t mix(uint64_t x, const void *data, size_t bytes) {
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) x = (x ^ p[i]) * UINT64_C(0x100000001B3);
    return x ^ (x >> 31);
}

static uint64_t mix_text(uint64_t x, const char *text) {
    return text ? mix(x, text, strlen(text) + 1) : mix(x, "\1", 1);
}

/* What must be the same on every rank. */
static uint64_t digest(const pith_mpi_channel *ch) {
    const pith_mpi_options *o = &ch->o;
    const uint64_t numbers[] = {o->kind,  o->dtype,          o->base_dtype,   o->flags,
                                o->count, o->ranks_per_node, o->rng_stream,   o->seed,
                                o->slice, o->threshold,      o->exempt_count, o->counts != NULL};
    uint64_t x = mix(UINT64_C(0xCBF29CE484222325), numbers, sizeof numbers);
    x = mix_text(mix_text(mix_text(x, o->spec), o->inter), o->gather);
    if (o->counts) x = mix(x, o->counts, ch->place.ranks * sizeof *o->counts);
    if (o->exempt_count) x = mix(x, o->exempt, o->exempt_count * sizeof *o->exempt);
    return mix(x, &o->timeout, sizeof o->timeout);
}

/* ---- Shards ----------------------------------------------------------------------------------*/

static pith_status find_shards(pith_mpi_channel *ch, pith_error *error) {
    const uint64_t n = ch->o.count, ranks = ch->place.ranks, even = (n + ranks - 1) / ranks;
    uint64_t most = 0;
    for (uint64_t r = 0; r < ranks; r++) {
        const uint64_t left = n - ch->first[r];
        uint64_t count = ch->o.counts ? ch->o.counts[r] : even < left ? even : left;
        if (count > left || (ch->o.counts && r + 1 == ranks && count != left))
            return fail(error, PITH_ERR_ARG, "the sum of counts is not count");
        ch->first[r + 1] = ch->first[r] + count;
        if (count > most) most = count;
    }
    ch->longest = most;
    ch->slices = most ? (most - 1) / ch->slice + 1 : 1;
    return ch->slices > INT32_MAX ? fail(error, PITH_ERR_ARG, "too many slices") : PITH_OK;
}

static pith_status check_counts(const pith_mpi_channel *ch, pith_error *error, uint64_t *most) {
    uint64_t sent = 0, got = 0;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        const uint64_t to = ch->o.send_counts[r], from = ch->o.recv_counts[r];
        if (to >> 48 || from >> 48 || (sent += to) >> 48 || (got += from) >> 48)
            return fail(error, PITH_ERR_ARG, "the counts are too large");
        if (to > *most) *most = to;
        if (from > *most) *most = from;
    }
    return PITH_OK;
}

/* The longest piece anywhere gives the number of slices; what is sent must be what is expected. */
static pith_status find_exchange(pith_mpi_channel *ch, pith_error *error) {
    uint64_t most = 0;
    uint64_t *const heard = ch->numbers;
    int culprit;
    PITHI_MPI_TRY(pithi_mpi_agree(ch, check_counts(ch, error, &most), &culprit));
    if (MPI_Alltoall(ch->o.send_counts, 1, MPI_UINT64_T, heard, 1, MPI_UINT64_T, ch->comm) ||
        MPI_Allreduce(&most, &ch->longest, 1, MPI_UINT64_T, MPI_MAX, ch->comm))
        return PITH_ERR_MPI;
    ch->slices = ch->longest ? (ch->longest - 1) / ch->slice + 1 : 1;
    if (memcmp(heard, ch->o.recv_counts, ch->place.ranks * sizeof *heard))
        return fail(error, PITH_ERR_SHAPE, "recv_counts are not what the other ranks send");
    return ch->slices > INT32_MAX ? fail(error, PITH_ERR_ARG, "too many slices") : PITH_OK;
}

/* ---- Create ----------------------------------------------------------------------------------*/

static pith_status own_comm(pith_mpi_channel *ch) {
    int rank, ranks;
    if (MPI_Comm_rank(ch->comm, &rank) || MPI_Comm_size(ch->comm, &ranks)) return PITH_ERR_MPI;
    ch->place.rank = (uint32_t)rank;
    ch->place.ranks = (uint32_t)ranks;
    return PITH_OK;
}

/* The duplicate, and whether every rank has got as far as this. */
static pith_status duplicate(MPI_Comm comm, MPI_Comm *own, pith_status status) {
    int mine = (int)status, all = 0;
    if (MPI_Comm_dup(comm, own)) return PITH_ERR_MPI;
    if (!MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN) &&
        !MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, *own) && !all)
        return PITH_OK;
    MPI_Comm_free(own);
    return all ? (pith_status)all : PITH_ERR_MPI;
}

static pith_status take_tables(pith_mpi_channel *ch) {
    const uint64_t ranks = ch->place.ranks;
    ch->node_of = pithi_mpi_take(ch, ranks, sizeof *ch->node_of);
    ch->local_of = pithi_mpi_take(ch, ranks, sizeof *ch->local_of);
    ch->node_size = pithi_mpi_take(ch, ranks, sizeof *ch->node_size);
    ch->share = pithi_mpi_take(ch, ranks, sizeof *ch->share);
    ch->share_first = pithi_mpi_take(ch, ranks + 1, sizeof *ch->share_first);
    ch->first = pithi_mpi_take(ch, ranks + 1, sizeof *ch->first);
    ch->numbers = pithi_mpi_take(ch, ranks, sizeof *ch->numbers);
    const bool all = ch->node_of && ch->local_of && ch->node_size && ch->share && ch->share_first &&
                     ch->first && ch->numbers;
    return all ? PITH_OK : PITH_ERR_MEMORY;
}

/* How the ranks lie decides how many levels there are. */
static void choose_levels(pith_mpi_channel *ch) {
    const pith_mpi_place *p = &ch->place;
    ch->packed = ch->o.kind == PITH_MPI_ALLTOALLV || ch->o.count >= ch->o.threshold;
    ch->two_level = ch->packed && ch->o.inter && p->nodes > 1 && p->nodes < p->ranks;
    ch->with_base = ch->o.base_dtype != PITH_NONE;
    ch->slice = ch->o.slice;
    pithi_mpi_find_shares(ch);
}

static pith_status measure_threshold(pith_mpi_channel *ch, pith_error *error) {
    pith_mpi_measure measure = {.size = sizeof measure};
    if (ch->o.threshold != PITH_MPI_THRESHOLD_MEASURE) return PITH_OK;
    PITHI_MPI_TRY(pith_mpi_break_even(ch->comm, &ch->o, &measure, error));
    ch->o.threshold = measure.elements;
    return PITH_OK;
}

static pith_status compare_options(pith_mpi_channel *ch, pith_error *error) {
    uint32_t r = 0;
    const pith_status status = pithi_mpi_same(ch, digest(ch), &r);
    if (status != PITH_ERR_MISMATCH) return status;
    pithi_mpi_say(error, "rank %u has other options than rank 0", r);
    return PITH_ERR_ARG;
}

static pith_status compare_plans(pith_mpi_channel *ch, uint64_t fingerprint, pith_error *error) {
    uint32_t r = 0;
    const pith_status status = pithi_mpi_same(ch, fingerprint, &r);
    if (status == PITH_ERR_MISMATCH)
        pithi_mpi_say(error,
                      "rank %u and rank 0 refuse each other's frames, with the same options: "
                      "their versions of pith differ",
                      r);
    return status;
}

/* After the first agreement all ranks take the same way through this, and agree after each part
 * that can fail on one of them alone. */
static pith_status build(pith_mpi_channel *ch, const pith_mpi_options *options, pith_error *error) {
    int culprit;
    uint64_t fingerprint = 0;
    pith_status status = copy_options(&ch->o, options, error);
    if (!status) status = check_options(&ch->o, error);
    if (!status) status = take_tables(ch);
    const double timeout = ch->o.timeout;
    if (status) ch->o.timeout = 300;
    PITHI_MPI_TRY(pithi_mpi_agree(ch, status, &culprit));
    ch->o.timeout = timeout;
    PITHI_MPI_TRY(compare_options(ch, error));
    PITHI_MPI_TRY(pithi_mpi_find_place(ch));
    PITHI_MPI_TRY(measure_threshold(ch, error));
    choose_levels(ch);
    status = ch->o.kind == PITH_MPI_ALLTOALLV ? find_exchange(ch, error) : find_shards(ch, error);
    if (!status) status = pithi_mpi_make_hops(ch, error);
    if (!status) status = pithi_mpi_fingerprint(ch, &fingerprint, error);
    PITHI_MPI_TRY(pithi_mpi_agree(ch, status, &culprit));
    return compare_plans(ch, fingerprint, error);
}

static void destroy_plans(pith_mpi_channel *ch) {
    for (uint32_t k = 0; k < PITHI_MPI_HOPS; k++) {
        struct pithi_mpi_hop *h = &ch->hop[k];
        if (h->decoder != h->encoder) pith_plan_destroy(h->decoder);
        pith_plan_destroy(h->encoder);
    }
}

static void forget_pointers(pith_mpi_options *o) {
    o->counts = o->send_counts = o->recv_counts = NULL;
    o->spec = o->inter = o->gather = NULL;
    o->exempt = NULL;
    o->env = NULL;
}

static pith_status check_env(const pith_mpi_options *options, pith_env *env) {
    *env = (pith_env){.size = sizeof *env};
    if (!options || options->size < sizeof *options || !options->env) return PITH_OK;
    const uint8_t *const given = (const void *)options->env;
    const size_t size = options->env->size;
    if (size < offsetof(pith_env, run) || size > 4096 ||
        !options->env->alloc != !options->env->release)
        return PITH_ERR_ARG;
    for (size_t i = sizeof *env; i < size; i++)
        if (given[i]) return PITH_ERR_UNSUPPORTED;
    memcpy(env, given, size < sizeof *env ? size : sizeof *env);
    env->size = sizeof *env;
    return PITH_OK;
}

static pith_status create(pith_mpi_channel **channel, MPI_Comm comm,
                          const pith_mpi_options *options, pith_error *error) {
    pith_env env;
    pith_status status = check_env(options, &env);
    if (status) fail(error, status, "env is not valid");
    pith_mpi_channel *ch = status ? NULL : pithi_mpi_new(&env);
    MPI_Comm duplicated = MPI_COMM_NULL;
    status = duplicate(comm, &duplicated, status ? status : ch ? PITH_OK : PITH_ERR_MEMORY);
    if (status) {
        if (ch) pithi_mpi_free(ch);
        return status;
    }
    ch->comm = duplicated;
    ch->request.channel = ch;
    status = own_comm(ch);
    if (!status) status = build(ch, options, error);
    if (status == PITH_ERR_MPI || status == PITH_ERR_TIMEOUT) ch->broken = true;
    forget_pointers(&ch->o);
    pithi_mpi_say(&ch->error, "%s", "");
    if (status == PITH_OK)
        *channel = ch;
    else
        pith_mpi_destroy(ch);
    return status;
}

pith_status pith_mpi_create(pith_mpi_channel **channel, MPI_Comm comm,
                            const pith_mpi_options *options, pith_error *error) {
    pith_error own;
    pithi_mpi_say(&own, "%s", "");
    if (channel) *channel = NULL;
    const bool whole = channel && comm != MPI_COMM_NULL;
    if (!whole) pithi_mpi_say(&own, "channel or communicator is NULL");
    const pith_status status = whole ? create(channel, comm, options, &own) : PITH_ERR_ARG;
    pithi_mpi_give_error(error, &own);
    return status;
}

/* A buffer that MPI may still write to outlives the channel; so does what points to it. */
void pith_mpi_destroy(pith_mpi_channel *ch) {
    if (!ch) return;
    const bool free_memory = pithi_mpi_abandon(ch);
    if (!ch->broken && ch->comm != MPI_COMM_NULL) MPI_Comm_free(&ch->comm);
    destroy_plans(ch);
    if (free_memory) pithi_mpi_free(ch);
}

const pith_error *pith_mpi_last_error(const pith_mpi_channel *ch) { return &ch->error; }
