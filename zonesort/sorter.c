// SPDX-License-Identifier: GPL-2.0
#include <linux/bitmap.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "geometry.h"
#include "lists.h"
#include "order.h"
#include "sorter.h"

DEFINE_MUTEX(zs_sort_lock);

static struct zs_sums sums; /* guarded by zs_sort_lock */

static bool evacuate = true;
module_param(evacuate, bool, 0644);
MODULE_PARM_DESC(evacuate, "Move scattered pages together first, so that more blocks are whole");

#define MAX_HOLD_BLOCKS 4096

static unsigned int hold_blocks = 64;

static int set_hold_blocks(const char *text, const struct kernel_param *parameter)
{
	return param_set_uint_minmax(text, parameter, 1, MAX_HOLD_BLOCKS);
}

static const struct kernel_param_ops hold_blocks_ops = { .set = set_hold_blocks,
							 .get = param_get_uint };
module_param_cb(hold_blocks, &hold_blocks_ops, &hold_blocks, 0644);
MODULE_PARM_DESC(hold_blocks, "Most free blocks moved in one hold of zone->lock, 1 to 4096");

unsigned int zs_hold_blocks(void)
{
	return READ_ONCE(hold_blocks);
}

static int open_cache(struct zs_cache *cache, int nid)
{
	cache->slots = zs_cache_bytes(nid) >> PAGE_SHIFT;
	cache->granule = zs_granule();
	cache->allocated = kvcalloc(BITS_TO_LONGS(cache->slots), sizeof(long), GFP_KERNEL);
	cache->own = kvcalloc(BITS_TO_LONGS(cache->slots), sizeof(long), GFP_KERNEL);
	return cache->allocated && cache->own ? 0 : -ENOMEM;
}

static void close_cache(struct zs_cache *cache)
{
	kvfree(cache->allocated);
	kvfree(cache->own);
}

static void mark_allocated(struct zone *zone, struct zs_cache *cache)
{
	struct zs_run run = zs_walk_zone(zone);

	while (zs_next_run(&run))
		if (run.state == ZS_MOVABLE || run.state == ZS_FIXED)
			zs_mark(cache, cache->allocated, run.pfn, run.frames);
}

static void sort_list(struct zone *zone, unsigned int order, int type, struct zs_lists *lists,
		      struct zs_cache *cache, struct zs_holds *holds)
{
	struct zs_list *list = &lists->list[order][type];

	zs_order(cache, order, list->blocks, lists->spare, list->count);
	zs_to_head(zone, order, type, list->blocks, list->count, zs_hold_blocks(), holds);
}

/*
 * Sorts the lists in the order in which a job's pages use them up: first the lists of their own
 * type, from the smallest blocks on, then those of other types, from the largest blocks on.
 */
static int sort_zone(struct zone *zone, struct zs_cache *cache, const bool *stop,
		     struct zs_holds *holds)
{
	static const int fallbacks[] = { MIGRATE_RECLAIMABLE, MIGRATE_UNMOVABLE };
	struct zs_lists lists;
	int order, i, error = zs_gather(zone, &lists);

	if (error)
		return error;
	for (order = 0; order <= ZS_MAX_ORDER && !READ_ONCE(*stop); order++)
		sort_list(zone, order, MIGRATE_MOVABLE, &lists, cache, holds);
	for (i = 0; i < ARRAY_SIZE(fallbacks); i++)
		for (order = ZS_MAX_ORDER; order >= 0 && !READ_ONCE(*stop); order--)
			sort_list(zone, order, fallbacks[i], &lists, cache, holds);
	zs_release(&lists);
	return 0;
}

static int sort_zones(int nid, struct zs_cache *cache, const bool *stop)
{
	struct zone *zone;
	int i, error = 0;

	for (i = MAX_NR_ZONES; i-- > 0 && !error;) {
		zone = zs_zone(nid, i);
		if (!zone || !READ_ONCE(evacuate))
			continue;
		zs_drain(zone, &sums.evacuation);
		error = zs_evacuate(zone, zs_hold_blocks(), stop, &sums.evacuation, &sums.holds);
	}
	for (i = MAX_NR_ZONES; i-- > 0 && !error;) {
		zone = zs_zone(nid, i);
		if (!zone)
			continue;
		zs_drain(zone, &sums.evacuation);
		mark_allocated(zone, cache);
	}
	for (i = MAX_NR_ZONES; i-- > 0 && !error;) {
		zone = zs_zone(nid, i);
		if (zone)
			error = sort_zone(zone, cache, stop, &sums.holds);
	}
	return error;
}

int zs_sort_node(int nid, const bool *stop)
{
	u64 start = ktime_get_ns();
	struct zs_cache cache;
	int error = open_cache(&cache, nid);

	if (!error)
		error = sort_zones(nid, &cache, stop);
	if (!error) {
		sums.last_slots = cache.slots;
		sums.last_allocated_slots = bitmap_weight(cache.allocated, cache.slots);
	}
	close_cache(&cache);
	sums.last_nid = nid;
	sums.last_ns = ktime_get_ns() - start;
	sums.longest_ns = max(sums.longest_ns, sums.last_ns);
	sums.sorts += !error;
	sums.failed += !!error;
	return error;
}

void zs_read_sums(struct zs_sums *copy)
{
	mutex_lock(&zs_sort_lock);
	*copy = sums;
	mutex_unlock(&zs_sort_lock);
}
