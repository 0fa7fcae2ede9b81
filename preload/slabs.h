/*
 * Slabs: pieces of memory bound to the fast nodes, each for blocks of one size of one object. Their
 * records lie elsewhere, so that blocks are aligned by their size and records take no fast memory.
 *
 * All functions but slab_of, slabs_idle and slabs_each are only for threads that are inside the
 * gate (fork_gate.h) to change something.
 */
#ifndef PAGELENS_RUN_SLABS_H
#define PAGELENS_RUN_SLABS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slab {
    struct slab *next, *previous; /* in a list of an object's slabs with room, or of unused ones */
    uintptr_t start;
    size_t bytes, block; /* block: bytes of each; 0 if the slab is unused */
    size_t begun;        /* bytes of blocks that were ever handed out */
    size_t paid;         /* bytes taken from the budget */
    void* free;          /* blocks given back; each points to the next */
    uint32_t object;
    uint32_t live;
    bool listed;
    bool idle; /* has no blocks, but memory; atomic */
};

/* Call once, at the start, with the part of the address space for slabs. */
void slabs_open(uintptr_t start, size_t bytes);

/* A slab for blocks of so many bytes; NULL if there is no room. */
struct slab* slab_new(uint32_t object, size_t block);

/* Makes a slab without blocks unused. It keeps its memory, and what it took from the budget. */
void slab_put_away(struct slab* slab);

/* The slab that an address lies in, or NULL. */
struct slab* slab_of(const void* block);

/* Gets the slab's object; false if it has none. Without the object's lock the answer may be
 * outdated at once. */
bool slab_owner(const struct slab* slab, uint32_t* object);

/* Updates `idle`. Call it with the object's lock, after a slab's blocks or memory have changed. */
void slab_note_idle(struct slab* slab);
size_t slabs_idle(void); /* how many slabs are idle */

/* Gives the memory of unused slabs back to the kernel and to the budget. */
void slabs_trim(void);

void slabs_each(void (*show)(struct slab* slab));

#endif
