/*
 * Tells the tracer when a thread is inside a function of MPI in which ranks wait for each other.
 * What it executes there is no work of the program: most of it is asking again and again whether a
 * message has come. A collective that no rank can leave before all have come to it is a meeting of
 * the ranks, and the tracer is told how many ranks the communicator has.
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
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks/calling_library.h"
#include "hooks/pagelens.h"

#define EXPORT __attribute__((visibility("default")))
#define CODE(function) ((const void*)(uintptr_t)(function))

/* Meetings, with the place of the communicator among the arguments. */
/* clang-format off */
#define MEETINGS(DO) \
    DO(MPI_Barrier, mpi_barrier, 0) \
    DO(MPI_Allreduce, mpi_allreduce, 5) \
    DO(MPI_Allgather, mpi_allgather, 6) \
    DO(MPI_Allgatherv, mpi_allgatherv, 7) \
    DO(MPI_Alltoall, mpi_alltoall, 6) \
    DO(MPI_Alltoallv, mpi_alltoallv, 8) \
    DO(MPI_Alltoallw, mpi_alltoallw, 8) \
    DO(MPI_Reduce_scatter, mpi_reduce_scatter, 5) \
    DO(MPI_Reduce_scatter_block, mpi_reduce_scatter_block, 5)

/* Here a rank waits for one other or for some, so not all ranks meet; or the run begins or ends. */
#define WAITS(DO) \
    DO(MPI_Init, mpi_init) DO(MPI_Init_thread, mpi_init_thread) DO(MPI_Finalize, mpi_finalize) \
    DO(MPI_Bcast, mpi_bcast) DO(MPI_Reduce, mpi_reduce) \
    DO(MPI_Gather, mpi_gather) DO(MPI_Gatherv, mpi_gatherv) \
    DO(MPI_Scatter, mpi_scatter) DO(MPI_Scatterv, mpi_scatterv) \
    DO(MPI_Scan, mpi_scan) DO(MPI_Exscan, mpi_exscan) \
    DO(MPI_Neighbor_allgather, mpi_neighbor_allgather) \
    DO(MPI_Neighbor_allgatherv, mpi_neighbor_allgatherv) \
    DO(MPI_Neighbor_alltoall, mpi_neighbor_alltoall) \
    DO(MPI_Neighbor_alltoallv, mpi_neighbor_alltoallv) \
    DO(MPI_Neighbor_alltoallw, mpi_neighbor_alltoallw) \
    DO(MPI_Comm_dup, mpi_comm_dup) DO(MPI_Comm_dup_with_info, mpi_comm_dup_with_info) \
    DO(MPI_Comm_split, mpi_comm_split) DO(MPI_Comm_split_type, mpi_comm_split_type) \
    DO(MPI_Comm_create, mpi_comm_create) DO(MPI_Comm_create_group, mpi_comm_create_group) \
    DO(MPI_Comm_free, mpi_comm_free) DO(MPI_Comm_disconnect, mpi_comm_disconnect) \
    DO(MPI_Cart_create, mpi_cart_create) DO(MPI_Cart_sub, mpi_cart_sub) \
    DO(MPI_Graph_create, mpi_graph_create) DO(MPI_Dist_graph_create, mpi_dist_graph_create) \
    DO(MPI_Dist_graph_create_adjacent, mpi_dist_graph_create_adjacent) \
    DO(MPI_Intercomm_create, mpi_intercomm_create) \
    DO(MPI_Intercomm_merge, mpi_intercomm_merge) \
    DO(MPI_Wait, mpi_wait) DO(MPI_Waitall, mpi_waitall) \
    DO(MPI_Waitany, mpi_waitany) DO(MPI_Waitsome, mpi_waitsome) \
    DO(MPI_Recv, mpi_recv) DO(MPI_Send, mpi_send) DO(MPI_Ssend, mpi_ssend) \
    DO(MPI_Sendrecv, mpi_sendrecv) DO(MPI_Sendrecv_replace, mpi_sendrecv_replace) \
    DO(MPI_Bsend, mpi_bsend) DO(MPI_Rsend, mpi_rsend) \
    DO(MPI_Probe, mpi_probe) DO(MPI_Mprobe, mpi_mprobe) DO(MPI_Mrecv, mpi_mrecv) \
    DO(MPI_Win_create, mpi_win_create) DO(MPI_Win_allocate, mpi_win_allocate) \
    DO(MPI_Win_allocate_shared, mpi_win_allocate_shared) \
    DO(MPI_Win_create_dynamic, mpi_win_create_dynamic) DO(MPI_Win_free, mpi_win_free) \
    DO(MPI_Win_fence, mpi_win_fence) DO(MPI_Win_lock, mpi_win_lock) \
    DO(MPI_Win_unlock, mpi_win_unlock) DO(MPI_Win_flush, mpi_win_flush) \
    DO(MPI_Win_lock_all, mpi_win_lock_all) DO(MPI_Win_unlock_all, mpi_win_unlock_all) \
    DO(MPI_Win_flush_all, mpi_win_flush_all) DO(MPI_Win_start, mpi_win_start) \
    DO(MPI_Win_complete, mpi_win_complete) DO(MPI_Win_wait, mpi_win_wait) \
    DO(MPI_File_open, mpi_file_open) DO(MPI_File_close, mpi_file_close) \
    DO(MPI_File_set_view, mpi_file_set_view) DO(MPI_File_set_size, mpi_file_set_size) \
    DO(MPI_File_sync, mpi_file_sync) \
    DO(MPI_File_read_all, mpi_file_read_all) DO(MPI_File_write_all, mpi_file_write_all) \
    DO(MPI_File_read_at_all, mpi_file_read_at_all) \
    DO(MPI_File_write_at_all, mpi_file_write_at_all)
