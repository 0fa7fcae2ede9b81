/* SPDX-License-Identifier: GPL-2.0 */
/* Walks the frames of a zone without its lock, and moves free blocks in its lists. */
#ifndef ZONESORT_BLOCKS_H
#define ZONESORT_BLOCKS_H

#include "allocator.h"

/*
 * A run of frames in one state: a free block, a single frame, or frames that are not memory of the
 * zone. It is seen without zone->lock and may be outdated at once, so everything that follows from
 * it is checked again.
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
	int type; /* zs_home_type(), unless the state is ZS_HOLE */
};

/* Walks [pfn, end), cut to the zone: while (zs_next_run(&run)) ... */
struct zs_run zs_walk(struct zone *zone, unsigned long pfn, unsigned long end);
struct zs_run zs_walk_zone(struct zone *zone);
bool zs_next_run(struct zs_run *run);

/*
 * The type whose free list a block belongs to, which is the type of its first page block; -1 if any
 * of its page blocks has a type without fallbacks (isolated, CMA, atomic reserve). It is exact only
 * under zone->lock.
 */
int zs_home_type(unsigned long pfn, unsigned int order);

/* How often and how long zone->lock was held. */
struct zs_holds {
	u64 count;
	u64 longest_ns, longest_blocks;
	u64 moved, skipped; /* blocks; those skipped were no longer free or had left the list */
};

/*
 * Moves blocks[0..n), given by their first frames, to the head of free_area[order].free_list[type],
 * in this order. At most `hold_blocks` are moved while zone->lock is held once. A block that is no
 * longer a free block of this order and type stays where it is.
 */
void zs_to_head(struct zone *zone, unsigned int order, int type, const u64 *blocks, size_t n,
		unsigned int hold_blocks, struct zs_holds *holds);

#endif
