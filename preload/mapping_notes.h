/*
 * The list of the plan's mappings: an array sorted by address. A process has at most 65,530
 * mappings (vm.max_map_count), and few of them are planned.
 *
 * Except for the first two functions, callers hold the lock of mappings.c; they may read without it
 * while nothing can change.
 */
#ifndef PAGELENS_RUN_MAPPING_NOTES_H
#define PAGELENS_RUN_MAPPING_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
    uintptr_t start, end;
    uintptr_t fast_end; /* the pages before this address are to be fast */
    uint32_t object;
};

bool notes_open(void); /* call once, at the start; false without memory */
bool notes_near(uintptr_t start, uintptr_t stop); /* whether a mapping of the list may lie there */

extern struct mapping* notes; /* sorted by address */
extern size_t notes_count;

size_t notes_behind(uintptr_t address); /* the index of the first mapping that ends behind it */
/* False if the list is full. */
bool notes_insert(const struct mapping* mapping);

/* The index of the mapping that contains a whole interval, or `notes_count` if none does. */
size_t notes_holder(uintptr_t start, uintptr_t stop);

/* The part of a mapping that lies in an interval. If there is none, start and end are the same. */
struct mapping mapping_part(const struct mapping* mapping, uintptr_t start, uintptr_t stop);

/* Removes `middle` from the mapping at an index; what lies before and behind it stays in the list.
 * Returns the part behind if the list has no room for it, else an empty mapping. */
struct mapping notes_cut_out(size_t index, const struct mapping* middle);

static inline size_t mapping_fast_bytes(const struct mapping* mapping) {
    return mapping->fast_end - mapping->start;
}

#endif
