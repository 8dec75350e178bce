/* test_mpi_failure.c - what goes wrong on one rank ends as one status on all, in time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * MPI_Isend is replaced (MPI's profiling interface) by one that can damage what it sends, or send
 * it to another rank; MPI_Iallgather by one that can lie about this rank. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

/* ---- A network that damages ------------------------------------------------------------------*/

static struct {
    int rank, tag; /* whose messages; -1: none */
    long byte;     /* from the start, or from the end when negative */
    int count;     /* messages left alone before */
} damage = {-1, 0, 0, 0};

/* Messages of `rank` in hop `tag` to one of two ranks go to the other. */
static struct {
    int rank, tag, to[2];
    int count; /* messages that did */
} astray = {-1, 0, {0, 0}, 0};

static int stray(int to, int tag) {
    if (astray.rank != sim_rank || tag != astray.tag) return to;
    if (to != astray.to[0] && to != astray.to[1]) return to;
    astray.count++;
    return to == astray.to[0] ? astray.to[1] : astray.to[0];
}

enum { KEPT = 256 };
static struct { void *copy; } kept[KEPT];
static int kept_count;

/* Sends a damaged copy, so that the sender's own frame stays good. */
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    to = stray(to, tag);
    if (damage.rank != sim_rank || tag != damage.tag || damage.count-- != 0 || count == 0)
        return PMPI_Isend(data, count, type, to, tag, comm, request);
    unsigned char *copy = sim_take((uint64_t)count);
    memcpy(copy, data, (size_t)count);
    const long at = damage.byte < 0 ? count + damage.byte : damage.byte;
    copy[at < count && at >= 0 ? at : count - 1] ^= 0x10;
    kept[kept_count++ % KEPT].copy = copy;
    return PMPI_Isend(copy, count, type, to, tag, comm, request);
}

/* The number that this rank shows the others is another one, after so many calls; -1: never. */
static int honest = -1;

int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   int recv_count, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request) {
    static uint64_t lie; /* MPI reads it until the call has ended */
    if (honest >= 0 && honest-- == 0) {
        memcpy(&lie, send, sizeof lie);
        lie ^= 1;
        send = &lie;
    }
    return PMPI_Iallgather(send, send_count, send_type, recv, recv_count, recv_type, comm, request);
}

/* ---- One bucket ------------------------------------------------------------------------------*/

enum { N = 4000 };
static float in_data[N], out_data[N], wanted[N];

