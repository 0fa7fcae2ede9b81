// SPDX-License-Identifier: GPL-2.0
#include <linux/slab.h>

#include "blocks.h"
#include "lists.h"

static struct zs_list *list_of(struct zs_lists *lists, const struct zs_run *run)
{
	if (run->state != ZS_FREE || run->type < 0)
		return NULL;
	return &lists->list[run->order][run->type];
}

int zs_gather(struct zone *zone, struct zs_lists *lists)
{
	struct zs_list *list, *end = &lists->list[0][0] + ZS_ORDERS * ZS_TYPES;
	struct zs_run run = zs_walk_zone(zone);
	size_t all = 0, longest = 0;

	memset(lists, 0, sizeof(*lists));
	while (zs_next_run(&run)) {
		list = list_of(lists, &run);
		if (list)
			list->room++;
	}
	for (list = &lists->list[0][0]; list < end; list++) {
		all += list->room;
		longest = max(longest, list->room);
	}
	lists->blocks = kvmalloc_array(all + 1, sizeof(u64), GFP_KERNEL);
	lists->spare = kvmalloc_array(longest + 1, sizeof(u64), GFP_KERNEL);
	if (!lists->blocks || !lists->spare) {
		zs_release(lists);
		return -ENOMEM;
	}
	for (list = &lists->list[0][0], all = 0; list < end; list++) {
		list->blocks = lists->blocks + all;
		all += list->room;
	}
	run = zs_walk_zone(zone);
	while (zs_next_run(&run)) {
		list = list_of(lists, &run);
		if (list && list->count < list->room)
			list->blocks[list->count++] = run.pfn;
	}
	return 0;
}

void zs_release(struct zs_lists *lists)
{
	kvfree(lists->blocks);
	kvfree(lists->spare);
}
