/* The plan's static variables. Only the whole pages inside a variable are moved: it shares its
 * first and last page with its neighbours. */
#ifndef PAGELENS_RUN_VARIABLES_H
#define PAGELENS_RUN_VARIABLES_H

#include <stdbool.h>

#include "preload/planned_block.h"

/* Call once, when the plan is open. False without memory for the list. */
bool variables_open(void);

/* Call once, when the tally is open: puts the variables' pages where the plan says. */
void variables_move(void);

void variables_each(void (*say)(const struct planned_block* block));

/* One thread at a time. */
void variables_each_border(border_function* show);

#endif
