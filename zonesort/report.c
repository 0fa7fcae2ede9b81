// SPDX-License-Identifier: GPL-2.0
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "geometry.h"
#include "report.h"
#include "sorter.h"

static struct dentry *directory;

static int stats_show(struct seq_file *file, void *unused)
{
	struct zs_sums sums;

	zs_read_sums(&sums);
#define LINE(name, value) seq_printf(file, name " %llu\n", (unsigned long long)(value))
	LINE("sorts", sums.sorts);
	LINE("sorts_failed", sums.failed);
	LINE("last_node", sums.last_nid);
	LINE("last_ns", sums.last_ns);
	LINE("longest_ns", sums.longest_ns);
	LINE("last_slots", sums.last_slots);
	LINE("last_slots_allocated", sums.last_allocated_slots);
	LINE("lock_holds", sums.holds.count);
	LINE("lock_longest_ns", sums.holds.longest_ns);
	LINE("lock_longest_blocks", sums.holds.longest_blocks);
	LINE("lock_blocks_allowed", zs_hold_blocks());
	LINE("blocks_moved", sums.holds.moved);
	LINE("blocks_skipped", sums.holds.skipped);
	LINE("drains", sums.evacuation.drained);
	LINE("blocks_evacuated", sums.evacuation.blocks);
	LINE("frames_evacuated", sums.evacuation.frames);
	LINE("blocks_stuck", sums.evacuation.blocks_stuck);
#undef LINE
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/* The histogram's column i is how many slots have i frames; the last one has all above, too. */
#define COLUMNS 17

static void count_frames(int nid, u8 *allocated, u8 *free, u64 slots)
{
	int i;

	mutex_lock(&zs_sort_lock);
	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = zs_zone(nid, i);
		struct zs_run run;

		if (!zone)
			continue;
		run = zs_walk_zone(zone);
		while (zs_next_run(&run)) {
			u8 *count = run.state == ZS_FREE ? free : allocated;
			unsigned long pfn;

			if (run.state == ZS_HOLE)
				continue;
			for (pfn = run.pfn; pfn < run.pfn + run.frames; pfn++)
				if (count[pfn % slots] < COLUMNS - 1)
					count[pfn % slots]++;
		}
	}
	mutex_unlock(&zs_sort_lock);
}

static void show_histogram(struct seq_file *file, const char *name, const u8 *count, u64 slots)
{
	u64 of[COLUMNS] = {}, i;

	for (i = 0; i < slots; i++)
		of[count[i]]++;
	seq_printf(file, "%s", name);
	for (i = 0; i < COLUMNS; i++)
		seq_printf(file, " %llu", of[i]);
	seq_putc(file, '\n');
}

static int slots_show(struct seq_file *file, void *unused)
{
	int nid;

	for_each_online_node(nid) {
		u64 bytes = zs_cache_bytes(nid), slots = bytes >> PAGE_SHIFT;
		u8 *count = kvzalloc(2 * slots, GFP_KERNEL);

		if (!count)
			return -ENOMEM;
		count_frames(nid, count, count + slots, slots);
		seq_printf(file, "node %d cache_bytes %llu source %s slots %llu\n", nid, bytes,
			   zs_cache_source(nid), slots);
		show_histogram(file, "allocated", count, slots);
		show_histogram(file, "free", count + slots, slots);
		kvfree(count);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(slots);

/* Without debugfs everything else works. */
void zs_report_init(void)
{
	directory = debugfs_create_dir("zonesort", NULL);
	debugfs_create_file("stats", 0444, directory, NULL, &stats_fops);
	debugfs_create_file("slots", 0444, directory, NULL, &slots_fops);
}

void zs_report_exit(void)
{
	debugfs_remove_recursive(directory);
}
