/*
 * Frames chosen for a direct-mapped memory-side cache, while nobody has the memory yet.
 *
 * Each page goes where the cache holds fewest pages of the process so far (the static policy of
 * Lepers and Zwaenepoel, Johnny Cache, OSDI 2023): more frames are taken than needed, the best are
 * kept, the others go back.
 */
#ifndef PAGELENS_RUN_FRAMES_H
#define PAGELENS_RUN_FRAMES_H

#include <stddef.h>
#include <stdint.h>

struct span;

/* Gives a new span its frames, and exchanges those that conflict. Without the lock of blocks.c. */
void frames_choose(struct span* span);

/* A span goes, and its frames with it. With the lock of blocks.c. */
void frames_forget(struct span* span);

struct frames_result {
    size_t tried;         /* frames of 4 KiB that were looked at, those kept included */
    size_t exchanged;     /* that came in place of others */
    uint64_t nanoseconds; /* that it took */
    size_t pages;         /* of 4 KiB, when they were most */
    size_t sharing_first; /* of them, in a slot with another, had the first frames been kept */
    size_t sharing;       /* and as it was */
};
extern struct frames_result frames_result;

#endif
