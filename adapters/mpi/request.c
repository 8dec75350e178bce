/* request.c - calls in flight: start, progress, end.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* ---- Start -----------------------------------------------------------------------------------*/

static void check_view(pith_mpi_channel *ch, const pith_view *view, uint64_t count) {
    if (!view || view->ndim > PITH_MAX_NDIM)
        pithi_mpi_fail_text(ch, PITH_ERR_ARG, "a view is NULL or has too many dimensions");
    else if (pith_view_count(view) != count)
        pithi_mpi_fail_text(ch, PITH_ERR_SHAPE, "a view does not have the channel's count");
    else if (count && !view->data)
        pithi_mpi_fail_text(ch, PITH_ERR_ARG, "a view has no data");
}

static void check_views(pith_mpi_channel *ch, const pith_view *in, const pith_view *out) {
    const bool gather = ch->o.kind == PITH_MPI_ALLGATHER;
    const bool whole = gather && in && pith_view_count(in) == ch->o.count;
    check_view(ch, in, whole ? ch->o.count : ch->in_count);
    if (in && in->dtype != ch->o.dtype)
        pithi_mpi_fail_text(ch, PITH_ERR_DTYPE, "the input's dtype is not the channel's");
    if (out || !ch->with_base) check_view(ch, out, ch->out_count);
    const bool sum = ch->o.kind == PITH_MPI_REDUCE_SCATTER || ch->o.kind == PITH_MPI_ALLREDUCE;
    if (sum && out && out->dtype != PITH_F32 && out->dtype != PITH_BF16 && out->dtype != PITH_F16)
        pithi_mpi_fail_text(ch, PITH_ERR_DTYPE, "sums are f32, bf16 or f16");
    if (ch->call.key_frame && !ch->with_base)
        pithi_mpi_fail_text(ch, PITH_ERR_UNSUPPORTED, "key frames need a base");
    if (in) ch->call.in = *in;
    if (out) ch->call.out = *out;
    ch->call.has_out = out != NULL;
}

static void reset_report(pith_mpi_channel *ch) {
    ch->report = (pith_mpi_report){.size = sizeof ch->report,
                                   .failed_rank = -1,
                                   .compressed = ch->packed,
                                   .levels = ch->two_level ? 2 : 1,
                                   .slices = ch->slices};
}

static pith_status start(pith_mpi_channel *ch, uint32_t kind, const pith_view *in,
                         const pith_view *out, float scale, uint32_t flags, uint64_t step,
                         pith_mpi_request **request) {
    if (request) *request = NULL;
    if (!ch || !request || ch->o.kind != kind) return PITH_ERR_ARG;
    if (ch->broken) return PITH_ERR_BROKEN;
    if (ch->busy) return PITH_ERR_BUSY;
    ch->busy = true;
    ch->sequence++;
    pithi_mpi_say(&ch->error, "%s", "");
    ch->call = (struct pithi_mpi_call){.scale = scale, .step = step};
    ch->call.key_frame = flags & PITH_KEY_FRAME;
    ch->call.started = pithi_mpi_now();
    ch->call.deadline = ch->call.started + ch->o.timeout;
    reset_report(ch);
    check_views(ch, in, out);
    if (flags & ~(uint32_t)PITH_KEY_FRAME)
        pithi_mpi_fail_text(ch, PITH_ERR_ARG, "flags are 0 or PITH_KEY_FRAME");
    pithi_mpi_begin_streams(ch);
    if (!pithi_mpi_post(ch)) pithi_mpi_break(ch, PITH_ERR_MPI);
    *request = &ch->request;
    return PITH_OK;
}

/* ---- Progress --------------------------------------------------------------------------------*/

