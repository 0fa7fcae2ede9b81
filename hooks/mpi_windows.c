/*
 * Windows and files: how ranks wait for each other around what they read and write in each other's
 * memory, or in a file. All ranks of a communicator make a window or a file together, so they agree
 * on how many of both there were before. For whom MPI_Win_lock waits depends on who was faster. So
 * this is not followed.
 */
#include <stddef.h>

#include "hooks/mpi_meetings.h"

enum { MOST_WINDOWS = 1 << 10, TAG_OF_FENCES = -1 };
enum { TAG_OF_EXPOSURES = -4, TAG_OF_ACCESSES = -5, TAG_OF_WINDOWS = -6 };

struct ranks {
    const int* of_world;
    int size;
};

/* Pages that are never used cost nothing. */
static struct window { /* or a file */
    long handle;
    uint64_t name; /* 0: not in use */
    int own_rank;  /* in MPI_COMM_WORLD */
    struct ranks exposed_to, accessed;
} windows[MOST_WINDOWS];

static struct window* find(long handle, bool is_used) {
    for (struct window* window = windows; window < windows + MOST_WINDOWS; ++window)
        if (is_used ? window->name && window->handle == handle : !window->name) return window;
    return NULL;
}

static struct window* window_at(const struct mpi_call* call, int place) {
    return find(mpi_handle(call->library, call->language, MPI_WINDOW, mpi_argument(call, place)),
                true);
}

static long pointed_window(const struct mpi_call* call, int place) {
    const long pointer = mpi_argument(call, place);
    return call->language == MPI_C ? mpi_pointed_handle(call, place)
                                   : mpi_handle(call->library, MPI_FORTRAN, MPI_WINDOW, pointer);
}

static void make(const struct mpi_communicator* its, long handle) {
    struct window* const known = find(handle, true); /* MPI_FILE_NULL, if there was no file */
    struct window* const window = known ? known : find(0, false);
    if (its == NULL || window == NULL) return;
    struct mpi_turn making = {its->name, -1, -1, TAG_OF_WINDOWS, 0};
    mpi_next_turn(&making, MPI_BOTH);
    *window = (struct window){.handle = handle,
                              .name = mpi_name_of(its->name, making.number),
                              .own_rank = its->ranks[its->own_rank]};
}
static void after_making(struct mpi_call* call) {
    make(mpi_its_communicator(call, 0), pointed_window(call, 1));
}
static void after_allocating(struct mpi_call* call) {
    make(mpi_its_communicator(call, 0), pointed_window(call, 2));
}

static struct mpi_turn begin_meeting(const struct window* window, bool waits) {
    struct mpi_turn turn = {window ? window->name : 0, -1, -1, TAG_OF_FENCES, 0};
    mpi_next_turn(&turn, MPI_BOTH);
    mpi_tell(&turn, true, waits);
    return turn;
}
static void meet(const struct window* window) { begin_meeting(window, true); }

static void meet_and_free(struct window* window) {
    meet(window);
    if (window) window->name = 0;
}
static void before_freeing(struct mpi_call* call) {
    meet_and_free(find(pointed_window(call, 0), true));
}

/* A fence before which nothing happened lets each rank go on. */
static void before_fence(struct mpi_call* call) {
    if (!(mpi_number(call, 0) & call->library->no_precede)) meet(window_at(call, 1));
}

static struct ranks group_at(const struct mpi_call* call, int place) {
    const long group =
        mpi_handle(call->library, call->language, MPI_GROUP, mpi_argument(call, place));
    struct ranks found;
    found.of_world = mpi_ranks_of(call->library, group, &found.size);
    return found;
}

/* Tells that the rank comes where each of the others will wait for it. */
static void come(const struct window* window, const struct ranks* others, int tag) {
    for (int i = 0; i < others->size; ++i) {
        struct mpi_turn turn = {window->name, window->own_rank, others->of_world[i], tag, 0};
        mpi_next_turn(&turn, MPI_COMES);
        mpi_tell(&turn, true, false);
    }
}

