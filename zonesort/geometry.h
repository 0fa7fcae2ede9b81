/* SPDX-License-Identifier: GPL-2.0 */
/* The cache of each node: from the module's parameters, else from the firmware. */
#ifndef ZONESORT_GEOMETRY_H
#define ZONESORT_GEOMETRY_H

#include <linux/types.h>

/*
 * Reads what the firmware describes in memory_side_cache of each online node. Called once, at load:
 * reading sysfs from within a store to sysfs would nest the same lock.
 */
int zs_geometry_init(void);
void zs_geometry_exit(void);

/* Bytes of cache in front of a node's memory: a multiple of 4 MiB. */
u64 zs_cache_bytes(int nid);
/* Slots of 4096 bytes that count as one. */
u64 zs_granule(void);
/* Where zs_cache_bytes() comes from: "parameter", "firmware" or "default". */
const char *zs_cache_source(int nid);

#endif
