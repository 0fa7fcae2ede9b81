/*
 * Tells the tracer when a thread is inside a function of MPI in which ranks wait for each other.
 * What it executes there is no work of the program: most of it is asking again and again whether a
 * message has come. A collective that no rank can leave before all have come to it is a meeting of
 * the ranks, and the tracer is told how many ranks the communicator has. For whom a rank waits in
 * other calls is what mpi_messages.c finds out.
 *
 * Libraries of MPI have different types for communicators, and so no header of theirs is needed:
 * every argument is handed on as it came. MPICH's functions for Fortran call those for C, and Open
 * MPI's do not.
 *
 * A function of the program that MPI calls, such as an error handler, may leave a call by longjmp()
 * or by an exception. The wait then ends in longjmp(), or at the latest at the next call of MPI,
 * whose frame lies where that of the call was, or nearer to the thread's beginning.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks/calling_library.h"
#include "hooks/mpi_meetings.h"
#include "hooks/pagelens.h"

#define EXPORT __attribute__((visibility("default")))
#define CODE(function) ((const void*)(uintptr_t)(function))

/* Calls in which a rank waits for others, or which such a call is about. The number is the place of
 * the first argument that the role reads (mpi_meetings.h). MPI 4.0 has each call with counts a
 * second time, with larger ones. */
/* clang-format off */
/* Collective calls: each has a form that returns a request, MPI_I..., and a persistent one,
 * MPI_..._init, which Open MPI before version 5 calls MPIX_..._init. All three have the communicator,
 * and the root, at the same place. */
#define COLLECTIVE_CALLS(DO) \
    DO(Allreduce, allreduce, meeting, 5) DO(Allgather, allgather, meeting, 6) \
    DO(Allgatherv, allgatherv, meeting, 7) DO(Alltoall, alltoall, meeting, 6) \
    DO(Alltoallv, alltoallv, meeting, 8) DO(Alltoallw, alltoallw, meeting, 8) \
    DO(Reduce_scatter, reduce_scatter, meeting, 5) \
    DO(Reduce_scatter_block, reduce_scatter_block, meeting, 5) DO(Bcast, bcast, from_one, 3) \
    DO(Scatter, scatter, from_one, 6) DO(Scatterv, scatterv, from_one, 7) \
    DO(Reduce, reduce, to_one, 5) DO(Gather, gather, to_one, 6) DO(Gatherv, gatherv, to_one, 7) \
    DO(Scan, scan, in_order, 5) DO(Exscan, exscan, in_order, 5) \
    DO(Neighbor_allgather, neighbor_allgather, neighbours, 6) \
    DO(Neighbor_allgatherv, neighbor_allgatherv, neighbours, 7) \
    DO(Neighbor_alltoall, neighbor_alltoall, neighbours, 6) \
    DO(Neighbor_alltoallv, neighbor_alltoallv, neighbours, 8) \
    DO(Neighbor_alltoallw, neighbor_alltoallw, neighbours, 8)

