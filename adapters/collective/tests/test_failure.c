/* test_failure.c - what goes wrong on one rank ends as one status on all, in time.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "sim.h"

/* ---- One bucket ------------------------------------------------------------------------------*/

enum { N = 4000 };
static float in_data[N], out_data[N], wanted[N];

static pith_collective_options options(uint32_t kind) {
    return (pith_collective_options){.size = sizeof(pith_collective_options),
                                     .kind = kind,
                                     .dtype = PITH_F32,
                                     .count = N,
                                     .spec = "grad:preset=intra,ef=full",
                                     .inter = "grad:preset=inter,ef=full",
                                     .ranks_per_node = 2,
                                     .slice = 256,
                                     .timeout = 60};
}

static pith_view flat(const float *x) { return pith_view_flat(x, PITH_F32, N); }

static pith_status sum(pith_collective_channel *ch, uint64_t step, pith_collective_report *report) {
    const pith_view in = flat(in_data), out = flat(out_data);
    sim_fill(in_data, PITH_F32, N, (uint32_t)world_rank, step);
    return sim_reduce(ch, &in, &out, 1.0f, step, report);
}

/* ---- Damage ----------------------------------------------------------------------------------*/

static bool is_data_error(pith_status status) { return (int)status <= -20 && (int)status > -40; }

/* Every hop, several places of a message; afterwards the channel works, and its error feedback is
 * that of a channel that never saw the failed calls. */
static void damaged(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    const long places[] = {0, 9, 33, 40, 60, 64, 70, 90, 120, -1, -20};
    pith_collective_channel *ch, *clean;
    pith_collective_report report = {.size = sizeof report};
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&clean, &o, NULL), PITH_OK);
    uint64_t step = 1;
    int hits = 0;
    for (int hop = 0; hop < FAULT_VOTES; hop++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++, step++) {
            fault_damage = (struct fault_damage){
                world_rank == world_ranks - 1, (uint32_t)hop, places[k], (int)k % 3, 0, 0};
            const pith_status status = sum(ch, step, &report);
            const bool sent = world_lowest(fault_damage.count < 0 ? 0 : 1) == 0;
            fault_damage.on = false;
            CHECK(sim_same_status(status));
            if (!sent) {
                CHECK_STATUS(status, PITH_OK);
                CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
                continue;
            }
            hits++;
            CHECK(is_data_error(status));
            CHECK(report.failed_rank >= 0 && report.failed_rank < world_ranks);
            CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
            memcpy(wanted, out_data, sizeof wanted);
            CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
            CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
        }
    CHECK(hits >= 20);
    pith_collective_destroy(ch);
    pith_collective_destroy(clean);
}

/* What a rank forwards is damaged, or says that another rank encoded it: rank 0 forwards the frames
 * of rank 2. */
static void damaged_on_the_way(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    const long places[] = {5, 48, 70, 120, -1};
    pith_collective_channel *ch;
    if (world_ranks < 3) return;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    for (size_t k = 0; k < 2 * sizeof places / sizeof *places; k++) {
        fault_damage = (struct fault_damage){
            .on = world_rank == 0, .tag = FAULT_FORWARDED, .byte = places[k / 2], .count = k % 2};
        const bool stranger = places[k / 2] == 48; /* where the header has the rank */
        if (stranger) fault_damage.status = 1;
        const pith_status status = sum(ch, k, NULL);
        CHECK(world_rank || fault_damage.count < 0);
        fault_damage.on = false;
        CHECK(sim_same_status(status));
        CHECK(stranger ? status == PITH_ERR_CORRUPT : is_data_error(status));
        CHECK_STATUS(sum(ch, k, NULL), PITH_OK);
    }
    pith_collective_destroy(ch);
}

/* A message that lost its end is not taken for a shorter message, whatever its checksums say. */
static void shortened(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    for (long lost = 1; lost < 200; lost += 66) {
        fault_damage =
            (struct fault_damage){.on = world_rank == 0, .tag = 0, .count = 1, .lost = lost};
        const pith_status status = sum(ch, (uint64_t)lost, NULL);
        CHECK(status == PITH_ERR_CORRUPT || status == PITH_ERR_TRUNCATED);
        CHECK(sim_same_status(status));
        fault_damage.on = false;
        CHECK_STATUS(sum(ch, (uint64_t)lost, NULL), PITH_OK);
    }
    pith_collective_destroy(ch);
}

