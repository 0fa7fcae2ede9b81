/*
 * The functions that replace the program's allocator when `pagelens run` preloads the library.
 * Large blocks come from memory that the library chooses, everything else from the next allocator
 * in the search order.
 *
 * What must hold: a small block costs one comparison more than without the library. Results, errno
 * and alignment are those of the C library. Whatever is wrong with the settings or the machine, the
 * program runs as without the library, after one line on stderr.
 *
 * A program with an allocator inside its executable never calls these functions. If its allocator
 * is preloaded or linked, that one provides the small blocks. wrap_mappings.c has the functions for
 * memory that programs map themselves.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hooks/bootstrap_pool.h"
#include "hooks/next_functions.h"
#include "preload/blocks.h"
#include "preload/callers.h"
#include "preload/errors.h"
#include "preload/fork.h"
#include "preload/plan.h"
#include "preload/planned.h"
#include "preload/pools.h"
#include "preload/report.h"
#include "preload/spans.h"
#include "preload/system.h"
#include "preload/wrap.h"

enum { MOST_FILLED = 32 << 20 };
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

bool active;

/* Sizes below this one go straight to the next allocator; 0 until that allocator is known. */
static size_t small;
/* With a plan, sizes below this one do so if the caller is known not to be in the plan. */
static size_t small_elsewhere;

static inline bool not_ours(size_t size, struct caller caller) {
    return LIKELY(size < small) || (size < small_elsewhere && callers_none(caller));
}

/* Whether an address may be the library's. Every address may until the territory is open. */
static inline bool may_be_ours(const void* block) {
    return (uintptr_t)block - territory.base < territory.bytes;
}

/* The bootstrap pool, at the beginning of the territory. NULL if that place is taken. */
static struct bootstrap_pool* pool(void) {
    static struct bootstrap_pool* mapped;
    if (mapped == NULL) {
        void* at = map_memory((void*)territory_start(), sizeof *mapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS);
        if (at == (void*)territory_start()) mapped = at;
    }
    return mapped;
}

static bool in_pool(const void* block) {
    return (uintptr_t)block - territory_start() < sizeof(struct bootstrap_pool);
}

static void* from_pool(size_t alignment, size_t size) {
    return pool() ? pool_take(pool(), alignment, size) : NULL;
}

/* A block as the plan wants it; NULL if the plan says nothing of this caller's blocks. */
static inline void* planned(size_t size, size_t alignment, bool zeroed, struct caller caller) {
    if (!plan_active || !active || callers_none(caller)) return NULL;
    const uint32_t object = callers_object();
    return object ? planned_take(object - 1, size, alignment, zeroed) : NULL;
}

static bool is_large(size_t size) {
    return active && size >= settings.large && size <= PTRDIFF_MAX;
}

static bool power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

/* A planned or a large block; NULL if the next allocator is to provide it. */
static void* ours(size_t size, size_t alignment, bool zeroed, struct caller caller) {
    if (size > PTRDIFF_MAX || !power_of_two(alignment)) return NULL;
    void* block = planned(size, alignment, zeroed, caller);
    return block == NULL && is_large(size) ? blocks_take(size, alignment, zeroed) : block;
}

static __attribute__((noinline)) void* malloc_slowly(size_t size, struct caller caller) {
    if (!usable()) return from_pool(0, size);
    void* block = ours(size, 1, false, caller);
    return block ? block : real.malloc(size);
}

EXPORT void* malloc(size_t size) {
    if (not_ours(size, CALLER)) return real.malloc(size);
    return malloc_slowly(size, CALLER);
}

EXPORT void* calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX; /* calloc refuses it */
    if (not_ours(bytes, CALLER)) return real.calloc(count, size);
    if (!usable()) return from_pool(0, bytes);
    void* block = ours(bytes, 1, true, CALLER);
    return block ? block : real.calloc(count, size);
}

static bool give_ours(void* block) {
    const size_t pooled = plan_active ? pools_usable(block) : 0;
    if (pooled == 0) return blocks_give(block);
    return pools_give(block);
}

/* How many bytes a block of the library has; 0 if it is not the library's. */
static size_t usable_ours(const void* block) {
    const size_t pooled = plan_active ? pools_usable(block) : 0;
    return pooled ? pooled : blocks_usable(block);
}

static __attribute__((noinline)) void free_slowly(void* block) {
    if (block == NULL || in_pool(block)) return;
    if (active && give_ours(block)) return;
    if (usable()) real.free(block);
}

EXPORT void free(void* block) {
    if (LIKELY(!may_be_ours(block)))
        real.free(block);
    else
        free_slowly(block);
}

/* Copies as much of the old block as the new one holds. */
static void* copied(void* block, const void* old, size_t old_size, size_t size) {
    return block ? memcpy(block, old, old_size < size ? old_size : size) : NULL;
}

static void* allocate(size_t size, struct caller caller) {
    return size < small ? real.malloc(size) : malloc_slowly(size, caller);
}

static void* realloc_pool_block(void* old, size_t size, struct caller caller) {
    /* blocks of the pool are never freed */
    return copied(allocate(size, caller), old, pool_block_size(old), size);
}

/* Resizes a block of the next allocator. It moves to the library if it becomes large or is planned.
 */
