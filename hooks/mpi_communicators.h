/* The communicators of a rank, under names that all of their ranks agree on. */
#ifndef PAGELENS_MPI_COMMUNICATORS_H
#define PAGELENS_MPI_COMMUNICATORS_H

#include <stdint.h>

#include "hooks/mpi_library.h"

struct mpi_communicator {
    long handle;      /* as C has it */
    uint64_t name;    /* the same in all of its ranks */
    const int* ranks; /* in MPI_COMM_WORLD: of the rank's own group, if there are two */
    int size, own_rank;
    const int* others; /* with which it exchanges messages: the other group, or else `ranks` */
    int other_count;
    const int*
        sources;      /* from which it gets data in neighbourhood collectives, in MPI_COMM_WORLD */
    int source_count; /* negative: not asked for yet */
};

/* Returns the communicator; NULL if it has ranks outside of MPI_COMM_WORLD, which the tracer is
 * told, or if there are too many to follow. Only one thread may be in these functions. */
const struct mpi_communicator* mpi_communicator_of(const struct mpi_library* library, long handle);

/* Returns the communicator with its sources, which it has for good; NULL as above. */
const struct mpi_communicator* mpi_neighbours_of(const struct mpi_library* library, long handle);

/* Returns the ranks of a group in MPI_COMM_WORLD, which stay there; NULL if there is no room. */
const int* mpi_ranks_of(const struct mpi_library* library, long group, int* size);

/* What a communicator's name is made into with these numbers: it has fewer windows and files. */
enum { MPI_PARTITIONED = 1 << 20, MPI_PERSISTENT };

/* Returns the name that a thing has which all ranks of a name make as their `number`th one. */
uint64_t mpi_name_of(uint64_t name, uint64_t number);

/* The program has freed it, so another one may get its handle. */
void mpi_communicator_gone(long handle);

#endif
