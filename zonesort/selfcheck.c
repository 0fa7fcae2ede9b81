// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <generated/utsrelease.h>
#include <linux/list.h>
#include <linux/nodemask.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/utsname.h>

#include "blocks.h"
#include "selfcheck.h"

#define LOOKED_AT 16 /* blocks of each list that are checked while zone->lock is held */

/* The length up to the second dot: that of 6.1 in 6.1.0-56-amd64. */
static size_t series_length(const char *release)
{
	const char *dot = strchr(release, '.');

	return dot ? dot + 1 + strcspn(dot + 1, ".-+") - release : strlen(release);
}

struct looked {
	unsigned int blocks;
	unsigned int away; /* blocks whose home type is not that of their list */
};

/* What is wrong with the first blocks of a list, or NULL. */
static const char *check_list(struct zone *zone, unsigned int order, int type,
			      struct looked *looked)
{
	struct page *page;
	const char *wrong = NULL;
	unsigned long flags;
	int seen = 0;

	spin_lock_irqsave(&zone->lock, flags);
	list_for_each_entry(page, &zone->free_area[order].free_list[type], buddy_list) {
		if (seen++ == LOOKED_AT)
			break;
		if (!PageBuddy(page) || page_zone(page) != zone)
			wrong = "holds a page that is not free";
		else if (page_private(page) != order)
			wrong = "holds a block of another order";
		if (wrong)
			break;
		looked->blocks++;
		looked->away += zs_home_type(page_to_pfn(page), order) != type;
	}
	spin_unlock_irqrestore(&zone->lock, flags);
	return wrong;
}

static const char *check_zone(struct zone *zone, struct looked *large)
{
	struct looked small = {};
	const char *wrong = NULL;
	int order, type;

	for (order = 0; order < ZS_ORDERS && !wrong; order++)
		for (type = 0; type < ZS_TYPES && !wrong; type++)
			wrong = check_list(zone, order, type,
					   order < pageblock_order ? &small : large);
	return wrong;
}

int zs_selfcheck(void)
{
	const char *running = init_utsname()->release, *wrong = NULL;
	size_t length = series_length(UTS_RELEASE);
	struct looked large = {};
	int nid, i;

	if (strncmp(running, UTS_RELEASE, length) || series_length(running) != length) {
		pr_err("built for Linux %.*s, this is %s: rebuild the module for it\n", (int)length,
		       UTS_RELEASE, running);
		return -EOPNOTSUPP;
	}
	for_each_online_node(nid) {
		for (i = 0; i < MAX_NR_ZONES && !wrong; i++)
			if (zs_zone(nid, i))
				wrong = check_zone(zs_zone(nid, i), &large);
	}
	/* Whole page blocks are on the list of their type, except for a few before Linux 6.10. */
	if (!wrong && large.away > large.blocks / 2)
		wrong = "holds page blocks of other types";
	if (!wrong)
		return 0;
	pr_err("unsupported kernel %s: a free list %s\n", running, wrong);
	return -EOPNOTSUPP;
}
