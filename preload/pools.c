/*
 * Each object has lists of slabs with room, one for each size of blocks. Several objects share a
 * lock.
 */
#define _GNU_SOURCE
#include "preload/pools.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/budget.h"
#include "preload/deferred.h"
#include "preload/fork_gate.h"
#include "preload/pool_sizes.h"
#include "preload/slabs.h"
#include "preload/system.h"
#include "preload/tally.h"

enum { LOCKS = 32 };

static struct slab* (*with_room)[POOL_SIZES]; /* by object and size */
static pthread_mutex_t locks[LOCKS];

static void lock(uint32_t object) { pthread_mutex_lock(&locks[object % LOCKS]); }
static void unlock(uint32_t object) { pthread_mutex_unlock(&locks[object % LOCKS]); }

void pools_open(size_t objects, uintptr_t start, size_t bytes) {
    for (int i = 0; i < LOCKS; i++) pthread_mutex_init(&locks[i], NULL);
    void* at = map_memory(NULL, objects * sizeof *with_room, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) return;
    with_room = at;
    slabs_open(start, bytes);
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

static bool is_full(const struct slab* slab) {
    return slab->free == NULL && slab->begun + slab->block > slab->bytes;
}

/* The slab's next block; NULL if the budget has no room for its pages. */
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
        slab = slab_new(object, size_at(index));
        if (slab == NULL) return NULL;
        enlist(list, slab);
    }
    void* block = block_of(slab);
    slab_note_idle(slab);
    if (is_full(slab) || (block == NULL && slab->live == 0)) {
        delist(list, slab);
        if (slab->live == 0) slab_put_away(slab);
    }
    return block;
}

void* pools_take(uint32_t object, size_t size, size_t alignment) {
    if (size > POOLED_MOST || alignment > 4096) return NULL;
    size_t index = size_index(size);
    while (size_at(index) % alignment) index++;
    if (index >= POOL_SIZES) return NULL;
    lock(object);
    void* block = with_room ? take(object, index) : NULL;
    unlock(object);
    return block;
}

size_t pools_usable(const void* block) {
    const struct slab* slab = slab_of(block);
    return slab ? slab->block : 0;
}

static void give(struct slab* slab, void* block) {
    const uint32_t object = slab->object;
    lock(object);
    struct slab** list = &with_room[object][size_index(slab->block)];
    *(void**)block = slab->free;
    slab->free = block;
    slab->live--;
    slab_note_idle(slab);
    tally_shrunk(object, slab->block);
    if (!slab->listed) enlist(list, slab);
    /* The last slab with room is kept: a program that frees often allocates again. */
    if (slab->live == 0 && (slab->next || slab->previous)) {
        delist(list, slab);
        slab_put_away(slab);
    }
    unlock(object);
}

bool pools_give(void* block) {
    struct slab* slab = slab_of(block);
    if (slab == NULL || slab->block == 0) return false;
    if (gate_look())
        give(slab, block);
    else
        deferred_free(block);
    gate_leave();
    return true;
}

/* Puts away a slab without blocks that was kept for its object's next block. */
static void put_kept_away(struct slab* slab) {
    uint32_t object, now;
    if (!slab_owner(slab, &object)) return;
    lock(object);
    if (slab_owner(slab, &now) && now == object && slab->live == 0 && slab->listed) {
        delist(&with_room[object][size_index(slab->block)], slab);
        slab_put_away(slab);
    }
    unlock(object);
}

static void put_away_if_idle(struct slab* slab) {
    if (__atomic_load_n(&slab->idle, __ATOMIC_RELAXED)) put_kept_away(slab);
}

void pools_trim(void) {
    if (slabs_idle() == 0) return;
    slabs_each(put_away_if_idle);
    slabs_trim();
}

static void (*say_slab)(uint32_t object, uintptr_t start, size_t bytes); /* for the report only */

static void say_if_used(struct slab* slab) {
    if (slab->block > 0 && slab->begun > 0) say_slab(slab->object, slab->start, slab->begun);
}

void pools_each(void (*say)(uint32_t object, uintptr_t start, size_t bytes)) {
    say_slab = say;
    slabs_each(say_if_used);
}
