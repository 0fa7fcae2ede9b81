/* The communicators of a rank, under names that all of their ranks agree on. */
#ifndef PAGELENS_MPI_COMMUNICATORS_H
#define PAGELENS_MPI_COMMUNICATORS_H

#include <stdint.h>

#include "hooks/mpi_library.h"

struct mpi_communicator {
    long handle;      /* as C has it */
    uint64_t name;    /* the same in all of its ranks */
    const int* ranks; /* in MPI_COMM_WORLD */
    int size, own_rank;
};

/* Returns the communicator; NULL if it has two groups of ranks, or if there are too many to follow.
 * Only one thread may be in these functions. */
const struct mpi_communicator* mpi_communicator_of(const struct mpi_library* library, long handle);

/* The program has freed it, so another one may get its handle. */
void mpi_communicator_gone(long handle);

#endif
