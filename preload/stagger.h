/*
 * Offsets that spread blocks over a period: the golden-ratio sequence, which at every length lies
 * evenly in the period and, its multiples too, in every fraction of it: banks and cache sets alike
 * (Weyl's equidistribution; Knuth, The Art of Computer Programming 3, 6.4).
 */
#ifndef PAGELENS_RUN_STAGGER_H
#define PAGELENS_RUN_STAGGER_H

#include <stddef.h>
#include <stdint.h>

enum { STAGGER_LINE = 64, STAGGER_PART = 8 };

/* The period for a block: a power of two of at most an eighth of its size, which bounds the loss.
 */
static inline size_t stagger_period(size_t period, size_t block_bytes) {
    while (period > block_bytes / STAGGER_PART) period /= 2;
    return period > STAGGER_LINE ? period : 0;
}

/* Bytes, a multiple of a line below `period`, a power of two; the 0th is 0. */
static inline size_t stagger_offset(size_t index, size_t period) {
    const uint64_t turn =
        UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio, to the nearest odd */
    if (period == 0) return 0;
    const uint64_t share = index * turn >> 32; /* of 2^32 */
    return (size_t)((share * period) >> 32) & ~(size_t)(STAGGER_LINE - 1);
}

#endif
