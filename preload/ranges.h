/*
 * A span is tiled by ranges: blocks and what is free between them. Free ranges are in bins by size,
 * blocks in a table by address; both are notes outside of the spans, so that no page is touched
 * before the program does. With the lock of blocks.c.
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
    struct range *next, *previous; /* in a bin or bucket */
    struct span* span;
    void* block;  /* NULL: free */
    size_t index; /* of its offset, + 1; 0: it has none */
    bool clean;   /* zeros as they came from the kernel */
};

struct range* range_of(const void* block);         /* NULL: it is no block */
struct range* range_find(const struct wish* wish); /* a free one for it; NULL: there is none */
void range_enter(struct range* range);             /* as the block that it is */
void range_leave(struct range* range);             /* it is one no more */
void ranges_each_block(void (*say)(const struct range*)); /* all blocks */

void range_set_free(struct range* range);
void range_set_used(struct range* range);

/* Cuts what lies from `at` on off a range that is in no list. NULL, and nothing is cut, without
 * memory for the note. */
struct range* range_cut(struct range* range, uintptr_t at);

/* Joins a range in no list with the one behind it, in none either. */
void range_join(struct range* range);

/* Cuts the tail of a block that it does not need off. */
void range_trim(struct range* range, uintptr_t end);

extern size_t ranges_idle_spans;   /* spans that are one free range */
extern size_t ranges_idle_planned; /* of them the plan's; also read without the lock */

#endif
