/* How many pages of the process lie in each slot of the cache, and how many share theirs. */
#ifndef PAGELENS_RUN_SLOTS_H
#define PAGELENS_RUN_SLOTS_H

#include <stddef.h>
#include <stdint.h>

struct tally {
    uint32_t* of_slot; /* pages in each */
    size_t pages, sharing;
};

static inline void tally_add(struct tally* tally, size_t slot) {
    const uint32_t others = tally->of_slot[slot]++;
    tally->pages++;
    tally->sharing += others == 0 ? 0 : others == 1 ? 2 : 1;
}

static inline void tally_remove(struct tally* tally, size_t slot) {
    const uint32_t others = --tally->of_slot[slot];
    tally->pages--;
    tally->sharing -= others == 0 ? 0 : others == 1 ? 2 : 1;
}

/* A page that may be kept: where it is mapped, and where its first frame lies in the cache. */
struct unit {
    uintptr_t at;
    uint32_t group; /* slots of a unit, counted in units */
    uint32_t key;   /* pages that its group has before it comes */
    uint32_t spare; /* 1: it is not yet where it is needed */
};

/* Orders units of `pages` pages so that the first n, for every n, are those that a choice of the
 * least populated group, one by one, would take; of equal ones those in place before spare ones.
 * `population` counts the pages of each group that are there already; it is changed and restored.
 */
void units_order(struct unit* units, size_t count, uint32_t* population, uint32_t pages);

#endif
