/*
 * Small blocks of the plan's objects, in fast memory: slabs, each with blocks of one size of one
 * object, so that neighbours in memory belong together. In a part of the territory of their own.
 */
#ifndef PAGELENS_RUN_POOLS_H
#define PAGELENS_RUN_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOLED_MOST = 128 << 10 };

/* Once, at the start: for so many objects, in this part of the address space. */
void pools_open(size_t objects, uintptr_t start, size_t bytes);

/* A block of an object (by its index); NULL: there is no room. `alignment` is a power of two. By
 * who is inside the gate (fork_gate.h) to change something. */
void* pools_take(uint32_t object, size_t size, size_t alignment);

/* 0 where it is no such block. */
size_t pools_usable(const void* block);

/* False where it is no such block. While the process forks it is noted. */
bool pools_give(void* block);

/* What no block is in goes back to the kernel, and to the budget. By who is inside likewise. */
void pools_trim(void);

/* Says where slabs lie, and how much of them has been in use. At the end. */
void pools_each(void (*say)(uint32_t object, uintptr_t start, size_t bytes));

#endif
