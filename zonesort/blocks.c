// SPDX-License-Identifier: GPL-2.0
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/page-flags.h>
#include <linux/pageblock-flags.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "blocks.h"

static int block_type(unsigned long pfn)
{
	const unsigned long *map = section_to_usemap(__pfn_to_section(pfn));
	unsigned long bit = (pfn % PAGES_PER_SECTION >> pageblock_order) * NR_PAGEBLOCK_BITS;

	return READ_ONCE(map[bit / BITS_PER_LONG]) >> bit % BITS_PER_LONG & MIGRATETYPE_MASK;
}

int zs_home_type(unsigned long pfn, unsigned int order)
{
	int type = block_type(pfn);
	unsigned long other;

	for (other = pfn; other < pfn + (1UL << order); other += pageblock_nr_pages)
		if (block_type(other) >= ZS_TYPES)
			return -1;
	return type;
}

struct zs_run zs_walk(struct zone *zone, unsigned long pfn, unsigned long end)
{
	return (struct zs_run){
		.zone = zone,
		.pfn = max(pfn, zone->zone_start_pfn),
		.end = min(end, zone_end_pfn(zone)),
	};
}

struct zs_run zs_walk_zone(struct zone *zone)
{
	return zs_walk(zone, zone->zone_start_pfn, zone_end_pfn(zone));
}

/* The frames of the free block that begins here, else 0. Wrong if the block is taken meanwhile. */
static unsigned long free_block(struct page *page, unsigned long pfn, unsigned int *order)
{
	unsigned long seen;

	if (!PageBuddy(page))
		return 0;
	seen = READ_ONCE(page->private);
	if (seen > ZS_MAX_ORDER || !IS_ALIGNED(pfn, 1UL << seen))
		return 0;
	*order = seen;
	return 1UL << seen;
}

/* Only single pages: a huge page could move only to a free huge page. */
static bool looks_movable(struct page *page)
{
	if (PageReserved(page) || PageCompound(page))
		return false;
	if (PageLRU(page) || __PageMovable(page))
		return true;
	return !page_ref_count(page); /* free, in a per-cpu list */
}

bool zs_next_run(struct zs_run *run)
{
	unsigned long frames;
	struct page *page;

	run->pfn += run->frames;
	if (run->pfn >= run->end)
		return false;
	if (!(run->frames && run->pfn % pageblock_nr_pages)) {
		cond_resched();
		if (!pfn_to_online_page(run->pfn)) {
			run->state = ZS_HOLE;
			run->frames = min(pageblock_end_pfn(run->pfn), run->end) - run->pfn;
			return true;
		}
	}
	run->frames = 1;
	page = pfn_to_page(run->pfn);
	if (page_zone(page) != run->zone) {
		run->state = ZS_HOLE;
		return true;
	}
	frames = free_block(page, run->pfn, &run->order);
	if (frames) {
		run->state = ZS_FREE;
		run->frames = frames;
		run->type = zs_home_type(run->pfn, run->order);
	} else {
		run->state = looks_movable(page) ? ZS_MOVABLE : ZS_FIXED;
		run->type = zs_home_type(run->pfn, 0);
	}
	return true;
}

/*
 * A page does not tell which list it is on, and a walk to the list's end has no time limit. So the
 * block goes to the list of its home type, where freeing it would have put it. Since Linux 6.10 it
 * is always there already. In older kernels a fallback could leave the rest of a split block on the
 * list of the type that asked for it; the kernel itself moves such blocks back when it claims a
 * page block. zs_home_type() excludes types whose free pages the kernel counts.
 */
static bool is_free_block_of(struct zone *zone, unsigned int order, int type, unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);

	return page_zone(page) == zone && PageBuddy(page) && page_private(page) == order &&
	       zs_home_type(pfn, order) == type;
}

void zs_to_head(struct zone *zone, unsigned int order, int type, const u64 *blocks, size_t n,
		unsigned int hold_blocks, struct zs_holds *holds)
{
	struct list_head *list = &zone->free_area[order].free_list[type];

	while (n > 0) {
		size_t first = n - min_t(size_t, n, hold_blocks), i;
		unsigned long flags;
		u64 start, moved = 0;

		spin_lock_irqsave(&zone->lock, flags);
		start = ktime_get_ns();
		for (i = n; i-- > first;) { /* the last one moved becomes the first */
			if (!is_free_block_of(zone, order, type, blocks[i]))
				continue;
			list_move(&pfn_to_page(blocks[i])->buddy_list, list);
			moved++;
		}
		start = ktime_get_ns() - start;
		spin_unlock_irqrestore(&zone->lock, flags);

		holds->count++;
		holds->longest_ns = max(holds->longest_ns, start);
		holds->longest_blocks = max_t(u64, holds->longest_blocks, n - first);
		holds->moved += moved;
		holds->skipped += n - first - moved;
		n = first;
		cond_resched();
	}
}
