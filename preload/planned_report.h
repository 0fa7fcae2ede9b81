/* The part of the report about the plan: where its objects really lay. */
#ifndef PAGELENS_RUN_PLANNED_REPORT_H
#define PAGELENS_RUN_PLANNED_REPORT_H

#include "preload/text.h"

/* Adds nothing if there is no plan. */
void planned_in_words(struct text* text);

/* Adds `, "plan": {...}`, or null in place of the object if there is no plan. */
void planned_in_json(struct text* text);

#endif
