/* The regions that the program marks (hooks/pagelens.h): which one it is in. */
#ifndef PAGELENS_RUN_REGIONS_H
#define PAGELENS_RUN_REGIONS_H

#include <stdbool.h>

/* Once, at the start: the program's markers ring here. Nothing where no object of the plan moves.
 */
void regions_begin(void);

/* While the process forks; before all other locks. */
void regions_fork_begins(void);
void regions_fork_ends(bool in_child);

#endif
