/*
 * Small blocks of the plan's objects, in fast memory. They are cut from slabs, each with blocks of
 * one size of one object, so that neighbours in memory belong together. Slabs lie in a part of the
 * territory of their own.
 */
#ifndef PAGELENS_RUN_POOLS_H
#define PAGELENS_RUN_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOLED_MOST = 128 << 10 };

/* Call once, at the start, with the number of objects and the part of the address space for slabs.
 */
void pools_open(size_t objects, uintptr_t start, size_t bytes);

/* A block of the object with this index; NULL if there is no room. `alignment` is a power of two.
 * Only for threads that are inside the gate (fork_gate.h) to change something. */
void* pools_take(uint32_t object, size_t size, size_t alignment);

/* How many bytes a block has; 0 if it is not from a pool. */
size_t pools_usable(const void* block);

/* Gives a block back; false if it is not from a pool. While the process forks the block is noted
 * for later. */
bool pools_give(void* block);

/* Gives slabs without blocks back to the kernel and to the budget. For threads inside the gate,
 * too. */
void pools_trim(void);

/* Calls `say` for each slab with where it begins and how many of its bytes were ever in use. Only
 * for the report: one thread at a time. */
void pools_each(void (*say)(uint32_t object, uintptr_t start, size_t bytes));

#endif