/* Runs a stage on its next slice if the hop before it has brought that. False: MPI failed. */
static bool try_stage(pith_mpi_channel *ch, uint32_t stage, bool *worked) {
    struct pithi_mpi_call *call = &ch->call;
    const uint64_t slice = call->next[stage];
    bool ready = slice < ch->slices;
    if (ready && stage) {
        ready = slice < call->next[stage - 1];
        if (ready && !pithi_mpi_arrived(ch, stage - 1, slice, &ready)) return false;
    }
    if (!ready) return true;
    if (!call->status) pithi_mpi_stage(ch, stage, slice);
    call->next[stage]++;
    *worked = true;
    return stage == ch->hops || pithi_mpi_send(ch, stage, slice);
}

static bool all_stages_done(const pith_mpi_channel *ch) {
    for (uint32_t k = 0; k <= ch->hops; k++)
        if (ch->call.next[k] < ch->slices) return false;
    return true;
}

/* Works on the latest stage that has something to do, so that what others wait for goes out first
 * and the next slice is encoded while this one travels. */
static bool one_round(pith_mpi_channel *ch, bool *worked, bool *done) {
    bool sent = false;
    for (uint32_t k = ch->hops + 1; k-- > 0 && !*worked;)
        if (!try_stage(ch, k, worked)) return false;
    if (*worked || !all_stages_done(ch)) return true;
    if (ch->call.agreeing) return pithi_mpi_verdict(ch, done);
    if (!pithi_mpi_sent(ch, &sent)) return false;
    if (!sent) return true;
    if (!ch->call.status && ch->call.copy_all) pithi_mpi_copy_base(ch);
    ch->call.agreeing = *worked = true;
    return pithi_mpi_vote(ch);
}

/* ---- End -------------------------------------------------------------------------------------*/

static void finish(pith_mpi_channel *ch) {
    struct pithi_mpi_call *call = &ch->call;
    if (!ch->broken) {
        if ((int)call->status != ch->verdict[0]) pithi_mpi_say(&ch->error, "%s", "");
        call->status = (pith_status)ch->verdict[0];
        call->culprit = ch->verdict[0] ? ch->verdict[1] : -1;
    } else {
        pithi_mpi_abandon(ch);
    }
    ch->busy = false;
    ch->report.status = call->status;
    ch->report.failed_rank = call->culprit;
    ch->report.total_seconds = pithi_mpi_now() - call->started;
    pithi_mpi_end_streams(ch, call->status == PITH_OK);
}

static void advance(pith_mpi_channel *ch, bool *worked, bool *done) {
    *worked = *done = false;
    if (!ch->broken && !one_round(ch, worked, done)) pithi_mpi_break(ch, PITH_ERR_MPI);
    if (!ch->broken && !*done && !*worked && pithi_mpi_now() > ch->call.deadline)
        pithi_mpi_break(ch, PITH_ERR_TIMEOUT);
    *done = *done || ch->broken;
    if (*done) finish(ch);
}

static pith_status report_to(const pith_mpi_channel *ch, pith_mpi_report *report) {
    pithi_mpi_give(report, &ch->report, sizeof ch->report);
    return ch->report.status;
}

pith_status pith_mpi_test(pith_mpi_request *request, int *done, pith_mpi_report *report) {
    bool worked, ended;
    if (!request || !done || !request->channel->busy) return PITH_ERR_ARG;
    advance(request->channel, &worked, &ended);
    *done = ended;
    return ended ? report_to(request->channel, report) : PITH_OK;
}

pith_status pith_mpi_wait(pith_mpi_request *request, pith_mpi_report *report) {
    if (!request || !request->channel->busy) return PITH_ERR_ARG;
    pith_mpi_channel *ch = request->channel;
    uint32_t idle_rounds = 0;
    for (bool worked, done = false; !done;) {
        const double begin = pithi_mpi_now();
        advance(ch, &worked, &done);
        if (worked || done) {
            idle_rounds = 0;
            continue;
        }
        pithi_mpi_idle(&idle_rounds);
        ch->report.wait_seconds += pithi_mpi_now() - begin;
    }
    return report_to(ch, report);
}

