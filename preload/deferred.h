/*
 * Memory that the program gives back while a fork waits. Nothing of the library may change then, so
 * it is noted here and given back when the process has forked, in the parent and in the child. Any
 * thread and any signal handler may add a note.
 */
#ifndef PAGELENS_RUN_DEFERRED_H
#define PAGELENS_RUN_DEFERRED_H

#include <stddef.h>

/* Notes a block of the library. It stays unused until deferred_do(). */
void deferred_free(void* block);

/* Notes pages that were unmapped already; what the library knows of them is to be forgotten. */
void deferred_unmap(void* start, size_t bytes);

/* Gives back all that was noted. No other thread is inside the gate. */
void deferred_do(void (*give)(void* block), void (*forget)(void* start, size_t bytes));

#endif
