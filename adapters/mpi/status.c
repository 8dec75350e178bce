/* status.c - names of statuses, pith's and this adapter's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pith/pith_mpi.h"

const char *pith_mpi_status_name(pith_status status) {
    switch ((int)status) {
    case (int)PITH_MPI_ERR_TIMEOUT: return "PITH_MPI_ERR_TIMEOUT";
    case (int)PITH_MPI_ERR_MPI: return "PITH_MPI_ERR_MPI";
    case (int)PITH_MPI_ERR_BROKEN: return "PITH_MPI_ERR_BROKEN";
    case (int)PITH_MPI_ERR_BUSY: return "PITH_MPI_ERR_BUSY";
    default: return pith_status_name(status);
    }
}
