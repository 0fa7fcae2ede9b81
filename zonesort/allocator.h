/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module relies on inside the page allocator, and where Linux 6.1 and 6.12 differ.
 *
 * Everything that must be checked again for another kernel is in this file and in blocks.c:
 *  - zone->free_area[order].free_list[type] holds free blocks linked by page->buddy_list; the
 *    allocator takes the head; nr_free counts a whole order, not a type;
 *  - the head page of a free block is PageBuddy(), its order is page_private(), and both, like
 *    the lists and the page block types, change only under zone->lock;
 *  - page block types lie in the section's usage map (get_pfnblock_flags_mask() reads the same
 *    bits, but is not exported);
 *  - alloc_contig_range() drains the per-cpu lists of the zone before it takes a range.
 */
#ifndef ZONESORT_ALLOCATOR_H
#define ZONESORT_ALLOCATOR_H

#include <linux/gfp.h>
#include <linux/kconfig.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/version.h>

#define ZS_SERIES (LINUX_VERSION_CODE & ~0xff) /* 6.1.x is 6.1.0 */

#if ZS_SERIES != KERNEL_VERSION(6, 1, 0) && ZS_SERIES != KERNEL_VERSION(6, 12, 0)
#error "zonesort knows the page allocators of Linux 6.1 and 6.12; for another see allocator.h"
#endif
#if !defined(CONFIG_X86_64) || !defined(CONFIG_SPARSEMEM_VMEMMAP) || !defined(CONFIG_CONTIG_ALLOC)
#error "zonesort needs CONFIG_X86_64, CONFIG_SPARSEMEM_VMEMMAP and CONFIG_CONTIG_ALLOC"
#endif

#if ZS_SERIES == KERNEL_VERSION(6, 1, 0)
#define ZS_MAX_ORDER (MAX_ORDER - 1) /* of the largest free block: MAX_ORDER is exclusive */
#define ZS_CONTIG_GFP (GFP_KERNEL | __GFP_NOWARN)
#define ZS_CONTIG_COMPOUND 0 /* alloc_contig_range() gives single frames */
#else
#define ZS_MAX_ORDER MAX_PAGE_ORDER
#define ZS_CONTIG_GFP (GFP_KERNEL | __GFP_NOWARN | __GFP_COMP)
#define ZS_CONTIG_COMPOUND 1 /* __GFP_COMP: one compound page */
#endif

#define ZS_ORDERS (ZS_MAX_ORDER + 1)
#define ZS_TYPES MIGRATE_PCPTYPES /* the types with fallbacks: UNMOVABLE, MOVABLE, RECLAIMABLE */
#define ZS_MAX_BLOCK (1UL << ZS_MAX_ORDER) /* frames: 1024, 4 MiB */

/*
 * Zone `i` of a node, i < MAX_NR_ZONES, or NULL if it has no free lists. A job takes memory from
 * the highest zone first and from the lowest last: Movable, Normal, DMA32, DMA.
 */
static inline struct zone *zs_zone(int nid, int i)
{
	struct zone *zone = &NODE_DATA(nid)->node_zones[i];

	return !zone_is_zone_device(zone) && managed_zone(zone) ? zone : NULL;
}

#endif
