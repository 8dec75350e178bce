/* test_mpi_failure.c - what goes wrong on one rank ends as one status on all, in time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * MPI_Isend is replaced (MPI's profiling interface) by one that can damage what it sends, or send
 * it to another rank. */
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
    pith_mpi_report report;
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
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, 1, 7, NULL), PITH_OK);
    CHECK(memcmp(in_data, out_data, sizeof out_data) == 0);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, NULL, 0, 8, NULL), PITH_OK);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, sim_rank == 0, 9, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_allgather(ch, &in, &out, 1, 10, NULL), PITH_OK);
    pith_mpi_destroy(ch);
}

/* ---- Arguments -------------------------------------------------------------------------------*/

static void arguments(void) {
    const pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    const bool odd = sim_rank == sim_ranks / 2;
    pith_mpi_channel *ch;
    pith_mpi_report report;
    pith_mpi_request *request;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, NULL), PITH_OK);
    const pith_view in = flat(in_data), out = flat(out_data);
    pith_view bad = in;
    bad.shape[0]--;
    CHECK_STATUS(pith_mpi_allreduce(ch, odd ? &bad : &in, &out, 1, 1, &report), PITH_ERR_SHAPE);
    CHECK(report.failed_rank == sim_ranks / 2);
    CHECK(odd == (pith_mpi_last_error(ch).text[0] != 0));
    bad = in;
    bad.dtype = PITH_F64;
    CHECK_STATUS(pith_mpi_allreduce(ch, odd ? &bad : &in, &out, 1, 1, NULL), PITH_ERR_DTYPE);
    CHECK_STATUS(pith_mpi_allreduce(ch, &in, odd ? &bad : &out, 1, 1, NULL), PITH_ERR_DTYPE);
    CHECK_STATUS(pith_mpi_allreduce(ch, odd ? NULL : &in, &out, 1, 1, NULL), PITH_ERR_ARG);
    bad = out;
    bad.stride[0] = 0;
    const pith_status status = pith_mpi_allreduce(ch, &in, odd ? &bad : &out, 1, 1, NULL);
    CHECK(status != PITH_OK && same_status(status));
    CHECK_STATUS(pith_mpi_allreduce(ch, &in, &out, 1, odd ? 2 : 1, NULL), PITH_ERR_STEP);
    CHECK_STATUS(pith_mpi_allreduce(ch, &in, &out, odd ? 2 : 1, 1, NULL), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_reduce_scatter_start(ch, &in, &out, 1, 1, &request), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_allreduce_start(NULL, &in, &out, 1, 1, &request), PITH_ERR_ARG);
    CHECK_STATUS(sum(ch, 5, NULL), PITH_OK);
    pith_mpi_destroy(ch);
}

static void bad_options(void) {
    const bool odd = sim_rank == sim_ranks - 1;
    pith_mpi_channel *ch;
    pith_error error;
    pith_mpi_options o = options(PITH_MPI_ALLREDUCE);
    if (odd) o.spec = "grad:bits=7";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG); /* they differ */
    o.spec = "grad:bits=7";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_SPEC);
    CHECK(ch == NULL && error.text[0]);
    o.spec = "lossless";
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_UNSUPPORTED);
    o = options(PITH_MPI_ALLREDUCE);
    if (odd) o.count--;
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    o = options(odd ? 77 : PITH_MPI_ALLREDUCE);
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, &o, &error), PITH_ERR_ARG);
    CHECK_STATUS(pith_mpi_create(&ch, MPI_COMM_WORLD, odd ? NULL : &o, &error), PITH_ERR_ARG);
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
};

static void *take(void *user, size_t bytes, size_t align) {
    struct budget *b = user;
    if (b->left-- <= 0) return NULL;
    b->blocks++;
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
    struct budget budget = {0, 0};
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

int main(int argc, char **argv) {
    sim_begin(&argc, &argv);
    damaged();
    mixed_up();
    damaged_weights();
    arguments();
    bad_options();
    no_memory();
    for (int i = 0; i < kept_count && i < KEPT; i++) free(kept[i].copy);
    return sim_end("failures");
}
