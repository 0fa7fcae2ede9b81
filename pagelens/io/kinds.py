"""The kinds of operations, and the functions in which they are made.

iorecord/record.h and iorecord/callers.h have the same numbers, which are part of the file format.
"""

BEGIN, END, FILE, TEXT, DONE = 1, 2, 3, 4, 27  # only in raw logs

KINDS = {
    "open": 5, "close": 6, "read": 7, "write": 8, "seek": 9, "sync": 10, "datasync": 11, "advise": 12,
    "mmap": 13, "msync": 14, "dup": 15, "setfl": 16, "truncate": 17, "allocate": 18, "copy": 19,
    "sync_range": 20, "readahead": 21, "queued_read": 22, "queued_write": 23, "queued_sync": 24, "submit": 25,
    "await": 26,
}  # fmt: skip
IN_STDIO = 1 << 31  # in the flags of reads and writes
NAMES = {number: name for name, number in KINDS.items()}
QUEUED = tuple(KINDS[name] for name in ("queued_read", "queued_write", "queued_sync"))

# By number. 0: the program itself.
CALLERS = (
    "", "MPI_File_open", "MPI_File_close", "MPI_File_sync", "MPI_File_set_view", "MPI_File_set_size",
    "MPI_File_preallocate", "MPI_File_read", "MPI_File_write", "MPI_File_read_all",
    "MPI_File_write_all", "MPI_File_read_at", "MPI_File_write_at", "MPI_File_read_at_all",
    "MPI_File_write_at_all", "MPI_File_read_shared", "MPI_File_write_shared", "MPI_File_read_ordered",
    "MPI_File_write_ordered", "MPI_File_iread", "MPI_File_iwrite", "MPI_File_iread_at",
    "MPI_File_iwrite_at", "MPI_File_iread_all", "MPI_File_iwrite_all", "MPI_File_iread_at_all",
    "MPI_File_iwrite_at_all", "MPI_File_read_all_begin", "MPI_File_read_all_end",
    "MPI_File_write_all_begin", "MPI_File_write_all_end", "MPI_File_read_at_all_begin",
    "MPI_File_read_at_all_end", "MPI_File_write_at_all_begin", "MPI_File_write_at_all_end", "H5Fopen",
    "H5Fcreate", "H5Fflush", "H5Fclose", "H5Dopen2", "H5Dread", "H5Dwrite", "H5Dset_extent", "H5Dclose",
    "H5Gopen2", "H5Gcreate2", "H5Gclose", "H5Aread", "H5Awrite",
)  # fmt: skip
