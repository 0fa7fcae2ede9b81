/* Properties of HDF5 for the files that a program makes or opens. */
#ifndef PAGELENS_IOAPPLY_HDF5_H
#define PAGELENS_IOAPPLY_HDF5_H

/* Reads the settings. Without them files are opened as the program says. */
void hdf5_begin(void);

#endif
