/* The processor time of the calling thread, at less than a system call where that is possible. */
#ifndef PAGELENS_IORECORD_THREAD_CLOCK_H
#define PAGELENS_IORECORD_THREAD_CLOCK_H

#include <stdint.h>

/* To be called before the wall's clock is read: the first calls of a thread take long. */
void thread_clock_ready(void);

/* In ns, at the time `wall_ns` of CLOCK_MONOTONIC, which is now. */
uint64_t thread_clock_ns(uint64_t wall_ns);

#endif
