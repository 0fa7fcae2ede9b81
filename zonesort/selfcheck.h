/* SPDX-License-Identifier: GPL-2.0 */
/* Checks that the running kernel keeps its free lists as allocator.h says. */
#ifndef ZONESORT_SELFCHECK_H
#define ZONESORT_SELFCHECK_H

/* Returns 0, or -EOPNOTSUPP after a message that says what is different. Changes nothing. */
int zs_selfcheck(void);

#endif
