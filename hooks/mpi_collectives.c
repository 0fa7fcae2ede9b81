/* Collective calls: all ranks of a communicator wait for all, for one, or one for all. */
#include <stddef.h>

#include "hooks/mpi_meetings.h"
#include "hooks/mpi_requests.h"

enum { /* those of messages are not negative */
       TAG_OF_COLLECTIVES = -1,
       TAG_OF_PREFIXES = -2,
       TAG_OF_NEIGHBOURS = -3,
       TAG_OF_GROUPS = -6, /* behind those of windows */
       TAG_OF_PERSISTENT = -7
};

uint64_t mpi_all_ranks(const struct mpi_call* call, long handle) {
    const struct mpi_library* const mpi = call->library;
    const struct mpi_communicator* const its =
        mpi_communicator_of(mpi, mpi_handle(mpi, call->language, MPI_COMMUNICATOR, handle));
    const struct mpi_communicator* const world = mpi_communicator_of(mpi, mpi->world);
    return its && world && its->size == world->size ? (uint64_t)its->size : 0;
}

/* --- where a rank comes and where it waits, in turns without a number --- */

static struct mpi_turn place(const struct mpi_communicator* its, int from, int to, int tag) {
    return (struct mpi_turn){its->name, from, to, tag, 0};
}

/* With two groups, each rank waits for those of the other group. */
static void find_meeting(struct mpi_call* call) {
    const struct mpi_communicator* const its = mpi_its_communicator(call, 0);
    if (its == NULL) return;
    const bool is_one = its->others == its->ranks;
    const int tag = is_one ? TAG_OF_COLLECTIVES : TAG_OF_GROUPS;
    call->comes = place(its, is_one ? -1 : its->ranks[0], -1, tag);
    call->turn = place(its, is_one ? -1 : its->others[0], -1, tag);
}

/* With two groups, the root exchanges data with those of the other group, and the other ranks of
 * its own group do nothing: for them, the root is MPI_PROC_NULL. */
static void find_rooted(struct mpi_call* call, bool to_root) {
    const struct mpi_communicator* const its = mpi_its_communicator(call, 1);
    const int root = mpi_number(call, 0);
    if (its == NULL) return;
    const bool is_root =
        its->others == its->ranks ? root == its->own_rank : root == call->library->root;
    if (!is_root && (root < 0 || root >= its->other_count)) return;
    const int of_world = is_root ? its->ranks[its->own_rank] : its->others[root];
    *(is_root == to_root ? &call->turn : &call->comes) =
        place(its, to_root ? -1 : of_world, to_root ? of_world : -1, TAG_OF_COLLECTIVES);
}
static void find_from_one(struct mpi_call* call) { find_rooted(call, false); }
static void find_to_one(struct mpi_call* call) { find_rooted(call, true); }

/* Each rank comes to a place of its own, where those wait that get something from it. */
static void find_own(struct mpi_call* call, const struct mpi_communicator* its, int tag) {
    call->comes = call->turn = place(its, its->ranks[its->own_rank], -1, tag);
}

static void find_in_order(struct mpi_call* call) {
    const struct mpi_communicator* const its = mpi_its_communicator(call, 0);
    if (its == NULL) return;
    find_own(call, its, TAG_OF_PREFIXES);
    call->sources = its->ranks;
    call->source_count = its->own_rank;
}

static void find_neighbours(struct mpi_call* call) {
    const long argument = mpi_argument(call, 0);
    const struct mpi_communicator* const its = mpi_neighbours_of(
        call->library, mpi_handle(call->library, call->language, MPI_COMMUNICATOR, argument));
    if (its == NULL) return;
    find_own(call, its, TAG_OF_NEIGHBOURS);
    call->sources = its->sources;
    call->source_count = its->source_count;
}

/* --- what the ranks do there --- */

typedef void find_places(struct mpi_call* call);

