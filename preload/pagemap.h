/* Reads which frames the process's memory has, from /proc/self/pagemap. */
#ifndef PAGELENS_RUN_PAGEMAP_H
#define PAGELENS_RUN_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_BYTES = 4096, HUGE_FRAMES = 512 };

/* Whether the kernel shows this process its frames. */
bool pagemap_readable(void);

/* Gets the frame of each page from `start` on, or 0 for a page without one. False if it cannot be
 * read. */
bool pagemap_read(uintptr_t start, size_t pages, uint64_t* frames);

#endif
