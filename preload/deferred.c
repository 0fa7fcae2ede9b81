#define _GNU_SOURCE
#include "preload/deferred.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "preload/system.h"

/* The block itself cannot hold a link to the next one: if it lies on a page of the pool, the child
 * has an older copy of it (fork.c). */
struct note {
    void* start; /* atomic; NULL if not written yet */
    size_t bytes /* of unmapped pages; 0 if it is a block */;
};
enum { CHUNK_BYTES = 64 << 10, CHUNK_NOTES = CHUNK_BYTES / sizeof(struct note) - 1 };
struct chunk {
    struct chunk* before; /* atomic, as all fields: a chunk may have been another one's before */
    size_t used;          /* atomic; may exceed CHUNK_NOTES */
    struct note notes[CHUNK_NOTES];
};
static struct chunk* latest; /* atomic */

static struct note* new_note(void) {
    for (;;) {
        struct chunk* chunk = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
        const size_t at =
            chunk ? __atomic_fetch_add(&chunk->used, 1, __ATOMIC_RELAXED) : CHUNK_NOTES;
        if (at < CHUNK_NOTES) return &chunk->notes[at];
        struct chunk* more =
            map_memory(NULL, sizeof *more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        if (more == MAP_FAILED) return NULL;
        __atomic_store_n(&more->before, chunk, __ATOMIC_RELAXED);
        if (!__atomic_compare_exchange_n(&latest, &chunk, more, false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            unmap_memory(more, sizeof *more); /* another thread has added a chunk first */
    }
}

static void note(void* start, size_t bytes) {
    const int saved_errno = errno;
    struct note* note = new_note();
    errno = saved_errno;
    if (note == NULL) {
        say_once("what was given back while the process forked is lost, for want of memory");
        return;
    }
    note->bytes = bytes;
    __atomic_store_n(&note->start, start, __ATOMIC_RELEASE);
}

void deferred_free(void* block) { note(block, 0); }

void deferred_unmap(void* start, size_t bytes) {
    if (bytes > 0) note(start, bytes);
}

void deferred_do(void (*give)(void* block), void (*forget)(void* start, size_t bytes)) {
    struct chunk* chunk = __atomic_exchange_n(&latest, NULL, __ATOMIC_ACQUIRE);
    while (chunk != NULL) {
        const size_t used = chunk->used < CHUNK_NOTES ? chunk->used : CHUNK_NOTES;
        for (size_t i = 0; i < used; i++) {
            const struct note* note = &chunk->notes[i];
            void* start = __atomic_load_n(&note->start, __ATOMIC_ACQUIRE);
            if (start == NULL)
                continue; /* in a child, whose parent's other thread was to write it */
            if (note->bytes == 0)
                give(start);
            else
                forget(start, note->bytes);
        }
        struct chunk* done = chunk;
        chunk = __atomic_load_n(&chunk->before, __ATOMIC_RELAXED);
        unmap_memory(done, sizeof *done);
    }
}
