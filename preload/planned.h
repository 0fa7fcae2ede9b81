/* Blocks and variables of the plan's objects: put where they are to lie, and counted. */
#ifndef PAGELENS_RUN_PLANNED_H
#define PAGELENS_RUN_PLANNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/nodes.h"

struct span;

/* Once, at the start, with the plan open and the territory, too: variables are moved. */
void planned_begin(void);

/* A block of the object (its index); NULL: it is to lie where others do, or has to. */
void* planned_take(uint32_t object, size_t size, size_t alignment, bool zeroed);

/* A block of blocks.c that has its pages' place from the plan goes, or is asked about at the end.
 */
struct planned_block {
    uint32_t object;
    uintptr_t start;
    size_t bytes;
    uintptr_t fast_end; /* up to here its pages were to be fast */
};
void planned_gone(const struct planned_block* block);

/* One of pools.c goes. */
void planned_small_gone(uint32_t object, size_t bytes);

struct planned_counts {
    size_t blocks, bytes;          /* in all */
    size_t live_bytes, peak_bytes; /* by whole pages, of small ones by their sizes */
    size_t small;                  /* of the blocks, those that were pooled */
    size_t short_bytes;            /* that were to be fast and found no room in the capacity */
    size_t looked;                 /* blocks whose pages were asked for, slabs of small ones */
    struct nodes_seen to_be_fast;  /* of their pages, those that were to be */
    struct nodes_seen others;
};
const struct planned_counts* planned_counts(size_t object);
size_t planned_peak(void); /* bytes of the capacity in use, at most */

/* Asks where everything lies that is still there. With the lock of blocks.c. */
void planned_look_at_all(void);

#endif
