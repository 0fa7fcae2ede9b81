// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nodemask.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "allocator.h"
#include "geometry.h"

/* Knights Landing's MCDRAM, the only cache that the first zonesort knew. */
#define DEFAULT_CACHE_BYTES (16ULL << 30)
#define UNIT ((u64)ZS_MAX_BLOCK << PAGE_SHIFT) /* the rule needs whole blocks: 4 MiB */
#define MAX_CACHE_BYTES (1ULL << 44)

static u64 *firmware_bytes; /* by node; 0 if the firmware says nothing */

static unsigned long long cache_bytes;
static unsigned int slices = 1;
static unsigned int slot_bytes = PAGE_SIZE;

static bool cache_fits(u64 bytes, u64 parts)
{
	return bytes <= MAX_CACHE_BYTES && parts && bytes % (parts * UNIT) == 0;
}

static int set_cache_bytes(const char *text, const struct kernel_param *parameter)
{
	unsigned long long bytes;
	int error = kstrtoull(text, 0, &bytes);

	if (error)
		return error;
	if (!cache_fits(bytes, slices)) {
		pr_err("cache_bytes=%llu: 0 (as the firmware says), or a multiple of slices x 4 MiB = %llu up to 16 TiB\n",
		       bytes, slices * UNIT);
		return -EINVAL;
	}
	*(unsigned long long *)parameter->arg = bytes;
	return 0;
}

static int set_slices(const char *text, const struct kernel_param *parameter)
{
	unsigned int parts;
	int error = kstrtouint(text, 0, &parts);

	if (error)
		return error;
	if (!cache_fits(cache_bytes, parts)) {
		pr_err("slices=%u: at least 1, and cache_bytes a multiple of slices x 4 MiB\n",
		       parts);
		return -EINVAL;
	}
	*(unsigned int *)parameter->arg = parts;
	return 0;
}

static int set_slot_bytes(const char *text, const struct kernel_param *parameter)
{
	unsigned int bytes;
	int error = kstrtouint(text, 0, &bytes);

	if (error)
		return error;
	if (!is_power_of_2(bytes) || bytes < PAGE_SIZE || bytes > UNIT) {
		pr_err("slot_bytes=%u: a power of two from 4096 to 4194304\n", bytes);
		return -EINVAL;
	}
	WRITE_ONCE(*(unsigned int *)parameter->arg, bytes);
	return 0;
}

static const struct kernel_param_ops cache_bytes_ops = { .set = set_cache_bytes,
							 .get = param_get_ullong };
static const struct kernel_param_ops slices_ops = { .set = set_slices, .get = param_get_uint };
static const struct kernel_param_ops slot_bytes_ops = { .set = set_slot_bytes,
							.get = param_get_uint };

module_param_cb(cache_bytes, &cache_bytes_ops, &cache_bytes, 0644);
MODULE_PARM_DESC(cache_bytes, "Bytes of direct-mapped memory-side cache; 0: as the firmware says");
module_param_cb(slices, &slices_ops, &slices, 0644);
MODULE_PARM_DESC(slices, "Equal parts of cache_bytes, each in front of one NUMA node's memory");
module_param_cb(slot_bytes, &slot_bytes_ops, &slot_bytes, 0644);
MODULE_PARM_DESC(slot_bytes, "Bytes of cache that count as one slot, 4096 to 4194304");

/* The number in a file of sysfs, or 0. */
static u64 read_number(const char *path)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	char text[32];
	loff_t position = 0;
	ssize_t length;
	u64 number;

	if (IS_ERR(file))
		return 0;
	length = kernel_read(file, text, sizeof(text) - 1, &position);
	filp_close(file, NULL);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	return kstrtou64(strim(text), 0, &number) ? 0 : number;
}

/* index1 is the cache nearest to the processors; the file gives bytes. */
static u64 described_bytes(int nid)
{
	char path[80];
	u64 bytes;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%d/memory_side_cache/index1/size", nid);
	bytes = round_down(read_number(path), UNIT);
	return min(bytes, MAX_CACHE_BYTES);
}

int zs_geometry_init(void)
{
	int nid;

	firmware_bytes = kvcalloc(MAX_NUMNODES, sizeof(*firmware_bytes), GFP_KERNEL);
	if (!firmware_bytes)
		return -ENOMEM;
	for_each_online_node(nid)
		firmware_bytes[nid] = described_bytes(nid);
	return 0;
}

void zs_geometry_exit(void)
{
	kvfree(firmware_bytes);
}

u64 zs_cache_bytes(int nid)
{
	u64 bytes;

	kernel_param_lock(THIS_MODULE); /* both must be of the same moment */
	bytes = cache_bytes / slices;
	kernel_param_unlock(THIS_MODULE);
	return bytes ?: firmware_bytes[nid] ?: DEFAULT_CACHE_BYTES;
}

u64 zs_granule(void)
{
	return READ_ONCE(slot_bytes) >> PAGE_SHIFT;
}

const char *zs_cache_source(int nid)
{
	if (READ_ONCE(cache_bytes))
		return "parameter";
	return firmware_bytes[nid] ? "firmware" : "default";
}
