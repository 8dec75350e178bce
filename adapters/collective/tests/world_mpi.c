/* world_mpi.c - the ranks of a test as those of MPI.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: mpirun -n RANKS PROGRAM [ARGUMENT...] */
#include <stdio.h>

#include "pith/pith_mpi.h"
#include "world.h"

int world_rank, world_ranks;

void world_begin(int *argc, char ***argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
}

int world_end(const char *name, int failures) {
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world_rank == 0) printf("%s on %d ranks: %s\n", name, world_ranks, all ? "FAILED" : "ok");
    MPI_Finalize();
    return all != 0;
}

pith_status world_transport(pith_transport *transport) {
    return pith_mpi_transport(transport, MPI_COMM_WORLD);
}

void world_spread(void *data, size_t bytes) {
    MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

uint64_t world_lowest(uint64_t x) {
    uint64_t lowest;
    MPI_Allreduce(&x, &lowest, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return lowest;
}

void world_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
