// SPDX-License-Identifier: GPL-2.0
/*
 * What the page allocator holds, at one instant: /proc/pagelens_state, an array of 64-bit words in
 * the order of memory. words.h says what a word is.
 *
 * Blocks of one list come head first; a list's blocks follow each other. Writing n takes the
 * picture n milliseconds later, when the writer is gone with all its pages; 0 at once. Reading
 * shows it, when it is taken: after that the reader may allocate as it likes. The room for it is
 * had before, so taking it changes nothing.
 *
 * Per-cpu lists are read without their lock, which is theirs alone: the lab asks for a picture when
 * nothing else runs.
 */
#include <linux/kconfig.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/page-flags.h>
#include <linux/proc_fs.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "words.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define ORDERS NR_PAGE_ORDERS
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#error "from 6.4 to 6.7 MAX_ORDER is the last order, not their number: build for 6.1 or 6.8 and later"
#else
#define ORDERS MAX_ORDER
#endif
#define MOST_RUN ((1UL << (WORD_TYPE_BIT - WORD_MIDDLE_BIT)) - 1)

static DEFINE_MUTEX(lock);
static u64 *words;
static unsigned long words_room, count;

static void put(u64 what, u64 order, u64 type, u64 middle, u64 pfn)
{
	if (WARN_ON_ONCE(count == words_room))
		return;
	words[count++] = what << WORD_KIND_BIT | order << WORD_ORDER_BIT | type << WORD_TYPE_BIT |
			 middle << WORD_MIDDLE_BIT | pfn;
}

static void put_run(u64 what, unsigned long begin, unsigned long end)
{
	for (; begin < end; begin += MOST_RUN)
		put(what, 0, 0, min_t(u64, end - begin, MOST_RUN), begin);
}

static void picture_lists(struct zone *zone)
{
	struct page *page;
	int order, type;

	for (order = 0; order < ORDERS; order++)
		for (type = 0; type < MIGRATE_TYPES; type++)
			list_for_each_entry(page, &zone->free_area[order].free_list[type],
					    buddy_list)
				put(WORD_FREE, order, type, 0, page_to_pfn(page));
}

static void picture_per_cpu(struct zone *zone)
{
	struct page *page;
	int cpu, i;

	for_each_possible_cpu(cpu)
	{
		struct per_cpu_pages *pcp = per_cpu_ptr(zone->per_cpu_pageset, cpu);

		for (i = 0; i < NR_PCP_LISTS; i++) {
			/* As order_to_pindex() of mm/page_alloc.c has it: of huge pages two kinds.
			 */
			bool huge = i >= NR_LOWORDER_PCP_LISTS;
			int order = huge ? pageblock_order : i / MIGRATE_PCPTYPES;
			int type =
				huge ? (i == NR_PCP_LISTS - 1 ? MIGRATE_MOVABLE : MIGRATE_UNMOVABLE)
				     : i % MIGRATE_PCPTYPES;

			list_for_each_entry(page, &pcp->lists[i], pcp_list)
				put(WORD_CACHED, order, type, cpu, page_to_pfn(page));
		}
	}
}

static int pageblock_type(struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	unsigned long *bits = __pfn_to_section(pfn)->usage->pageblock_flags;
	unsigned long bit =
		((pfn & (PAGES_PER_SECTION - 1)) >> pageblock_order) * NR_PAGEBLOCK_BITS;

	return bits[bit / BITS_PER_LONG] >> (bit & (BITS_PER_LONG - 1)) & MIGRATETYPE_MASK;
}

/* Compaction takes what lies on an LRU list, or is on its way there (lru_add_drain_all()), and of
 * that single pages only. It leaves anonymous pages that more than page tables refer to: they are
 * pinned (isolate_migratepages_block()). The page tables that map a single page are counted in its
 * _mapcount; the functions that read it are others in 6.1 than in 6.12, and not all are exported.
 */
static bool may_migrate(struct page *page)
{
	struct folio *folio = page_folio(page);

	if (PageCompound(page) || PageReserved(page) || PageSlab(page))
		return false;
	if (PageLRU(page) && folio_test_anon(folio) && !folio_test_swapcache(folio) &&
	    folio_ref_count(folio) > atomic_read(&page->_mapcount) + 1)
		return false;
	return PageLRU(page) || page_mapped(page);
}

static void picture_frames(struct zone *zone)
{
	unsigned long end = zone_end_pfn(zone), pfn, begin = 0;
	u64 run = 0;

	for (pfn = zone->zone_start_pfn; pfn < end; pfn++) {
		struct page *page = pfn_to_online_page(pfn);
		u64 what = 0;

		if (!page || page_zone(page) != zone)
			what = WORD_HOLE;
		else if (may_migrate(page))
			what = WORD_MOVABLE;
		if (what != run) {
			if (run)
				put_run(run, begin, pfn);
			begin = pfn;
			run = what;
		}
		if (page && IS_ALIGNED(pfn, pageblock_nr_pages))
			put(WORD_PAGEBLOCK, 0, pageblock_type(page), 0, pfn);
	}
	if (run)
		put_run(run, begin, end);
}

static void take(struct work_struct *unused)
{
	int nid, i;

	mutex_lock(&lock);
	count = 0;
	for_each_online_node(nid) {
		for (i = 0; i < MAX_NR_ZONES; i++) {
			struct zone *zone = &NODE_DATA(nid)->node_zones[i];
			unsigned long flags;

			if (!populated_zone(zone))
				continue;
			spin_lock_irqsave(&zone->lock, flags);
			picture_per_cpu(zone);
			picture_lists(zone);
			picture_frames(zone);
			spin_unlock_irqrestore(&zone->lock, flags);
		}
	}
	mutex_unlock(&lock);
}

static DECLARE_DELAYED_WORK(taking, take);

static ssize_t ask(struct file *file, const char __user *buffer, size_t size, loff_t *at)
{
	unsigned int ms;
	int error = kstrtouint_from_user(buffer, size, 0, &ms);

	if (error)
		return error;
	if (ms == 0)
		take(NULL);
	else
		mod_delayed_work(system_wq, &taking, msecs_to_jiffies(ms));
	return size;
}

static ssize_t show(struct file *file, char __user *buffer, size_t size, loff_t *at)
{
	ssize_t got;

	flush_delayed_work(&taking);
	mutex_lock(&lock);
	got = simple_read_from_buffer(buffer, size, at, words, count * sizeof(*words));
	mutex_unlock(&lock);
	return got;
}

static const struct proc_ops operations = {
	.proc_read = show,
	.proc_write = ask,
	.proc_lseek = default_llseek,
};

static int __init state_init(void)
{
	/* Each frame is in one word at most; then each page block, and runs of holes. */
	words_room = totalram_pages() + totalram_pages() / 64 + 4096;
	words = vmalloc_array(words_room, sizeof(*words));
	if (!words)
		return -ENOMEM;
	if (!proc_create("pagelens_state", 0600, NULL, &operations)) {
		vfree(words);
		return -ENOMEM;
	}
	return 0;
}

static void __exit state_exit(void)
{
	remove_proc_entry("pagelens_state", NULL);
	cancel_delayed_work_sync(&taking);
	vfree(words);
}

module_init(state_init);
module_exit(state_exit);
MODULE_DESCRIPTION("A picture of the page allocator's lists, for pagelens' lab");
MODULE_LICENSE("GPL");
