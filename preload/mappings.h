/*
 * Memory that the program itself maps for objects of the plan. Its pages are bound as those of
 * blocks are. The library follows each mapping through munmap and mremap, so that the budget and
 * the report are right. Any thread may call these functions.
 *
 * While the process forks, a new mapping is left as it is, and one that is remapped is followed no
 * further.
 */
#ifndef PAGELENS_RUN_MAPPINGS_H
#define PAGELENS_RUN_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/planned_block.h"

/* Call once, at the start. False without memory for the list. */
bool mappings_open(void);

/* Binds a new mapping of an object. No page of it has been touched. */
void mappings_born(uint32_t object, void* start, size_t bytes);

/* Whether a mapping of the plan may lie there. It is nearly always false, and quick. */
bool mappings_may_be(const void* start, size_t bytes);

/* The first function forgets what lies there, before the program unmaps it. Until the thread calls
 * the second, no other thread changes any mapping of the plan. */
void mappings_going(void* start, size_t bytes);
void mappings_gone(void);

typedef void* remap_function(void* old, size_t old_size, size_t size, int flags, ...);

/* Calls mremap() for memory that may be a mapping of the plan. */
void* mappings_remap(void* old, size_t old_size, size_t size, int flags, void* wanted,
                     remap_function* remap);

void mappings_each(void (*say)(const struct planned_block* block));

void mappings_each_border(border_function* show);

#endif
