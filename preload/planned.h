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

/* Of so many bytes from the beginning of a page, those of the first pages that are to be fast in
 * the phase that the process is in. */
size_t planned_fast_part(uint32_t object, size_t bytes);

/* As much of `wanted` as there is room for in the capacity; what is kept for the next blocks makes
 * way, and what is lacking is counted. */
size_t planned_room(uint32_t object, size_t wanted);

/* What is kept for the next blocks of any object goes. */
void planned_make_room(void);

/* Shows a block, mapping or variable with pages of its own: where they begin, how many bytes they
 * have, and how many of them are bound to the fast nodes, which the function may change. */
typedef void border_function(uint32_t object, uintptr_t start, size_t bytes, size_t* fast_bytes);
void planned_each_variable(border_function* show);

/* Asks where everything lies that is still there. */
void planned_look_at_all(void);

#endif
