/* Every rank fills an array of its own; the sum of the ranks is known. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double* array = malloc(1 << 20);
    for (int i = 0; i < 1 << 17; ++i) array[i] = rank;
    double sum;
    MPI_Allreduce(&array[ranks], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%g\n", sum);
    free(array);
    MPI_Finalize();
    return 0;
}
