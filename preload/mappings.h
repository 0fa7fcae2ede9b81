/*
 * What the program itself has from mmap for objects of the plan: bound like blocks, and followed
 * through munmap and mremap, so that the capacity and the report are right. From any thread. While
 * the process forks, new ones are left as they are, and what is remapped is followed no further.
 */
#ifndef PAGELENS_RUN_MAPPINGS_H
#define PAGELENS_RUN_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/planned_block.h"

/* Once, at the start; false without memory for notes. */
bool mappings_open(void);

/* A new mapping of the object, of which nobody has touched a page. */
void mappings_born(uint32_t object, void* start, size_t bytes);

/* Whether one of them may lie there: nearly never. */
bool mappings_may_be(const void* start, size_t bytes);

/* From the first of these to the second nothing of them changes but by this thread; what lies there
 * is no more. */
void mappings_going(void* start, size_t bytes);
void mappings_gone(void);

typedef void* remap_function(void* old, size_t old_size, size_t size, int flags, ...);

/* mremap() of what may be one of them. */
void* mappings_remap(void* old, size_t old_size, size_t size, int flags, void* wanted,
                     remap_function* remap);

void mappings_each(void (*say)(const struct planned_block* block));

void mappings_each_border(border_function* show);

#endif
