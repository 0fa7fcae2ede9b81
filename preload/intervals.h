/* Finds an interval in an array that is sorted by where the intervals begin. */
#ifndef PAGELENS_RUN_INTERVALS_H
#define PAGELENS_RUN_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

/* Returns how many of `count` intervals begin at `address` or before it; the last of these is the
 * only one that may contain it. `starts` points to the beginning of the first interval, and each
 * further one is stored `step` bytes behind the previous one. */
static inline size_t intervals_upto(const uintptr_t* starts, size_t step, size_t count,
                                    uintptr_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const void* start = (const char*)starts + middle * step;
        if (*(const uintptr_t*)start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
