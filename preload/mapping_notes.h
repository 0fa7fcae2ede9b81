/*
 * Where the plan's mappings lie: an array by address. A process has at most 65,530 mappings
 * (vm.max_map_count), and few are planned. With the lock of mappings.c but for the first two, or to
 * look at while nothing may change.
 */
#ifndef PAGELENS_RUN_MAPPING_NOTES_H
#define PAGELENS_RUN_MAPPING_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
    uintptr_t start, end;
    uintptr_t fast_end; /* its pages up to here are to be fast */
    uint32_t object;
};

bool notes_open(void);                            /* once, at the start; false without memory */
bool notes_near(uintptr_t start, uintptr_t stop); /* whether one may lie there */

extern struct mapping* notes; /* by address */
extern size_t notes_count;

size_t notes_behind(uintptr_t address); /* the index of the first that ends behind it */
bool notes_insert(const struct mapping* mapping);

/* The index of the one that holds all of an interval; `notes_count`: none does. */
size_t notes_holder(uintptr_t start, uintptr_t stop);

/* What of a mapping lies in an interval; empty: start and end are the same. */
struct mapping mapping_part(const struct mapping* mapping, uintptr_t start, uintptr_t stop);

/* Takes the mapping at an index apart: `middle` is noted no more, what lies beside it is. The part
 * behind it may not find room: it is given back, else an empty one. */
struct mapping notes_cut_out(size_t index, const struct mapping* middle);

static inline size_t mapping_fast_bytes(const struct mapping* mapping) {
    return mapping->fast_end - mapping->start;
}

#endif
