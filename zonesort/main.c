// SPDX-License-Identifier: GPL-2.0
/*
 * zonesort_module reorders the kernel's lists of free pages so that the next job's pages spread
 * over the slots of a direct-mapped memory-side cache. zonesort.8 says how to use it.
 *
 * This file is the interface, /sys/kernel/zone_sort_free_pages. It is the same as that of Intel's
 * module of 2017, so that scripts for that one work with this one. The module does not move memory
 * that is in use to sort it, and it does not keep lists sorted while they are used.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kobject.h>
#include <linux/memory.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "geometry.h"
#include "report.h"
#include "selfcheck.h"
#include "sorter.h"

#define MAX_INTERVAL_S (ULONG_MAX / 1000 / HZ)

static bool stop; /* start no sort now, and end early the one that runs */

static DEFINE_MUTEX(interval_lock); /* the interval and its work change together */
static unsigned long interval_s;    /* 0: not periodic */
static struct workqueue_struct *sort_queue;
static struct kobject *directory;

static void sort_all(struct work_struct *work);
static DECLARE_DELAYED_WORK(sort_work, sort_all);

/* -EBUSY while another sort runs, so that callers do not wait. */
static int try_sort(int nid)
{
	int error;

	if (!mutex_trylock(&zs_sort_lock))
		return -EBUSY;
	error = READ_ONCE(stop) ? -EBUSY : zs_sort_node(nid, &stop);
	mutex_unlock(&zs_sort_lock);
	return error;
}

static void sort_all(struct work_struct *work)
{
	unsigned long seconds;
	int nid;

	for_each_online_node(nid) {
		int error = try_sort(nid);

		if (error)
			pr_notice("periodic sort of node %d left out: %d\n", nid, error);
	}
	seconds = READ_ONCE(interval_s);
	if (seconds)
		queue_delayed_work(sort_queue, &sort_work, seconds * HZ);
}

static ssize_t nodeid_show(struct kobject *kobj, struct kobj_attribute *attribute, char *text)
{
	return -EPERM;
}

/* sscanf and not kstrtoul, because scripts for Intel's module may add blanks or a NUL byte. */
static ssize_t nodeid_store(struct kobject *kobj, struct kobj_attribute *attribute,
			    const char *text, size_t length)
{
	unsigned long nid;
	int error;

	if (sscanf(text, "%lu", &nid) != 1 || nid >= MAX_NUMNODES || !node_online(nid))
		return -EINVAL;
	if (READ_ONCE(interval_s))
		return -EBUSY;
	error = try_sort(nid);
	return error ?: length;
}

static ssize_t sort_interval_show(struct kobject *kobj, struct kobj_attribute *attribute,
				  char *text)
{
	return sysfs_emit(text, "%lu sec\n", READ_ONCE(interval_s));
}

static ssize_t sort_interval_store(struct kobject *kobj, struct kobj_attribute *attribute,
				   const char *text, size_t length)
{
	unsigned long seconds;

	if (sscanf(text, "%lu", &seconds) != 1 || seconds > MAX_INTERVAL_S)
		return -EINVAL;
	mutex_lock(&interval_lock);
	WRITE_ONCE(interval_s, seconds);
	if (seconds)
		mod_delayed_work(sort_queue, &sort_work, seconds * HZ);
	else
		cancel_delayed_work_sync(&sort_work);
	mutex_unlock(&interval_lock);
	return length;
}

static struct kobj_attribute nodeid_attribute = __ATTR(nodeid, 0664, nodeid_show, nodeid_store);
static struct kobj_attribute sort_interval_attribute =
	__ATTR(sort_interval, 0664, sort_interval_show, sort_interval_store);
static struct attribute *attributes[] = { &nodeid_attribute.attr, &sort_interval_attribute.attr,
					  NULL };
static const struct attribute_group attribute_group = { .attrs = attributes };

/*
 * When memory goes offline, its struct pages vanish after MEM_OFFLINE. The running sort is told to
 * end early, and MEM_OFFLINE waits for it, so that no walk of struct pages is under way then.
 */
static int on_memory_change(struct notifier_block *block, unsigned long action, void *argument)
{
	switch (action) {
	case MEM_GOING_OFFLINE:
		WRITE_ONCE(stop, true);
		break;
	case MEM_OFFLINE:
	case MEM_CANCEL_OFFLINE:
		mutex_lock(&zs_sort_lock);
		WRITE_ONCE(stop, false);
		mutex_unlock(&zs_sort_lock);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block memory_notifier = { .notifier_call = on_memory_change };

static int __init zonesort_init(void)
{
	int error = zs_selfcheck();

	if (error)
		return error;
	error = zs_geometry_init();
	if (error)
		return error;
	error = -ENOMEM;
	sort_queue = alloc_workqueue("zonesort", WQ_UNBOUND, 1);
	if (!sort_queue)
		goto no_queue;
	error = register_memory_notifier(&memory_notifier);
	if (error)
		goto no_notifier;
	error = -ENOMEM;
	directory = kobject_create_and_add("zone_sort_free_pages", kernel_kobj);
	if (!directory)
		goto no_directory;
	error = sysfs_create_group(directory, &attribute_group);
	if (error)
		goto no_group;
	zs_report_init();
	return 0;

no_group:
	kobject_put(directory);
no_directory:
	unregister_memory_notifier(&memory_notifier);
no_notifier:
	destroy_workqueue(sort_queue);
no_queue:
	zs_geometry_exit();
	return error;
}

static void __exit zonesort_exit(void)
{
	WRITE_ONCE(stop, true);
	zs_report_exit();
	kobject_put(directory); /* after this no store runs or begins */
	WRITE_ONCE(interval_s, 0);
	cancel_delayed_work_sync(&sort_work);
	unregister_memory_notifier(&memory_notifier);
	destroy_workqueue(sort_queue);
	zs_geometry_exit();
}

module_init(zonesort_init);
module_exit(zonesort_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Sorts lists of free pages for direct-mapped memory-side caches");
MODULE_VERSION("0.2.0");
