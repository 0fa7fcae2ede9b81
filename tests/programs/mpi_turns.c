/* In each round one of the ranks works and the others wait for it in a collective call. With an
 * argument, they wait for the last one in calls that make something common. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { DOUBLES = 1 << 15, ROUNDS = 8 };

static double work(double* array) {
    for (int i = 1; i < DOUBLES; ++i) array[i] = 0.5 * array[i - 1] + array[i];
    return array[DOUBLES - 1];
}

int main(int argc, char** argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double* array = calloc(DOUBLES, sizeof *array);
    double sum = 0, mine = 0;
    if (argc > 1) {
        MPI_Comm common;
        MPI_Win window;
        if (rank == ranks - 1)
            for (int i = 0; i < 20 * ROUNDS; ++i) mine += work(array);
        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &common);
        if (rank == ranks - 1)
            for (int i = 0; i < 20 * ROUNDS; ++i) mine += work(array);
        MPI_Win_create(array, sizeof *array, sizeof *array, MPI_INFO_NULL, common, &window);
        MPI_Win_free(&window);
        MPI_Comm_free(&common);
    }
    for (int round = 0; round < ROUNDS * ranks; ++round) {
        if (round % ranks == rank) mine += work(array);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%g\n", sum);
    free(array);
    MPI_Finalize();
    return 0;
}