/* No rank can go on to tell these: the message is damaged, whatever its checksums say, and the
 * channel is not. */
static void untold(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    const int32_t statuses[] = {5, -100, PITH_ERR_TIMEOUT, PITH_ERR_TRANSPORT, PITH_ERR_BROKEN};
    pith_collective_channel *ch;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    for (size_t k = 0; k < sizeof statuses / sizeof *statuses; k++) {
        fault_damage = (struct fault_damage){
            .on = world_rank == 0, .tag = 0, .count = 1, .byte = 32, .status = statuses[k]};
        CHECK_STATUS(sum(ch, k, NULL), PITH_ERR_CORRUPT);
        fault_damage.on = false;
        CHECK_STATUS(sum(ch, k, NULL), PITH_OK);
    }
    pith_collective_destroy(ch);
}

/* Messages of equal slots whose ranks were mixed up: each is whole, and of this call. */
static void misled(const pith_collective_options *o, int from, int hop, int a, int b) {
    pith_collective_channel *ch;
    CHECK_STATUS(sim_create(&ch, o, NULL), PITH_OK);
    fault_astray =
        (struct fault_astray){world_rank == from, (uint32_t)hop, {(uint32_t)a, (uint32_t)b}, 0};
    CHECK_STATUS(sum(ch, 1, NULL), PITH_ERR_CORRUPT);
    CHECK(world_rank != from || fault_astray.count > 0);
    fault_astray.on = false;
    CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
    pith_collective_destroy(ch);
}

static void mixed_up(void) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    if (world_ranks == 8) misled(&o, 6, 1, 0, 2); /* across nodes */
    o.inter = NULL;
    o.ranks_per_node = (uint32_t)world_ranks;
    if (world_ranks > 2) misled(&o, 2, 0, 0, 1);
}

/* One rank does not begin a call that the others encode. Afterwards all draw the same random bits
 * again, at the step of that call or a later one, and nothing of the call is remembered. */
static void not_begun(void) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch, *clean;
    o.spec = "grad:preset=intra,round=antithetic,ef=full";
    o.inter = "grad:preset=inter,round=antithetic,ef=full";
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&clean, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    pith_view bad = in;
    bad.shape[0]--;
    for (uint64_t step = 1; step < 8; step++) {
        const bool failing = (uint64_t)world_rank == step % (uint64_t)world_ranks;
        sim_fill(in_data, PITH_F32, N, (uint32_t)world_rank, 50 + step);
        CHECK_STATUS(sim_reduce(ch, failing ? &bad : &in, &out, 1, step + step % 2 * 50, NULL),
                     PITH_ERR_SHAPE);
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
        memcpy(wanted, out_data, sizeof wanted);
        CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
        CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    }
    pith_collective_destroy(ch);
    pith_collective_destroy(clean);
}

