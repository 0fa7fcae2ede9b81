/* The functions of MPI-IO and HDF5 in which operations are made. */
#ifndef PAGELENS_IORECORD_CALLERS_H
#define PAGELENS_IORECORD_CALLERS_H

#include <stdint.h>

/* Their order is part of the format, and pagelens/io/kinds.py has the same: add new ones at the
 * end. None has more than six arguments, and none a floating one. */
/* clang-format off */
#define CALLERS(DO) \
    DO(MPI_File_open) DO(MPI_File_close) DO(MPI_File_sync) DO(MPI_File_set_view) \
    DO(MPI_File_set_size) DO(MPI_File_preallocate) DO(MPI_File_read) DO(MPI_File_write) \
    DO(MPI_File_read_all) DO(MPI_File_write_all) DO(MPI_File_read_at) DO(MPI_File_write_at) \
    DO(MPI_File_read_at_all) DO(MPI_File_write_at_all) DO(MPI_File_read_shared) \
    DO(MPI_File_write_shared) DO(MPI_File_read_ordered) DO(MPI_File_write_ordered) \
    DO(MPI_File_iread) DO(MPI_File_iwrite) DO(MPI_File_iread_at) DO(MPI_File_iwrite_at) \
    DO(MPI_File_iread_all) DO(MPI_File_iwrite_all) DO(MPI_File_iread_at_all) \
    DO(MPI_File_iwrite_at_all) DO(MPI_File_read_all_begin) DO(MPI_File_read_all_end) \
    DO(MPI_File_write_all_begin) DO(MPI_File_write_all_end) DO(MPI_File_read_at_all_begin) \
    DO(MPI_File_read_at_all_end) DO(MPI_File_write_at_all_begin) DO(MPI_File_write_at_all_end) \
    DO(H5Fopen) DO(H5Fcreate) DO(H5Fflush) DO(H5Fclose) DO(H5Dopen2) DO(H5Dread) DO(H5Dwrite) \
    DO(H5Dset_extent) DO(H5Dclose) DO(H5Gopen2) DO(H5Gcreate2) DO(H5Gclose) DO(H5Aread) DO(H5Awrite)
/* clang-format on */

/* Returns the outermost of these functions that the thread is in, by its place in the list, from 1
 * on. Returns 0 if it is in none. */
uint8_t caller_now(void);

/* The program jumps out of the function, or inside of it: then the rest of it loses its name. */
void caller_left(void);

#endif
