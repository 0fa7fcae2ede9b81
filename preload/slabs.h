/*
 * Slabs: pieces of memory bound to the fast nodes, each for blocks of one size of one object. Notes
 * on them are kept elsewhere, so that blocks are aligned by their size and no fast memory goes to
 * notes. By who is inside the gate (fork_gate.h) to change something, but for slab_of, slabs_idle
 * and slabs_each.
 */
#ifndef PAGELENS_RUN_SLABS_H
#define PAGELENS_RUN_SLABS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    bool idle; /* without blocks, but with memory: atomic */
};

/* Once, at the start: in this part of the address space. */
void slabs_open(uintptr_t start, size_t bytes);

/* One for blocks of so many bytes; NULL: there is no room. */
struct slab* slab_new(uint32_t object, size_t block);

/* One without blocks is nobody's again; what it has paid it keeps. */
void slab_put_away(struct slab* slab);

/* That an address lies in; NULL: in none. */
struct slab* slab_of(const void* block);

/* The slab's object; false: it has none. What it says may be over at once without that one's lock.
 */
bool slab_owner(const struct slab* slab, uint32_t* object);

/* To be called where a slab's blocks or memory have changed, with its object's lock. */
void slab_note_idle(struct slab* slab);
size_t slabs_idle(void); /* how many are so */

/* Memory of those that are nobody's goes back to the kernel, and to the budget. */
void slabs_trim(void);

void slabs_each(void (*show)(struct slab* slab));

#endif
