/* Collective calls: all ranks of a communicator wait for all, for one, or one for all. */
#include <stddef.h>

#include "hooks/mpi_meetings.h"
#include "hooks/mpi_requests.h"

enum {
    TAG_OF_COLLECTIVES = -1,
    TAG_OF_SCANS = -2,
    TAG_OF_NEIGHBOURS = -3
}; /* those of messages are not negative */

static const struct mpi_turn no_turn;

uint64_t mpi_all_ranks(const struct mpi_call* call, long handle) {
    const struct mpi_library* const mpi = call->library;
    const struct mpi_communicator* const its =
        mpi_communicator_of(mpi, mpi_handle(mpi, call->language, MPI_COMMUNICATOR, handle));
    const struct mpi_communicator* const world = mpi_communicator_of(mpi, mpi->world);
    return its && world && its->size == world->size ? (uint64_t)its->size : 0;
}

/* Tells that the rank has come, if others wait for it. If it waits for others, `call->turn` is the
 * turn for which it does. */
static void begin_rooted(struct mpi_call* call, bool to_root) {
    const struct mpi_communicator* const its = mpi_its_communicator(call, 1);
    const int root = mpi_number(call, 0);
    call->turn = no_turn;
    if (its == NULL || root < 0 || root >= its->size) return;
    struct mpi_turn turn = {its->name, -1, -1, TAG_OF_COLLECTIVES, 0};
    *(to_root ? &turn.to : &turn.from) = its->ranks[root];
    mpi_next_turn(&turn, MPI_BOTH);
    if ((its->own_rank == root) == to_root)
        call->turn = turn;
    else
        mpi_tell(&turn, true, false);
}

static void begin_from_one(struct mpi_call* call) { begin_rooted(call, false); }
static void begin_to_one(struct mpi_call* call) { begin_rooted(call, true); }
static void before_from_one(struct mpi_call* call) {
    begin_rooted(call, false);
    mpi_tell(&call->turn, false, true);
}
static void before_to_one(struct mpi_call* call) {
    begin_rooted(call, true);
    mpi_tell(&call->turn, false, true);
}

static void meet(struct mpi_call* call, bool waits) {
    const struct mpi_communicator* const its = mpi_its_communicator(call, 0);
    call->turn = no_turn;
    if (its == NULL) return;
    call->turn = (struct mpi_turn){its->name, -1, -1, TAG_OF_COLLECTIVES, 0};
    mpi_next_turn(&call->turn, MPI_BOTH);
    mpi_tell(&call->turn, true, waits);
}
static void before_meeting(struct mpi_call* call) { meet(call, true); }
static void begin_meeting(struct mpi_call* call) { meet(call, false); }

static void before_scan(struct mpi_call* call) {
    const struct mpi_communicator* const its = mpi_its_communicator(call, 0);
    if (its == NULL) return;
    const int* const own = its->ranks + its->own_rank;
    struct mpi_turn turn = {its->name, its->own_rank > 0 ? own[-1] : -1, *own, TAG_OF_SCANS, 0};
    if (its->own_rank > 0) {
        mpi_next_turn(&turn, MPI_WAITS);
        mpi_tell(&turn, false, true);
    }
    if (its->own_rank + 1 < its->size) {
        turn.from = *own;
        turn.to = own[1];
        mpi_next_turn(&turn, MPI_COMES);
        mpi_tell(&turn, true, false);
    }
}

void mpi_tell_neighbours(const struct mpi_turn* turn, const int* sources, int count) {
    struct mpi_turn its = *turn;
    for (int i = 0; i < count; ++i) {
        if (sources[i] == turn->from) continue;
        its.from = sources[i];
        mpi_tell(&its, false, true);
    }
}

/* Each rank comes to a place of its own, where those wait that get something from it. */
static void begin_meeting_neighbours(struct mpi_call* call) {
    const long argument = mpi_argument(call, 0);
    const struct mpi_communicator* const its = mpi_neighbours_of(
        call->library, mpi_handle(call->library, call->language, MPI_COMMUNICATOR, argument));
    call->turn = no_turn;
    call->neighbours = its;
    if (its == NULL) return;
    call->turn = (struct mpi_turn){its->name, its->ranks[its->own_rank], -1, TAG_OF_NEIGHBOURS, 0};
    mpi_next_turn(&call->turn, MPI_BOTH);
    mpi_tell(&call->turn, true, false);
}
static void before_meeting_neighbours(struct mpi_call* call) {
    begin_meeting_neighbours(call);
    if (call->neighbours)
        mpi_tell_neighbours(&call->turn, call->neighbours->sources, call->neighbours->source_count);
}
static void after_meeting_neighbours(struct mpi_call* call) {
    if (call->neighbours == NULL) return;
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, 1),
                                     .kind = MPI_COLLECTIVE,
                                     .is_active = true,
                                     .receive.turn = call->turn,
                                     .sources = call->neighbours->sources,
                                     .source_count = call->neighbours->source_count};
    mpi_add_request(&made);
}

void mpi_add_collective(const struct mpi_call* call, int request) {
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, request),
                                     .kind = MPI_COLLECTIVE,
                                     .is_active = true,
                                     .receive.turn = call->turn};
    mpi_add_request(&made);
}
static void after_rooted(struct mpi_call* call) { mpi_add_collective(call, 2); }
static void after_meeting(struct mpi_call* call) { mpi_add_collective(call, 1); }

static long communicator_at(const struct mpi_call* call) {
    return call->language == MPI_C
               ? mpi_pointed_handle(call, 0)
               : mpi_handle(call->library, MPI_FORTRAN, MPI_COMMUNICATOR, mpi_argument(call, 0));
}
static void after_making_communicator(struct mpi_call* call) {
    mpi_communicator_of(call->library, communicator_at(call)); /* which names it */
}
static void before_freeing_communicator(struct mpi_call* call) {
    mpi_communicator_gone(communicator_at(call));
}

const struct mpi_role mpi_from_one = {before_from_one, NULL};
const struct mpi_role mpi_to_one = {before_to_one, NULL};
const struct mpi_role mpi_one_by_one = {before_scan, NULL};
const struct mpi_role mpi_meets = {before_meeting, NULL};
const struct mpi_role mpi_meets_neighbours = {before_meeting_neighbours, NULL};
const struct mpi_role mpi_starts_meeting_neighbours = {begin_meeting_neighbours,
                                                       after_meeting_neighbours};
const struct mpi_role mpi_starts_from_one = {begin_from_one, after_rooted};
const struct mpi_role mpi_starts_to_one = {begin_to_one, after_rooted};
const struct mpi_role mpi_starts_meeting = {begin_meeting, after_meeting};
const struct mpi_role mpi_makes_communicator = {NULL, after_making_communicator};
const struct mpi_role mpi_frees_communicator = {before_freeing_communicator, NULL};
