/*
 * Preloaded into the traced program: tells the tracer which block every allocation gave and which
 * is freed, in the order of the thread's own accesses. Who asked for it the tracer knows from its
 * shadow stack.
 *
 * What must hold: the program cannot tell the difference. Every call reaches the allocator that it
 * would have reached, with the same result, errno and alignment; no lock is taken, so fork and
 * signals are as before. A program with an allocator of its own in the executable never comes
 * here for it; a preloaded or linked one is called through.
 *
 * operator new, Fortran's allocate and the other languages' ways end in these functions. munmap is
 * not here: the tracer sees the system call, and an unmapped range ends what lies in it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "bootstrap_pool.h"
#include "mremap_target.h"
#include "next_functions.h"
#include "pagelens.h"

#define EXPORT __attribute__((visibility("default")))

/* Calls into the allocator under way: what it calls in turn is not the program's. */
THREAD_LOCAL volatile sig_atomic_t depth;

static struct bootstrap_pool pool;

static inline void* born(void* block, size_t size) {
    if (block != NULL && depth == 0) {
        struct pagelens_record record = {PAGELENS_BIRTH, (uintptr_t)block, size};
        pagelens_ring(&record);
    }
    return block;
}

/* Rung before the block goes: from then on another thread may be given its address. */
static inline void dies(const void* block) {
    if (block != NULL && depth == 0) {
        struct pagelens_record record = {PAGELENS_DEATH, (uintptr_t)block, 0};
        pagelens_ring(&record);
    }
}

/* `call` as the allocator's own doing. */
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
    if (!usable()) return pool_take(&pool, 0, count * size); /* dlsym's product does not overflow */
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

/* A block of the pool moves to the allocator. */
static void* leave_pool(void* old, size_t size) {
    void* block = malloc(size);
    const size_t old_size = pool_block_size(old);
    if (block != NULL) memcpy(block, old, old_size < size ? old_size : size);
    return block;
}

/* After the realloc of `old` that gave `block`. One that failed left the old block as it was, but
 * its death has been told: it lives again, as this call site's. */
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

/* As in glibc, which comes to realloc from here: one birth and one death. */
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