static void wait_for(const struct window* window, const struct ranks* others, int tag) {
    for (int i = 0; i < others->size; ++i) {
        struct mpi_turn turn = {window->name, others->of_world[i], window->own_rank, tag, 0};
        mpi_next_turn(&turn, MPI_WAITS);
        mpi_tell(&turn, false, true);
    }
}

static void before_exposing(struct mpi_call* call) {
    struct window* const window = window_at(call, 2);
    if (window == NULL) return;
    window->exposed_to = group_at(call, 0);
    come(window, &window->exposed_to, TAG_OF_EXPOSURES);
}

static void before_access(struct mpi_call* call) {
    struct window* const window = window_at(call, 2);
    if (window == NULL) return;
    window->accessed = group_at(call, 0);
    wait_for(window, &window->accessed, TAG_OF_EXPOSURES);
}

static void before_ending_access(struct mpi_call* call) {
    struct window* const window = window_at(call, 0);
    if (window) come(window, &window->accessed, TAG_OF_ACCESSES);
}

static void before_ending_exposure(struct mpi_call* call) {
    struct window* const window = window_at(call, 0);
    if (window) wait_for(window, &window->exposed_to, TAG_OF_ACCESSES);
}

static void after_trying(struct mpi_call* call) {
    if (*(const int*)mpi_argument(call, 1)) before_ending_exposure(call);
}

/* --- files: their handles are pointers in C, in both libraries --- */

static long file_at(const struct mpi_call* call, long argument) {
    if (call->language == MPI_C) return argument;
    mpi_function* const from_fortran = call->library->from_fortran[MPI_FILE];
    if (from_fortran == NULL) return 0; /* a library without files */
    return from_fortran(*(const int*)argument, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}
static long pointed_file(const struct mpi_call* call, int place) {
    const long pointer = mpi_argument(call, place);
    return file_at(call, call->language == MPI_C ? *(const long*)pointer : pointer);
}
static struct window* its_file(const struct mpi_call* call) {
    return find(file_at(call, call->arguments[0]), true);
}

static void before_opening(struct mpi_call* call) { mpi_joins_meeting.before(call); }
static void after_opening(struct mpi_call* call) {
    make(mpi_its_communicator(call, 0), pointed_file(call, 4));
}
static void before_closing(struct mpi_call* call) {
    meet_and_free(find(pointed_file(call, 0), true));
}
static void before_file_meeting(struct mpi_call* call) { meet(its_file(call)); }
/* Ranks of MPICH sync files by themselves (measured, 4.0.2); those of Open MPI do so together. */
static void before_syncing(struct mpi_call* call) {
    if (call->library->has_pointers) meet(its_file(call));
}
static void before_starting_in_file(struct mpi_call* call) {
    call->turn = begin_meeting(its_file(call), false);
}
static void after_starting_in_file(struct mpi_call* call) { mpi_add_collective(call, 0); }

const struct mpi_role mpi_makes_window = {NULL, after_making};
const struct mpi_role mpi_allocates_window = {NULL, after_allocating};
const struct mpi_role mpi_frees_window = {before_freeing, NULL};
const struct mpi_role mpi_fences = {before_fence, NULL};
const struct mpi_role mpi_exposes = {before_exposing, NULL};
const struct mpi_role mpi_begins_access = {before_access, NULL};
const struct mpi_role mpi_ends_access = {before_ending_access, NULL};
const struct mpi_role mpi_ends_exposure = {before_ending_exposure, NULL};
const struct mpi_role mpi_tries_to_end_exposure = {NULL, after_trying};
const struct mpi_role mpi_opens_file = {before_opening, after_opening};
const struct mpi_role mpi_closes_file = {before_closing, NULL};
const struct mpi_role mpi_meets_in_file = {before_file_meeting, NULL};
const struct mpi_role mpi_syncs_file = {before_syncing, NULL};
const struct mpi_role mpi_starts_in_file = {before_starting_in_file, after_starting_in_file};
