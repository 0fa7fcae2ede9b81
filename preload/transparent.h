/* Asks the kernel how much of a span really lies on transparent huge pages. */
#ifndef PAGELENS_RUN_TRANSPARENT_H
#define PAGELENS_RUN_TRANSPARENT_H

#include "preload/spans.h"

/* Adds to counts.seen and counts.seen_huge, if there is to be a report. */
void transparent_look(const struct span* span);

#endif