static pith_mpi_options options(uint32_t kind) {
    return (pith_mpi_options){.size = sizeof(pith_mpi_options),
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

static pith_status sum(pith_mpi_channel *ch, uint64_t step, pith_mpi_report *report) {
    const pith_view in = flat(in_data), out = flat(out_data);
    sim_fill(in_data, PITH_F32, N, (uint32_t)sim_rank, step);
    return pith_mpi_allreduce(ch, &in, &out, 1.0f, step, report);
}

static bool same_status(pith_status status) {
    int own = (int)status, low, high;
    MPI_Allreduce(&own, &low, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&own, &high, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return low == high;
}

/* ---- Damage ----------------------------------------------------------------------------------*/

static bool is_data_error(pith_status status) { return (int)status <= -20 && (int)status > -40; }

/* Every hop, several places of a message; afterwards the channel works, and its error feedback is
 * that of a channel that never saw the failed calls. */
static void damaged(void) {
    const pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    const long places[] = {0, 9, 33, 40, 60, 64, 70, 90, 120, -1, -20};
    pith_mpi_channel *ch, *clean;
    pith_mpi_report report = {.size = sizeof report};
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_mpi_create(&clean, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    uint64_t step = 1;
    int hits = 0;
    for (int hop = 0; hop < 3; hop++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++, step++) {
            damage.rank = sim_ranks - 1;
            damage.tag = hop;
            damage.byte = places[k];
            damage.count = (int)k % 3;
            const pith_status status = sum(ch, step, &report);
            const bool hit = damage.count < 0;
            damage.rank = -1;
            int sent = sim_rank == sim_ranks - 1 && hit;
            MPI_Bcast(&sent, 1, MPI_INT, sim_ranks - 1, MPI_COMM_WORLD);
            CHECK(same_status(status));
            if (!sent) {
                CHECK_STATUS(status, PITH_OK);
                CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
                continue;
            }
            hits++;
            CHECK(is_data_error(status));
            CHECK(report.failed_rank >= 0 && report.failed_rank < sim_ranks);
            CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
            memcpy(wanted, out_data, sizeof wanted);
            CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
            CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
        }
    CHECK(hits >= 20);
    pith_mpi_destroy(ch);
    pith_mpi_destroy(clean);
}

/* Messages of equal slots whose ranks were mixed up: each is whole, and of this call. */
static void misled(const pith_mpi_options *o, int from, int hop, int a, int b) {
    pith_mpi_channel *ch;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, o, NULL), PITH_OK);
    astray.rank = from;
    astray.tag = hop;
    astray.to[0] = a;
    astray.to[1] = b;
    astray.count = 0;
    CHECK_STATUS(sum(ch, 1, NULL), PITH_ERR_CORRUPT);
    CHECK(sim_rank != from || astray.count > 0);
    astray.rank = -1;
    CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
    pith_mpi_destroy(ch);
}

static void mixed_up(void) {
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    if (sim_ranks == 8) misled(&o, 6, 1, 0, 2); /* across nodes */
    o.inter = NULL;
    o.ranks_per_node = (uint32_t)sim_ranks;
    if (sim_ranks > 2) misled(&o, 2, 0, 0, 1);
}

/* A call that one rank does not begin, and the others encode: afterwards all draw the same random
 * bits again, at the step of that call or a later one, and nothing of it is remembered. */
static void not_begun(void) {
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    pith_mpi_channel *ch, *clean;
    o.spec = "grad:preset=intra,round=antithetic,ef=full";
    o.inter = "grad:preset=inter,round=antithetic,ef=full";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_mpi_create(&clean, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    pith_view bad = in;
    bad.shape[0]--;
    for (uint64_t step = 1; step < 8; step++) {
        const bool failing = (uint64_t)sim_rank == step % (uint64_t)sim_ranks;
        sim_fill(in_data, PITH_F32, N, (uint32_t)sim_rank, 50 + step);
        CHECK_STATUS(
            pith_mpi_allreduce(ch, failing ? &bad : &in, &out, 1, step + step % 2 * 50, NULL),
            PITH_ERR_SHAPE);
        CHECK_STATUS(sum(ch, step, NULL), PITH_OK);
        memcpy(wanted, out_data, sizeof wanted);
        CHECK_STATUS(sum(clean, step, NULL), PITH_OK);
        CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    }
    pith_mpi_destroy(ch);
    pith_mpi_destroy(clean);
}

/* A step that is taken back may be taken again, and a checkpoint goes on like the original. */
static void taken_back(void) {
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    pith_mpi_channel *ch, *other;
    pith_stats stats = {.size = sizeof stats};
    size_t bytes = 0;
    o.spec = "grad:preset=intra,round=stochastic,ef=full";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    CHECK_STATUS(pith_mpi_create(&other, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(pith_mpi_rollback(ch, 2), PITH_OK);
    CHECK_STATUS(sum(ch, 2, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    CHECK_STATUS(pith_mpi_stats(ch, 0, &stats), PITH_OK);
    CHECK(stats.frames > 0 && stats.frames % 3 == 0); /* three calls */
    CHECK_STATUS(pith_mpi_stats(ch, 1, &stats), PITH_OK);
    CHECK((stats.frames > 0) == (sim_ranks > 2)); /* the hop across nodes */
    CHECK_STATUS(pith_mpi_stats(ch, 3, &stats), PITH_ERR_ARG);
    const uint64_t capacity = pith_mpi_save_bytes(ch);
    unsigned char *saved = sim_take(capacity);
    CHECK_STATUS(pith_mpi_save(ch, saved, capacity, &bytes), PITH_OK);
    CHECK(bytes == capacity);
    CHECK_STATUS(pith_mpi_load(other, saved, bytes), PITH_OK);
    CHECK_STATUS(sum(ch, 3, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(sum(other, 3, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    saved[bytes - 1] ^= 1;
    CHECK_STATUS(pith_mpi_load(other, saved, bytes), PITH_ERR_CHECKSUM);
    CHECK(pith_mpi_last_error(other)->text[0]);
    CHECK_STATUS(pith_mpi_reset(ch), PITH_OK);
    CHECK_STATUS(pith_mpi_save(ch, saved, capacity, &bytes), PITH_OK);
    pith_mpi_destroy(other);
    o.seed = 5; /* stays the channel's, whatever it loads */
    CHECK_STATUS(pith_mpi_create(&other, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    CHECK_STATUS(sum(other, 1, NULL), PITH_OK);
    memcpy(wanted, out_data, sizeof wanted);
    CHECK_STATUS(pith_mpi_load(other, saved, bytes), PITH_OK);
    CHECK_STATUS(sum(other, 1, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) == 0);
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    CHECK(memcmp(wanted, out_data, sizeof wanted) != 0);
    free(saved);
    pith_mpi_destroy(ch);
    pith_mpi_destroy(other);
}

static void damaged_weights(void) {
    const pith_mpi_options o = {.size = sizeof o,
                                .kind = PITH_MPI_ALLGATHER,
                                .dtype = PITH_F32,
                                .base_dtype = PITH_F32,
                                .count = N,
                                .spec = "wdiff:bits=4,group=64",
                                .timeout = 60};
    pith_mpi_channel *ch;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    for (uint64_t step = 0; step < 4; step++) {
        sim_fill(in_data, PITH_F32, N, 0, step);
        damage.rank = step == 2 ? 0 : -1;
        damage.tag = 0;
        damage.byte = 150;
        damage.count = 0;
        const pith_status status = pith_mpi_allgather(ch, &in, &out, 0, step, NULL);
        damage.rank = -1;
        CHECK(same_status(status));
        CHECK(step == 2 ? is_data_error(status) : status == (step < 2 ? PITH_OK : PITH_ERR_STATE));
    }
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, PITH_KEY_FRAME, 7, NULL), PITH_OK);
    CHECK(memcmp(in_data, out_data, sizeof out_data) == 0);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, NULL, 0, 8, NULL), PITH_OK);
    const uint32_t own = sim_rank == 0 ? PITH_KEY_FRAME : 0;
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, own, 9, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, PITH_KEY_FRAME, 10, NULL), PITH_OK);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, 0x80, 11, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, PITH_KEY_FRAME, 12, NULL), PITH_OK);
    pith_mpi_destroy(ch);
}

/* ---- Arguments -------------------------------------------------------------------------------*/

static void arguments(void) {
    const pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    const bool failing = sim_rank == sim_ranks / 2;
    pith_mpi_channel *ch;
    pith_mpi_report report = {.size = sizeof report};
    pith_mpi_request *request;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    pith_view bad = in;
    bad.shape[0]--;
    CHECK_STATUS(pith_mpi_allreduce(ch, failing ? &bad : &in, &out, 1, 1, &report), PITH_ERR_SHAPE);
    CHECK(report.failed_rank == sim_ranks / 2);
    CHECK(failing == (pith_mpi_last_error(ch)->text[0] != 0));
    bad = in;
    bad.dtype = PITH_F64;
    CHECK_STATUS(pith_mpi_allreduce(ch, failing ? &bad : &in, &out, 1, 1, NULL), PITH_ERR_DTYPE);
    CHECK_STATUS(pith_mpi_allreduce(ch, &in, failing ? &bad : &out, 1, 1, NULL), PITH_ERR_DTYPE);
    CHECK_STATUS(pith_mpi_allreduce(ch, failing ? NULL : &in, &out, 1, 1, NULL), PITH_ERR_ARG);
    bad = out;
    bad.stride[0] = 0;
    const pith_status status = pith_mpi_allreduce(ch, &in, failing ? &bad : &out, 1, 1, NULL);
    CHECK(status != PITH_OK && same_status(status));
    CHECK_STATUS(pith_mpi_allreduce(ch, &in, &out, 1, failing ? 2 : 1, NULL), PITH_ERR_STEP);
    CHECK_STATUS(pith_mpi_allreduce(ch, &in, &out, failing ? 2 : 1, 1, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_reduce_scatter_start(ch, &in, &out, 1, 1, &request), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_allreduce_start(NULL, &in, &out, 1, 1, &request), PITH_ERR_ARG);
    CHECK_STATUS(sum(ch, 5, NULL), PITH_OK);
    pith_mpi_destroy(ch);
}

static bool names_rank(const pith_error *error, int rank) {
    char name[32];
    snprintf(name, sizeof name, "rank %d ", rank);
    return strstr(error->text, name) != NULL;
}

/* Every rank hears which one differs from rank 0: in options, or in what its pith makes of them. */
static void differs(int rank) {
    const pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    pith_error error = {.size = sizeof error};
    pith_mpi_channel *ch;
    const int named = rank ? rank : 1;
    honest = sim_rank == rank ? 0 : -1;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    CHECK(ch == NULL && names_rank(&error, named));
    honest = sim_rank == rank ? 1 : -1;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_MISMATCH);
    CHECK(ch == NULL && names_rank(&error, named));
    honest = -1;
    /* An older caller has less of the text, but a whole one; none where the size is not set. */
    memset(&error, 'x', sizeof error);
    error.size = offsetof(pith_error, text) + 10;
    honest = sim_rank == rank ? 0 : -1;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    CHECK(strlen(error.text) == 9 && error.text[10] == 'x' && names_rank(&error, named));
    memset(&error, 'x', sizeof error);
    error.size = 0;
    honest = sim_rank == rank ? 0 : -1;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    CHECK(error.text[0] == 'x');
}

static void bad_options(void) {
    const bool failing = sim_rank == sim_ranks - 1;
    pith_mpi_channel *ch;
    pith_error error = {.size = sizeof error};
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    if (failing) o.spec = "grad:bits=7";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG); /* they differ */
    o.spec = "grad:bits=7";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_SPEC);
    CHECK(ch == NULL && error.text[0]);
    o.spec = "lossless";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_UNSUPPORTED);
    o = options(PITH_MPI_ALLREDUCE);
    if (failing) o.count--;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    o = options(failing ? 77 : PITH_MPI_ALLREDUCE);
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, failing ? NULL : &o, &error), PITH_ERR_ARG);
    o = options(PITH_MPI_ALLREDUCE);
    o.size = sizeof o + 8;
    struct {
        pith_mpi_options o;
        uint64_t more;
    } newer = {o, 1};
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &newer.o, &error), PITH_ERR_UNSUPPORTED);
    newer.more = 0;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &newer.o, &error), PITH_OK);
    pith_mpi_destroy(ch);
    struct {
        pith_env env;
        uint64_t more;
    } env = {{.size = sizeof env}, 1};
    o = options(PITH_MPI_ALLREDUCE);
    o.env = &env.env;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_UNSUPPORTED);
    env.more = 0;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_OK);
    pith_mpi_destroy(ch);
    env.env.size = 5000;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

