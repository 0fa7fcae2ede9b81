/* What the library asks of the kernel. Nothing here allocates, since it is called from within
 * malloc. */
#ifndef PAGELENS_RUN_SYSTEM_H
#define PAGELENS_RUN_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((size_t)(n) << 30)

static inline uintptr_t round_up(uintptr_t value, size_t power_of_two) {
    return (value + power_of_two - 1) & ~(uintptr_t)(power_of_two - 1);
}

/* Switches the cancellation of this thread off, and back on. Use them around everything that opens,
 * reads or closes files: these calls are cancellation points, and malloc must not be one. Pass the
 * result of the first to the second. */
int cancelling_off(void);
void cancelling_back(int state);

/* Reads the beginning of a file and ends it with a zero. False if it cannot be read. */
bool read_text(const char* path, char* text, size_t room);

/* How many pages a process can still get from the kernel's pool of huge pages of this size. */
size_t pool_pages(size_t page_bytes);

/* Whether the kernel gives this process transparent huge pages on request. */
bool transparent_possible(void);

/* How many bytes can be taken without swapping, within the limits of control groups of version 1
 * and 2. A sixteenth of the memory is left out as a reserve. */
uint64_t memory_available(void);

/* mmap() as a plain system call, which no preloaded library sees, this one included. */
void* map_memory(void* hint, size_t bytes, int protection, int flags);

/* The same for munmap(), and for mremap() to a given address with the same size. */
int unmap_memory(void* start, size_t bytes);
void* remap_memory(void* from, size_t bytes, void* to);

/* Gives every page of a mapping its frame. If that fails it returns false and sets errno, where
 * touching the pages would raise SIGBUS. */
bool populate(void* start, size_t bytes, size_t page_bytes);

/* Writes "pagelens run: ..." to stderr with one system call. Each format is written once per
 * process. */
void say_once(const char* format, ...) __attribute__((format(printf, 1, 2)));

/* The i-th line that was written so, or NULL if there were fewer. */
const char* said_line(size_t i);

#endif
