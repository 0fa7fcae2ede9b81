/* Counts what happened to each of the plan's objects, for the report. Objects are given by their
 * index. Any thread may call these functions. */
#ifndef PAGELENS_RUN_TALLY_H
#define PAGELENS_RUN_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/nodes.h"
#include "preload/planned_block.h"

struct planned_counts {
    size_t blocks, bytes;          /* in total */
    size_t live_bytes, peak_bytes; /* in whole pages; small blocks count by their sizes */
    size_t small;                  /* of the blocks, those in pools */
    size_t mappings;               /* of the blocks, those that the program mapped itself */
    size_t short_bytes;            /* that were to be fast, but the budget had no room */
    size_t looked;                 /* blocks whose pages were located; for small blocks, slabs */
    struct nodes_seen to_be_fast;  /* of their pages, those that were to be fast */
    struct nodes_seen others;
    size_t on[SHOWN_NODES]; /* bytes on each node */
};

/* Call once, when the plan is open. False without memory. */
bool tally_open(void);

const struct planned_counts* planned_counts(size_t object);

/* Counts a new block of `bytes` that occupies `held` bytes. */
void tally_born(uint32_t object, size_t bytes, size_t held);
void tally_small(uint32_t object);
void tally_mapped(uint32_t object);
void tally_grown(uint32_t object, size_t held);
void tally_short(uint32_t object, size_t bytes);

/* A block goes away. */
void tally_gone(const struct planned_block* block);
/* A part of a block goes away. */
void tally_shrunk(uint32_t object, size_t held);

/* Asks the kernel where a block's pages lie. */
void tally_look(const struct planned_block* block);

#endif
