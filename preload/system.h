/* What the library asks the kernel, without allocating: it is called from within malloc. */
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

/* Around whatever opens, reads or closes files: there a thread that is to be cancelled would be, in
 * the midst of malloc, which is no point of cancellation. Gives what cancelling_back() takes. */
int cancelling_off(void);
void cancelling_back(int state);

/* The beginning of a file, ended by a zero; false if it cannot be read. */
bool read_text(const char* path, char* text, size_t room);

/* Pages that a process can still have of the kernel's pool of pages of so many bytes. */
size_t pool_pages(size_t page_bytes);

/* Whether the kernel gives this process transparent huge pages on request. */
bool transparent_possible(void);

/* Bytes that can be had without swapping, within the limits of the control groups of either
 * version; a sixteenth of what there is stays out of it. */
uint64_t memory_available(void);

/* mmap() that no library sees, this one's own included. */
void* map_memory(void* hint, size_t bytes, int protection, int flags);

/* The same of munmap(), and of mremap() to where it is said, as large as it is. */
int unmap_memory(void* start, size_t bytes);
void* remap_memory(void* from, size_t bytes, void* to);

/* Gives every page of a mapping its frame. False, with errno, where that cannot be: no SIGBUS. */
bool populate(void* start, size_t bytes, size_t page_bytes);

/* "pagelens run: ..." on stderr, in one piece; the same text (of the format) once a process. */
void say_once(const char* format, ...) __attribute__((format(printf, 1, 2)));

/* The i-th thing said; NULL where there were fewer. */
const char* said_line(size_t i);

#endif
