/* Which phase of the plan the process is in, and how much of an object is to be fast in it. Any
 * thread may call these functions. */
#ifndef PAGELENS_RUN_PHASE_H
#define PAGELENS_RUN_PHASE_H

#include <stddef.h>
#include <stdint.h>

/* Phases are numbered as in plan.h. */
void phase_enter(size_t phase);

/* The share of the object's pages that is to be in fast memory now, from 0 to 1. */
double phase_share(uint32_t object);

/* Of memory that begins at a page boundary: how many of its first bytes are to be fast now. The
 * result is a number of whole pages. */
size_t phase_fast_bytes(uint32_t object, size_t bytes);

#endif
