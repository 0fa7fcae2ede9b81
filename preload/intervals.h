/* Intervals in an array, by where they begin. */
#ifndef PAGELENS_RUN_INTERVALS_H
#define PAGELENS_RUN_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

/* How many of `count` begin at an address or before it: the last of them is the one that may hold
 * it. `starts` is where the first begins, and `step` bytes on lies where the next one does. */
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
