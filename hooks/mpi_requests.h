/* The requests of MPI that a rank will wait for. Only one thread may be in these functions. */
#ifndef PAGELENS_MPI_REQUESTS_H
#define PAGELENS_MPI_REQUESTS_H

#include <stdbool.h>

#include "hooks/mpi_turns.h"

enum mpi_request_kind { MPI_NO_REQUEST, MPI_SEND, MPI_RECEIVE, MPI_COLLECTIVE };

struct mpi_request {
    long handle;
    enum mpi_request_kind kind;
    bool is_persistent, is_active, is_told; /* told: the tracer knows that the rank waits for it */
    bool waits_for_receive;                 /* the send does */
    int partitions, ready;                  /* of a send by parts: all, and those that may go */
    struct mpi_turn sent;       /* of a persistent collective call: where the rank comes */
    struct mpi_receive receive; /* of a collective call: the turn alone for which it waits */
    const int* sources;         /* if it waits for each of these, at its own turn */
    int source_count;
};

/* Takes the place of another request with this handle, which is gone. There may be no room. */
void mpi_add_request(const struct mpi_request* request);

/* Returns NULL if there is none. The next change of the requests ends the pointer. */
struct mpi_request* mpi_find_request(long handle);

void mpi_remove_request(long handle);

/* A receive with this turn was cancelled. Those posted after it get its message and later ones. */
void mpi_receive_earlier(const struct mpi_turn* turn);

#endif
