/*
 * An arena is ARENA_BYTES of address space bound to the fast nodes, cut into slabs of one of two
 * sizes; notes on slabs are kept elsewhere, so that blocks are aligned by their size and no fast
 * memory goes to notes. A slab takes memory (and its part of the budget) as its blocks are handed
 * out for the first time. Objects share a number of locks.
 */
#define _GNU_SOURCE
#include "preload/pools.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/budget.h"
#include "preload/nodes.h"
#include "preload/plan.h"
#include "preload/system.h"
#include "preload/tally.h"

enum {
    ARENA_BYTES = 64 << 20,
    MOST_ARENAS = 1 << 14, /* 1 TiB */
    SMALL_SLAB = 64 << 10, /* of blocks of up to SMALL_MOST */
    SMALL_MOST = 8 << 10,
    LARGE_SLAB = 1 << 20,
    MOST_SLABS = ARENA_BYTES / SMALL_SLAB,
    STEP = 16, /* of sizes up to FINE; from there on eight to each power of two */
    FINE = 1024,
    SIZES = FINE / STEP + 8 * 7, /* 7 powers of two from FINE to POOLED_MOST */
    LOCKS = 32,                  /* a fork takes them all: fewer than ThreadSanitizer can count */
};

struct slab {
    struct slab *next, *previous; /* of those of the object with room, or of unused ones */
    uintptr_t start;
    size_t bytes, block; /* block 0: it is nobody's */
    size_t begun;        /* bytes of blocks that have been handed out once */
    size_t paid;         /* bytes of the budget */
    void* free;          /* blocks given back: a list through themselves */
    uint32_t object;
    uint32_t live;
    bool listed;
    bool idle; /* counted in `idle`: without blocks, but with memory */
};

struct arena {
    struct slab* slabs; /* NULL: there is no such arena */
    size_t slab_bytes;
};

static uintptr_t region;
static size_t region_bytes;
static struct arena arenas[MOST_ARENAS];
static size_t arena_count;
static struct slab* (*with_room)[SIZES]; /* of each object and size */
static struct slab* unused[2];           /* small ones, large ones */
static size_t idle;                      /* slabs; changed atomically */
static pthread_mutex_t locks[LOCKS], common = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool forking __attribute__((tls_model("initial-exec")));

static void lock(pthread_mutex_t* mutex) {
    if (!forking) pthread_mutex_lock(mutex);
}
static void unlock(pthread_mutex_t* mutex) {
    if (!forking) pthread_mutex_unlock(mutex);
}
static pthread_mutex_t* lock_of(uint32_t object) { return &locks[object % LOCKS]; }

/* With the lock that the slab is under. */
static void note_idle(struct slab* slab) {
    const bool now = slab->live == 0 && slab->paid > 0;
    if (now && !slab->idle) __atomic_fetch_add(&idle, 1, __ATOMIC_RELAXED);
    if (!now && slab->idle) __atomic_fetch_sub(&idle, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slab->idle, now, __ATOMIC_RELAXED);
}

