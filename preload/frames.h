/*
 * Chooses frames for a direct-mapped memory-side cache, before the program gets the memory.
 *
 * Each page should lie in the slot of the cache that holds the fewest pages of the process so far
 * (the static policy of Lepers and Zwaenepoel, Johnny Cache, OSDI 2023). The kernel does not let a
 * process ask for a frame, so the library takes more frames than it needs, keeps the best and gives
 * the others back.
 */
#ifndef PAGELENS_RUN_FRAMES_H
#define PAGELENS_RUN_FRAMES_H

#include <stddef.h>
#include <stdint.h>

struct span;

/* Gives a new span its frames, and exchanges those that conflict. Nothing happens unless the
 * settings name a cache. Call it without the lock of blocks.c. */
void frames_choose(struct span* span);

/* Forgets the frames of a span that goes. Call it with the lock of blocks.c. */
void frames_forget(struct span* span);

struct frames_result {
    size_t tried;         /* frames of 4 KiB that were examined, including those kept */
    size_t exchanged;     /* frames that replaced others */
    uint64_t nanoseconds; /* time spent on choosing */
    size_t pages;         /* of 4 KiB, at their peak; the next two are of that moment */
    size_t sharing_first; /* pages that would share their slot, had the first frames been kept */
    size_t sharing;       /* pages that shared their slot */
};
extern struct frames_result frames_result;

#endif
