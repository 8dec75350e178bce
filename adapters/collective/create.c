/* create.c - make a channel, with the agreement of all ranks, and take it apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "hops.h"

/* ---- Options ---------------------------------------------------------------------------------*/

static pith_status fail(pith_error *error, pith_status status, const char *text) {
    pithi_collective_say(error, "%s", text);
    return status;
}

pith_status pithi_collective_copy_options(pith_collective_options *to,
                                          const pith_collective_options *from, pith_error *error) {
    *to = (pith_collective_options){0};
    if (!from || from->size < offsetof(pith_collective_options, count))
        return fail(error, PITH_ERR_ARG, "options are NULL, or their size is not set");
    if (from->size > 4096) return fail(error, PITH_ERR_ARG, "options have an impossible size");
    const unsigned char *bytes = (const void *)from;
    for (size_t i = sizeof *to; i < from->size; i++)
        if (bytes[i])
            return fail(error, PITH_ERR_UNSUPPORTED,
                        "a field of the options is one of a newer pith: update this one");
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return PITH_OK;
}

static bool is_sum(const pith_collective_options *o) {
    return o->kind == PITH_COLLECTIVE_REDUCE_SCATTER || o->kind == PITH_COLLECTIVE_ALLREDUCE;
}

static pith_status check_sum(const pith_collective_options *o, pith_error *error) {
    if (o->dtype != PITH_F32 && o->dtype != PITH_BF16 && o->dtype != PITH_F16) {
        pithi_collective_say(error, "sums are of f32, bf16 or f16, found dtype %s",
                             pith_dtype_name(o->dtype));
        return PITH_ERR_DTYPE;
    }
    if (o->gather && o->kind != PITH_COLLECTIVE_ALLREDUCE)
        return fail(error, PITH_ERR_ARG, "gather is a spec of all-reduce");
    return PITH_OK;
}

static pith_status check_other(const pith_collective_options *o, pith_error *error) {
    const bool sparse = pithi_collective_is_sparse(o->kind);
    if (o->inter || o->gather || o->exempt_count)
        return fail(error, PITH_ERR_ARG, "inter, gather and exempt are for sums");
    if (sparse && (o->counts || o->threshold || (o->flags & PITH_COLLECTIVE_MEASURE_THRESHOLD)))
        return fail(error, PITH_ERR_ARG, "sparse sums take no counts and no threshold");
    if (sparse) return check_sum(o, error);
    if (o->kind == PITH_COLLECTIVE_ALLTOALLV &&
        (!o->send_counts || !o->recv_counts || o->counts || o->count || o->threshold ||
         (o->flags & PITH_COLLECTIVE_MEASURE_THRESHOLD)))
        return fail(error, PITH_ERR_ARG,
                    "all-to-all takes send_counts and recv_counts, no count or threshold");
    return PITH_OK;
}

static bool ascends(const pith_exempt *exempt, size_t count) {
    uint64_t end = 0;
    for (size_t i = 0; i < count; end = exempt[i].first + exempt[i].count, i++)
        if (exempt[i].first < end || exempt[i].count > UINT64_MAX - exempt[i].first) return false;
    return true;
}

static pith_status check_options(pith_collective_options *o, pith_error *error) {
    if (o->kind < PITH_COLLECTIVE_REDUCE_SCATTER || o->kind > PITH_COLLECTIVE_SPARSE_OKTOPK ||
        !o->spec)
        return fail(error, PITH_ERR_ARG, "no such kind, or no spec");
    const uint32_t flags = PITH_COLLECTIVE_EXTERNAL_BASE | PITH_COLLECTIVE_MEASURE_THRESHOLD;
    const bool measure = o->flags & PITH_COLLECTIVE_MEASURE_THRESHOLD;
    if (!(o->timeout >= 0) || o->timeout > 1e9 || (o->flags & ~flags))
        return fail(error, PITH_ERR_ARG, "timeout or flags are out of range");
    if (o->count >= UINT64_C(1) << 48 || o->ranks_per_node > INT32_MAX ||
        (o->pieces && (!o->piece_count || o->piece_count > INT32_MAX)))
        return fail(error, PITH_ERR_ARG, "count, ranks_per_node or piece_count is out of range");
    if (o->exempt_count > PITH_EXEMPT_MAX || (o->exempt_count && !o->exempt))
        return fail(error, PITH_ERR_ARG, "the exempt ranges are not there or too many");
    if (!ascends(o->exempt, o->exempt_count))
        return fail(error, PITH_ERR_ARG, "the exempt ranges overlap or do not ascend");
    if (!pithi_collective_is_sparse(o->kind) && (o->pieces || o->refresh))
        return fail(error, PITH_ERR_ARG, "pieces and refresh are for sparse sums");
    if (o->base_dtype && (o->kind != PITH_COLLECTIVE_ALLGATHER || o->threshold || measure))
        return fail(error, PITH_ERR_ARG, "a base is for all-gather, without a threshold");
    if (measure && o->threshold)
        return fail(error, PITH_ERR_ARG, "the threshold is given, and to be measured");
    if ((o->flags & PITH_COLLECTIVE_EXTERNAL_BASE) && !o->base_dtype)
        return fail(error, PITH_ERR_ARG, "an external base needs base_dtype");
    o->size = sizeof *o;
    if (o->timeout == 0) o->timeout = 300;
    if (!o->slice) o->slice = 131072;
    return is_sum(o) ? check_sum(o, error) : check_other(o, error);
}

