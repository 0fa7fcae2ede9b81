/* Starts itself once more as another program of MPI, and gets a message of it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    MPI_Comm parent, child;
    int value = 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child,
                       MPI_ERRCODES_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 1, child, MPI_STATUS_IGNORE);
        printf("%d\n", value);
        MPI_Comm_disconnect(&child);
    } else {
        value = 4;
        MPI_Send(&value, 1, MPI_INT, 0, 1, parent);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return 0;
}
