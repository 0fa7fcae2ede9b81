/* SPDX-License-Identifier: GPL-2.0 */
/* The free blocks of a zone by order and type. They are found by walking its frames: walking its
 * lists would need the lock. */
#ifndef ZONESORT_LISTS_H
#define ZONESORT_LISTS_H

#include "allocator.h"

struct zs_list {
	u64 *blocks; /* first frames, ascending */
	size_t count, room;
};

struct zs_lists {
	struct zs_list list[ZS_ORDERS][ZS_TYPES];
	u64 *blocks; /* of all lists */
	u64 *spare;  /* room for the longest list */
};

/*
 * Fills `lists` and returns 0, or returns -ENOMEM. The caller gives them back by zs_release().
 * Blocks that are freed while it runs may be missing; they stay where they are.
 */
int zs_gather(struct zone *zone, struct zs_lists *lists);
void zs_release(struct zs_lists *lists);

#endif
