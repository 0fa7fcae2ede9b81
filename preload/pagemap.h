/* Which frames are under the process's own memory: /proc/self/pagemap. */
#ifndef PAGELENS_RUN_PAGEMAP_H
#define PAGELENS_RUN_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_BYTES = 4096, HUGE_FRAMES = 512 };

/* Whether the kernel shows this process its frames. */
bool pagemap_readable(void);

/* The frame of each page from `start` on, 0 for none. False if it cannot be read. */
bool pagemap_read(uintptr_t start, size_t pages, uint64_t* frames);

#endif
