/* Tells the tracer where a rank waits for some of the others: for messages, and in collective calls
 * (core/accesses/meeting.hpp). */
#ifndef PAGELENS_MPI_MEETINGS_H
#define PAGELENS_MPI_MEETINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "hooks/mpi_communicators.h"
#include "hooks/mpi_library.h"
#include "hooks/mpi_turns.h"

/* Of so many requests of a call, statuses and handles are kept on the stack while it runs. */
enum { MPI_FEW_KEPT = 128, MPI_MOST_STATUS_BYTES = 24 };

/* A call under way. */
struct mpi_call {
    enum mpi_language language;
    bool has_large_counts; /* of the type MPI_Count, in C */
    const void* from;      /* the code that called */
    long* arguments;       /* may be changed before the call */
    int first;             /* of the arguments that its role reads */
    const struct mpi_library* library;
    struct mpi_turn sent;        /* of a send that waits for its receive */
    struct mpi_receive receive;  /* that ends when the call ends */
    struct mpi_turn comes, turn; /* of a collective call: where it comes and waits */
    const int* sources;          /* if it waits for each of these, at the place of each */
    int source_count;
    long count;    /* requests */
    long kept;     /* of them, in `handles` */
    long* handles; /* before the call, which clears them */
    long statuses; /* where the library puts them */
    long few_handles[MPI_FEW_KEPT];
    char few_statuses[MPI_FEW_KEPT * MPI_MOST_STATUS_BYTES];
};

/* What is done around a call; either may be NULL. */
struct mpi_role {
    void (*before)(struct mpi_call* call);
    void (*after)(struct mpi_call* call);
};

/* Roles, and which argument is the first one of those that they read. Before the destination lie
 * the count and the datatype. */
extern const struct mpi_role mpi_sends, /* destination, tag, communicator: the standard mode */
    mpi_sends_at_once,                  /* the same: synchronous, waits for the receive */
    mpi_sends_ahead,                    /* the same: buffered or ready, waits for nobody */
    mpi_starts_send, mpi_starts_send_at_once, mpi_starts_send_ahead, /* the same, request */
    mpi_makes_send, mpi_makes_send_at_once, mpi_makes_send_ahead,    /* the same: persistent ones */
    mpi_receives,           /* source, tag, communicator, status */
    mpi_starts_receive,     /* the same with a request as the last one */
    mpi_makes_receive,      /* the same: persistent ones */
    mpi_sends_and_receives, /* the communicator of MPI_Sendrecv */
    mpi_replaces,           /* destination, tag, source, tag, communicator, status */
    mpi_starts_both, mpi_starts_to_replace, /* the same with a request as the last one */
    mpi_probes,                             /* source, tag, communicator, message, status */
    mpi_tries_to_probe,                     /* source, tag, communicator, flag, message, status */
    mpi_starts,                             /* request */
    mpi_starts_all,                         /* count, requests */
    mpi_frees_request, mpi_cancels,         /* request */
    mpi_waits,                              /* request, status */
    mpi_waits_for_all,                      /* count, requests, statuses */
    mpi_waits_for_any,                      /* count, requests, index, status */
    mpi_waits_for_some,                     /* count, requests, count, indices, statuses */
    mpi_tests,                              /* request, flag, status */
    mpi_tests_all,                          /* count, requests, flag, statuses */
    mpi_tests_any,                          /* count, requests, index, flag, status */
    mpi_joins_meeting,                      /* communicator: all ranks wait for all */
    mpi_joins_from_one,                     /* root, communicator: all others wait for the root */
    mpi_joins_to_one,                       /* root, communicator: the root waits for all others */
    mpi_joins_in_order,                     /* communicator: a rank waits for all before it */
    mpi_joins_neighbours,                   /* communicator: a rank waits for its neighbours */
    mpi_starts_meeting, mpi_starts_from_one, mpi_starts_to_one, mpi_starts_in_order,
    mpi_starts_neighbours, /* the same, request */
    mpi_makes_meeting, mpi_makes_from_one, mpi_makes_to_one, mpi_makes_in_order,
    mpi_makes_neighbours,               /* the same, hints, request: persistent ones */
    mpi_makes_communicator,             /* pointer to a communicator */
    mpi_frees_communicator,             /* the same */
    mpi_makes_window,                   /* communicator, pointer to a window */
    mpi_allocates_window,               /* communicator, address, pointer to a window */
    mpi_frees_window,                   /* pointer to a window */
    mpi_fences,                         /* assertion, window */
    mpi_exposes, mpi_begins_access,     /* group, assertion, window */
    mpi_ends_access, mpi_ends_exposure, /* window */
    mpi_tries_to_end_exposure,          /* window, flag */
    mpi_opens_file,                     /* communicator, name, mode, hints, pointer to a file */
    mpi_closes_file,                    /* pointer to a file */
    mpi_meets_in_file, mpi_syncs_file,  /* file: all of its ranks wait for all */
    mpi_starts_in_file,                 /* request; the file is the first argument of all */
    mpi_makes_partitioned_send,         /* destination, tag, communicator, hints, request */
    mpi_makes_partitioned_receive,      /* the same with a source */
    mpi_makes_ready,                    /* partition, request */
    mpi_makes_range_ready,              /* first and last partition, request */
    mpi_makes_list_ready;               /* count, partitions, request */

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
    return mpi_communicator_of(
        call->library, mpi_handle(call->library, call->language, MPI_COMMUNICATOR, argument));
}

/* A rank waits for each of these to begin the collective call of this turn. */
void mpi_tell_sources(const struct mpi_turn* turn, const int* sources, int count);

/* Adds the request at this place, which waits for the call's turn. */
void mpi_add_collective(const struct mpi_call* call, int request);

/* Returns how many ranks a communicator has if it has all of them; otherwise 0. */
uint64_t mpi_all_ranks(const struct mpi_call* call, long communicator);

#endif
