/* request.c - calls in flight: start, progress, end.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* ---- Start -----------------------------------------------------------------------------------*/

static void fail_with(pith_collective_channel *ch, pith_status status, const pith_error *why) {
    pithi_collective_fail(ch, status, (int)ch->place.rank, why);
}

/* Returns the count of the one tensor that the list stands for. The call fails unless all tensors
 * can be looked at and have one dtype. */
static uint64_t check_list(pith_collective_channel *ch, const char *name,
                           const struct pithi_collective_list *list, bool written) {
    uint64_t total = 0;
    pith_error why;
    for (size_t i = 0; i < list->count; i++) {
        const pith_view *const v = &list->views[i];
        pith_status status = PITH_OK;
        const uint64_t count = v->ndim <= PITH_MAX_NDIM ? pith_view_count(v) : 0;
        if (v->ndim > PITH_MAX_NDIM || (count && !v->data)) {
            pithi_collective_say(&why, "tensor %zu of %s has no data or too many dimensions", i,
                                 name);
            status = PITH_ERR_ARG;
        } else if (v->dtype != list->views[0].dtype) {
            pithi_collective_say(&why, "tensor %zu of %s has another dtype than the first: %s", i,
                                 name, pith_dtype_name(v->dtype));
            status = PITH_ERR_DTYPE;
        } else if (count > UINT64_MAX - total) {
            pithi_collective_say(&why, "%s have more than 2^64 elements", name);
            status = PITH_ERR_SHAPE;
        }
        for (uint32_t k = 0; written && !status && count && k < v->ndim; k++) {
            if (v->shape[k] < 2 || v->stride[k]) continue;
            pithi_collective_say(&why, "tensor %zu of %s writes elements twice: stride 0", i, name);
            status = PITH_ERR_ARG;
        }
        if (status) {
            fail_with(ch, status, &why);
            return UINT64_MAX;
        }
        total += count;
    }
    return total;
}

static void check_count(pith_collective_channel *ch, const char *name, uint64_t count,
                        uint64_t wanted) {
    pith_error why;
    if (count == wanted || ch->call.status) return;
    pithi_collective_say(&why, "%s have %llu element%s, not %llu", name, (unsigned long long)count,
                         count == 1 ? "" : "s", (unsigned long long)wanted);
    fail_with(ch, PITH_ERR_SHAPE, &why);
}

static void check_dtypes(pith_collective_channel *ch) {
    const struct pithi_collective_list *in = &ch->call.in, *out = &ch->call.out;
    const bool sum = ch->o.kind == PITH_COLLECTIVE_REDUCE_SCATTER ||
                     ch->o.kind == PITH_COLLECTIVE_ALLREDUCE || ch->sparse;
    pith_error why;
    if (in->count && in->views[0].dtype != ch->o.dtype) {
        pithi_collective_say(&why, "inputs are %s, the channel's dtype %s",
                             pith_dtype_name(in->views[0].dtype), pith_dtype_name(ch->o.dtype));
        fail_with(ch, PITH_ERR_DTYPE, &why);
    }
    if (!sum || !out->count) return;
    const uint32_t dtype = out->views[0].dtype;
    if (dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16) return;
    pithi_collective_say(&why, "sums are f32, bf16 or f16, and outputs are %s",
                         pith_dtype_name(dtype));
    fail_with(ch, PITH_ERR_DTYPE, &why);
}

/* Checks that the requests have one size, which is the bytes from one to the next. */
static void check_requests(pith_collective_channel *ch) {
    const size_t size = ch->call.requests->size;
    for (uint64_t p = 0; p < ch->sparse->pieces; p++)
        if (size < sizeof size || size > 4096 || size % _Alignof(pith_sparse_request) ||
            pithi_collective_request_of(&ch->call, p)->size != size) {
            pithi_collective_fail_text(
                ch, PITH_ERR_ARG, "the size of a request is not set, or not that of the first");
            return;
        }
}