#define CALLS_WITH_COUNTS(DO) \
    DO(MPI_Send, mpi_send, mpi_sends, 3) DO(MPI_Ssend, mpi_ssend, mpi_sends_at_once, 3) \
    DO(MPI_Bsend, mpi_bsend, mpi_sends_ahead, 3) DO(MPI_Rsend, mpi_rsend, mpi_sends_ahead, 3) \
    DO(MPI_Isend, mpi_isend, mpi_starts_send, 3) \
    DO(MPI_Issend, mpi_issend, mpi_starts_send_at_once, 3) \
    DO(MPI_Ibsend, mpi_ibsend, mpi_starts_send_ahead, 3) \
    DO(MPI_Irsend, mpi_irsend, mpi_starts_send_ahead, 3) \
    DO(MPI_Send_init, mpi_send_init, mpi_makes_send, 3) \
    DO(MPI_Ssend_init, mpi_ssend_init, mpi_makes_send_at_once, 3) \
    DO(MPI_Bsend_init, mpi_bsend_init, mpi_makes_send_ahead, 3) \
    DO(MPI_Rsend_init, mpi_rsend_init, mpi_makes_send_ahead, 3) \
    DO(MPI_Recv, mpi_recv, mpi_receives, 3) DO(MPI_Irecv, mpi_irecv, mpi_starts_receive, 3) \
    DO(MPI_Recv_init, mpi_recv_init, mpi_makes_receive, 3) \
    DO(MPI_Sendrecv, mpi_sendrecv, mpi_sends_and_receives, 10) \
    DO(MPI_Sendrecv_replace, mpi_sendrecv_replace, mpi_replaces, 3) \
    DO(MPI_Isendrecv, mpi_isendrecv, mpi_starts_both, 10) \
    DO(MPI_Isendrecv_replace, mpi_isendrecv_replace, mpi_starts_to_replace, 3) \
    DO(MPI_Win_create, mpi_win_create, mpi_makes_window, 4) \
    DO(MPI_Win_allocate, mpi_win_allocate, mpi_allocates_window, 3) \
    DO(MPI_Win_allocate_shared, mpi_win_allocate_shared, mpi_allocates_window, 3) \
    DO(MPI_File_read_all, mpi_file_read_all, mpi_meets_in_file, 0) \
    DO(MPI_File_write_all, mpi_file_write_all, mpi_meets_in_file, 0) \
    DO(MPI_File_read_at_all, mpi_file_read_at_all, mpi_meets_in_file, 0) \
    DO(MPI_File_write_at_all, mpi_file_write_at_all, mpi_meets_in_file, 0) \
    DO(MPI_File_read_all_begin, mpi_file_read_all_begin, mpi_meets_in_file, 0) \
    DO(MPI_File_write_all_begin, mpi_file_write_all_begin, mpi_meets_in_file, 0) \
    DO(MPI_File_read_at_all_begin, mpi_file_read_at_all_begin, mpi_meets_in_file, 0) \
    DO(MPI_File_write_at_all_begin, mpi_file_write_at_all_begin, mpi_meets_in_file, 0) \
    DO(MPI_File_read_ordered, mpi_file_read_ordered, mpi_meets_in_file, 0) \
    DO(MPI_File_write_ordered, mpi_file_write_ordered, mpi_meets_in_file, 0) \
    DO(MPI_File_read_ordered_begin, mpi_file_read_ordered_begin, mpi_meets_in_file, 0) \
    DO(MPI_File_write_ordered_begin, mpi_file_write_ordered_begin, mpi_meets_in_file, 0) \
    DO(MPI_File_iread_all, mpi_file_iread_all, mpi_starts_in_file, 4) \
    DO(MPI_File_iwrite_all, mpi_file_iwrite_all, mpi_starts_in_file, 4) \
    DO(MPI_File_iread_at_all, mpi_file_iread_at_all, mpi_starts_in_file, 5) \
    DO(MPI_File_iwrite_at_all, mpi_file_iwrite_at_all, mpi_starts_in_file, 5)

