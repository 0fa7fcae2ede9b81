/* How much of what was to be transparent huge pages is: asked when a span goes, and at the end. */
#ifndef PAGELENS_RUN_TRANSPARENT_H
#define PAGELENS_RUN_TRANSPARENT_H

#include "preload/spans.h"

/* Adds to counts.seen and seen_huge; without effect unless there is to be a report. */
void transparent_look(const struct span* span);

#endif
