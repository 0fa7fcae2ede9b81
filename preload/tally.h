/* What came of the plan's objects, each by its index, for the report. From any thread. */
#ifndef PAGELENS_RUN_TALLY_H
#define PAGELENS_RUN_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/nodes.h"
#include "preload/planned_block.h"

struct planned_counts {
    size_t blocks, bytes;          /* in all */
    size_t live_bytes, peak_bytes; /* by whole pages, of small ones by their sizes */
    size_t small;                  /* of the blocks, those that were pooled */
    size_t mappings;               /* and those that the program mapped */
    size_t short_bytes;            /* that were to be fast and found no room in the capacity */
    size_t looked;                 /* blocks whose pages were asked for, slabs of small ones */
    struct nodes_seen to_be_fast;  /* of their pages, those that were to be */
    struct nodes_seen others;
};

/* Once, with the plan open; false without memory for it. */
bool tally_open(void);

const struct planned_counts* planned_counts(size_t object);

/* A block of `bytes` that takes up `held`. */
void tally_born(uint32_t object, size_t bytes, size_t held);
void tally_small(uint32_t object);
void tally_mapped(uint32_t object);
void tally_grown(uint32_t object, size_t held);
void tally_short(uint32_t object, size_t bytes);

/* A block goes, or a part of one, or is asked about at the end. */
void tally_gone(const struct planned_block* block);
void tally_shrunk(uint32_t object, size_t held);
void tally_look(const struct planned_block* block);

#endif
