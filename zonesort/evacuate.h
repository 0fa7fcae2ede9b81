/* SPDX-License-Identifier: GPL-2.0 */
/* Mends broken blocks before the sort (docs/zonesort.md, "Drain" and "Evacuate"). */
#ifndef ZONESORT_EVACUATE_H
#define ZONESORT_EVACUATE_H

#include "blocks.h"

struct zs_evacuation {
	u64 drained;	  /* how often a zone's per-cpu lists were emptied */
	u64 blocks;	  /* that were mended */
	u64 frames;	  /* moved out of them */
	u64 blocks_stuck; /* that stayed broken, because a frame could not be moved */
};

/* Empties the zone's per-cpu lists, if it has a whole free block: taking one empties them. */
void zs_drain(struct zone *zone, struct zs_evacuation *done);

/*
 * Moves allocated frames out of broken blocks, as long as other broken blocks have room. Ends early
 * when *stop becomes true or the process is killed. Returns 0 or -ENOMEM.
 */
int zs_evacuate(struct zone *zone, unsigned int hold_blocks, const bool *stop,
		struct zs_evacuation *done, struct zs_holds *holds);

#endif
