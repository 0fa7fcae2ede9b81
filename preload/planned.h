/* Blocks, variables and mappings of the plan's objects: put where they are to lie. */
#ifndef PAGELENS_RUN_PLANNED_H
#define PAGELENS_RUN_PLANNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once, at the start, with the plan open and the territory, too: variables are moved. */
void planned_begin(void);

/* A block of the object (its index); NULL: it is to lie where others do, or has to. */
void* planned_take(uint32_t object, size_t size, size_t alignment, bool zeroed);

/* Of so many bytes from the beginning of a page, those of the first pages that are to be fast. */
size_t planned_fast_part(uint32_t object, size_t bytes);

/* As much of `wanted` as there is room for in the capacity; what is kept for the next blocks of any
 * object makes way, and what is lacking is counted. */
size_t planned_room(uint32_t object, size_t wanted);

/* Asks where everything lies that is still there. */
void planned_look_at_all(void);

#endif
