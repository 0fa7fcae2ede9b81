/* SPDX-License-Identifier: GPL-2.0 */
/* Statistics in debugfs: /sys/kernel/debug/zonesort/{stats,slots}. */
#ifndef ZONESORT_REPORT_H
#define ZONESORT_REPORT_H

void zs_report_init(void);
void zs_report_exit(void);

#endif