/* What must be the same on every rank, but for the specs: their plans are compared. */
struct option {
    const char *name;
    uint64_t number; /* a hash where the option is more than a number */
};
enum { OPTIONS = 18 };

static uint64_t hash(const void *data, size_t bytes) {
    return data ? pithi_collective_hash(data, bytes, 0) : 0;
}

static void list_options(const pith_collective_channel *ch, struct option to[OPTIONS]) {
    const pith_collective_options *o = &ch->o;
    const uint64_t ranks = ch->place.ranks;
    const struct option all[OPTIONS] = {
        {"kind", o->kind},
        {"dtype", o->dtype},
        {"base_dtype", o->base_dtype},
        {"flags", o->flags},
        {"count", o->count},
        {"counts", hash(o->counts, ranks * sizeof *o->counts)},
        {"whether there is a spec between nodes (inter)", o->inter != NULL},
        {"whether there is a spec of its own for gathering (gather)", o->gather != NULL},
        {"which ranks are a node", hash(ch->node_of, ranks * sizeof *ch->node_of)},
        {"rng_stream", o->rng_stream},
        {"seed", o->seed},
        {"slice", o->slice},
        {"threshold", o->threshold},
        {"timeout", hash(&o->timeout, sizeof o->timeout)},
        {"exempt ranges",
         hash(o->exempt_count ? o->exempt : NULL, o->exempt_count * sizeof *o->exempt)},
        {"pieces", hash(o->pieces, o->piece_count * sizeof *o->pieces)},
        {"refresh", o->refresh},
        {"the transport's flags", ch->t.flags},
    };
    memcpy(to, all, sizeof all);
}

/* ---- Create ----------------------------------------------------------------------------------*/

static pith_status take_tables(pith_collective_channel *ch) {
    const uint64_t ranks = ch->place.ranks;
    ch->node_of = pithi_collective_take(ch, ranks, sizeof *ch->node_of);
    ch->local_of = pithi_collective_take(ch, ranks, sizeof *ch->local_of);
    ch->node_size = pithi_collective_take(ch, ranks, sizeof *ch->node_size);
    ch->collected = pithi_collective_take(ch, ranks, sizeof *ch->collected);
    ch->collected_first = pithi_collective_take(ch, ranks + 1, sizeof *ch->collected_first);
    ch->first = pithi_collective_take(ch, ranks + 1, sizeof *ch->first);
    const bool all = ch->node_of && ch->local_of && ch->node_size && ch->collected &&
                     ch->collected_first && ch->first;
    return all ? PITH_OK : PITH_ERR_MEMORY;
}

/* Decides how many levels there are, by how the ranks lie. */
static void choose_levels(pith_collective_channel *ch) {
    const pith_collective_place *p = &ch->place;
    ch->packed = ch->o.kind == PITH_COLLECTIVE_ALLTOALLV || ch->o.count >= ch->o.threshold;
    ch->two_level = ch->packed && ch->o.inter && p->nodes > 1 && p->nodes < p->ranks;
    ch->with_base = ch->o.base_dtype != PITH_NONE;
    ch->slice = ch->o.slice;
    pithi_collective_find_collectors(ch);
}

