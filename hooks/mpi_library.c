/*
 * No header of MPI is needed, because the layout of these values belongs to the binary interfaces
 * of both libraries: https://www.mpich.org/abi/ for MPICH and those like it, and mpi.h of Open MPI.
 */
#define _GNU_SOURCE
#include "hooks/mpi_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/calling_library.h"

static struct mpi_library known;
static const struct mpi_library* usable; /* NULL: not looked for, or unknown */

static mpi_function* as_function(void* symbol) { return __extension__(mpi_function*) symbol; }

/* The longest message whose send does not wait for its receive, in bytes. Both were measured on one
 * node with the libraries of Debian 12: MPICH 4.0.2 over UCX 1.13.1, and Open MPI 4.1.4, where it
 * is btl_vader_eager_limit (4096, opal/mca/btl/vader/btl_vader_component.c) less a header. */
enum { EAGER_LIMIT_OF_MPICH = 8255, EAGER_LIMIT_OF_OPEN_MPI = 4040 };
static const char limit_variable[] = "PAGELENS_EAGER_LIMIT"; /* which the user may set */

static mpi_function* find(void* library, const char* name) {
    return as_function(dlsym(library, name));
}

/* A program may have a copy of a library's variable (ld.so's copy relocation), which the library
 * then uses. */
static void* find_data(void* library, const char* name) {
    void* const found = dlsym(RTLD_DEFAULT, name);
    return found ? found : dlsym(library, name);
}

static bool is_like_mpich(mpi_function* get_library_version) {
    char version[8192] = ""; /* MPICH asks for so many bytes */
    int bytes = 0;
    if (get_library_version == NULL) return false;
    get_library_version((long)version, (long)&bytes, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return strstr(version, "MPICH") || strstr(version, "MVAPICH") ||
           strstr(version, "Intel(R) MPI");
}

static bool fill_in(void* library) {
    void* const world = find_data(library, "ompi_mpi_comm_world");
    if (world != NULL) {
        known.has_pointers = true;
        known.world = (long)world;
        known.no_communicator = (long)find_data(library, "ompi_mpi_comm_null");
        known.no_type = (long)find_data(library, "ompi_mpi_datatype_null");
        known.any_source = -1;
        known.root = -4;
        known.status_bytes = 24;
        known.source_at = 0;
        known.no_precede = 2;
        known.cartesian = 1;
        known.eager_limit = EAGER_LIMIT_OF_OPEN_MPI;
    } else {
        if (!is_like_mpich(find(library, "PMPI_Get_library_version"))) return false;
        known.world = 0x44000000;
        known.no_communicator = 0x04000000;
        known.no_type = 0x0c000000;
        known.any_source = -2;
        known.root = -3;
        known.status_bytes = 20;
        known.source_at = 8;
        known.no_precede = 8192;
        known.cartesian = 2;
        known.eager_limit = EAGER_LIMIT_OF_MPICH;
    }
    const char* const limit = getenv(limit_variable);
    if (limit != NULL && *limit != 0) known.eager_limit = strtoul(limit, NULL, 10);
    known.comm_rank = find(library, "PMPI_Comm_rank");
    known.comm_test_inter = find(library, "PMPI_Comm_test_inter");
    known.comm_group = find(library, "PMPI_Comm_group");
    known.comm_remote_group = find(library, "PMPI_Comm_remote_group");
    static const char* const from_fortran[MPI_HANDLE_KINDS] = {
        "PMPI_Comm_f2c", "PMPI_Type_f2c", "PMPI_Group_f2c", "PMPI_Win_f2c", "PMPI_File_f2c"};
    for (int kind = 0; kind < MPI_HANDLE_KINDS; ++kind) /* macros in MPICH */
        known.from_fortran[kind] = find(library, from_fortran[kind]);
    known.test_cancelled = find(library, "PMPI_Test_cancelled");
    known.type_size = find(library, "PMPI_Type_size");
    known.topo_test = find(library, "PMPI_Topo_test");
    known.cartdim_get = find(library, "PMPI_Cartdim_get");
    known.cart_shift = find(library, "PMPI_Cart_shift");
    known.graph_neighbors_count = find(library, "PMPI_Graph_neighbors_count");
    known.graph_neighbors = find(library, "PMPI_Graph_neighbors");
    known.dist_graph_neighbors_count = find(library, "PMPI_Dist_graph_neighbors_count");
    known.dist_graph_neighbors = find(library, "PMPI_Dist_graph_neighbors");
    known.group_size = find(library, "PMPI_Group_size");
    known.group_translate_ranks = find(library, "PMPI_Group_translate_ranks");
    known.group_free = find(library, "PMPI_Group_free");
    static const char* const names[] = {"MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE",
                                        "MPI_F08_STATUS_IGNORE", "MPI_F08_STATUSES_IGNORE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        known.ignored[i] = find_data(library, names[i]);
    return known.comm_rank && known.comm_test_inter && known.comm_group &&
           known.comm_remote_group && known.test_cancelled && known.type_size && known.group_size &&
           known.group_translate_ranks && known.group_free && known.topo_test &&
           known.cartdim_get && known.cart_shift && known.graph_neighbors_count &&
           known.graph_neighbors && known.dist_graph_neighbors_count &&
           known.dist_graph_neighbors &&
           (!known.has_pointers || (known.from_fortran[0] && known.from_fortran[1] &&
                                    known.from_fortran[2] && known.from_fortran[3]));
}

const struct mpi_library* mpi_library(const void* from) {
    static bool looked;
    if (looked) return usable;
    looked = true;
    /* Libraries may be loaded so that only their callers find them. */
    void* const rank = next_function("PMPI_Comm_rank", from, &known);
    Dl_info info;
    if (rank == NULL || dladdr(rank, &info) == 0) return NULL;
    void* const library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) return NULL;
    if (fill_in(library)) usable = &known;
    dlclose(library);
    return usable;
}

long mpi_handle_at(const struct mpi_library* library, enum mpi_language language, long pointer) {
    const bool is_pointer = library->has_pointers && language == MPI_C;
    return is_pointer ? *(const long*)pointer : *(const int*)pointer;
}

long mpi_handle(const struct mpi_library* library, enum mpi_language language,
                enum mpi_handle_kind kind, long argument) {
    if (language == MPI_C) return library->has_pointers ? argument : (int)argument;
    const int handle = *(const int*)argument;
    if (!library->has_pointers) return handle;
    return library->from_fortran[kind](handle, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

bool mpi_is_ignored(const struct mpi_library* library, long status) {
    if (status == 0 || status == 1) return true; /* of C, in the one library and the other */
    for (size_t i = 0; i < sizeof library->ignored / sizeof *library->ignored; ++i)
        if (library->ignored[i] != NULL && (long)*library->ignored[i] == status) return true;
    return false;
}