/* clang-format on */

/* None takes more arguments: those of MPI_Sendrecv, and Fortran's for the error. All are whole
 * numbers or pointers, and so is the length of a file's name that Fortran adds. One that the caller
 * did not pass is whatever lies on its stack. */
enum { MOST_ARGUMENTS = 13 };
typedef long function(long, long, long, long, long, long, long, long, long, long, long, long, long);

enum language { C, FORTRAN };

/* The frame of the outermost call under way; NULL: none. */
static _Thread_local __attribute__((tls_model("initial-exec"))) const char* outermost;

/* ISO C has no conversion between pointers to data and to functions. */
static function* as_function(void* symbol) { return __extension__(function*) symbol; }

/* Returns how many ranks the communicator has; 0 if that cannot be asked. */
static uint64_t ranks_of(enum language language, long communicator, const void* from) {
    const char* const name = language == C ? "PMPI_Comm_size" : "mpi_comm_size_";
    function* const ask = as_function(next_function(name, from, CODE(ranks_of)));
    int ranks = 0, error = 0;
    if (ask != NULL) ask(communicator, (long)&ranks, (long)&error, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return ranks > 0 ? (uint64_t)ranks : 0;
}

static void tell(enum pagelens_kind kind, uint64_t ranks) {
    struct pagelens_record record = {kind, ranks, 0};
    pagelens_ring(&record);
}

static void end_wait(void) {
    outermost = NULL;
    tell(PAGELENS_WAIT_END, 0);
}

/* Calls the function of that name with these arguments. `communicator` is the place of a meeting's
 * one among them; -1: it is no meeting. */
static long call(const char* name, enum language language, int communicator, const void* from,
                 const void* wrapper, const long* a) {
    const char* const frame = __builtin_frame_address(0);
    if (outermost != NULL && frame >= outermost) { /* it was left, and so were those in it */
        end_wait();
        enter_function(NULL);
    }
    const bool is_outermost = outermost == NULL;
    if (is_outermost) outermost = frame;
    if (is_outermost) tell(PAGELENS_WAIT_BEGIN, 0); /* what is done here is no work either */
    function* const next = as_function(next_function(name, from, wrapper));
    if (is_outermost && communicator >= 0)
        tell(PAGELENS_WAIT_BEGIN, ranks_of(language, a[communicator], from));
    const void* const outer = enter_function(CODE(next));
    long result = -1; /* if the program found a function by name that no library has */
    if (next != NULL)
        result =
            next(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]);
    enter_function(outer);
    if (outermost == frame) end_wait();
    return result;
}

/* The wrapper itself is local, so that its address is known without a search through all libraries,
 * which the loader would make for each of them before the program begins. */
#define WRAP(symbol, language, communicator)                                                \
    __attribute__((used)) static long wrap_##symbol(long a, long b, long c, long d, long e, \
                                                    long f, long g, long h, long i, long j, \
                                                    long k, long l, long m) {               \
        const long arguments[MOST_ARGUMENTS] = {a, b, c, d, e, f, g, h, i, j, k, l, m};     \
        return call(#symbol, language, communicator, __builtin_return_address(0),           \
                    CODE(wrap_##symbol), arguments);                                        \
    }                                                                                       \
    extern EXPORT function symbol __attribute__((alias("wrap_" #symbol)));

/* Fortran's functions have pointers to the same arguments. The modules mpi and mpi_f08 of Open MPI
 * have one function each. */
#define WRAP_ALL(name, fortran, communicator) \
    WRAP(name, C, communicator)               \
    WRAP(fortran##_, FORTRAN, communicator)   \
    WRAP(fortran##_f08_, FORTRAN, communicator)
#define WRAP_WAIT(name, fortran) WRAP_ALL(name, fortran, -1)

MEETINGS(WRAP_ALL)
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
