/* break_even.c - from which size on compressing is faster, measured where it will be used.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

enum { SMALLEST = 10, LARGEST = 20, REPEATS = 5 };

/* The fastest of several calls of one size, compressed or not. */
struct timing {
    double total, codec;
    uint64_t bytes; /* bytes sent */
};

/* Fills bytes with f32 values whose halves are alike, so that f16, bf16 and f64 see ordinary values
 * too: a half of random bits would be infinite or NaN now and then. */
static void fill(void *data, uint64_t bytes) {
    uint32_t seed = 1;
    for (uint64_t at = 0; at + 4 <= bytes; at += 4) {
        seed = seed * 1664525u + 1013904223u;
        const float x = (float)(int32_t)seed * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits & 0xFFFF0000u) | bits >> 16;
        memcpy((char *)data + at, &bits, sizeof bits);
    }
}

static pith_status once(pith_collective_channel *ch, const pith_collective_options *o, void *in,
                        void *out, uint64_t step, pith_collective_report *report) {
    const pith_view from = pith_view_flat(in, o->dtype, ch->in_count);
    const pith_view to = pith_view_flat(out, o->dtype, ch->out_count);
    const pith_collective_call call = {.size = sizeof call,
                                       .inputs = &from,
                                       .outputs = &to,
                                       .input_count = 1,
                                       .output_count = 1,
                                       .step = step};
    return pith_collective_run(ch, &call, report);
}

/* Times a channel. The first call warms up and is not counted. */
static pith_status time_channel(pith_collective_channel *ch, const pith_collective_options *o,
                                void *in, void *out, struct timing *t) {
    pith_collective_report r = {.size = sizeof r};
    for (uint64_t step = 0; step <= REPEATS; step++) {
        PITHI_COLLECTIVE_TRY(once(ch, o, in, out, step, &r));
        if (step == 0 || (step > 1 && r.total_seconds >= t->total)) continue;
        t->total = r.total_seconds;
        t->codec = r.encode_seconds + r.recode_seconds + r.decode_seconds;
        t->bytes = r.sent_bytes[0] + r.sent_bytes[1];
    }
    return PITH_OK;
}

/* Takes the times of the slowest rank, so that all ranks compare the same numbers. */
static pith_status slowest(pith_collective_channel *ch, struct timing *t) {
    uint64_t total = (uint64_t)(1e9 * t->total), codec = (uint64_t)(1e9 * t->codec);
    PITHI_COLLECTIVE_TRY(pithi_collective_largest(ch, &total));
    PITHI_COLLECTIVE_TRY(pithi_collective_largest(ch, &codec));
    PITHI_COLLECTIVE_TRY(pithi_collective_largest(ch, &t->bytes));
    t->total = 1e-9 * (double)total;
    t->codec = 1e-9 * (double)codec;
    return PITH_OK;
}

static pith_status time_variant(const pith_transport *transport, pith_collective_options o,
                                uint64_t count, bool packed, struct timing *t, pith_error *error) {
    pith_transport borrowed = *transport;
    pith_collective_channel *ch;
    int culprit;
    borrowed.release = NULL;
    o.flags = 0;
    o.count = count;
    o.counts = NULL;
    o.exempt = NULL;
    o.exempt_count = 0;
    o.threshold = packed ? 0 : count + 1;
    PITHI_COLLECTIVE_TRY(pith_collective_create(&ch, &borrowed, &o, error));
    const size_t bytes = pith_dtype_bytes(o.dtype);
    void *const in = pithi_collective_take(ch, count, bytes);
    void *const out = pithi_collective_take(ch, count, bytes);
    pith_status status =
        pithi_collective_agree(ch, in && out ? PITH_OK : PITH_ERR_MEMORY, &culprit);
    if (!status) {
        fill(in, count * bytes);
        status = time_channel(ch, &o, in, out, t);
    }
    if (!status) status = slowest(ch, t);
    pith_collective_destroy(ch);
    return status;
}

static pith_status measure(const pith_transport *transport, const pith_collective_options *options,
                           pith_collective_measure *out, pith_error *error) {
    for (int log2 = SMALLEST; log2 <= LARGEST; log2 += 2) {
        const uint64_t count = UINT64_C(1) << log2;
        struct timing plain = {0, 0, 0}, packed = {0, 0, 0};
        PITHI_COLLECTIVE_TRY(time_variant(transport, *options, count, false, &plain, error));
        PITHI_COLLECTIVE_TRY(time_variant(transport, *options, count, true, &packed, error));
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

/* Copies what the caller gave, and checks what the calls that are measured do not. */
static pith_status take_arguments(const pith_transport *transport,
                                  const pith_collective_options *options, pith_transport *t,
                                  pith_collective_options *o, pith_error *error) {
    const pith_status status = pithi_collective_copy_transport(t, transport);
    if (status) {
        pithi_collective_say(error, "the transport is not valid");
        return status;
    }
    PITHI_COLLECTIVE_TRY(pithi_collective_copy_options(o, options, error));
    o->size = sizeof *o;
    if (!o->base_dtype && o->kind < PITH_COLLECTIVE_ALLTOALLV) return PITH_OK;
    pithi_collective_say(error, "break-even is not for these options");
    return PITH_ERR_ARG;
}

pith_status pith_collective_break_even(const pith_transport *transport,
                                       const pith_collective_options *options,
                                       pith_collective_measure *out, pith_error *error) {
    pith_collective_measure found = {.size = sizeof found, .elements = UINT64_MAX};
    pith_collective_options o;
    pith_transport t;
    pith_error own;
    pithi_collective_say(&own, "%s", "");
    pith_status status = pithi_collective_give(out, &found, sizeof found);
    if (status)
        pithi_collective_say(&own, "out is NULL, or its size is not set");
    else
        status = take_arguments(transport, options, &t, &o, &own);
    if (!status) {
        status = measure(&t, &o, &found, &own);
        pithi_collective_give(out, &found, sizeof found);
    }
    pithi_collective_give_error(error, &own);
    return status;
}
