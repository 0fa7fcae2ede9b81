/* SPDX-License-Identifier: GPL-2.0 */
/* The frames of a zone: looked at without a lock, and free blocks moved in short holds of it. */
#ifndef ZONESORT_BLOCKS_H
#define ZONESORT_BLOCKS_H

#include "allocator.h"

/*
 * A run of frames in one state: a free block, a single frame, or frames that are not memory of the
 * zone. Seen without zone->lock, hence a hint; what is done on its strength is validated.
 */
enum zs_state {
	ZS_FREE,    /* a free block of `order` */
	ZS_MOVABLE, /* allocated (or in a per-cpu list), can probably be moved */
	ZS_FIXED,   /* allocated for good */
	ZS_HOLE,    /* offline, or another zone's */
};

struct zs_run {
	struct zone *zone;
	unsigned long pfn, frames;
	unsigned long end; /* of the walk */
	enum zs_state state;
	unsigned int order;
	int type; /* zs_home_type(), where the state is not ZS_HOLE */
};

/* Walks [pfn, end), cut to the zone: while (zs_next_run(&run)) ... */
struct zs_run zs_walk(struct zone *zone, unsigned long pfn, unsigned long end);
struct zs_run zs_walk_zone(struct zone *zone);
bool zs_next_run(struct zs_run *run);

/*
 * The type whose free list a block belongs to, that of its first page block; -1 if any of its page
 * blocks is of a type without fallbacks (isolated, CMA, atomic reserve). Exact under zone->lock.
 */
int zs_home_type(unsigned long pfn, unsigned int order);

/* What the holds of zone->lock came to; the longest of each kind. */
struct zs_holds {
	u64 count;
	u64 longest_ns, longest_blocks;
	u64 moved, skipped; /* blocks; skipped: no longer free, or no longer of this list */
};

/*
 * Puts blocks[0..n), given by first frame, at the head of free_area[order].free_list[type] in this
 * order, at most `hold_blocks` in one hold of zone->lock. A block that is no longer a free block of
 * this order and type is left where it is.
 */
void zs_to_head(struct zone *zone, unsigned int order, int type, const u64 *blocks, size_t n,
		unsigned int hold_blocks, struct zs_holds *holds);

#endif
