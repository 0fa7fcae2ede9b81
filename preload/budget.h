/* How much fast memory the plan allows this process, and how much is in use. Any thread may call
 * these functions. */
#ifndef PAGELENS_RUN_BUDGET_H
#define PAGELENS_RUN_BUDGET_H

#include <stddef.h>

/* Takes `wanted` bytes or, if fewer are left, all whole pages that are. Returns the bytes taken. */
size_t budget_take(size_t wanted);

void budget_give(size_t bytes);

/* The most bytes that were ever in use at the same time. */
size_t budget_peak(void);

#endif
