/* SPDX-License-Identifier: GPL-2.0 */
/* One sort of one node, and what the sorts since load came to. */
#ifndef ZONESORT_SORTER_H
#define ZONESORT_SORTER_H

#include <linux/mutex.h>

#include "blocks.h"
#include "evacuate.h"

/* Held while struct pages are walked: one walk at a time, and none while memory vanishes. */
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
 * Sorts the free lists of an online node: -ENOMEM or 0. May sleep; under zs_sort_lock; adds to the
 * sums. Stops early, with the lists whole but partly sorted, when *stop becomes true.
 */
int zs_sort_node(int nid, const bool *stop, struct zs_sums *sums);

/* Most blocks that one hold of zone->lock may move (parameter hold_blocks). */
unsigned int zs_hold_blocks(void);

#endif