/* A step that is taken back may be taken again, and a checkpoint goes on like the original. */
static void taken_back(void) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch, *other;
    pith_stats stats = {.size = sizeof stats};
    size_t bytes = 0;
    o.spec = "grad:preset=intra,round=stochastic,ef=full";
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    CHECK_STATUS(sim_create(&other, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(pith_collective_rollback(ch, 2), PITH_OK);
    CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    CHECK_STATUS(pith_collective_stats(ch, 0, &stats), PITH_OK);
    CHECK(stats.frames > 0 && stats.frames % 3 == 0); /* three calls */
    CHECK_STATUS(pith_collective_stats(ch, 1, &stats), PITH_OK);
    CHECK((stats.frames > 0) == (world_ranks > 2)); /* the hop across nodes */
    CHECK_STATUS(pith_collective_stats(ch, 3, &stats), PITH_ERR_ARG);
    const uint64_t capacity = pith_collective_save_bytes(ch);
    unsigned char *saved = sim_take(capacity);
    CHECK_STATUS(pith_collective_save(ch, saved, capacity, &bytes), PITH_OK);
    CHECK(bytes == capacity);
    CHECK_STATUS(pith_collective_load(other, saved, bytes), PITH_OK);
    CHECK_STATUS(sum(ch, 3, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(sum(other, 3, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    saved[bytes - 1] ^= 1;
    CHECK_STATUS(pith_collective_load(other, saved, bytes), PITH_ERR_CHECKSUM);
    CHECK(pith_collective_last_error(other)->text[0]);
    CHECK_STATUS(pith_collective_reset(ch), PITH_OK);
    CHECK_STATUS(pith_collective_save(ch, saved, capacity, &bytes), PITH_OK);
    pith_collective_destroy(other);
    o.seed = 5; /* stays the channel's, whatever it loads */
    CHECK_STATUS(sim_create(&other, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(other, 1, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(pith_collective_load(other, saved, bytes), PITH_OK);
    CHECK_STATUS(sum(other, 1, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) != 0);
    free(saved);
    pith_collective_destroy(ch);
    pith_collective_destroy(other);
}

/* Damages frames with a base in hop 0, or in the hop that forwards, as the tag says. */
static void damaged_weights(uint32_t tag) {
    const pith_collective_options o = {.size = sizeof o,
                                       .kind = PITH_COLLECTIVE_ALLGATHER,
                                       .dtype = PITH_F32,
                                       .base_dtype = PITH_F32,
                                       .count = N,
                                       .spec = "wdiff:bits=4,group=64",
                                       .ranks_per_node = 2,
                                       .timeout = 60};
    pith_collective_channel *ch;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    for (uint64_t step = 0; step < 4; step++) {
        sim_fill(in_data, PITH_F32, N, 0, step);
        fault_damage = (struct fault_damage){step == 2 && world_rank == 0, tag, 150, 0, 0, 0};
        const pith_status status = sim_gather(ch, &in, &out, 0, step, NULL);
        fault_damage.on = false;
        CHECK(sim_same_status(status));
        CHECK(step == 2 ? is_data_error(status) : status == (step < 2 ? PITH_OK : PITH_ERR_STATE));
    }
    CHECK_STATUS(sim_gather(ch, &in, &out, PITH_KEY_FRAME, 7, NULL), PITH_OK);
    CHECK(memcmp(in_data, out_data, sizeof out_data) == 0);
    CHECK_STATUS(sim_gather(ch, &in, NULL, 0, 8, NULL), PITH_OK);
    const uint32_t own = world_rank == 0 ? PITH_KEY_FRAME : 0;
    CHECK_STATUS(sim_gather(ch, &in, &out, own, 9, NULL), PITH_ERR_ARG);
    CHECK_STATUS(sim_gather(ch, &in, &out, PITH_KEY_FRAME, 10, NULL), PITH_OK);
    CHECK_STATUS(sim_gather(ch, &in, &out, 0x80, 11, NULL), PITH_ERR_ARG);
    CHECK_STATUS(sim_gather(ch, &in, &out, PITH_KEY_FRAME, 12, NULL), PITH_OK);
    pith_collective_destroy(ch);
}

/* ---- Arguments -------------------------------------------------------------------------------*/

static void arguments(void) {
    const pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    const bool failing = world_rank == world_ranks / 2;
    pith_collective_channel *ch;
    pith_collective_report report = {.size = sizeof report};
    pith_collective_request *request;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    pith_view bad = in;
    bad.shape[0]--;
    CHECK_STATUS(sim_reduce(ch, failing ? &bad : &in, &out, 1, 1, &report), PITH_ERR_SHAPE);
    CHECK(report.failed_rank == world_ranks / 2);
    CHECK(failing == (pith_collective_last_error(ch)->text[0] != 0));
    bad = in;
    bad.dtype = PITH_F64;
    CHECK_STATUS(sim_reduce(ch, failing ? &bad : &in, &out, 1, 1, NULL), PITH_ERR_DTYPE);
    CHECK_STATUS(sim_reduce(ch, &in, failing ? &bad : &out, 1, 1, NULL), PITH_ERR_DTYPE);
    CHECK_STATUS(sim_reduce(ch, failing ? NULL : &in, &out, 1, 1, NULL), PITH_ERR_ARG);
    bad = out;
    bad.stride[0] = 0;
    const pith_status status = sim_reduce(ch, &in, failing ? &bad : &out, 1, 1, NULL);
    CHECK(status != PITH_OK && sim_same_status(status));
    CHECK_STATUS(sim_reduce(ch, &in, &out, 1, failing ? 2 : 1, NULL), PITH_ERR_STEP);
    CHECK_STATUS(sim_reduce(ch, &in, &out, failing ? 2 : 1, 1, NULL), PITH_ERR_ARG);
    CHECK_STATUS(sim_start(NULL, &in, &out, 1, 1, &request), PITH_ERR_ARG);
    CHECK_STATUS(sum(ch, 5, NULL), PITH_OK);
    pith_collective_destroy(ch);
}

static bool names_rank(const pith_error *error, int rank) {
    char name[32];
    snprintf(name, sizeof name, "rank %d ", rank);
    return strstr(error->text, name) != NULL;
}

static const char **spec_of(pith_collective_options *o, int part) {
    return part == 0 ? &o->spec : part == 1 ? &o->inter : &o->gather;
}

static const char *change_option(pith_collective_options *o, int k) {
    static const pith_exempt exempt[] = {{.first = 0, .count = 8, .how = PITH_EXEMPT_16}};
    static uint64_t counts[8];
    counts[0] = N;
    switch (k) {
    case 0: return o->kind = PITH_COLLECTIVE_REDUCE_SCATTER, "kind";
    case 1: return o->dtype = PITH_BF16, "dtype";
    case 2: return o->flags = PITH_COLLECTIVE_MEASURE_THRESHOLD, "flags";
    case 3: return o->count--, "count";
    case 4: return o->counts = counts, "counts";
    case 5: return o->inter = NULL, "inter";
    case 6: return o->gather = "grad:bits=8", "gather";
    case 7: return o->ranks_per_node = 1, "node";
    case 8: return o->rng_stream = 1, "rng_stream";
    case 9: return o->seed = 5, "seed";
    case 10: return o->slice = 512, "slice";
    case 11: return o->threshold = 100, "threshold";
    case 12: return o->timeout = 61, "timeout";
    default: return o->exempt = exempt, o->exempt_count = 1, "exempt";
    }
}

/* Every rank hears in which option one differs from rank 0. */
static void differs_in_an_option(int rank) {
    for (int k = 0; k < 14; k++) {
        pith_collective_options same = options(PITH_COLLECTIVE_ALLREDUCE), other = same;
        const char *const name = change_option(&other, k);
        pith_error error = {.size = sizeof error};
        pith_collective_channel *ch;
        char text[100];
        snprintf(text, sizeof text, "rank %d has other options than rank 0: they differ in ",
                 rank ? rank : 1);
        CHECK_STATUS(sim_create(&ch, world_rank == rank ? &other : &same, &error), PITH_ERR_ARG);
        CHECK(ch == NULL && strncmp(error.text, text, strlen(text)) == 0);
        CHECK(strstr(error.text + strlen(text), name) != NULL);
    }
}

/* Every rank hears which one differs from rank 0, in options or in specs. */
static void differs(int rank) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    const bool other = world_rank == rank;
    pith_error error = {.size = sizeof error};
    pith_collective_channel *ch;
    const int named = rank ? rank : 1;
    o.seed = other ? 5 : 4;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
    CHECK(ch == NULL && names_rank(&error, named));
    /* An older caller gets less of the text, but a whole one; none where the size is not set. */
    memset(&error, 'x', sizeof error);
    error.size = offsetof(pith_error, text) + 10;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
    CHECK(strlen(error.text) == 9 && error.text[10] == 'x' && names_rank(&error, named));
    memset(&error, 'x', sizeof error);
    error.size = 0;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
    CHECK(error.text[0] == 'x');
    error = (pith_error){.size = sizeof error};
    static const char *const specs[][2] = {{"grad:bits=8,group=64", "grad:bits=8,group=32"},
                                           {"grad:bits=8", "wdiff:bits=8"},
                                           {"grad:bits=8", "grad:bits=8,ef=full"}};
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++)
        for (int part = 0; part < 3; part++) {
            if (part == 1 && world_ranks < 3) continue; /* there is no second level */
            o = options(PITH_COLLECTIVE_ALLREDUCE);
            o.gather = "grad:bits=8";
            *spec_of(&o, part) = specs[k][other];
            CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_MISMATCH);
            CHECK(ch == NULL && names_rank(&error, named));
            /* A rank hears its own spec where another one's differs: of several the first. */
            const char *const own = strstr(error.text, "; here the spec is ");
            const size_t name = strcspn(specs[k][other], ":");
            CHECK(own && strncmp(strrchr(own, ' ') + 1, specs[k][other], name) == 0);
        }
    /* A spec that spells out a default is the same spec. */
    o = options(PITH_COLLECTIVE_ALLREDUCE);
    o.spec = other ? "wdiff:bits=4" : "wdiff";
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    pith_collective_destroy(ch);
}

static void bad_options(void) {
    const bool failing = world_rank == world_ranks - 1;
    pith_collective_channel *ch;
    pith_error error = {.size = sizeof error};
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    if (failing) o.spec = "grad:bits=7";
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_SPEC);
    CHECK(failing == (strstr(error.text, "bits") != NULL));
    CHECK(failing || names_rank(&error, world_ranks - 1));
    o.spec = "grad:bits=7";
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_SPEC);
    CHECK(ch == NULL && error.text[0]);
    o.spec = "lossless";
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_UNSUPPORTED);
    o = options(PITH_COLLECTIVE_ALLREDUCE);
    if (failing) o.count--;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
    o = options(PITH_COLLECTIVE_ALLREDUCE);
    o.dtype = PITH_F64;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_DTYPE);
    CHECK(strstr(error.text, "found dtype f64"));
    o = options(failing ? 77 : PITH_COLLECTIVE_ALLREDUCE);
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
    CHECK_STATUS(sim_create(&ch, failing ? NULL : &o, &error), PITH_ERR_ARG);
    o = options(PITH_COLLECTIVE_ALLREDUCE);
    o.size = sizeof o + 8;
    struct {
        pith_collective_options o;
        uint64_t more;
    } newer = {o, 1};
    CHECK_STATUS(sim_create(&ch, &newer.o, &error), PITH_ERR_UNSUPPORTED);
    CHECK(strstr(error.text, "update this one"));
    newer.more = 0;
    CHECK_STATUS(sim_create(&ch, &newer.o, &error), PITH_OK);
    pith_collective_destroy(ch);
    struct {
        pith_env env;
        uint64_t more;
    } env = {{.size = sizeof env}, 1};
    o = options(PITH_COLLECTIVE_ALLREDUCE);
    o.env = &env.env;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_UNSUPPORTED);
    CHECK(strstr(error.text, "env"));
    env.more = 0;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_OK);
    pith_collective_destroy(ch);
    env.env.size = 5000;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
}

