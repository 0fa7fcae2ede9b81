/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rule: in which order the blocks of one free list should be handed out (docs/zonesort.md,
 * "Sort"). Arithmetic only, no locks and no pages, so that it also compiles outside the kernel,
 * where it is tested against the model.
 */
#ifndef ZONESORT_ORDER_H
#define ZONESORT_ORDER_H

#include <linux/types.h>

/*
 * A direct-mapped cache and who has frames in its slots, one bit a slot of 4096 bytes. `slots` is a
 * multiple of the largest block (1024), which makes blocks of one order share all or no slots.
 */
struct zs_cache {
	u64 slots;
	u64 granule;		  /* slots that count as one: a power of two <= 1024 */
	unsigned long *allocated; /* a frame lies here that is online and not free */
	unsigned long *own;	  /* the next job has a page here already */
};

/* Marks the slots of frames [pfn, pfn + frames) in one of the bitmaps, whole granules of them. */
void zs_mark(const struct zs_cache *cache, unsigned long *bitmap, u64 pfn, u64 frames);

/*
 * Orders the n free blocks of one list, given by first frame in any order: blocks[0] is to be
 * handed out first. Their slots become `own`. `spare` has room for n, too. At most 2^32 blocks.
 */
void zs_order(const struct zs_cache *cache, unsigned int order, u64 *blocks, u64 *spare, size_t n);

/* Sorts ascending, stable; takes a pass for each seven bits in which keys differ. */
void zs_sort_keys(u64 *keys, u64 *spare, size_t n);

#endif
