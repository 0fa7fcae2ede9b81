/* Counts for the report. Change `mappings`, `mapping_bytes`, `seen`, `seen_huge` and
 * `while_forking` atomically, and everything else with the lock of blocks.c held. */
#ifndef PAGELENS_RUN_COUNTS_H
#define PAGELENS_RUN_COUNTS_H

#include <stddef.h>

#include "preload/settings.h"

struct counts {
    size_t blocks, bytes;           /* handed out in total */
    size_t live_blocks, live_bytes; /* of these, not yet given back */
    size_t peak_blocks, peak_bytes; /* when `live_bytes` was largest */
    size_t mapped[PAGE_KINDS];      /* bytes of spans, by the kind of their pages */
    size_t peak_mapped[PAGE_KINDS]; /* `mapped` at the peak of `live_bytes` */
    size_t staggered, most_offset; /* blocks that begin at an offset; the largest offset in bytes */
    size_t peak_gaps; /* bytes of spans outside of blocks, at the peak of `live_bytes` */
    size_t refused;   /* blocks that the next allocator had to provide */
    size_t mappings, mapping_bytes; /* of the program itself, on transparent huge pages */
    size_t seen, seen_huge; /* bytes that were to be transparent huge pages, and those that were */
    size_t forks, copied;   /* of a process with pages of the pool; the bytes copied for them */
    size_t while_forking;   /* blocks, mappings and moves that were left alone because of a fork */
};
extern struct counts counts;

static inline void count_while_forking(void) {
    __atomic_fetch_add(&counts.while_forking, 1, __ATOMIC_RELAXED);
}

#endif
