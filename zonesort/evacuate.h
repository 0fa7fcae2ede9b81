/* SPDX-License-Identifier: GPL-2.0 */
/* Makes whole blocks out of broken ones before the sort: docs/zonesort.md, "Drain", "Evacuate". */
#ifndef ZONESORT_EVACUATE_H
#define ZONESORT_EVACUATE_H

#include "blocks.h"

struct zs_evacuation {
	u64 drained;	  /* times that a zone's per-cpu lists were emptied */
	u64 blocks;	  /* made whole */
	u64 frames;	  /* moved out of them */
	u64 blocks_stuck; /* left as they were: a frame would not move */
};

/* Empties the zone's per-cpu lists, if it has a whole free block to do it by. */
void zs_drain(struct zone *zone, struct zs_evacuation *done);

/*
 * Moves the allocated frames out of broken blocks, as long as they find room in other broken ones.
 * Ends early when *stop becomes true or the process is killed. -ENOMEM or 0.
 */
int zs_evacuate(struct zone *zone, unsigned int hold_blocks, const bool *stop,
		struct zs_evacuation *done, struct zs_holds *holds);

#endif
