/* SPDX-License-Identifier: GPL-2.0 */
/* The free blocks of a zone by order and type, gathered by walking its frames, not its lists. */
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
 * -ENOMEM, or 0 and a gathering that zs_release() must give back. Blocks that come free while it
 * runs may be missing; those are left where they are.
 */
int zs_gather(struct zone *zone, struct zs_lists *lists);
void zs_release(struct zs_lists *lists);

#endif