static void check_call(pith_collective_channel *ch, const pith_collective_call *given) {
    struct pithi_collective_call *call = &ch->call;
    const bool gather = ch->o.kind == PITH_COLLECTIVE_ALLGATHER;
    call->in =
        (struct pithi_collective_list){given->inputs, given->inputs ? given->input_count : 0};
    call->out =
        (struct pithi_collective_list){given->outputs, given->outputs ? given->output_count : 0};
    call->has_out = given->outputs != NULL;
    if (!given->inputs || (!given->outputs && !(gather && ch->with_base))) {
        pithi_collective_fail_text(ch, PITH_ERR_ARG, "inputs or outputs is NULL");
        return;
    }
    const uint64_t in = check_list(ch, "inputs", &call->in, false);
    call->whole_in = gather && in == ch->o.count;
    check_count(ch, "inputs", in, call->whole_in ? ch->o.count : ch->in_count);
    if (call->has_out)
        check_count(ch, "outputs", check_list(ch, "outputs", &call->out, true), ch->out_count);
    check_dtypes(ch);
    if (call->key_frame && !ch->with_base)
        pithi_collective_fail_text(ch, PITH_ERR_UNSUPPORTED, "key frames need a base");
    call->requests = given->requests;
    if (given->requests && (!ch->sparse || ch->o.kind == PITH_COLLECTIVE_SPARSE_OKTOPK))
        pithi_collective_fail_text(ch, PITH_ERR_UNSUPPORTED,
                                   "requests are for sparse sums, and not for Ok-Topk");
    else if (given->requests)
        check_requests(ch);
    if (given->flags & ~(uint32_t)PITH_KEY_FRAME)
        pithi_collective_fail_text(ch, PITH_ERR_ARG, "flags are 0 or PITH_KEY_FRAME");
}

static void reset_report(pith_collective_channel *ch) {
    ch->report = (pith_collective_report){.size = sizeof ch->report,
                                          .failed_rank = -1,
                                          .compressed = ch->packed,
                                          .levels = ch->two_level ? 2 : 1,
                                          .slices = ch->slices};
}

/* Copies a call, which may be an older or newer caller's, as options may. */
static pith_status copy_call(pith_collective_call *to, const pith_collective_call *from) {
    *to = (pith_collective_call){0};
    if (!from || from->size < offsetof(pith_collective_call, scale) || from->size > 4096)
        return PITH_ERR_ARG;
    const unsigned char *bytes = (const void *)from;
    for (size_t i = sizeof *to; i < from->size; i++)
        if (bytes[i]) return PITH_ERR_UNSUPPORTED;
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return PITH_OK;
}

pith_status pith_collective_start(pith_collective_channel *ch, const pith_collective_call *given,
                                  pith_collective_request **request) {
    pith_collective_call call;
    if (request) *request = NULL;
    if (!ch || !request) return PITH_ERR_ARG;
    PITHI_COLLECTIVE_TRY(copy_call(&call, given));
    if (ch->broken) return PITH_ERR_BROKEN;
    if (ch->busy) return PITH_ERR_BUSY;
    ch->busy = true;
    ch->sequence++;
    pithi_collective_say(&ch->error, "%s", "");
    ch->call = (struct pithi_collective_call){.scale = call.scale, .step = call.step};
    ch->call.key_frame = call.flags & PITH_KEY_FRAME;
    ch->call.started = pithi_collective_now();
    ch->call.deadline = ch->call.started + ch->o.timeout;
    reset_report(ch);
    check_call(ch, &call);
    pithi_collective_begin_streams(ch);
    if (!pithi_collective_post(ch)) pithi_collective_break(ch, PITH_ERR_TRANSPORT);
    *request = &ch->request;
    return PITH_OK;
}

/* ---- Progress --------------------------------------------------------------------------------*/

/* Runs a stage on its next slice if the hop before it has brought that. False: the transport
 * failed. */
static bool try_stage(pith_collective_channel *ch, uint32_t stage, bool *worked) {
    struct pithi_collective_call *call = &ch->call;
    const uint64_t slice = call->next[stage];
    bool ready = slice < ch->slices;
    if (ready && stage) {
        ready = slice < call->next[stage - 1];
        if (ready && !pithi_collective_arrived(ch, stage - 1, slice, &ready)) return false;
    }
    if (!ready) return true;
    if (!call->status) pithi_collective_stage(ch, stage, slice);
    call->next[stage]++;
    *worked = true;
    return stage == ch->hops || pithi_collective_send(ch, stage, slice);
}

static bool all_stages_done(const pith_collective_channel *ch) {
    for (uint32_t k = 0; k <= ch->hops; k++)
        if (ch->call.next[k] < ch->slices) return false;
    return true;
}

/* Works on the latest stage that has something to do, so that what others wait for goes out first
 * and the next slice is encoded while this one travels. */
static bool one_round(pith_collective_channel *ch, bool *worked, bool *done) {
    bool sent = false;
    for (uint32_t k = ch->hops + 1; k-- > 0 && !*worked;)
        if (!try_stage(ch, k, worked)) return false;
    if (*worked || !all_stages_done(ch)) return true;
    if (ch->call.agreeing) return pithi_collective_voted(ch, done);
    if (!pithi_collective_sent(ch, &sent)) return false;
    if (!sent) return true;
    ch->call.agreeing = *worked = true;
    pithi_collective_begin_vote(ch, 0, 0);
    return true;
}

