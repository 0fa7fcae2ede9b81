/* Large writes made direct. */
#ifndef PAGELENS_IOAPPLY_DIRECT_H
#define PAGELENS_IOAPPLY_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads the settings. Without them nothing is made direct. */
void direct_begin(void);

/* The program shuts itself into a sandbox, whose filter may kill it for the system calls that are
 * made here. So nothing is made direct from now on. */
void direct_end(void);

/* Makes a write at the position of the file. Returns false if it is left to the caller, who then
 * does what the program said; true: *result and errno are those of the write. */
bool direct_write(int file, const void* buffer, size_t size, ssize_t* result);

/* Does the same at an offset, which leaves the position alone. */
bool direct_pwrite(int file, const void* buffer, size_t size, off64_t offset, ssize_t* result);

#endif
