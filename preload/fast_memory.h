/* Fast memory for a planned object. When the budget is spent, memory that is kept for later blocks
 * makes way. While the program runs, only threads inside the gate (fork_gate.h) may call these
 * functions. */
#ifndef PAGELENS_RUN_FAST_MEMORY_H
#define PAGELENS_RUN_FAST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Takes up to `wanted` bytes from the budget and returns how many it got. What is lacking is
 * counted as the object's shortage. */
size_t fast_memory_take(uint32_t object, size_t wanted);

/* Gives the unused memory that is kept for later blocks, of any object, back to the budget. */
void fast_memory_reclaim(void);

#endif
