// SPDX-License-Identifier: GPL-2.0
/*
 * The free lists in the order that Intel's zonesort module of 2017 gives them, to compare with:
 * writing the number of the cache's slots to /proc/pagelens_buckets sorts the lists of all nodes.
 * The rule is that of core/frames/sorts.hpp: every list by address, but movable blocks of the
 * largest order into four buckets, by how many of the free frames that come before them lie in the
 * 2 MiB slots that they begin in. Allocated frames and per-cpu lists are not looked at.
 *
 * For guests that are thrown away: a zone is locked, with interrupts off, until it is sorted, as
 * the original had it. That is bounded by the zone's free blocks alone.
 */
#include <linux/kconfig.h>
#include <linux/list_sort.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define ORDERS NR_PAGE_ORDERS
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#error "from 6.4 to 6.7 MAX_ORDER is the last order, not their number: build for 6.1 or 6.8 and later"
#else
#define ORDERS MAX_ORDER
#endif
#define TYPES 3 /* unmovable, movable, reclaimable; others are reserves */
#define BUCKETS 4
#define BUCKET_FRAMES 512 /* 2 MiB of the cache: one counter */
#define LARGEST_FRAMES (1UL << (ORDERS - 1))

/* Frames that come before, by the 2 MiB of the cache that they lie in. One table a node. */
struct table {
	unsigned long slots;
	unsigned int *before;
};

static unsigned int *counter_of(const struct table *table, struct page *page)
{
	return &table->before[page_to_pfn(page) % table->slots / BUCKET_FRAMES];
}

static int by_address(void *unused, const struct list_head *a, const struct list_head *b)
{
	unsigned long first = page_to_pfn(list_entry(a, struct page, buddy_list));
	unsigned long second = page_to_pfn(list_entry(b, struct page, buddy_list));

	return first > second;
}

static void count_blocks(const struct table *table, struct list_head *list, int order)
{
	struct page *page;

	list_for_each_entry(page, list, buddy_list)
		*counter_of(table, page) += 1 << order;
}

static int bucket_of(unsigned int frames_before)
{
	return frames_before ? min(frames_before / BUCKET_FRAMES + 1, BUCKETS - 1U) : 0;
}

/* Within a bucket, the block met last comes first. */
static void fill_buckets(const struct table *table, struct list_head *list)
{
	struct list_head buckets[BUCKETS];
	struct page *page, *next;
	int i;

	for (i = 0; i < BUCKETS; i++)
		INIT_LIST_HEAD(&buckets[i]);
	list_for_each_entry_safe(page, next, list, buddy_list)
	{
		unsigned int *before = counter_of(table, page);

		list_move(&page->buddy_list, &buckets[bucket_of(*before)]);
		/* The cache is of whole blocks, so the second half's counter is the next one. */
		before[0] += BUCKET_FRAMES;
		before[1] += BUCKET_FRAMES;
	}
	for (i = 0; i < BUCKETS; i++)
		list_splice_tail(&buckets[i], list);
}

static void sort_zone(struct zone *zone, const struct table *table)
{
	unsigned long flags;
	int order, type;

	spin_lock_irqsave(&zone->lock, flags);
	for (order = 0; order < ORDERS; order++) {
		for (type = 0; type < TYPES; type++) {
			struct list_head *list = &zone->free_area[order].free_list[type];
			bool movable = type == MIGRATE_MOVABLE;

			if (movable && order == ORDERS - 1) {
				fill_buckets(table, list);
				continue;
			}
			list_sort(NULL, list, by_address);
			if (movable)
				count_blocks(table, list, order);
		}
	}
	spin_unlock_irqrestore(&zone->lock, flags);
}

static ssize_t sort(struct file *file, const char __user *text, size_t size, loff_t *at)
{
	struct table table;
	int nid, i, error = kstrtoul_from_user(text, size, 0, &table.slots);

	if (error)
		return error;
	if (!table.slots || table.slots % LARGEST_FRAMES)
		return -EINVAL;
	for_each_online_node(nid) {
		table.before =
			kvcalloc(table.slots / BUCKET_FRAMES, sizeof(*table.before), GFP_KERNEL);
		if (!table.before)
			return -ENOMEM;
		for (i = 0; i < MAX_NR_ZONES; i++) {
			struct zone *zone = &NODE_DATA(nid)->node_zones[i];

			if (populated_zone(zone))
				sort_zone(zone, &table);
		}
		kvfree(table.before);
	}
	return size;
}

static const struct proc_ops operations = { .proc_write = sort };

static int __init buckets_init(void)
{
	return proc_create("pagelens_buckets", 0200, NULL, &operations) ? 0 : -ENOMEM;
}

static void __exit buckets_exit(void)
{
	remove_proc_entry("pagelens_buckets", NULL);
}

module_init(buckets_init);
module_exit(buckets_exit);
MODULE_DESCRIPTION("Free lists in the order of Intel's zonesort of 2017, for pagelens' lab");
MODULE_LICENSE("GPL");
