/*
 * A span is divided into ranges without gaps: blocks, and the free memory between them. Free ranges
 * are in bins by size, and blocks in a hash table by address. These records lie outside of the
 * spans, so that the library touches no page before the program does. Callers hold the lock of
 * blocks.c.
 */
#ifndef PAGELENS_RUN_RANGES_H
#define PAGELENS_RUN_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/spans.h"
#include "preload/wishes.h"

struct range {
    uintptr_t start;
    size_t bytes;
    struct range *before, *after;  /* neighbours in the span */
    struct range *next, *previous; /* in a bin, or in a bucket of the hash table */
    struct span* span;
    void* block;  /* NULL if the range is free */
    size_t index; /* index of the block's offset + 1 (stagger.h); 0 if it has none */
    bool clean;   /* the program has not written here: all bytes are zero */
};

struct range* range_of(const void* block);         /* NULL if it is no block */
struct range* range_find(const struct wish* wish); /* a free range that fits; NULL if none does */
void range_enter(struct range* range);             /* enters a block into the hash table */
void range_leave(struct range* range);             /* takes it out again */
void ranges_each_block(void (*say)(const struct range*));

void range_set_free(struct range* range);
void range_set_used(struct range* range);

/* Cuts off what lies from `at` on and returns it. The range must be in no list. Returns NULL, and
 * cuts nothing, without memory for the record. */
struct range* range_cut(struct range* range, uintptr_t at);

/* Joins a range with the one behind it. Both must be in no list. */
void range_join(struct range* range);

/* Frees the part of a block behind `end`, by whole grains. */
void range_trim(struct range* range, uintptr_t end);

extern size_t ranges_idle_spans;   /* spans that consist of one free range */
extern size_t ranges_idle_planned; /* of these, the plan's; may be read without the lock */

#endif