static void* realloc_next(void* old, size_t size, struct caller caller) {
    const size_t had = real.malloc_usable_size(old);
    void* block = size > 0 && size <= PTRDIFF_MAX ? planned(size, 1, false, caller) : NULL;
    /* A block of the next allocator that is large already was refused before. */
    if (block == NULL && is_large(size) && had < settings.large)
        block = blocks_take(size, 1, false);
    if (block == NULL) return real.realloc(old, size);
    copied(block, old, had, size);
    real.free(old);
    return block;
}

/* Extra bytes for a block that moves, so that a block that grows step by step is not copied at each
 * step. It is a quarter of the size. Where new memory gets its frames at once, and is not just
 * address space, it is limited. */
static size_t more_for_growth(size_t size) {
    const size_t quarter = size / 4;
    if (quarter <= MOST_FILLED) return quarter;
    const int state = cancelling_off();
    const bool filled = spans_are_filled(SHELF_ANY);
    cancelling_back(state);
    return filled ? MOST_FILLED : quarter;
}

/* Whether the block can stay where it is. A block of a pool moves if it becomes much smaller. */
static bool resized(void* block, size_t had, size_t size) {
    if (plan_active && pools_usable(block) > 0) return size <= had && size >= had / 2;
    return blocks_resize(block, size);
}

/* Resizes a block of the library that has `had` bytes. */
static void* realloc_ours(void* old, size_t had, size_t size, struct caller caller) {
    if (size == 0) {
        give_ours(old);
        return NULL;
    }
    if (resized(old, had, size)) return old;
    void* block = size <= PTRDIFF_MAX ? planned(size, 1, false, caller) : NULL;
    if (block == NULL && is_large(size))
        block = blocks_take(size + more_for_growth(size), 1, false);
    if (block == NULL) block = real.malloc(size);
    if (copied(block, old, had, size) == NULL) return NULL;
    give_ours(old);
    return block;
}

static __attribute__((noinline)) void* realloc_slowly(void* old, size_t size,
                                                      struct caller caller) {
    if (old == NULL) return allocate(size, caller);
    if (in_pool(old)) return realloc_pool_block(old, size, caller);
    if (!usable()) return from_pool(0, size);
    const size_t had = active && may_be_ours(old) ? usable_ours(old) : 0;
    if (had > 0) return realloc_ours(old, had, size, caller);
    return realloc_next(old, size, caller);
}

EXPORT void* realloc(void* old, size_t size) {
    if (LIKELY(!may_be_ours(old)) && not_ours(size, CALLER)) return real.realloc(old, size);
    return realloc_slowly(old, size, CALLER);
}

EXPORT void* reallocarray(void* old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (LIKELY(!may_be_ours(old)) && not_ours(bytes, CALLER)) return real.realloc(old, bytes);
    return realloc_slowly(old, bytes, CALLER);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) {
    if (!usable()) return from_pool(alignment, size);
    void* block = ours(size, alignment, false, CALLER);
    return block ? block : real.aligned_alloc(alignment, size);
}

EXPORT void* memalign(size_t alignment, size_t size) {
    if (!usable()) return from_pool(alignment, size);
    void* block = ours(size, alignment, false, CALLER);
    return block ? block : real.memalign(alignment, size);
}

EXPORT int posix_memalign(void** result, size_t alignment, size_t size) {
    if (!usable()) return (*result = from_pool(alignment, size)) == NULL ? ENOMEM : 0;
    void* block = alignment % sizeof(void*) == 0 ? ours(size, alignment, false, CALLER) : NULL;
    if (block == NULL) return real.posix_memalign(result, alignment, size);
    *result = block;
    return 0;
}

EXPORT void* valloc(size_t size) {
    if (!usable()) return NULL;
    void* block = ours(size, PAGE_BYTES, false, CALLER);
    return block ? block : real.valloc(size);
}

EXPORT void* pvalloc(size_t size) {
    if (!usable()) return NULL;
    void* block =
        size <= PTRDIFF_MAX ? ours(round_up(size, PAGE_BYTES), PAGE_BYTES, false, CALLER) : NULL;
    return block ? block : real.pvalloc(size);
}

EXPORT size_t malloc_usable_size(void* block) {
    if (may_be_ours(block)) {
        if (block == NULL) return 0;
        if (in_pool(block)) return pool_block_size(block);
        const size_t bytes = active ? usable_ours(block) : 0;
        if (bytes > 0) return bytes;
        if (!usable()) return 0;
    }
    return real.malloc_usable_size(block);
}

static const char* read_settings(void) {
    const char* text = getenv("PAGELENS_RUN");
    if (text == NULL) return "it is not set; `pagelens run` sets it";
    if (sysconf(_SC_PAGESIZE) != PAGE_BYTES) return "this kernel's pages are not of 4 KiB";
    return settings_parse(text, &settings);
}

__attribute__((constructor)) static void begin(void) {
    const int saved_errno = errno;
    usable();
    errors_prepared();
    const char* wrong = read_settings();
    territory_open();
    if (wrong == NULL) {
        fork_prepared();
        report_prepared();
    } else {
        say_once("PAGELENS_RUN: %s; the program runs as without it", wrong);
    }
    active = wrong == NULL;
    const char* plan = getenv("PAGELENS_PLAN");
    if (active && plan != NULL) plan_open(plan);
    if (plan_active) planned_begin();
    small_elsewhere = plan_active ? settings.large : 0;
    small = plan_active ? 0 : active ? settings.large : SIZE_MAX;
    errno = saved_errno;
}
