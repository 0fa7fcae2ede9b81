/* SPDX-License-Identifier: GPL-2.0 */
/* Sorts one node, and sums up what the sorts since the module was loaded have done. */
#ifndef ZONESORT_SORTER_H
#define ZONESORT_SORTER_H

#include <linux/mutex.h>

#include "blocks.h"
#include "evacuate.h"

/* Hold it to walk struct pages: one walk runs at a time, and none while memory goes offline. */
extern struct mutex zs_sort_lock;

struct zs_sums {
	u64 sorts, failed;
	int last_nid;
	u64 last_ns, longest_ns;
	u64 last_slots, last_allocated_slots; /* of the node sorted last */
	struct zs_holds holds;
	struct zs_evacuation evacuation;
};

/*
 * Sorts the free lists of an online node and adds to the sums. Returns 0 or -ENOMEM. Call it with
 * zs_sort_lock held; it may sleep. When *stop becomes true it ends early: all blocks are still in
 * their lists then, but only some lists are sorted.
 */
int zs_sort_node(int nid, const bool *stop);

/* Copies the sums of all sorts since the module was loaded. Waits for a sort that runs. */
void zs_read_sums(struct zs_sums *copy);

/* The most blocks that may be moved while zone->lock is held once (parameter hold_blocks). */
unsigned int zs_hold_blocks(void);

#endif
