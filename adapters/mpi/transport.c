/* transport.c - messages of channels over MPI's point-to-point calls.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls that wait and their time limits are the channel's: ../collective/request.c. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "pith/pith_mpi.h"

/* An entry of the table of requests; unused ones are linked in a list. */
struct request {
    MPI_Request request;
    bool receive;
    uint32_t next;
};

#define NONE UINT32_MAX

struct mpi {
    MPI_Comm comm;
    uint32_t *node_of; /* the lowest rank of every rank's node */
    struct request *requests;
    uint32_t capacity, unused;
};

/* ---- Requests --------------------------------------------------------------------------------*/

static struct request *new_request(struct mpi *mpi, uint64_t *number) {
    if (mpi->unused == NONE) {
        const uint32_t more = mpi->capacity ? 2 * mpi->capacity : 64;
        struct request *table = realloc(mpi->requests, more * sizeof *table);
        if (!table) return NULL;
        for (uint32_t i = mpi->capacity; i < more; i++) table[i].next = i + 1 < more ? i + 1 : NONE;
        mpi->unused = mpi->capacity;
        mpi->capacity = more;
        mpi->requests = table;
    }
    struct request *r = &mpi->requests[mpi->unused];
    *number = mpi->unused;
    mpi->unused = r->next;
    return r;
}

static int mpi_isend(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                     uint64_t *request) {
    struct mpi *mpi = user;
    struct request *r = new_request(mpi, request);
    if (!r) return -1;
    r->receive = false;
    return MPI_Isend(data, (int)bytes, MPI_BYTE, (int)peer, (int)tag, mpi->comm, &r->request);
}

static int mpi_irecv(void *user, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                     uint64_t *request) {
    struct mpi *mpi = user;
    struct request *r = new_request(mpi, request);
    if (!r) return -1;
    r->receive = true;
    return MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)peer, (int)tag, mpi->comm, &r->request);
}

static int mpi_test(void *user, uint64_t request, int *done, uint64_t *bytes) {
    struct mpi *mpi = user;
    struct request *r = &mpi->requests[request];
    MPI_Status status;
    int count = 0;
    if (MPI_Test(&r->request, done, &status)) return -1;
    if (!*done) return 0;
    if (r->receive && (MPI_Get_count(&status, MPI_BYTE, &count) || count < 0)) return -1;
    if (r->receive) *bytes = (uint64_t)count;
    r->next = mpi->unused;
    mpi->unused = (uint32_t)request;
    return 0;
}

/* Cancels a request. Receives can be taken back; sends end, or they do not. */
static int mpi_cancel(void *user, uint64_t request) {
    struct mpi *mpi = user;
    struct request *r = &mpi->requests[request];
    uint64_t bytes;
    int done = 0;
    if (r->receive && MPI_Cancel(&r->request)) return -1;
    return mpi_test(user, request, &done, &bytes) || !done;
}

/* ---- Life ------------------------------------------------------------------------------------*/

static void mpi_release(void *user, int broken) {
    struct mpi *mpi = user;
    if (!broken) MPI_Comm_free(&mpi->comm);
    free(mpi->node_of);
    free(mpi->requests);
    free(mpi);
}

/* Finds the nodes. Failures of MPI other than these are the callers'. */
static bool find_nodes(struct mpi *mpi, int rank) {
    MPI_Comm node;
    int lowest = 0;
    if (MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node))
        return false;
    const int code = MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node);
    return !MPI_Comm_free(&node) && !code &&
           !MPI_Allgather(&lowest, 1, MPI_INT, mpi->node_of, 1, MPI_INT, mpi->comm);
}

/* Makes a transport on a duplicate of the communicator, which every rank has. Whether every rank
 * has memory is the first thing that they tell each other. */
static pith_status make(struct mpi *mpi, MPI_Comm own, pith_transport *transport) {
    int rank, ranks, all = 0, mine = (int)PITH_ERR_TRANSPORT;
    if (!MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN) && !MPI_Comm_rank(own, &rank) &&
        !MPI_Comm_size(own, &ranks)) {
        if (mpi) mpi->node_of = malloc((size_t)ranks * sizeof *mpi->node_of);
        mine = (int)(mpi && mpi->node_of ? PITH_OK : PITH_ERR_MEMORY);
    }
    if (MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, own)) return PITH_ERR_TRANSPORT;
    if (all || !mpi) return (pith_status)all;
    mpi->comm = own;
    if (!find_nodes(mpi, rank)) return PITH_ERR_TRANSPORT;
    *transport = (pith_transport){.size = sizeof *transport,
                                  .user = mpi,
                                  .rank = (uint32_t)rank,
                                  .ranks = (uint32_t)ranks,
                                  .node_of = mpi->node_of,
                                  .largest = INT_MAX,
                                  .isend = mpi_isend,
                                  .irecv = mpi_irecv,
                                  .test = mpi_test,
                                  .cancel = mpi_cancel,
                                  .release = mpi_release};
    return PITH_OK;
}

pith_status pith_mpi_transport(pith_transport *transport, MPI_Comm comm) {
    MPI_Comm own;
    if (!transport || comm == MPI_COMM_NULL) return PITH_ERR_ARG;
    if (MPI_Comm_dup(comm, &own)) return PITH_ERR_TRANSPORT;
    struct mpi *mpi = calloc(1, sizeof *mpi);
    if (mpi) mpi->unused = NONE;
    const pith_status status = make(mpi, own, transport);
    if (!status) return PITH_OK;
    MPI_Comm_free(&own);
    if (mpi) free(mpi->node_of);
    free(mpi);
    return status;
}

pith_status pith_mpi_create(pith_collective_channel **channel, MPI_Comm comm,
                            const pith_collective_options *options, pith_error *error) {
    pith_transport transport;
    pith_status status = PITH_ERR_ARG;
    if (channel) {
        *channel = NULL;
        status = pith_mpi_transport(&transport, comm);
    }
    return status ? status : pith_collective_create(channel, &transport, options, error);
}
