// What zonesort/order.c needs of the kernel, for a build outside it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define swap(a, b)                \
    do {                          \
        __typeof__(a) kept = (a); \
        (a) = (b);                \
        (b) = kept;               \
    } while (0)
#define hweight64 (unsigned)__builtin_popcountll
#define cond_resched() ((void)0)

static inline void bitmap_set(unsigned long* map, u64 first, u64 count) {
    for (u64 i = first; i < first + count; i++) map[i / 64] |= 1UL << i % 64;
}
