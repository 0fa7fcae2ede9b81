/* Fast memory of the plan's capacity. From any thread. */
#ifndef PAGELENS_RUN_BUDGET_H
#define PAGELENS_RUN_BUDGET_H

#include <stddef.h>

/* As much of `wanted` as is left, by whole pages. */
size_t budget_take(size_t wanted);
void budget_give(size_t bytes);

#endif