/* ---- Transports ------------------------------------------------------------------------------*/

static int released;
static void (*inner_release)(void *user, int broken);
static void count_release(void *user, int broken) {
    released += 1 + 10 * broken;
    inner_release(user, broken);
}

static uint32_t node_of[64];
static void own_nodes(pith_transport *t) {
    node_of[0] = world_rank == world_ranks - 1;
    t->node_of = node_of;
}
static void own_flags(pith_transport *t) {
    if (world_rank == world_ranks - 1) t->flags = PITH_TRANSPORT_EXACT;
}

/* Ranks whose transports say different things refuse to make a channel. */
static void unlike(void (*change)(pith_transport *t)) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_error error = {.size = sizeof error};
    pith_collective_channel *ch;
    o.ranks_per_node = 0;
    sim_change = change;
    CHECK_STATUS(sim_create(&ch, &o, &error), PITH_ERR_ARG);
    CHECK(names_rank(&error, world_ranks - 1));
    sim_change = fault_wrap;
}

static void transports(void) {
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch;
    pith_error error = {.size = sizeof error};
    pith_transport good, t;
    CHECK_STATUS(world_transport(&good), PITH_OK);
    inner_release = good.release;
    good.release = count_release;
    CHECK_STATUS(pith_collective_create(NULL, &good, &o, &error), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_create(&ch, NULL, &o, &error), PITH_ERR_ARG);
    for (int k = 0; k < 6; k++) {
        t = good;
        if (k == 0) t.size = 0;
        if (k == 1) t.isend = NULL;
        if (k == 2) t.irecv = NULL;
        if (k == 3) t.test = NULL;
        if (k == 4) t.rank = t.ranks;
        if (k == 5) t.flags = 0x80;
        CHECK_STATUS(pith_collective_create(&ch, &t, &o, &error), PITH_ERR_ARG);
        CHECK(ch == NULL && error.text[0] && released == 0);
    }
    t = good;
    t.largest = 100;
    CHECK_STATUS(pith_collective_create(&ch, &t, &o, &error), PITH_ERR_ARG);
    CHECK(strstr(error.text, "longer") && released == 1);
    CHECK_STATUS(world_transport(&good), PITH_OK);
    good.release = count_release;
    CHECK_STATUS(pith_collective_create(&ch, &good, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    CHECK(released == 1);
    pith_collective_destroy(ch);
    CHECK(released == 2);
    if (world_ranks > 2) unlike(own_nodes); /* two ranks have two nodes, whatever they are called */
    unlike(own_flags);
    const int none[1] = {0};
    CHECK_STATUS(pith_collective_sockets(NULL, 0, 1, none), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_sockets(&t, 0, 1, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_collective_sockets(&t, 1, 1, none), PITH_ERR_ARG);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

struct budget {
    int left;
    bool once; /* only one allocation fails: the next ones succeed */
    long blocks;
    uint64_t bytes; /* bytes of all blocks so far */
};

static void *take(void *user, size_t bytes, size_t align) {
    struct budget *b = user;
    const int left = b->left--;
    if (b->once ? left == 0 : left <= 0) return NULL;
    b->blocks++;
    b->bytes += bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void give(void *user, void *memory, size_t bytes) {
    struct budget *b = user;
    (void)bytes;
    if (memory) b->blocks--;
    free(memory);
}

/* One rank runs out of memory at any place: all hear of it, and nothing is lost. */
static void no_memory(bool once) {
    struct budget budget = {.once = once};
    const pith_env env = {
        .size = sizeof env, .alloc = take, .release = give, .alloc_user = &budget};
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch = NULL;
    o.slice = 2000;
    o.env = &env;
    pith_status status = PITH_ERR_MEMORY;
    for (int left = 0; status == PITH_ERR_MEMORY && left < 1000; left++) {
        budget.left = world_rank == 0 ? left : 100000;
        status = sim_create(&ch, &o, NULL);
        CHECK(sim_same_status(status));
        CHECK(status == PITH_OK || (status == PITH_ERR_MEMORY && budget.blocks == 0));
    }
    CHECK_STATUS(status, PITH_OK);
    budget.left = 0; /* calls allocate nothing */
    budget.once = false;
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    pith_collective_destroy(ch);
    CHECK(budget.blocks == 0);
}

static uint64_t memory_of(const char *spec, const pith_exempt *exempt, size_t exempt_count) {
    struct budget budget = {.left = 100000};
    const pith_env env = {
        .size = sizeof env, .alloc = take, .release = give, .alloc_user = &budget};
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch;
    o.spec = spec;
    o.inter = NULL;
    o.env = &env;
    o.exempt = exempt;
    o.exempt_count = exempt_count;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_OK);
    pith_collective_destroy(ch);
    return budget.bytes;
}

/* Error feedback takes two copies of what a rank encodes, and nothing for what it decodes. */
static void memory_of_feedback(void) {
    const uint64_t encoded = N + N / (uint64_t)world_ranks;
    const uint64_t more =
        memory_of("grad:bits=4,ef=full", NULL, 0) - memory_of("grad:bits=4", NULL, 0);
    CHECK(more >= 8 * N && more < 8 * encoded + 2 * N);
}

/* Exempt ranges take memory for each range and for each slice, not for each of both together; and
 * they ascend. */
static void memory_of_exempt(void) {
    pith_exempt ranges[500];
    for (uint64_t i = 0; i < 500; i++) ranges[i] = (pith_exempt){8 * i, 1, PITH_EXEMPT_EXACT};
    const uint64_t slices = (uint64_t)world_ranks * (N / (uint64_t)world_ranks / 256 + 1);
    const uint64_t more = memory_of("grad:bits=4", ranges, 500) - memory_of("grad:bits=4", NULL, 0);
    CHECK(more < 20 * (slices + 500) * sizeof *ranges);
    const pith_exempt twice[] = {{8, 8, PITH_EXEMPT_EXACT}, {15, 1, PITH_EXEMPT_EXACT}};
    pith_collective_options o = options(PITH_COLLECTIVE_ALLREDUCE);
    pith_collective_channel *ch;
    o.exempt = twice;
    o.exempt_count = 2;
    CHECK_STATUS(sim_create(&ch, &o, NULL), PITH_ERR_ARG);
}

int main(int argc, char **argv) {
    world_begin(&argc, &argv);
    sim_change = fault_wrap;
    damaged();
    damaged_on_the_way();
    shortened();
    untold();
    mixed_up();
    not_begun();
    taken_back();
    damaged_weights(0);
    if (world_ranks > 2) damaged_weights(1);
    arguments();
    differs(world_ranks - 1);
    differs(0);
    differs_in_an_option(world_ranks - 1);
    differs_in_an_option(0);
    bad_options();
    transports();
    no_memory(false);
    no_memory(true);
    memory_of_feedback();
    memory_of_exempt();
    fault_end();
    return world_end("failures", sim_failures());
}