static bool is_one_place(const struct mpi_call* call) {
    return call->comes.communicator == call->turn.communicator &&
           call->comes.from == call->turn.from;
}

/* Numbers the turns. A rank counts once where it both comes and waits. */
static void number(struct mpi_call* call) {
    const bool is_one = is_one_place(call);
    mpi_next_turn(&call->comes, MPI_BOTH);
    if (is_one)
        call->turn = call->comes;
    else
        mpi_next_turn(&call->turn, MPI_BOTH);
}

void mpi_tell_sources(const struct mpi_turn* turn, const int* sources, int count) {
    struct mpi_turn its = *turn;
    for (int i = 0; i < count; ++i) {
        if (sources[i] == turn->from) continue;
        its.from = sources[i];
        mpi_tell(&its, false, true);
    }
}

static void join(struct mpi_call* call, find_places* find) {
    find(call);
    number(call);
    const bool waits_there = is_one_place(call) && call->sources == NULL;
    mpi_tell(&call->comes, true, waits_there);
    if (call->sources)
        mpi_tell_sources(&call->turn, call->sources, call->source_count);
    else if (!waits_there)
        mpi_tell(&call->turn, false, true);
}

static void start(struct mpi_call* call, find_places* find) {
    find(call);
    number(call);
    mpi_tell(&call->comes, true, false);
}

void mpi_add_collective(const struct mpi_call* call, int request) {
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, request),
                                     .kind = MPI_COLLECTIVE,
                                     .is_active = true,
                                     .receive.turn = call->turn,
                                     .sources = call->sources,
                                     .source_count = call->source_count};
    mpi_add_request(&made);
}

/* Ranks make persistent requests in the same order, but may start them in another one (MPI 4.0,
 * 6.13). So each request has places of its own, whose turns are its starts. */
static void make(struct mpi_call* call, find_places* find, int communicator) {
    find(call);
    const struct mpi_communicator* const its = mpi_its_communicator(call, communicator);
    struct mpi_request made = {.handle = mpi_pointed_handle(call, communicator + 2),
                               .kind = MPI_COLLECTIVE,
                               .is_persistent = true,
                               .sent = call->comes,
                               .receive.turn = call->turn,
                               .sources = call->sources,
                               .source_count = call->source_count};
    if (its) {
        struct mpi_turn making = place(its, -1, -1, TAG_OF_PERSISTENT);
        mpi_next_turn(&making, MPI_BOTH);
        const uint64_t name = mpi_name_of(mpi_name_of(its->name, MPI_PERSISTENT), making.number);
        struct mpi_turn* const turns[] = {&made.sent, &made.receive.turn};
        for (int i = 0; i < 2; ++i) {
            turns[i]->communicator = making.communicator && turns[i]->communicator ? name : 0;
            turns[i]->number = UINT32_MAX; /* before the first one */
        }
    }
    mpi_add_request(&made);
}

/* --- communicators --- */

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
const struct mpi_role mpi_makes_communicator = {NULL, after_making_communicator};
const struct mpi_role mpi_frees_communicator = {before_freeing_communicator, NULL};

/* clang-format off */
#define ROLES(kind, communicator) \
    static void join_##kind(struct mpi_call* call) { join(call, find_##kind); } \
    static void start_##kind(struct mpi_call* call) { start(call, find_##kind); } \
    static void add_##kind(struct mpi_call* call) { mpi_add_collective(call, communicator + 1); } \
    static void make_##kind(struct mpi_call* call) { make(call, find_##kind, communicator); } \
    const struct mpi_role mpi_joins_##kind = {join_##kind, NULL}; \
    const struct mpi_role mpi_starts_##kind = {start_##kind, add_##kind}; \
    const struct mpi_role mpi_makes_##kind = {NULL, make_##kind};
/* clang-format on */
ROLES(meeting, 0)
ROLES(from_one, 1)
ROLES(to_one, 1)
ROLES(in_order, 0)
ROLES(neighbours, 0)
