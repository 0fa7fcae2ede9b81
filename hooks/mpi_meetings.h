/* Tells the tracer where a rank waits for some of the others: for messages, and in collective calls
 * (core/accesses/meeting.hpp). */
#ifndef PAGELENS_MPI_MEETINGS_H
#define PAGELENS_MPI_MEETINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "hooks/mpi_communicators.h"
#include "hooks/mpi_library.h"
#include "hooks/mpi_turns.h"

/* Of so many requests of a call, statuses and handles are kept while it runs. Behind them, receives
 * from any source are not followed. */
enum { MPI_MOST_KEPT = 128, MPI_MOST_STATUS_BYTES = 24 };

/* A call under way. */
struct mpi_call {
    enum mpi_language language;
    const void* from; /* the code that called */
    long* arguments;  /* may be changed before the call */
    int first;        /* of the arguments that its role reads */
    const struct mpi_library* library;
    struct mpi_receive receive;  /* that ends when the call ends */
    struct mpi_turn turn;        /* for which a request waits that the call makes */
    long count;                  /* requests */
    long handles[MPI_MOST_KEPT]; /* before the call, which clears them */
    long statuses;               /* where the library puts them */
    char own_statuses[MPI_MOST_KEPT * MPI_MOST_STATUS_BYTES];
};

/* What is done around a call; either may be NULL. */
struct mpi_role {
    void (*before)(struct mpi_call* call);
    void (*after)(struct mpi_call* call);
};

/* Roles, and which argument is the first one of those that they read. */
extern const struct mpi_role mpi_sends, /* destination, tag, communicator */
    mpi_starts_send,                    /* the same, request */
    mpi_makes_send,                     /* the same: persistent ones */
    mpi_receives,                       /* source, tag, communicator, status */
    mpi_starts_receive,                 /* the same with a request as the last one */
    mpi_makes_receive,                  /* the same: persistent ones */
    mpi_sends_and_receives,             /* the communicator of MPI_Sendrecv */
    mpi_replaces,                       /* destination, tag, source, tag, communicator, status */
    mpi_probes,                         /* source, tag, communicator, message, status */
    mpi_tries_to_probe,                 /* source, tag, communicator, flag, message, status */
    mpi_starts,                         /* request */
    mpi_starts_all,                     /* count, requests */
    mpi_frees_request, mpi_cancels,     /* request */
    mpi_waits,                          /* request, status */
    mpi_waits_for_all,                  /* count, requests, statuses */
    mpi_waits_for_any,                  /* count, requests, index, status */
    mpi_waits_for_some,                 /* count, requests, count, indices, statuses */
    mpi_tests,                          /* request, flag, status */
    mpi_tests_all,                      /* count, requests, flag, statuses */
    mpi_tests_any,                      /* count, requests, index, flag, status */
    mpi_from_one,                       /* root, communicator: all others wait for the root */
    mpi_to_one,                         /* root, communicator: the root waits for all others */
    mpi_one_by_one,                     /* communicator: each rank waits for those before it */
    mpi_meets,                          /* communicator: all ranks wait for all */
    mpi_starts_from_one, mpi_starts_to_one, mpi_starts_meeting, /* the same, request */
    mpi_makes_communicator,                                     /* pointer to a communicator */
    mpi_frees_communicator;                                     /* the same */

static inline long mpi_argument(const struct mpi_call* call, int place) {
    return call->arguments[call->first + place];
}

static inline int mpi_number(const struct mpi_call* call, int place) {
    const long value = mpi_argument(call, place);
    return call->language == MPI_C ? (int)value : *(const int*)value;
}

/* Returns the handle to which an argument points. */
static inline long mpi_pointed_handle(const struct mpi_call* call, int place) {
    return mpi_handle_at(call->library, call->language, mpi_argument(call, place));
}

static inline const struct mpi_communicator* mpi_its_communicator(const struct mpi_call* call,
                                                                  int place) {
    const long argument = mpi_argument(call, place);
    return mpi_communicator_of(call->library,
                               mpi_communicator(call->library, call->language, argument));
}

/* Returns how many ranks a communicator has if it has all of them; otherwise 0. */
uint64_t mpi_all_ranks(const struct mpi_call* call, long communicator);

#endif
