/* Writes and reads a data set of HDF5 in small pieces, which become requests of a chunk each.
 * Usage: io_hdf5_chunks FILE CHUNK_BYTES CACHE_BYTES */
#include <hdf5.h>
#include <stdlib.h>

enum { PIECE = 4096, PIECES = 1024 };

int main(int count, char** words) {
    if (count < 4) return 2;
    static char piece[PIECE];
    const hsize_t chunk = strtoull(words[2], NULL, 10), size = (hsize_t)PIECE * PIECES;
    const hid_t file = H5Fcreate(words[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &size, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk(how, 1, &chunk);
    H5Pset_chunk_cache(access, 521, strtoull(words[3], NULL, 10), 1.0);
    hid_t set = H5Dcreate2(file, "pieces", H5T_NATIVE_CHAR, space, H5P_DEFAULT, how, access);
    const hsize_t length = PIECE;
    const hid_t memory = H5Screate_simple(1, &length, NULL);
    for (hsize_t at = 0; at < size; at += PIECE) {
        for (int i = 0; i < PIECE; i++) piece[i] = (char)(at / PIECE);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &length, NULL);
        if (H5Dwrite(set, H5T_NATIVE_CHAR, memory, space, H5P_DEFAULT, piece) < 0) return 1;
    }
    H5Dclose(set);
    set = H5Dopen2(file, "pieces", access);
    for (hsize_t at = 0; at < size; at += PIECE) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &length, NULL);
        if (H5Dread(set, H5T_NATIVE_CHAR, memory, space, H5P_DEFAULT, piece) < 0) return 1;
        if (piece[PIECE - 1] != (char)(at / PIECE)) return 3;
    }
    H5Dclose(set);
    return H5Fclose(file) < 0;
}
