/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rule for the order in which the blocks of one free list should be handed out
 * (docs/zonesort.md, "Sort"). This is arithmetic without locks and pages, so that it also compiles
 * outside the kernel, where it is tested against the model.
 */
#ifndef ZONESORT_ORDER_H
#define ZONESORT_ORDER_H

#include <linux/types.h>

/*
 * A direct-mapped cache, and which of its slots are in use: one bit for each slot of 4096 bytes.
 * `slots` is a multiple of the largest block (1024), so that two blocks of one order share all
 * slots or none.
 */
struct zs_cache {
	u64 slots;
	u64 granule;		  /* how many slots count as one: a power of two up to 1024 */
	unsigned long *allocated; /* the slot has a frame that is online and not free */
	unsigned long *own;	  /* the next job will already have a page in the slot */
};

/* Marks the slots of frames [pfn, pfn + frames) in one of the bitmaps, by whole granules. */
void zs_mark(const struct zs_cache *cache, unsigned long *bitmap, u64 pfn, u64 frames);

/*
 * Orders the n free blocks of one list, given by their first frames: blocks[0] is to be handed out
 * first. Marks their slots as `own`. `spare` has room for n numbers, too. n is at most 2^32.
 */
void zs_order(const struct zs_cache *cache, unsigned int order, u64 *blocks, u64 *spare, size_t n);

/* A stable sort in ascending order. Takes one pass for each group of seven bits in which keys
 * differ. */
void zs_sort_keys(u64 *keys, u64 *spare, size_t n);

#endif
