/* The sizes that small planned blocks have: of more than asked for by an eighth at most. */
#ifndef PAGELENS_RUN_POOL_SIZES_H
#define PAGELENS_RUN_POOL_SIZES_H

#include <stddef.h>

enum {
    POOL_STEP = 16, /* of sizes up to POOL_FINE; from there on eight to each power of two */
    POOL_FINE = 1024,
    POOL_SIZES = POOL_FINE / POOL_STEP + 8 * 7, /* 7 powers of two from there to POOLED_MOST */
};

/* Of the smallest size that holds so many bytes. */
static inline size_t size_index(size_t size) {
    if (size <= POOL_FINE) return size ? (size - 1) / POOL_STEP : 0;
    const unsigned power = 63 - (unsigned)__builtin_clzl(size - 1); /* 2^power < size */
    const size_t eighth = ((size - 1) >> (power - 3)) & 7;
    return POOL_FINE / POOL_STEP + 8 * (power - 10) + eighth;
}

static inline size_t size_at(size_t index) {
    if (index < POOL_FINE / POOL_STEP) return (index + 1) * POOL_STEP;
    const size_t coarse = index - POOL_FINE / POOL_STEP;
    return ((size_t)POOL_FINE << coarse / 8) / 8 * (9 + coarse % 8);
}

#endif