static void* map_notes(size_t bytes) {
    void* at = map_memory(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    return at == MAP_FAILED ? NULL : at;
}

void pools_open(size_t objects, uintptr_t start, size_t bytes) {
    for (int i = 0; i < LOCKS; i++) pthread_mutex_init(&locks[i], NULL);
    with_room = map_notes(objects * sizeof *with_room);
    region = round_up(start, ARENA_BYTES);
    region_bytes = with_room ? (start + bytes - region) / ARENA_BYTES * ARENA_BYTES : 0;
    if (region_bytes > (size_t)MOST_ARENAS * ARENA_BYTES)
        region_bytes = (size_t)MOST_ARENAS * ARENA_BYTES;
}

static size_t size_index(size_t size) {
    if (size <= FINE) return size ? (size - 1) / STEP : 0;
    const unsigned power = 63 - (unsigned)__builtin_clzl(size - 1); /* 2^power < size */
    const size_t eighth = ((size - 1) >> (power - 3)) & 7;
    return FINE / STEP + 8 * (power - 10) + eighth;
}

static size_t size_at(size_t index) {
    if (index < FINE / STEP) return (index + 1) * STEP;
    const size_t coarse = index - FINE / STEP;
    return ((size_t)FINE << coarse / 8) / 8 * (9 + coarse % 8);
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
        region_bytes = arena_count * ARENA_BYTES; /* no more */
        return false;
    }
    /* Huge pages would be filled whole, whatever the budget. */
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

static void enlist(struct slab** list, struct slab* slab) {
    slab->previous = NULL;
    slab->next = *list;
    if (*list) (*list)->previous = slab;
    *list = slab;
    slab->listed = true;
}

static void delist(struct slab** list, struct slab* slab) {
    if (slab->next) slab->next->previous = slab->previous;
    *(slab->previous ? &slab->previous->next : list) = slab->next;
    slab->listed = false;
}

static struct slab* new_slab(uint32_t object, size_t block) {
    const int kind = block > SMALL_MOST;
    lock(&common);
    struct slab* slab = NULL;
    if (unused[kind] || add_arena(kind)) {
        slab = unused[kind];
        unused[kind] = slab->next;
        slab->begun = 0; /* what it has paid it keeps: its pages may still be there */
        slab->free = NULL;
        slab->object = object;
        slab->block = block;
    }
    unlock(&common);
    return slab;
}

static void put_away(struct slab* slab) {
    const int kind = slab->bytes == LARGE_SLAB;
    lock(&common);
    slab->block = 0;
    slab->next = unused[kind];
    unused[kind] = slab;
    unlock(&common);
}

static bool is_full(const struct slab* slab) {
    return slab->free == NULL && slab->begun + slab->block > slab->bytes;
}

/* The slab's next block; NULL where the budget has no room for it. */
static void* block_of(struct slab* slab) {
    if (slab->free) {
        void* block = slab->free;
        slab->free = *(void**)block;
        slab->live++;
        return block;
    }
    const size_t needed = round_up(slab->begun + slab->block, 4096);
    if (needed > slab->paid) {
        const size_t got = budget_take(needed - slab->paid);
        slab->paid += got;
        if (slab->paid < needed) return NULL;
    }
    void* block = (void*)(slab->start + slab->begun);
    slab->begun += slab->block;
    slab->live++;
    return block;
}

static void* take(uint32_t object, size_t index) {
    struct slab** list = &with_room[object][index];
    struct slab* slab = *list;
    if (slab == NULL) {
        slab = new_slab(object, size_at(index));
        if (slab == NULL) return NULL;
        enlist(list, slab);
    }
    void* block = block_of(slab);
    note_idle(slab);
    if (is_full(slab) || (block == NULL && slab->live == 0)) {
        delist(list, slab);
        if (slab->live == 0) put_away(slab);
    }
    return block;
}

void* pools_take(uint32_t object, size_t size, size_t alignment) {
    if (forking || size > POOLED_MOST || alignment > 4096) return NULL;
    size_t index = size_index(size);
    while (size_at(index) % alignment) index++;
    if (index >= SIZES) return NULL;
    lock(lock_of(object));
    void* block = with_room ? take(object, index) : NULL;
    unlock(lock_of(object));
    return block;
}

static struct slab* slab_of(const void* block) {
    const uintptr_t into = (uintptr_t)block - region;
    if (into >= region_bytes) return NULL;
    const struct arena* arena = &arenas[into / ARENA_BYTES];
    struct slab* slabs = __atomic_load_n(&arena->slabs, __ATOMIC_ACQUIRE);
    return slabs ? &slabs[into % ARENA_BYTES / arena->slab_bytes] : NULL;
}

size_t pools_usable(const void* block) {
    const struct slab* slab = slab_of(block);
    return slab ? slab->block : 0;
}

bool pools_give(void* block) {
    struct slab* slab = slab_of(block);
    if (slab == NULL || slab->block == 0) return false;
    const uint32_t object = slab->object;
    lock(lock_of(object));
    struct slab** list = &with_room[object][size_index(slab->block)];
    *(void**)block = slab->free;
    slab->free = block;
    slab->live--;
    note_idle(slab);
    tally_shrunk(object, slab->block);
    if (!slab->listed) enlist(list, slab);
    /* The last one with room stays: who frees and asks again finds it. */
    if (slab->live == 0 && (slab->next || slab->previous)) {
        delist(list, slab);
        put_away(slab);
    }
    unlock(lock_of(object));
    return true;
}

/* The slab's object; false: it has none. What it says may be over at once without that one's lock.
 */
static bool owner(const struct slab* slab, uint32_t* object) {
    lock(&common);
    const bool owned = slab->block > 0;
    *object = slab->object;
    unlock(&common);
    return owned;
}

/* Puts a slab without blocks away that was kept for its object's next ones. */
static void put_kept_away(struct slab* slab) {
    uint32_t object, now;
    if (!owner(slab, &object)) return;
    lock(lock_of(object));
    if (owner(slab, &now) && now == object && slab->live == 0 && slab->listed) {
        delist(&with_room[object][size_index(slab->block)], slab);
        put_away(slab);
    }
    unlock(lock_of(object));
}

void pools_trim(void) {
    if (forking || __atomic_load_n(&idle, __ATOMIC_RELAXED) == 0) return;
    for (size_t i = 0; i < __atomic_load_n(&arena_count, __ATOMIC_ACQUIRE); i++)
        for (size_t j = 0; j < ARENA_BYTES / arenas[i].slab_bytes; j++)
            if (__atomic_load_n(&arenas[i].slabs[j].idle, __ATOMIC_RELAXED))
                put_kept_away(&arenas[i].slabs[j]);
    lock(&common);
    for (int kind = 0; kind < 2; kind++)
        for (struct slab* slab = unused[kind]; slab; slab = slab->next)
            if (slab->paid > 0 && madvise((void*)slab->start, slab->bytes, MADV_DONTNEED) == 0) {
                budget_give(slab->paid);
                slab->paid = 0;
                note_idle(slab);
            }
    unlock(&common);
}

void pools_each(void (*say)(uint32_t object, uintptr_t start, size_t bytes)) {
    for (size_t i = 0; i < arena_count; i++)
        for (size_t j = 0; j < ARENA_BYTES / arenas[i].slab_bytes; j++) {
            const struct slab* slab = &arenas[i].slabs[j];
            if (slab->block > 0 && slab->begun > 0) say(slab->object, slab->start, slab->begun);
        }
}

void pools_fork_begins(void) {
    if (with_room == NULL) return;
    for (int i = 0; i < LOCKS; i++) pthread_mutex_lock(&locks[i]);
    pthread_mutex_lock(&common);
    forking = true;
}

void pools_fork_ends(bool in_child) {
    if (with_room == NULL) return;
    forking = false;
    if (in_child) {
        for (int i = 0; i < LOCKS; i++) locks[i] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        common = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        return;
    }
    pthread_mutex_unlock(&common);
    for (int i = LOCKS; i-- > 0;) pthread_mutex_unlock(&locks[i]);
}
