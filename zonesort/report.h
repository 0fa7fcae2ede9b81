/* SPDX-License-Identifier: GPL-2.0 */
/* Statistics in debugfs: /sys/kernel/debug/zonesort/{stats,slots}. */
#ifndef ZONESORT_REPORT_H
#define ZONESORT_REPORT_H

#include "sorter.h"

void zs_report_init(void);
void zs_report_exit(void);

/* What the sorts since load came to. Waits for a sort that runs. */
void zs_read_sums(struct zs_sums *copy);

#endif