#define CALLS(DO) \
    DO(MPI_Barrier, mpi_barrier, mpi_joins_meeting, 0) \
    DO(MPI_Ibarrier, mpi_ibarrier, mpi_starts_meeting, 0) \
    DO(MPI_Barrier_init, mpi_barrier_init, mpi_makes_meeting, 0) \
    DO(MPIX_Barrier_init, mpix_barrier_init, mpi_makes_meeting, 0) \
    DO(MPI_Mprobe, mpi_mprobe, mpi_probes, 0) DO(MPI_Improbe, mpi_improbe, mpi_tries_to_probe, 0) \
    DO(MPI_Start, mpi_start, mpi_starts, 0) DO(MPI_Startall, mpi_startall, mpi_starts_all, 0) \
    DO(MPI_Request_free, mpi_request_free, mpi_frees_request, 0) \
    DO(MPI_Cancel, mpi_cancel, mpi_cancels, 0) DO(MPI_Wait, mpi_wait, mpi_waits, 0) \
    DO(MPI_Waitall, mpi_waitall, mpi_waits_for_all, 0) \
    DO(MPI_Waitany, mpi_waitany, mpi_waits_for_any, 0) \
    DO(MPI_Waitsome, mpi_waitsome, mpi_waits_for_some, 0) DO(MPI_Test, mpi_test, mpi_tests, 0) \
    DO(MPI_Testall, mpi_testall, mpi_tests_all, 0) DO(MPI_Testany, mpi_testany, mpi_tests_any, 0) \
    DO(MPI_Testsome, mpi_testsome, mpi_waits_for_some, 0) \
    DO(MPI_Comm_dup, mpi_comm_dup, mpi_makes_communicator, 1) \
    DO(MPI_Comm_dup_with_info, mpi_comm_dup_with_info, mpi_makes_communicator, 2) \
    DO(MPI_Comm_split, mpi_comm_split, mpi_makes_communicator, 3) \
    DO(MPI_Comm_split_type, mpi_comm_split_type, mpi_makes_communicator, 4) \
    DO(MPI_Comm_create, mpi_comm_create, mpi_makes_communicator, 2) \
    DO(MPI_Comm_create_group, mpi_comm_create_group, mpi_makes_communicator, 3) \
    DO(MPI_Comm_free, mpi_comm_free, mpi_frees_communicator, 0) \
    DO(MPI_Comm_disconnect, mpi_comm_disconnect, mpi_frees_communicator, 0) \
    DO(MPI_Cart_create, mpi_cart_create, mpi_makes_communicator, 5) \
    DO(MPI_Cart_sub, mpi_cart_sub, mpi_makes_communicator, 2) \
    DO(MPI_Graph_create, mpi_graph_create, mpi_makes_communicator, 5) \
    DO(MPI_Dist_graph_create, mpi_dist_graph_create, mpi_makes_communicator, 8) \
    DO(MPI_Dist_graph_create_adjacent, mpi_dist_graph_create_adjacent, mpi_makes_communicator, 9) \
    DO(MPI_Intercomm_merge, mpi_intercomm_merge, mpi_makes_communicator, 2) \
    DO(MPI_Intercomm_create, mpi_intercomm_create, mpi_makes_communicator, 5) \
    DO(MPI_Comm_spawn, mpi_comm_spawn, mpi_makes_communicator, 6) \
    DO(MPI_Comm_spawn_multiple, mpi_comm_spawn_multiple, mpi_makes_communicator, 7) \
    DO(MPI_Comm_accept, mpi_comm_accept, mpi_makes_communicator, 4) \
    DO(MPI_Comm_connect, mpi_comm_connect, mpi_makes_communicator, 4) \
    DO(MPI_Win_create_dynamic, mpi_win_create_dynamic, mpi_makes_window, 1) \
    DO(MPI_Win_free, mpi_win_free, mpi_frees_window, 0) \
    DO(MPI_Win_fence, mpi_win_fence, mpi_fences, 0) DO(MPI_Win_post, mpi_win_post, mpi_exposes, 0) \
    DO(MPI_Win_start, mpi_win_start, mpi_begins_access, 0) \
    DO(MPI_Win_complete, mpi_win_complete, mpi_ends_access, 0) \
    DO(MPI_Win_wait, mpi_win_wait, mpi_ends_exposure, 0) \
    DO(MPI_Win_test, mpi_win_test, mpi_tries_to_end_exposure, 0) \
    DO(MPI_Psend_init, mpi_psend_init, mpi_makes_partitioned_send, 4) \
    DO(MPI_Precv_init, mpi_precv_init, mpi_makes_partitioned_receive, 4) \
    DO(MPI_Pready, mpi_pready, mpi_makes_ready, 0) \
    DO(MPI_Pready_range, mpi_pready_range, mpi_makes_range_ready, 0) \
    DO(MPI_Pready_list, mpi_pready_list, mpi_makes_list_ready, 0) \
    DO(MPI_File_open, mpi_file_open, mpi_opens_file, 0) \
    DO(MPI_File_close, mpi_file_close, mpi_closes_file, 0) \
    DO(MPI_File_set_view, mpi_file_set_view, mpi_meets_in_file, 0) \
    DO(MPI_File_set_size, mpi_file_set_size, mpi_meets_in_file, 0) \
    DO(MPI_File_seek_shared, mpi_file_seek_shared, mpi_meets_in_file, 0) \
    DO(MPI_File_sync, mpi_file_sync, mpi_syncs_file, 0)

/* Here it is not known for whom a rank waits; or the run begins or ends. */
#define WAITS(DO) \
    DO(MPI_Init, mpi_init) DO(MPI_Init_thread, mpi_init_thread) DO(MPI_Finalize, mpi_finalize) \
    DO(MPI_Probe, mpi_probe) DO(MPI_Mrecv, mpi_mrecv) DO(MPI_Parrived, mpi_parrived) \
    DO(MPI_Win_lock, mpi_win_lock) DO(MPI_Win_unlock, mpi_win_unlock) \
    DO(MPI_Win_flush, mpi_win_flush) DO(MPI_Win_lock_all, mpi_win_lock_all) \
    DO(MPI_Win_unlock_all, mpi_win_unlock_all) DO(MPI_Win_flush_all, mpi_win_flush_all) \
    DO(MPI_Win_flush_local, mpi_win_flush_local) \
    DO(MPI_Win_flush_local_all, mpi_win_flush_local_all) \
    DO(MPI_File_read_all_end, mpi_file_read_all_end) \
    DO(MPI_File_write_all_end, mpi_file_write_all_end) \
    DO(MPI_File_read_at_all_end, mpi_file_read_at_all_end) \
    DO(MPI_File_write_at_all_end, mpi_file_write_at_all_end) \
    DO(MPI_File_read_ordered_end, mpi_file_read_ordered_end) \
    DO(MPI_File_write_ordered_end, mpi_file_write_ordered_end)
