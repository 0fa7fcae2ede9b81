/*
 * Messages that are sent in partitions (MPI 4.0, 4). They belong to each other in the order in
 * which their requests are made, apart from all other messages. The receiver waits for the last
 * partition that the sender calls ready, and the sender for the start of the receive (measured,
 * MPICH 4.0.2).
 */
#include <stddef.h>

#include "hooks/mpi_meetings.h"
#include "hooks/mpi_requests.h"

/* Names the pair of requests to which the call's one belongs. It has as many turns as starts. */
static struct mpi_turn pair_of(const struct mpi_call* call, enum mpi_direction direction) {
    struct mpi_turn turn = {0, -1, -1, -1, 0};
    const struct mpi_communicator* const its = mpi_its_communicator(call, 2);
    const int other = mpi_number(call, 0);
    if (its == NULL || other < 0 || other >= its->other_count) return turn;
    const int own = its->ranks[its->own_rank];
    turn.communicator = mpi_name_of(its->name, MPI_PARTITIONED);
    turn.from = direction == MPI_COMES ? own : its->others[other];
    turn.to = direction == MPI_COMES ? its->others[other] : own;
    turn.tag = mpi_number(call, 1);
    mpi_next_turn(&turn, direction);
    if (turn.communicator) turn.communicator = mpi_name_of(turn.communicator, turn.number);
    return turn;
}

static void after_making_send(struct mpi_call* call) {
    const int partitions = mpi_number(call, 1 - call->first);
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, 4),
                                     .kind = MPI_SEND,
                                     .is_persistent = true,
                                     .waits_for_receive = true,
                                     .partitions = partitions,
                                     .sent = pair_of(call, MPI_COMES)};
    mpi_add_request(&made);
}

static void after_making_receive(struct mpi_call* call) {
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, 4),
                                     .kind = MPI_RECEIVE,
                                     .is_persistent = true,
                                     .receive.turn = pair_of(call, MPI_WAITS)};
    mpi_add_request(&made);
}

/* The request is an argument itself in C. */
static void make_ready(const struct mpi_call* call, int place, int partitions) {
    const long argument = mpi_argument(call, place);
    const bool is_number = call->language == MPI_C && !call->library->has_pointers;
    struct mpi_request* const request =
        mpi_find_request(call->language == MPI_FORTRAN ? *(const int*)argument
                         : is_number                   ? (int)argument
                                                       : argument);
    if (request == NULL || request->partitions == 0) return;
    request->ready += partitions;
    if (request->ready == request->partitions) mpi_tell(&request->sent, true, false);
}

static void before_ready(struct mpi_call* call) { make_ready(call, 1, 1); }
static void before_range(struct mpi_call* call) {
    make_ready(call, 2, mpi_number(call, 1) - mpi_number(call, 0) + 1);
}
static void before_list(struct mpi_call* call) { make_ready(call, 2, mpi_number(call, 0)); }

const struct mpi_role mpi_makes_partitioned_send = {NULL, after_making_send};
const struct mpi_role mpi_makes_partitioned_receive = {NULL, after_making_receive};
const struct mpi_role mpi_makes_ready = {before_ready, NULL};
const struct mpi_role mpi_makes_range_ready = {before_range, NULL};
const struct mpi_role mpi_makes_list_ready = {before_list, NULL};
