/* Gives the plan's objects their memory: the part of the library that knows of a plan as a whole.
 */
#ifndef PAGELENS_RUN_PLANNED_H
#define PAGELENS_RUN_PLANNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Call once, when the plan and the territory are open. Moves variables, and clears plan_active
 * where there is no memory for the library's own notes. */
void planned_begin(void);

/* A block for the object with this index. NULL if the plan does not put it in fast memory, or if
 * there is no room: then it lies where other blocks do. */
void* planned_take(uint32_t object, size_t size, size_t alignment, bool zeroed);

/* Asks the kernel where all memory lies that planned objects still have, for the report. */
void planned_look_at_all(void);

#endif
