/*
 * What is given back while a fork waits, when nothing of ours may change: noted, and done when the
 * process has forked, in the parent and in the child. From any thread, and in handlers of signals.
 */
#ifndef PAGELENS_RUN_DEFERRED_H
#define PAGELENS_RUN_DEFERRED_H

#include <stddef.h>

/* A block of ours, which is nobody's until then. */
void deferred_free(void* block);

/* The kernel has the pages back; that they were somebody's is to be forgotten. */
void deferred_unmap(void* start, size_t bytes);

/* Does all of it. Nobody else is inside the gate. */
void deferred_do(void (*give)(void* block), void (*forget)(void* start, size_t bytes));

#endif