struct budget {
    int left;
    long blocks;
    uint64_t bytes; /* of all blocks so far */
};

static void *take(void *user, size_t bytes, size_t align) {
    struct budget *b = user;
    if (b->left-- <= 0) return NULL;
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
static void no_memory(void) {
    struct budget budget = {0, 0, 0};
    const pith_env env = {
        .size = sizeof env, .alloc = take, .release = give, .alloc_user = &budget};
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    pith_mpi_channel *ch = NULL;
    o.slice = 2000;
    o.env = &env;
    pith_status status = PITH_ERR_MEMORY;
    for (int left = 0; status == PITH_ERR_MEMORY && left < 1000; left++) {
        budget.left = sim_rank == 0 ? left : 100000;
        status = pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL);
        CHECK(same_status(status));
        CHECK(status == PITH_OK || (status == PITH_ERR_MEMORY && budget.blocks == 0));
    }
    CHECK_STATUS(status, PITH_OK);
    budget.left = 0; /* calls allocate nothing */
    CHECK_STATUS(sum(ch, 1, NULL), PITH_OK);
    pith_mpi_destroy(ch);
    CHECK(budget.blocks == 0);
}

static uint64_t memory_of(const char *spec) {
    struct budget budget = {100000, 0, 0};
    const pith_env env = {
        .size = sizeof env, .alloc = take, .release = give, .alloc_user = &budget};
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    pith_mpi_channel *ch;
    o.spec = spec;
    o.inter = NULL;
    o.env = &env;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    pith_mpi_destroy(ch);
    return budget.bytes;
}

/* Error feedback takes two copies of what a rank encodes, and nothing for what it decodes. */
static void memory_of_feedback(void) {
    const uint64_t encoded = N + N / (uint64_t)sim_ranks;
    const uint64_t more = memory_of("grad:bits=4,ef=full") - memory_of("grad:bits=4");
    CHECK(more >= 8 * N && more < 8 * encoded + 2 * N);
}

int main(int argc, char **argv) {
    sim_begin(&argc, &argv);
    damaged();
    mixed_up();
    not_begun();
    taken_back();
    damaged_weights();
    arguments();
    differs(sim_ranks - 1);
    differs(0);
    bad_options();
    no_memory();
    memory_of_feedback();
    for (int i = 0; i < kept_count && i < KEPT; i++) free(kept[i].copy);
    return sim_end("failures");
}
