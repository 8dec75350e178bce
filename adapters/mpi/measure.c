/* measure.c - from which size on compressing is faster, measured where it will be used.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

enum { SMALLEST = 10, LARGEST = 20, REPEATS = 5 };

/* One size, one way: the fastest of the repeats. */
struct timing {
    double total, codec;
    uint64_t bytes; /* sent */
};

static void fill(float *x, uint64_t count) {
    uint32_t seed = 1;
    for (uint64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

/* Rows of f32 serve all dtypes: bf16 and f16 see other, but equally ordinary, bit patterns. */
static pith_status once(pith_mpi_channel *ch, const pith_mpi_options *o, void *in, void *out,
                        uint64_t step, pith_mpi_report *report) {
    const pith_view from = pith_view_flat(in, o->dtype, ch->in_count);
    const pith_view to = pith_view_flat(out, o->dtype, ch->out_count);
    if (o->kind == PITH_MPI_REDUCE_SCATTER)
        return pith_mpi_reduce_scatter(ch, &from, &to, 1.0f, step, report);
    if (o->kind == PITH_MPI_ALLREDUCE)
        return pith_mpi_allreduce(ch, &from, &to, 1.0f, step, report);
    return pith_mpi_allgather(ch, &from, &to, 0, step, report);
}

/* The first call warms up and is not counted. */
static pith_status time_channel(pith_mpi_channel *ch, const pith_mpi_options *o, void *in,
                                void *out, struct timing *t) {
    pith_mpi_report r = {.size = sizeof r};
    for (uint64_t step = 0; step <= REPEATS; step++) {
        PITHI_MPI_TRY(once(ch, o, in, out, step, &r));
        if (step == 0 || (step > 1 && r.total_seconds >= t->total)) continue;
        t->total = r.total_seconds;
        t->codec = r.encode_seconds + r.recode_seconds + r.decode_seconds;
        t->bytes = r.sent_bytes[0] + r.sent_bytes[1];
    }
    return PITH_OK;
}

/* The slowest rank's times, so that all ranks compare the same numbers. */
static pith_status time_variant(MPI_Comm comm, pith_mpi_options o, uint64_t count, bool packed,
                                struct timing *t, pith_error *error) {
    pith_mpi_channel *ch;
    o.count = count;
    o.counts = NULL;
    o.exempt = NULL;
    o.exempt_count = 0;
    o.threshold = packed ? 0 : count + 1;
    PITHI_MPI_TRY(pith_mpi_create(&ch, comm, &o, error));
    float *in = pithi_mpi_take(ch, count, sizeof *in),
          *out = pithi_mpi_take(ch, count, sizeof *out);
    int culprit;
    pith_status status = pithi_mpi_agree(ch, in && out ? PITH_OK : PITH_ERR_MEMORY, &culprit);
    if (!status) {
        fill(in, count);
        status = time_channel(ch, &o, in, out, t);
    }
    double mine[2] = {t->total, t->codec}, all[2] = {0, 0};
    if (!status && MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, ch->comm))
        status = PITH_ERR_MPI;
    t->total = all[0];
    t->codec = all[1];
    uint64_t bytes = t->bytes;
    if (!status && MPI_Allreduce(&bytes, &t->bytes, 1, MPI_UINT64_T, MPI_MAX, ch->comm))
        status = PITH_ERR_MPI;
    pith_mpi_destroy(ch);
    return status;
}

static pith_status measure(MPI_Comm comm, const pith_mpi_options *options, pith_mpi_measure *out,
                           pith_error *error) {
    for (int log2 = SMALLEST; log2 <= LARGEST; log2 += 2) {
        const uint64_t count = UINT64_C(1) << log2;
        struct timing plain = {0, 0, 0}, packed = {0, 0, 0};
        PITHI_MPI_TRY(time_variant(comm, *options, count, false, &plain, error));
        PITHI_MPI_TRY(time_variant(comm, *options, count, true, &packed, error));
        if (packed.total >= plain.total)
            out->elements = UINT64_MAX;
        else if (out->elements == UINT64_MAX)
            out->elements = count;
        out->plain_ns = 1e9 * plain.total / (double)count;
        out->packed_ns = 1e9 * packed.total / (double)count;
        out->codec_ns = 1e9 * packed.codec / (double)count;
        out->link_bytes_per_s = (double)plain.bytes / plain.total;
    }
    return PITH_OK;
}

pith_status pith_mpi_break_even(MPI_Comm comm, const pith_mpi_options *options,
                                pith_mpi_measure *out, pith_error *error) {
    pith_mpi_measure found = {.size = sizeof found, .elements = UINT64_MAX};
    pith_error own;
    pithi_mpi_say(&own, "%s", "");
    pith_status status = pithi_mpi_give(out, &found, sizeof found);
    if (status || !options || options->size != sizeof *options || options->base_dtype ||
        options->kind == PITH_MPI_ALLTOALLV) {
        pithi_mpi_say(&own, "break-even is not for these options");
        status = PITH_ERR_ARG;
    } else {
        status = measure(comm, options, &found, &own);
        pithi_mpi_give(out, &found, sizeof found);
    }
    pithi_mpi_give_error(error, &own);
    return status;
}