/* One round over all; returns how many are still in flight. */
static size_t round_of(size_t count, pith_mpi_request **requests, pith_mpi_report *reports,
                       pith_status *lowest, bool *worked) {
    const size_t size = reports && count ? reports->size : 0; /* of the caller's struct */
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        pith_mpi_report *const at = (void *)((char *)reports + i * size);
        bool moved, done;
        if (!requests[i]) continue;
        pith_mpi_channel *ch = requests[i]->channel;
        advance(ch, &moved, &done);
        *worked = *worked || moved || done;
        left += !done;
        if (!done) continue;
        requests[i] = NULL;
        const pith_status status = report_to(ch, size ? at : NULL);
        if ((int)status < (int)*lowest) *lowest = status;
    }
    return left;
}

pith_status pith_mpi_wait_all(size_t count, pith_mpi_request **requests, pith_mpi_report *reports) {
    pith_status lowest = PITH_OK;
    uint32_t idle_rounds = 0;
    if (count && !requests) return PITH_ERR_ARG;
    for (size_t i = 0; i < count; i++)
        if (requests[i] && !requests[i]->channel->busy) return PITH_ERR_ARG;
    for (size_t left = 1; left;) {
        bool worked = false;
        left = round_of(count, requests, reports, &lowest, &worked);
        if (worked) idle_rounds = 0;
        if (left && !worked) pithi_mpi_idle(&idle_rounds);
    }
    return lowest;
}

/* ---- The collectives -------------------------------------------------------------------------*/

pith_status pith_mpi_reduce_scatter_start(pith_mpi_channel *channel, const pith_view *in,
                                          const pith_view *out, float scale, uint64_t step,
                                          pith_mpi_request **request) {
    return start(channel, PITH_MPI_REDUCE_SCATTER, in, out, scale, 0, step, request);
}

pith_status pith_mpi_reduce_scatter(pith_mpi_channel *channel, const pith_view *in,
                                    const pith_view *out, float scale, uint64_t step,
                                    pith_mpi_report *report) {
    pith_mpi_request *request;
    PITHI_MPI_TRY(pith_mpi_reduce_scatter_start(channel, in, out, scale, step, &request));
    return pith_mpi_wait(request, report);
}

pith_status pith_mpi_allreduce_start(pith_mpi_channel *channel, const pith_view *in,
                                     const pith_view *out, float scale, uint64_t step,
                                     pith_mpi_request **request) {
    return start(channel, PITH_MPI_ALLREDUCE, in, out, scale, 0, step, request);
}

pith_status pith_mpi_allreduce(pith_mpi_channel *channel, const pith_view *in, const pith_view *out,
                               float scale, uint64_t step, pith_mpi_report *report) {
    pith_mpi_request *request;
    PITHI_MPI_TRY(pith_mpi_allreduce_start(channel, in, out, scale, step, &request));
    return pith_mpi_wait(request, report);
}

pith_status pith_mpi_allgather_start(pith_mpi_channel *channel, const pith_view *in,
                                     const pith_view *out, uint32_t flags, uint64_t step,
                                     pith_mpi_request **request) {
    return start(channel, PITH_MPI_ALLGATHER, in, out, 1.0f, flags, step, request);
}

pith_status pith_mpi_allgather(pith_mpi_channel *channel, const pith_view *in, const pith_view *out,
                               uint32_t flags, uint64_t step, pith_mpi_report *report) {
    pith_mpi_request *request;
    PITHI_MPI_TRY(pith_mpi_allgather_start(channel, in, out, flags, step, &request));
    return pith_mpi_wait(request, report);
}

pith_status pith_mpi_alltoallv_start(pith_mpi_channel *channel, const pith_view *in,
                                     const pith_view *out, uint64_t step,
                                     pith_mpi_request **request) {
    return start(channel, PITH_MPI_ALLTOALLV, in, out, 1.0f, 0, step, request);
}

pith_status pith_mpi_alltoallv(pith_mpi_channel *channel, const pith_view *in, const pith_view *out,
                               uint64_t step, pith_mpi_report *report) {
    pith_mpi_request *request;
    PITHI_MPI_TRY(pith_mpi_alltoallv_start(channel, in, out, step, &request));
    return pith_mpi_wait(request, report);
}
