/*
 * Memory for the blocks that dlsym asks for while it looks up the real allocator. Blocks are
 * aligned like malloc's and zeroed. They are never given back, since a process has only a handful
 * of them.
 */
#ifndef PAGELENS_BOOTSTRAP_POOL_H
#define PAGELENS_BOOTSTRAP_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { POOL_BYTES = 1 << 16, POOL_ALIGNMENT = 16 /* x86-64 psABI: alignof(max_align_t) */ };

struct bootstrap_pool {
    unsigned char bytes[POOL_BYTES] __attribute__((aligned(POOL_ALIGNMENT)));
    size_t used; /* changed atomically */
};

/* `size` zeroed bytes; NULL when the pool is exhausted. `alignment` is a power of two. The size is
 * stored in the 16 bytes before the block. Any thread may call it. */
static inline void* pool_take(struct bootstrap_pool* pool, size_t alignment, size_t size) {
    if (alignment < POOL_ALIGNMENT) alignment = POOL_ALIGNMENT;
    if (size > POOL_BYTES || alignment > POOL_BYTES) return NULL;
    const size_t want =
        (POOL_ALIGNMENT + alignment + size + POOL_ALIGNMENT - 1) & ~(size_t)(POOL_ALIGNMENT - 1);
    size_t used = __atomic_load_n(&pool->used, __ATOMIC_RELAXED);
    do {
        if (want > POOL_BYTES - used) return NULL;
    } while (!__atomic_compare_exchange_n(&pool->used, &used, used + want, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    const uintptr_t first = (uintptr_t)pool->bytes + used + POOL_ALIGNMENT;
    unsigned char* block = (unsigned char*)((first + alignment - 1) & ~(uintptr_t)(alignment - 1));
    *(size_t*)(void*)(block - POOL_ALIGNMENT) = size;
    return block;
}

static inline int pool_owns(const struct bootstrap_pool* pool, const void* block) {
    return (uintptr_t)block - (uintptr_t)pool->bytes < POOL_BYTES; /* unsigned: both bounds */
}

static inline size_t pool_block_size(const void* block) {
    return *(const size_t*)(const void*)((const unsigned char*)block - POOL_ALIGNMENT);
}

#endif
