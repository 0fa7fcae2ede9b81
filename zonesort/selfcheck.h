/* SPDX-License-Identifier: GPL-2.0 */
/* Does the running kernel keep its free lists as allocator.h has it? */
#ifndef ZONESORT_SELFCHECK_H
#define ZONESORT_SELFCHECK_H

/* 0, or -EOPNOTSUPP after a message that says what is different. Changes nothing. */
int zs_selfcheck(void);

#endif
