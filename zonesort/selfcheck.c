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

#define LOOKED_AT 16 /* blocks of each list; zone->lock is held for that long */

/* Up to the second dot: 6.1 of 6.1.0-56-amd64. */
static size_t series_length(const char *release)
{
	const char *dot = strchr(release, '.');

	return dot ? dot + 1 + strcspn(dot + 1, ".-+") - release : strlen(release);
}

/* What is wrong with the first blocks of a list, or NULL. */
static const char *check_list(struct zone *zone, unsigned int order, int type)
{
	struct page *page;
	const char *wrong = NULL;
	unsigned long flags;
	int looked = 0;

	spin_lock_irqsave(&zone->lock, flags);
	list_for_each_entry(page, &zone->free_area[order].free_list[type], buddy_list)
	{
		if (looked++ == LOOKED_AT)
			break;
		if (!PageBuddy(page) || page_zone(page) != zone)
			wrong = "holds a page that is not free";
		else if (page_private(page) != order)
			wrong = "holds a block of another order";
		else if (zs_home_type(page_to_pfn(page), 0) < 0)
			wrong = "holds a block of a type without fallbacks";
		if (wrong)
			break;
	}
	spin_unlock_irqrestore(&zone->lock, flags);
	return wrong;
}

int zs_selfcheck(void)
{
	const char *running = init_utsname()->release, *wrong;
	size_t length = series_length(UTS_RELEASE);
	struct zone *zone;
	int nid, i, order, type;

	if (strncmp(running, UTS_RELEASE, length) || series_length(running) != length) {
		pr_err("built for Linux %.*s, this is %s: rebuild the module for it\n", (int)length,
		       UTS_RELEASE, running);
		return -EOPNOTSUPP;
	}
	for_each_online_node (nid) {
		for (i = 0; i < MAX_NR_ZONES; i++) {
			zone = zs_zone(nid, i);
			if (!zone)
				continue;
			for (order = 0; order < ZS_ORDERS; order++) {
				for (type = 0; type < ZS_TYPES; type++) {
					wrong = check_list(zone, order, type);
					if (!wrong)
						continue;
					pr_err("unsupported kernel %s: the free list of order %d, "
					       "type %d in zone %s of node %d %s\n",
					       running, order, type, zone->name, nid, wrong);
					return -EOPNOTSUPP;
				}
			}
		}
	}
	return 0;
}
