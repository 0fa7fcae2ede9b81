/* What has to be known of the library of MPI that the program uses. */
#ifndef PAGELENS_MPI_LIBRARY_H
#define PAGELENS_MPI_LIBRARY_H

#include <stdbool.h>

/* A call takes at most so many arguments: those of MPI_Sendrecv, and Fortran's for the error. All
 * are whole numbers or pointers, and so is the length of a file's name that Fortran adds. One that
 * the caller did not pass is whatever lies on its stack. */
enum { MPI_MOST_ARGUMENTS = 13 };
typedef long mpi_function(long, long, long, long, long, long, long, long, long, long, long, long,
                          long);
enum mpi_language { MPI_C, MPI_FORTRAN, MPI_C_LARGE /* with counts of the type MPI_Count */ };
enum mpi_handle_kind {
    MPI_COMMUNICATOR,
    MPI_TYPE,
    MPI_GROUP,
    MPI_WINDOW,
    MPI_FILE,
    MPI_HANDLE_KINDS
};

/* MPICH and all that share its binary interface have handles of the type int. Those of Open MPI are
 * pointers. Fortran's are of the type int in both. */
struct mpi_library {
    bool has_pointers;
    long world, no_communicator; /* MPI_COMM_WORLD, MPI_COMM_NULL */
    long no_type;                /* MPI_DATATYPE_NULL */
    int any_source, root;        /* MPI_ROOT; the other negative ranks are MPI_PROC_NULL */
    int status_bytes, source_at; /* of MPI_Status: size, place of MPI_SOURCE; then MPI_TAG */
    int no_precede;              /* MPI_MODE_NOPRECEDE */
    int cartesian;               /* MPI_CART; MPI_GRAPH is the other one of 1 and 2 */
    unsigned long eager_limit;   /* bytes; longer messages wait for their receives */
    mpi_function *comm_rank, *comm_test_inter, *comm_group, *comm_remote_group, *test_cancelled;
    mpi_function* type_size;
    mpi_function *group_size, *group_translate_ranks, *group_free;
    mpi_function *topo_test, *cartdim_get, *cart_shift, *graph_neighbors_count, *graph_neighbors;
    mpi_function *dist_graph_neighbors_count, *dist_graph_neighbors;
    mpi_function* from_fortran[MPI_HANDLE_KINDS]; /* where handles of C are pointers */
    const void* const* ignored[4]; /* pointers to Fortran's MPI_STATUS_IGNORE and the like */
};

/* Returns the library that the code at `from` calls. A process knows only the first that it finds.
 * Returns NULL if this is of neither kind. */
const struct mpi_library* mpi_library(const void* from);

/* Returns the handle to which an argument points. */
long mpi_handle_at(const struct mpi_library* library, enum mpi_language language, long pointer);

/* Returns a handle, as C has it, that is an argument. */
long mpi_handle(const struct mpi_library* library, enum mpi_language language,
                enum mpi_handle_kind kind, long argument);

/* Returns whether the program does not want this status. */
bool mpi_is_ignored(const struct mpi_library* library, long status);

#endif