/* clang-format on */

/* The frame of the outermost call under way; NULL: none. */
static _Thread_local __attribute__((tls_model("initial-exec"))) const char* outermost;

/* ISO C has no conversion between pointers to data and to functions. */
static mpi_function* as_function(void* symbol) { return __extension__(mpi_function*) symbol; }

/* Returns how many ranks the communicator has; 0 if that cannot be asked. */
static uint64_t ranks_of(enum mpi_language language, long communicator, const void* from) {
    const char* const name = language == MPI_C ? "PMPI_Comm_size" : "mpi_comm_size_";
    mpi_function* const ask = as_function(next_function(name, from, CODE(ranks_of)));
    int ranks = 0, error = 0;
    if (ask != NULL) ask(communicator, (long)&ranks, (long)&error, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return ranks > 0 ? (uint64_t)ranks : 0;
}

static void tell(enum pagelens_kind kind) {
    struct pagelens_record record = {kind, 0, 0};
    pagelens_ring(&record);
}

static void end_wait(void) {
    outermost = NULL;
    tell(PAGELENS_WAIT_END);
}

/* Only one thread at a time knows what the rank has sent, received and asked for. */
static atomic_flag is_taken = ATOMIC_FLAG_INIT;

static void take_role(struct mpi_call* call, void (*part)(struct mpi_call*)) {
    if (part == NULL || call->library == NULL) return;
    const int saved_errno = errno;
    while (atomic_flag_test_and_set(&is_taken)) sched_yield();
    part(call);
    atomic_flag_clear(&is_taken);
    errno = saved_errno;
}

/* Tells that so many ranks meet, which are all. */
static void tell_meeting(uint64_t ranks) {
    static atomic_uint meetings;
    struct pagelens_record record = {PAGELENS_WAIT_BEGIN, ranks, 0};
    if (ranks > 1) record.size = atomic_fetch_add(&meetings, 1);
    pagelens_ring(&record);
}

/* Tells that all ranks of the communicator meet. */
static void meet(struct mpi_call* call) {
    const long communicator = call->arguments[call->first];
    if (call->library == NULL)
        tell_meeting(ranks_of(call->language, communicator, call->from));
    else if (mpi_all_ranks(call, communicator))
        tell_meeting(mpi_all_ranks(call, communicator));
    else
        mpi_joins_meeting.before(call);
}

/* Calls the function with these arguments in the role, if it has one. */
static long call_in_role(mpi_function* next, const struct mpi_role* role, int first,
                         enum mpi_language language, const void* from, long* a) {
    struct mpi_call call;
    call.language = language == MPI_FORTRAN ? MPI_FORTRAN : MPI_C;
    call.has_large_counts = language == MPI_C_LARGE;
    call.from = from;
    call.arguments = a;
    call.first = first;
    call.library = mpi_library(from);
    call.comes = call.turn = (struct mpi_turn){0};
    call.sources = NULL;
    call.source_count = 0;
    if (role == &mpi_joins_meeting && call.library == NULL)
        meet(&call);
    else
        take_role(&call, role == &mpi_joins_meeting ? meet : role->before);
    const long result =
        next(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]);
    take_role(&call, role->after);
    return result;
}

/* Calls the function of that name with these arguments. `first` is the place of the first argument
 * that the role reads. */
