/* pith_mpi.h - the transport of pith_collective.h on MPI.
 * SPDX-License-Identifier: Apache-2.0
 *
 * pith_mpi_create makes a channel on a communicator; pith_collective.h has everything else: calls,
 * reports, bases, statuses.
 *
 * Threads. With several channels on several threads MPI must have been initialised with
 * MPI_THREAD_MULTIPLE, with one thread at a time MPI_THREAD_SERIALIZED.
 *
 * Failures. A call of MPI that fails is PITH_ERR_TRANSPORT. The timeout of calls is an option of
 * the channel (pith_collective_options). The caller's communicator is not touched by a channel that
 * breaks; whether MPI can still use it depends on what happened to the rank that was waited for.
 */
#ifndef PITH_PITH_MPI_H
#define PITH_PITH_MPI_H

#include <mpi.h>

#include "pith/pith_collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over comm, which is duplicated and left as it was; waits for the other ranks without
 * limit. *transport serves one channel (pith_collective_create), or any number of measurements
 * before that (pith_collective_break_even). Ranks that share memory (MPI_Comm_split_type) are a
 * node; transport->node_of lies in the transport. Its release, which a channel calls, and which is
 * the caller's to call where no channel got it, is collective, before MPI_Finalize, unless broken:
 * then the duplicate is left alone. On failure, which is the same on every rank, there is nothing
 * to release. PITH_ERR_ARG on this rank alone: transport is NULL, or comm is MPI_COMM_NULL. */
PITH_NODISCARD PITH_API pith_status pith_mpi_transport(pith_transport *transport, MPI_Comm comm);

/* Collective: pith_mpi_transport, then pith_collective_create, whose arguments these are. Errors:
 * as pith_mpi_transport and as pith_collective_create. pith_collective_destroy is then collective,
 * before MPI_Finalize, unless the channel is broken. */
PITH_NODISCARD PITH_API pith_status pith_mpi_create(pith_collective_channel **channel,
                                                    MPI_Comm comm,
                                                    const pith_collective_options *options,
                                                    pith_error *error);

#ifdef __cplusplus
}
#endif
#endif
