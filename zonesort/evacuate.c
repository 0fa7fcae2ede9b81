// SPDX-License-Identifier: GPL-2.0
#include <linux/page_ref.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "evacuate.h"
#include "lists.h"
#include "order.h"

#define DRAIN_TRIES 8
/* A sort key has a count of at most ZS_MAX_BLOCK in its high bits, and the number of a frame or
 * block in its low bits. */
#define KEY_SHIFT 48
#define KEY_MASK ((1ULL << KEY_SHIFT) - 1)

/* Takes a whole block. Its allocated frames are moved elsewhere, and the per-cpu lists are emptied.
 */
static int take_block(unsigned long pfn)
{
	return alloc_contig_range(pfn, pfn + ZS_MAX_BLOCK, MIGRATE_MOVABLE, ZS_CONTIG_GFP);
}

/*
 * Frees the frames as one block of the largest order, which goes straight to its free list. Freed
 * one by one, they would fill the per-cpu list that was just emptied.
 */
static void give_block_back(unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);
	unsigned long i;

	if (!ZS_CONTIG_COMPOUND) {
		/* In one block only the first frame has a reference. */
		for (i = 1; i < ZS_MAX_BLOCK; i++)
			if (!page_ref_freeze(page + i, 1))
				break;
		if (i < ZS_MAX_BLOCK) { /* someone else holds a reference to a frame */
			while (--i > 0)
				page_ref_unfreeze(page + i, 1);
			free_contig_range(pfn, ZS_MAX_BLOCK);
			return;
		}
	}
	__free_pages(page, ZS_MAX_ORDER);
}

void zs_drain(struct zone *zone, struct zs_evacuation *done)
{
	struct zs_run run = zs_walk_zone(zone);
	int tries = DRAIN_TRIES;

	while (zs_next_run(&run) && tries > 0) {
		if (run.state != ZS_FREE || run.order != ZS_MAX_ORDER ||
		    run.type != MIGRATE_MOVABLE)
			continue;
		if (!take_block(run.pfn)) {
			give_block_back(run.pfn);
			done->drained++;
			return;
		}
		tries--;
	}
}

/* A block of the largest order, free or not. */
struct survey {
	u16 allocated; /* frames */
	bool broken;   /* inside the zone, neither wholly free nor wholly allocated */
	bool mendable; /* broken, and all that is allocated can be moved */
};

static struct survey survey_block(struct zone *zone, unsigned long pfn)
{
	struct zs_run run = zs_walk(zone, pfn, pfn + ZS_MAX_BLOCK);
	bool whole = run.pfn == pfn && run.end == pfn + ZS_MAX_BLOCK, movable = true;
	unsigned long allocated = ZS_MAX_BLOCK;
	struct survey survey;

	while (zs_next_run(&run)) {
		if (run.state == ZS_FREE)
			allocated -= run.frames;
		if (run.state == ZS_FIXED || run.state == ZS_HOLE || run.type < 0)
			movable = false;
	}
	survey.allocated = allocated;
	survey.broken = whole && allocated > 0 && allocated < ZS_MAX_BLOCK;
	survey.mendable = survey.broken && movable;
	return survey;
}

/* The blocks of a zone as they were found; the zone may grow meanwhile. */
struct surveys {
	unsigned long first; /* number of the first block: its first frame / ZS_MAX_BLOCK */
	size_t count;
	struct survey *block;
};

static unsigned int allocated_around(const struct surveys *surveys, unsigned long pfn)
{
	size_t i = pfn / ZS_MAX_BLOCK - surveys->first;

	return i < surveys->count ? surveys->block[i].allocated : 0;
}

/* Orders the free lists so that frames that are moved go to the blocks with the least free memory.
 */
static int offer_holes(struct zone *zone, const struct surveys *surveys, unsigned int hold_blocks,
		       struct zs_holds *holds)
{
	struct zs_lists lists;
	unsigned int order;
	size_t i;
	int error = zs_gather(zone, &lists);

	if (error)
		return error;
	for (order = 0; order < ZS_MAX_ORDER; order++) {
		struct zs_list *list = &lists.list[order][MIGRATE_MOVABLE];

		for (i = 0; i < list->count; i++) {
			u64 pfn = list->blocks[i];
			u64 free = ZS_MAX_BLOCK - allocated_around(surveys, pfn);

			list->blocks[i] = free << KEY_SHIFT | pfn;
		}
		zs_sort_keys(list->blocks, lists.spare, list->count);
		for (i = 0; i < list->count; i++)
			list->blocks[i] &= KEY_MASK;
		zs_to_head(zone, order, MIGRATE_MOVABLE, list->blocks, list->count, hold_blocks,
			   holds);
	}
	zs_release(&lists);
	return 0;
}

/*
 * `mendable` lists blocks by rising number of allocated frames, and `room` is the number of free
 * frames in broken blocks. Mending a block with a allocated and f free frames takes f + a from
 * `room`: its own f free frames are no longer in a broken block, and its a frames fill room in
 * others.
 */
static void mend_blocks(struct zone *zone, const u64 *mendable, size_t n, s64 room,
			const bool *stop, struct zs_evacuation *done)
{
	size_t i;

	for (i = 0; i < n && !READ_ONCE(*stop) && !fatal_signal_pending(current); i++) {
		unsigned long pfn = (mendable[i] & KEY_MASK) * ZS_MAX_BLOCK;
		struct survey now = survey_block(zone, pfn);

		if (!now.mendable)
			continue;
		if (now.allocated > ZS_MAX_BLOCK / 2 || room < (s64)ZS_MAX_BLOCK)
			break;
		if (take_block(pfn)) {
			done->blocks_stuck++;
			continue;
		}
		give_block_back(pfn);
		done->drained++;
		done->blocks++;
		done->frames += now.allocated;
		room -= ZS_MAX_BLOCK;
	}
}

int zs_evacuate(struct zone *zone, unsigned int hold_blocks, const bool *stop,
		struct zs_evacuation *done, struct zs_holds *holds)
{
	struct surveys surveys = { .first = zone->zone_start_pfn / ZS_MAX_BLOCK };
	u64 *mendable, *spare;
	size_t i, n = 0;
	s64 room = 0;
	int error = -ENOMEM;

	surveys.count = DIV_ROUND_UP(zone_end_pfn(zone), ZS_MAX_BLOCK) - surveys.first;
	surveys.block = kvmalloc_array(surveys.count, sizeof(*surveys.block), GFP_KERNEL);
	mendable = kvmalloc_array(surveys.count, sizeof(*mendable), GFP_KERNEL);
	spare = kvmalloc_array(surveys.count, sizeof(*spare), GFP_KERNEL);
	if (!surveys.block || !mendable || !spare)
		goto out;
	for (i = 0; i < surveys.count; i++) {
		struct survey *block = &surveys.block[i];

		*block = survey_block(zone, (surveys.first + i) * ZS_MAX_BLOCK);
		if (block->broken)
			room += ZS_MAX_BLOCK - block->allocated;
		if (block->mendable)
			mendable[n++] = (u64)block->allocated << KEY_SHIFT | (surveys.first + i);
	}
	zs_sort_keys(mendable, spare, n);
	error = n ? offer_holes(zone, &surveys, hold_blocks, holds) : 0;
	if (!error)
		mend_blocks(zone, mendable, n, room, stop, done);
out:
	kvfree(surveys.block);
	kvfree(mendable);
	kvfree(spare);
	return error;
}
