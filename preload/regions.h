/* The regions that the program marks (hooks/pagelens.h): which one it is in. */
#ifndef PAGELENS_RUN_REGIONS_H
#define PAGELENS_RUN_REGIONS_H

#include <stdbool.h>

/* Once, at the start: the program's markers ring here. Nothing where no object of the plan moves.
 */
void regions_begin(void);

/* In a child. A fork does not wait for regions that change: moves are inside the gate, and of the
 * rest nothing is left to the child but what is its own thread's. */
void regions_forked(void);

#endif
