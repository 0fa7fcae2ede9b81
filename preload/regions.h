/* Follows which marked region (hooks/pagelens.h) the program is in. */
#ifndef PAGELENS_RUN_REGIONS_H
#define PAGELENS_RUN_REGIONS_H

#include <stdbool.h>

/* Call once, at the start: makes the program's markers call the library. Does nothing if no object
 * of the plan moves. */
void regions_begin(void);

/* Call in the child of a fork. A fork does not wait until other threads have changed the region. It
 * need not: moves are inside the gate, and the child only keeps the regions of its own thread. */
void regions_forked(void);

#endif
