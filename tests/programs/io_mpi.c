/* MPI-IO as programs do it: each rank writes its parts of one file, collectively and by itself, and
 * reads those of its neighbour. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 32 << 10, STEPS = 64 };

int main(int count, char** words) {
    MPI_File file;
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char* part = malloc(PART);
    memset(part, rank, PART);
    if (count < 2 || MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR,
                                   MPI_INFO_NULL, &file) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int step = 0; step < 2 * STEPS; step++) {
        const MPI_Offset at = ((MPI_Offset)step * ranks + rank) * PART;
        if (step < STEPS)
            MPI_File_write_at_all(file, at, part, PART, MPI_BYTE, MPI_STATUS_IGNORE);
        else
            MPI_File_write_at(file, at, part, PART, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < 2 * STEPS; step++) {
        const MPI_Offset at = ((MPI_Offset)step * ranks + (rank + 1) % ranks) * PART;
        MPI_File_read_at(file, at, part, PART, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
