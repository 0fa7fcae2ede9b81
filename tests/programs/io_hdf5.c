/* Parallel HDF5 as programs use it: all ranks write their rows of a data set, collectively and by
 * themselves, and read those of their neighbour. Usage: io_hdf5 FILE */
#include <hdf5.h>
#include <mpi.h>
#include <stdlib.h>

enum { ROWS = 64, COLUMNS = 8192 }; /* of each rank and step, doubles */

static void transfer(hid_t set, hsize_t first, double* rows, H5FD_mpio_xfer_t how, int write) {
    const hsize_t start[2] = {first, 0}, count[2] = {ROWS, COLUMNS};
    const hid_t file_space = H5Dget_space(set), memory_space = H5Screate_simple(2, count, NULL);
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, count, NULL);
    H5Pset_dxpl_mpio(list, how);
    if (write)
        H5Dwrite(set, H5T_NATIVE_DOUBLE, memory_space, file_space, list, rows);
    else
        H5Dread(set, H5T_NATIVE_DOUBLE, memory_space, file_space, list, rows);
    H5Pclose(list);
    H5Sclose(memory_space);
    H5Sclose(file_space);
}

int main(int count, char** words) {
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < 2) MPI_Abort(MPI_COMM_WORLD, 1);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    const hid_t file = H5Fcreate(words[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hsize_t size[2] = {2 * (hsize_t)ranks * ROWS, COLUMNS};
    const hid_t space = H5Screate_simple(2, size, NULL);
    const hid_t set =
        H5Dcreate2(file, "rows", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    double* rows = malloc(sizeof(double) * ROWS * COLUMNS);
    for (long i = 0; i < (long)ROWS * COLUMNS; i++) rows[i] = rank + 1;
    transfer(set, (hsize_t)rank * ROWS, rows, H5FD_MPIO_COLLECTIVE, 1);
    transfer(set, (hsize_t)(ranks + rank) * ROWS, rows, H5FD_MPIO_INDEPENDENT, 1);
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    const int neighbour = (rank + 1) % ranks;
    transfer(set, (hsize_t)neighbour * ROWS, rows, H5FD_MPIO_INDEPENDENT, 0);
    const int wrong = rows[0] != neighbour + 1;
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(access);
    H5Fclose(file);
    MPI_Finalize();
    return wrong;
}
