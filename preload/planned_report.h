/* Where the plan's objects really lay. */
#ifndef PAGELENS_RUN_PLANNED_REPORT_H
#define PAGELENS_RUN_PLANNED_REPORT_H

#include "preload/text.h"

/* Nothing where there is no plan. */
void planned_in_words(struct text* text);

/* `, "plan": {...}`, or null. */
void planned_in_json(struct text* text);

#endif
