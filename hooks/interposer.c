/*
 * Preloaded into the traced program. It tells the tracer which block each allocation returns and
 * which block is freed, in the order of the thread's own accesses. The tracer knows the call site
 * from its shadow stack.
 *
 * What must hold: the program cannot tell the difference. Every call reaches the allocator that it
 * would have reached, with the same result, errno and alignment. No lock is taken, so fork and
 * signals work as before. A program with an allocator inside its executable never calls these
 * functions; an allocator that is preloaded or linked is called through them.
 *
 * operator new, Fortran's allocate and the like end in these functions. munmap is not among them,
 * because the tracer sees the system call and ends all blocks in the unmapped range.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "bootstrap_pool.h"
#include "mremap_target.h"
#include "next_functions.h"
#include "pagelens.h"

#define EXPORT __attribute__((visibility("default")))

/* How many calls into the allocator this thread has under way. What the allocator calls in turn is
 * not the program's. */
THREAD_LOCAL volatile sig_atomic_t depth;

static struct bootstrap_pool pool;

static inline void* born(void* block, size_t size) {
    if (block != NULL && depth == 0) {
        struct pagelens_record record = {PAGELENS_BIRTH, (uintptr_t)block, size};
        pagelens_ring(&record);
    }
    return block;
}

/* Reported before the block is freed, because another thread may get its address at once. */
static inline void dies(const void* block) {
    if (block != NULL && depth == 0) {
        struct pagelens_record record = {PAGELENS_DEATH, (uintptr_t)block, 0};
        pagelens_ring(&record);
    }
}

/* Makes `call` without reporting what the allocator calls in turn. */
#define INSIDE(result, call) \
    do {                     \
        ++depth;             \
        (result) = (call);   \
        --depth;             \
    } while (0)

EXPORT void* malloc(size_t size) {
    void* block;
    if (!usable()) return pool_take(&pool, 0, size);
    INSIDE(block, real.malloc(size));
    return born(block, size);
}

EXPORT void* calloc(size_t count, size_t size) {
    void* block;
    if (!usable()) return pool_take(&pool, 0, count * size); /* of dlsym: no overflow */
    INSIDE(block, real.calloc(count, size));
    return born(block, count * size);
}

EXPORT void free(void* block) {
    if (pool_owns(&pool, block) || !usable()) return;
    dies(block);
    ++depth;
    real.free(block);
    --depth;
}

/* Moves a block from the pool to the allocator. */
static void* leave_pool(void* old, size_t size) {
    void* block = malloc(size);
    const size_t old_size = pool_block_size(old);
    if (block != NULL) memcpy(block, old, old_size < size ? old_size : size);
    return block;
}

/* Reports what realloc has made of `old`. If it failed, the old block still exists although its
 * death was reported, so it is reported as new, from this call site. */
static void* reborn(void* old, void* block, size_t size) {
    if (block != NULL) return born(block, size);
    if (old != NULL && size != 0) born(old, real.malloc_usable_size(old));
    return NULL;
}

EXPORT void* realloc(void* old, size_t size) {
    void* block;
    if (pool_owns(&pool, old)) return leave_pool(old, size);
    if (!usable()) return pool_take(&pool, 0, size);
    dies(old);
    INSIDE(block, real.realloc(old, size));
    return reborn(old, block, size);
}

/* Calls realloc as glibc does, so that one birth and one death are reported. */
EXPORT void* reallocarray(void* old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) {
    void* block;
    if (!usable()) return pool_take(&pool, alignment, size);
    INSIDE(block, real.aligned_alloc(alignment, size));
    return born(block, size);
}

EXPORT void* memalign(size_t alignment, size_t size) {
    void* block;
    if (!usable()) return pool_take(&pool, alignment, size);
    INSIDE(block, real.memalign(alignment, size));
    return born(block, size);
}

EXPORT int posix_memalign(void** result, size_t alignment, size_t size) {
    int error;
    if (!usable()) return (*result = pool_take(&pool, alignment, size)) == NULL ? ENOMEM : 0;
    INSIDE(error, real.posix_memalign(result, alignment, size));
    if (error == 0) born(*result, size);
    return error;
}

EXPORT void* valloc(size_t size) {
    void* block;
    if (!usable()) return NULL;
    INSIDE(block, real.valloc(size));
    return born(block, size);
}

EXPORT void* pvalloc(size_t size) {
    void* block;
    if (!usable()) return NULL;
    INSIDE(block, real.pvalloc(size));
    return born(block, size);
}

static void* mapped(void* address, size_t size) {
    if (address != MAP_FAILED) born(address, size);
    return address;
}

EXPORT void* mmap(void* hint, size_t size, int protection, int flags, int file, off_t offset) {
    void* address;
    if (!usable()) return MAP_FAILED;
    INSIDE(address, real.mmap(hint, size, protection, flags, file, offset));
    return mapped(address, size);
}

EXPORT void* mmap64(void* hint, size_t size, int protection, int flags, int file, off64_t offset) {
    void* address;
    if (!usable()) return MAP_FAILED;
    INSIDE(address, real.mmap64(hint, size, protection, flags, file, offset));
    return mapped(address, size);
}

EXPORT void* mremap(void* old, size_t old_size, size_t size, int flags, ...) {
    void* address;
    va_list given;
    if (!usable()) return MAP_FAILED;
    va_start(given, flags);
    void* wanted = mremap_target(flags, given);
    va_end(given);
    INSIDE(address, real.mremap(old, old_size, size, flags, wanted));
    return mapped(address, size);
}