/* ---- End -------------------------------------------------------------------------------------*/

static void finish(pith_collective_channel *ch) {
    struct pithi_collective_call *call = &ch->call;
    const struct pithi_collective_vote *verdict = &ch->election.merged;
    if (!ch->broken && verdict->status == (int)PITH_ERR_TRANSPORT)
        pithi_collective_break(ch, PITH_ERR_TRANSPORT); /* a vote was damaged */
    if (!ch->broken) {
        if ((int)call->status != verdict->status) pithi_collective_say(&ch->error, "%s", "");
        call->status = (pith_status)verdict->status;
        call->culprit = verdict->status ? verdict->culprit : -1;
    } else {
        pithi_collective_abandon(ch);
    }
    ch->busy = false;
    ch->report.status = call->status;
    ch->report.failed_rank = call->culprit;
    ch->report.total_seconds = pithi_collective_now() - call->started;
    pithi_collective_end_streams(ch, call->status == PITH_OK);
}

static void advance(pith_collective_channel *ch, bool *worked, bool *done) {
    *worked = *done = false;
    if (!ch->broken && !one_round(ch, worked, done)) pithi_collective_break(ch, PITH_ERR_TRANSPORT);
    if (!ch->broken && !*done && !*worked && pithi_collective_now() > ch->call.deadline)
        pithi_collective_break(ch, PITH_ERR_TIMEOUT);
    *done = *done || ch->broken;
    if (*done) finish(ch);
}

static pith_status report_to(const pith_collective_channel *ch, pith_collective_report *report) {
    pithi_collective_give(report, &ch->report, sizeof ch->report);
    return ch->report.status;
}

pith_status pith_collective_test(pith_collective_request *request, int *done,
                                 pith_collective_report *report) {
    bool worked, ended;
    if (!request || !done || !request->channel->busy) return PITH_ERR_ARG;
    advance(request->channel, &worked, &ended);
    *done = ended;
    return ended ? report_to(request->channel, report) : PITH_OK;
}

pith_status pith_collective_wait(pith_collective_request *request, pith_collective_report *report) {
    if (!request || !request->channel->busy) return PITH_ERR_ARG;
    pith_collective_channel *ch = request->channel;
    uint32_t idle_rounds = 0;
    for (bool worked, done = false; !done;) {
        const double begin = pithi_collective_now();
        advance(ch, &worked, &done);
        if (worked || done) {
            idle_rounds = 0;
            continue;
        }
        if (!pithi_collective_idle(ch, &idle_rounds, ch->call.deadline))
            pithi_collective_break(ch, PITH_ERR_TRANSPORT);
        ch->report.wait_seconds += pithi_collective_now() - begin;
    }
    return report_to(ch, report);
}

/* Moves every call on once; returns how many are still in flight. */
static size_t round_of(size_t count, pith_collective_request **requests,
                       pith_collective_report *reports, pith_status *lowest, bool *worked) {
    const size_t size = reports && count ? reports->size : 0; /* size of the caller's struct */
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        pith_collective_report *const at = (void *)((char *)reports + i * size);
        if (!requests[i]) continue;
        pith_collective_channel *ch = requests[i]->channel;
        bool moved = false, done = !ch->busy; /* as another entry for the same call has found */
        if (!done) advance(ch, &moved, &done);
        *worked = *worked || moved || done;
        left += !done;
        if (!done) continue;
        requests[i] = NULL;
        const pith_status status = report_to(ch, size ? at : NULL);
        if ((int)status < (int)*lowest) *lowest = status;
    }
    return left;
}

pith_status pith_collective_wait_all(size_t count, pith_collective_request **requests,
                                     pith_collective_report *reports) {
    pith_status lowest = PITH_OK;
    uint32_t idle_rounds = 0;
    if (count && !requests) return PITH_ERR_ARG;
    for (size_t i = 0; i < count; i++)
        if (requests[i] && !requests[i]->channel->busy) return PITH_ERR_ARG;
    for (size_t left = 1; left;) {
        bool worked = false;
        left = round_of(count, requests, reports, &lowest, &worked);
        if (worked) idle_rounds = 0;
        if (left && !worked) pithi_collective_nap(&idle_rounds);
    }
    return lowest;
}

pith_status pith_collective_run(pith_collective_channel *ch, const pith_collective_call *call,
                                pith_collective_report *report) {
    pith_collective_request *request;
    PITHI_COLLECTIVE_TRY(pith_collective_start(ch, call, &request));
    return pith_collective_wait(request, report);
}
