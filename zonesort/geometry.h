/* SPDX-License-Identifier: GPL-2.0 */
/* The memory-side cache of each node, from the module's parameters or else from the firmware. */
#ifndef ZONESORT_GEOMETRY_H
#define ZONESORT_GEOMETRY_H

#include <linux/types.h>

/*
 * Reads what the firmware says in memory_side_cache of each online node. It is called once, when
 * the module is loaded, because reading sysfs while a store to sysfs runs would take the same lock
 * twice.
 */
int zs_geometry_init(void);
void zs_geometry_exit(void);

/* Bytes of cache in front of a node's memory: a multiple of 4 MiB. */
u64 zs_cache_bytes(int nid);
/* How many slots of 4096 bytes count as one. */
u64 zs_granule(void);
/* Where zs_cache_bytes() has its value from: "parameter", "firmware" or "default". */
const char *zs_cache_source(int nid);

#endif
