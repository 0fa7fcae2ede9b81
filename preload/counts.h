/* What was done, for the report; changed with the lock of blocks.c, `mappings` and `while_forking`
 * atomically. */
#ifndef PAGELENS_RUN_COUNTS_H
#define PAGELENS_RUN_COUNTS_H

#include <stddef.h>

#include "preload/settings.h"

struct counts {
    size_t blocks, bytes;           /* handed out, in all */
    size_t live_blocks, live_bytes; /* of them not given back */
    size_t peak_blocks, peak_bytes; /* the most live bytes, and how many blocks they were */
    size_t mapped[PAGE_KINDS];      /* bytes of spans */
    size_t peak_mapped[PAGE_KINDS]; /* when they were most in all */
    size_t staggered, most_offset;  /* blocks that begin at an offset; bytes of the largest one */
    size_t peak_gaps;               /* bytes of spans outside of blocks, at the peak of `mapped` */
    size_t refused;                 /* blocks that the next allocator had to give */
    size_t mappings, mapping_bytes; /* the program's own, on transparent huge pages */
    size_t seen, seen_huge; /* bytes of transparent huge pages looked at, and what was huge */
    size_t forks, copied;   /* with pages of the pool; bytes copied for them */
    size_t while_forking;   /* blocks, mappings and moves that a fork has left as they came */
};
extern struct counts counts;

static inline void count_while_forking(void) {
    __atomic_fetch_add(&counts.while_forking, 1, __ATOMIC_RELAXED);
}

#endif