static pith_status measure_threshold(pith_collective_channel *ch, pith_error *error) {
    pith_collective_measure measure = {.size = sizeof measure};
    if (!(ch->o.flags & PITH_COLLECTIVE_MEASURE_THRESHOLD)) return PITH_OK;
    PITHI_COLLECTIVE_TRY(pith_collective_break_even(&ch->t, &ch->o, &measure, error));
    ch->o.threshold = measure.elements;
    return PITH_OK;
}

/* Votes once; where that finds a difference, once more for each option, until one differs. */
static pith_status compare_options(pith_collective_channel *ch, pith_error *error) {
    struct option options[OPTIONS];
    uint64_t numbers[OPTIONS];
    uint32_t r = 0;
    list_options(ch, options);
    for (size_t i = 0; i < OPTIONS; i++) numbers[i] = options[i].number;
    pith_status status = pithi_collective_same(ch, hash(numbers, sizeof numbers), &r);
    if (status != PITH_ERR_MISMATCH) return status;
    pithi_collective_say(error, "rank %u has other options than rank 0", r);
    status = PITH_OK;
    for (size_t i = 0; i < OPTIONS && status == PITH_OK; i++) {
        status = pithi_collective_same(ch, options[i].number, &r);
        if (status == PITH_ERR_MISMATCH)
            pithi_collective_say(error, "rank %u has other options than rank 0: they differ in %s",
                                 r, options[i].name);
    }
    return status == PITH_OK || status == PITH_ERR_MISMATCH ? PITH_ERR_ARG : status;
}

/* The same for specs: votes once, and where that finds a difference for each hop. */
static pith_status compare_plans(pith_collective_channel *ch,
                                 const uint64_t fingerprint[PITHI_COLLECTIVE_ENCODED],
                                 pith_error *error) {
    const char *const refuse =
        "rank %u and rank 0 refuse each other's frames: their specs or their versions of pith "
        "differ%s%s";
    uint32_t r = 0;
    pith_status status = pithi_collective_same(
        ch, hash(fingerprint, PITHI_COLLECTIVE_ENCODED * sizeof *fingerprint), &r);
    if (status != PITH_ERR_MISMATCH) return status;
    pithi_collective_say(error, refuse, r, "", "");
    status = PITH_OK;
    for (uint32_t k = 0; k < PITHI_COLLECTIVE_ENCODED && status == PITH_OK; k++) {
        char spec[PITH_SPEC_MAX];
        status = pithi_collective_same(ch, fingerprint[k], &r);
        if (status != PITH_ERR_MISMATCH) continue;
        const bool has = k < ch->encoded_hops &&
                         pith_plan_spec(ch->hop[k].encoder, spec, sizeof spec) == PITH_OK;
        pithi_collective_say(error, refuse, r, "; here the spec is ", has ? spec : "none");
    }
    return status == PITH_OK ? PITH_ERR_MISMATCH : status;
}

/* Builds the channel. After the first agreement all ranks take the same way through this function,
 * and agree after each part that can fail on one of them alone. */
static pith_status build(pith_collective_channel *ch, const pith_collective_options *options,
                         pith_status status, pith_error *error) {
    uint64_t fingerprint[PITHI_COLLECTIVE_ENCODED];
    if (!status) status = pithi_collective_copy_options(&ch->o, options, error);
    if (!status) status = check_options(&ch->o, error);
    if (!status) status = take_tables(ch);
    const double timeout = ch->o.timeout;
    if (status) ch->o.timeout = 300;
    PITHI_COLLECTIVE_TRY(pithi_collective_agree_text(ch, status, error));
    ch->o.timeout = timeout;
    pithi_collective_find_nodes(ch);
    PITHI_COLLECTIVE_TRY(compare_options(ch, error));
    PITHI_COLLECTIVE_TRY(measure_threshold(ch, error));
    choose_levels(ch);
    status = ch->o.kind == PITH_COLLECTIVE_ALLTOALLV ? pithi_collective_cut_alltoall(ch, error)
                                                     : pithi_collective_find_shards(ch, error);
    if (!status) status = pithi_collective_make_hops(ch, error);
    if (!status) status = pithi_collective_fingerprints(ch, fingerprint, error);
    PITHI_COLLECTIVE_TRY(pithi_collective_agree_text(ch, status, error));
    return compare_plans(ch, fingerprint, error);
}

static void destroy_plans(pith_collective_channel *ch) {
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        struct pithi_collective_hop *h = &ch->hop[k];
        if (h->decoder != h->encoder) pith_plan_destroy(h->decoder);
        pith_plan_destroy(h->encoder);
    }
}

