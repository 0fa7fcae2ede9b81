/* Counts how many pages of the process lie in each slot of the cache, and how many share theirs. */
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

/* A huge page that may be kept. */
struct unit {
    uintptr_t at;
    uint32_t group; /* where it lies in the cache, in units of its own size */
    uint32_t key;   /* pages that its group has without it and later ones */
    uint32_t spare; /* 1 if it is not yet mapped where the program needs it */
};

/* Sorts units of `pages` pages. For every n, the first n are those that one would get by taking,
 * one by one, a unit of the least populated group. Among equals, units in place come before spare
 * ones. `population` counts the pages that each group has already; it is changed and restored. */
void units_order(struct unit* units, size_t count, uint32_t* population, uint32_t pages);

#endif
