/*
 * An arena is ARENA_BYTES of address space bound to the fast nodes. It is cut into slabs of one of
 * two sizes. A slab takes memory, and its part of the budget, only when a block is handed out for
 * the first time.
 */
#define _GNU_SOURCE
#include "preload/slabs.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/budget.h"
#include "preload/nodes.h"
#include "preload/plan.h"
#include "preload/system.h"

enum {
    ARENA_BYTES = 64 << 20,
    MOST_ARENAS = 1 << 14, /* 1 TiB */
    SMALL_SLAB = 64 << 10, /* for blocks of up to SMALL_MOST bytes */
    SMALL_MOST = 8 << 10,
    LARGE_SLAB = 1 << 20,
    MOST_SLABS = ARENA_BYTES / SMALL_SLAB,
};

struct arena {
    struct slab* slabs; /* NULL if the arena does not exist */
    size_t slab_bytes;
};

static uintptr_t region;
static size_t region_bytes;
static struct arena arenas[MOST_ARENAS];
static size_t arena_count;
static struct slab* unused[2]; /* small ones, large ones */
static size_t idle;            /* number of idle slabs; changed atomically */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

void slabs_open(uintptr_t start, size_t bytes) {
    region = round_up(start, ARENA_BYTES);
    region_bytes = (start + bytes - region) / ARENA_BYTES * ARENA_BYTES;
    if (region_bytes > (size_t)MOST_ARENAS * ARENA_BYTES)
        region_bytes = (size_t)MOST_ARENAS * ARENA_BYTES;
}

void slab_note_idle(struct slab* slab) {
    const bool now = slab->live == 0 && slab->paid > 0;
    if (now && !slab->idle) __atomic_fetch_add(&idle, 1, __ATOMIC_RELAXED);
    if (!now && slab->idle) __atomic_fetch_sub(&idle, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slab->idle, now, __ATOMIC_RELAXED);
}

size_t slabs_idle(void) { return __atomic_load_n(&idle, __ATOMIC_RELAXED); }

static void* map_notes(size_t bytes) {
    void* at = map_memory(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    return at == MAP_FAILED ? NULL : at;
}

static bool add_arena(int kind) {
    const size_t slab_bytes = kind ? LARGE_SLAB : SMALL_SLAB;
    if ((arena_count + 1) * ARENA_BYTES > region_bytes) return false;
    const uintptr_t at = region + arena_count * ARENA_BYTES;
    struct slab* slabs = map_notes(MOST_SLABS * sizeof *slabs);
    if (slabs == NULL) return false;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* got = map_memory((void*)at, ARENA_BYTES, PROT_READ | PROT_WRITE, flags);
    if (got != (void*)at || !nodes_prefer(at, ARENA_BYTES, plan_header()->fast, false)) {
        if (got == (void*)at)
            say_once("small objects cannot be put on the fast node (%s)", strerror(errno));
        if (got != MAP_FAILED) unmap_memory(got, ARENA_BYTES);
        unmap_memory(slabs, MOST_SLABS * sizeof *slabs);
        region_bytes = arena_count * ARENA_BYTES; /* do not try again */
        return false;
    }
    /* A huge page would take 2 MiB at once, whatever the budget. */
    madvise((void*)at, ARENA_BYTES, MADV_NOHUGEPAGE);
    for (size_t i = ARENA_BYTES / slab_bytes; i-- > 0;) {
        slabs[i] =
            (struct slab){.start = at + i * slab_bytes, .bytes = slab_bytes, .next = unused[kind]};
        unused[kind] = &slabs[i];
    }
    arenas[arena_count].slab_bytes = slab_bytes;
    __atomic_store_n(&arenas[arena_count].slabs, slabs, __ATOMIC_RELEASE);
    __atomic_store_n(&arena_count, arena_count + 1, __ATOMIC_RELEASE);
    return true;
}

struct slab* slab_new(uint32_t object, size_t block) {
    const int kind = block > SMALL_MOST;
    lock();
    struct slab* slab = NULL;
    if (unused[kind] || add_arena(kind)) {
        slab = unused[kind];
        unused[kind] = slab->next;
        slab->begun = 0; /* `paid` stays: its pages may still be there */
        slab->free = NULL;
        slab->object = object;
        slab->block = block;
    }
    unlock();
    return slab;
}

void slab_put_away(struct slab* slab) {
    const int kind = slab->bytes == LARGE_SLAB;
    lock();
    slab->block = 0;
    slab->next = unused[kind];
    unused[kind] = slab;
    unlock();
}

struct slab* slab_of(const void* block) {
    const uintptr_t into = (uintptr_t)block - region;
    if (into >= region_bytes) return NULL;
    const struct arena* arena = &arenas[into / ARENA_BYTES];
    struct slab* slabs = __atomic_load_n(&arena->slabs, __ATOMIC_ACQUIRE);
    return slabs ? &slabs[into % ARENA_BYTES / arena->slab_bytes] : NULL;
}

bool slab_owner(const struct slab* slab, uint32_t* object) {
    lock();
    const bool owned = slab->block > 0;
    *object = slab->object;
    unlock();
    return owned;
}

void slabs_trim(void) {
    lock();
    for (int kind = 0; kind < 2; kind++)
        for (struct slab* slab = unused[kind]; slab; slab = slab->next)
            if (slab->paid > 0 && madvise((void*)slab->start, slab->bytes, MADV_DONTNEED) == 0) {
                budget_give(slab->paid);
                slab->paid = 0;
                slab_note_idle(slab);
            }
    unlock();
}

void slabs_each(void (*show)(struct slab* slab)) {
    for (size_t i = 0; i < __atomic_load_n(&arena_count, __ATOMIC_ACQUIRE); i++)
        for (size_t j = 0; j < ARENA_BYTES / arenas[i].slab_bytes; j++) show(&arenas[i].slabs[j]);
}