static long call(const char* name, enum mpi_language language, const struct mpi_role* role,
                 int first, const void* from, const void* wrapper, long* a) {
    const char* const frame = __builtin_frame_address(0);
    if (outermost != NULL && frame >= outermost) { /* it was left, and so were those in it */
        end_wait();
        enter_function(NULL);
    }
    const bool is_outermost = outermost == NULL;
    if (is_outermost) outermost = frame;
    if (is_outermost) tell(PAGELENS_WAIT_BEGIN); /* what is done here is no work either */
    mpi_function* const next = as_function(next_function(name, from, wrapper));
    const void* const outer = enter_function(CODE(next));
    long result = -1; /* if the program found a function by name that no library has */
    if (next == NULL)
        result = -1;
    else if (is_outermost && role != NULL)
        result = call_in_role(next, role, first, language, from, a);
    else
        result =
            next(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]);
    enter_function(outer);
    if (outermost == frame) end_wait();
    return result;
}

/* The wrapper itself is local, so that its address is known without a search through all libraries,
 * which the loader would make for each of them before the program begins. */
#define WRAP(symbol, language, role, first)                                                 \
    __attribute__((used)) static long wrap_##symbol(long a, long b, long c, long d, long e, \
                                                    long f, long g, long h, long i, long j, \
                                                    long k, long l, long m) {               \
        long arguments[MPI_MOST_ARGUMENTS] = {a, b, c, d, e, f, g, h, i, j, k, l, m};       \
        return call(#symbol, language, role, first, __builtin_return_address(0),            \
                    CODE(wrap_##symbol), arguments);                                        \
    }                                                                                       \
    extern EXPORT mpi_function symbol __attribute__((alias("wrap_" #symbol)));

/* Fortran's functions have pointers to the same arguments. The modules mpi and mpi_f08 of Open MPI
 * have one function each. */
#define WRAP_ALL(name, fortran, role, first)   \
    WRAP(name, MPI_C, role, first)             \
    WRAP(fortran##_, MPI_FORTRAN, role, first) \
    WRAP(fortran##_f08_, MPI_FORTRAN, role, first)
#define WRAP_LARGE(name, fortran, role, first) WRAP(name##_c, MPI_C_LARGE, &role, first)
#define WRAP_ROLE(name, fortran, role, first) WRAP_ALL(name, fortran, &role, first)
#define WRAP_WAIT(name, fortran) WRAP_ALL(name, fortran, NULL, 0)
/* clang-format off */
#define WRAP_COLLECTIVE(name, fortran, kind, first) \
    WRAP_ROLE(MPI_##name, mpi_##fortran, mpi_joins_##kind, first) \
    WRAP_ROLE(MPI_I##fortran, mpi_i##fortran, mpi_starts_##kind, first) \
    WRAP_ROLE(MPI_##name##_init, mpi_##fortran##_init, mpi_makes_##kind, first) \
    WRAP_ROLE(MPIX_##name##_init, mpix_##fortran##_init, mpi_makes_##kind, first) \
    WRAP_LARGE(MPI_##name, mpi_##fortran, mpi_joins_##kind, first) \
    WRAP_LARGE(MPI_I##fortran, mpi_i##fortran, mpi_starts_##kind, first) \
    WRAP_LARGE(MPI_##name##_init, mpi_##fortran##_init, mpi_makes_##kind, first)
/* clang-format on */

COLLECTIVE_CALLS(WRAP_COLLECTIVE)
CALLS_WITH_COUNTS(WRAP_ROLE)
CALLS_WITH_COUNTS(WRAP_LARGE)
CALLS(WRAP_ROLE)
WAITS(WRAP_WAIT)

/* The functions that leave frames. They are found before the program begins, because handlers of
 * signals may call them. Where MPI leaves frames of its own, the rest of its wait counts as work.
 */
typedef void leave(struct __jmp_buf_tag*, int);
/* clang-format off */
#define LEAVES(DO) DO(longjmp) DO(_longjmp) DO(siglongjmp) DO(__longjmp_chk)
#define DECLARE(name) static leave* next_##name;
#define FIND(name) next_##name = __extension__(leave*) dlsym(RTLD_NEXT, #name);
LEAVES(DECLARE)
__attribute__((constructor)) static void find_leaves(void) { LEAVES(FIND) }
/* clang-format on */
#define LEAVE(name)                                                                        \
    static __attribute__((used)) void leave_##name(struct __jmp_buf_tag* to, int value) {  \
        if (outermost != NULL) {                                                           \
            end_wait();                                                                    \
            enter_function(NULL);                                                          \
        }                                                                                  \
        if (next_##name == NULL) find_leaves(); /* a library that began before this one */ \
        next_##name(to, value);                                                            \
    }                                                                                      \
    extern EXPORT leave exported_##name __asm__(#name) __attribute__((alias("leave_" #name)));
LEAVES(LEAVE)
