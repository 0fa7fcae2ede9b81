/* The processor time of the calling thread, at less than a system call where that is possible. */
#ifndef PAGELENS_IORECORD_THREAD_CLOCK_H
#define PAGELENS_IORECORD_THREAD_CLOCK_H

#include <stdint.h>

/* Call this before the wall clock is read, because the first calls of a thread take long. */
void thread_clock_ready(void);

/* Returns ns. `wall_ns` is the present time of CLOCK_MONOTONIC. */
uint64_t thread_clock_ns(uint64_t wall_ns);

#endif
