/* The sizes of small planned blocks. A block is larger than asked for by less than 16 bytes or by
 * an eighth. */
#ifndef PAGELENS_RUN_POOL_SIZES_H
#define PAGELENS_RUN_POOL_SIZES_H

#include <stddef.h>

enum {
    POOL_STEP = 16, /* between sizes up to POOL_FINE; above, a power of two has eight sizes */
    POOL_FINE = 1024,
    POOL_SIZES = POOL_FINE / POOL_STEP +
        8 * 7, /* 7 powers of two lie between POOL_FINE and POOLED_MOST */
};

/* The index of the smallest size that holds so many bytes. */
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
