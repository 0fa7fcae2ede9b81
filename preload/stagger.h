/*
 * Offsets that spread blocks over a period. They follow the golden-ratio sequence: its first n
 * members lie evenly in the period for every n, and also in every fraction of the period, so that
 * they spread over banks and cache sets alike (Weyl's equidistribution theorem; Knuth, The Art of
 * Computer Programming 3, 6.4).
 */
#ifndef PAGELENS_RUN_STAGGER_H
#define PAGELENS_RUN_STAGGER_H

#include <stddef.h>
#include <stdint.h>

enum { STAGGER_LINE = 64, STAGGER_PART = 8 };

/* The period for a block, a power of two. It is at most an eighth of the block's size, which limits
 * the memory that is lost. 0 if that is too small to help. */
static inline size_t stagger_period(size_t period, size_t block_bytes) {
    while (period > block_bytes / STAGGER_PART) period /= 2;
    return period > STAGGER_LINE ? period : 0;
}

/* The offset with this index, in bytes: a multiple of a cache line, below `period`, which is a
 * power of two or 0. Index 0 has offset 0. */
static inline size_t stagger_offset(size_t index, size_t period) {
    const uint64_t turn =
        UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio, to the nearest odd */
    if (period == 0) return 0;
    const uint64_t share = index * turn >> 32; /* fraction of the period, in units of 2^-32 */
    return (size_t)((share * period) >> 32) & ~(size_t)(STAGGER_LINE - 1);
}

#endif
