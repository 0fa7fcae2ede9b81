/* The second descriptors, open with O_DIRECT, of the files that the program writes. */
#ifndef PAGELENS_IOAPPLY_DESCRIPTORS_H
#define PAGELENS_IOAPPLY_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A file that may be written directly, and what its blocks must be aligned to. */
struct direct_file {
    int descriptor; /* open with O_DIRECT; -1: write as the program said */
    uint32_t file_alignment, memory_alignment;
    off64_t length; /* of the file, as direct_take has found it */
};

/* Must be called first. Returns whether forks can be followed, without which nothing is direct. */
bool direct_ready(void);

/* Returns the second descriptor of `file`, and opens it at the first call. Each call looks again
 * whether `file` still is the same file, and is open for plain buffered writes. Signals must wait
 * until the descriptor is given back, which its user does unless it is -1. */
struct direct_file direct_take(int file);
void direct_give(int file);

/* Must be called before `file` is closed, and before another file gets its number. */
void direct_closed(int file);
void direct_closed_range(unsigned first, unsigned last);

/* The program maps the file: it is written as the program says from now on. */
void direct_mapped(int file);

/* The program is about to take a lock or a lease on the file, which second descriptors would spoil.
 * They are closed, and the file is written as the program says from now on. */
void direct_locked(int file);

#endif