static void forget_pointers(pith_collective_options *o) {
    o->counts = o->send_counts = o->recv_counts = o->pieces = NULL;
    o->spec = o->inter = o->gather = NULL;
    o->exempt = NULL;
    o->env = NULL;
}

static pith_status check_env(const pith_collective_options *options, pith_env *env) {
    *env = (pith_env){.size = sizeof *env};
    if (!options || options->size < offsetof(pith_collective_options, pieces) || !options->env)
        return PITH_OK;
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

pith_status pithi_collective_copy_transport(pith_transport *to, const pith_transport *from) {
    *to = (pith_transport){0};
    if (!from || from->size < offsetof(pith_transport, cancel) || from->size > 4096)
        return PITH_ERR_ARG;
    const unsigned char *bytes = (const void *)from;
    for (size_t i = sizeof *to; i < from->size; i++)
        if (bytes[i]) return PITH_ERR_UNSUPPORTED;
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    to->size = sizeof *to;
    const bool whole = to->isend && to->irecv && to->test && to->rank < to->ranks &&
                       !(to->flags & ~(uint32_t)PITH_TRANSPORT_EXACT);
    return whole ? PITH_OK : PITH_ERR_ARG;
}

/* Allocates a channel. Where the caller's allocator has nothing to give, malloc's memory serves to
 * tell the others. */
static pith_collective_channel *new_channel(const pith_collective_options *options,
                                            pith_status *status, pith_error *error) {
    const pith_env usual = {.size = sizeof usual};
    pith_env env;
    *status = check_env(options, &env);
    if (*status) return fail(error, *status, "env is not valid"), pithi_collective_new(&usual);
    pith_collective_channel *ch = pithi_collective_new(&env);
    if (ch) return ch;
    *status = PITH_ERR_MEMORY;
    return pithi_collective_new(&usual);
}

static pith_status create(pith_collective_channel **channel, const pith_transport *transport,
                          const pith_collective_options *options, pith_error *error) {
    pith_status status;
    pith_collective_channel *ch = new_channel(options, &status, error);
    if (!ch) {
        fail(error, PITH_ERR_MEMORY, "there is no memory for a message to the other ranks");
        if (transport->release) transport->release(transport->user, 1);
        return PITH_ERR_MEMORY;
    }
    ch->t = *transport;
    ch->place.rank = transport->rank;
    ch->place.ranks = transport->ranks;
    ch->request.channel = ch;
    status = build(ch, options, status, error);
    /* Perhaps not this channel broke, but one that measured the threshold on its transport. */
    if (status == PITH_ERR_TIMEOUT || status == PITH_ERR_TRANSPORT) ch->broken = true;
    forget_pointers(&ch->o);
    ch->t.node_of = NULL;
    if (status && !error->text[0]) *error = ch->error; /* of a timeout, or the transport */
    if (status && !error->text[0]) /* a rank said so where ranks compare numbers */
        pithi_collective_say(error, "rank %d failed: %s", (int)ch->election.merged.culprit,
                             pith_status_text(status));
    pithi_collective_say(&ch->error, "%s", "");
    if (status == PITH_OK)
        *channel = ch;
    else
        pith_collective_destroy(ch);
    return status;
}

pith_status pith_collective_create(pith_collective_channel **channel,
                                   const pith_transport *transport,
                                   const pith_collective_options *options, pith_error *error) {
    pith_transport copy;
    pith_error own;
    pithi_collective_say(&own, "%s", "");
    if (channel) *channel = NULL;
    pith_status status = pithi_collective_copy_transport(&copy, transport);
    if (status || !channel) {
        pithi_collective_say(&own, channel ? "the transport is not valid" : "channel is NULL");
        if (!status) status = PITH_ERR_ARG;
    } else {
        status = create(channel, &copy, options, &own);
    }
    pithi_collective_give_error(error, &own);
    return status;
}

/* Destroys a channel. A buffer that the transport may still write to outlives it; so does what
 * points to the buffer. */
void pith_collective_destroy(pith_collective_channel *ch) {
    if (!ch) return;
    const bool free_memory = pithi_collective_abandon(ch);
    if (ch->t.release) ch->t.release(ch->t.user, ch->broken);
    destroy_plans(ch);
    pithi_collective_destroy_sparse(ch);
    if (free_memory) pithi_collective_free(ch);
}

const pith_error *pith_collective_last_error(const pith_collective_channel *ch) {
    return &ch->error;
}
