/* Maps the file of a plan and checks that every number in it is within its bounds. */
#ifndef PAGELENS_RUN_PLAN_MAP_H
#define PAGELENS_RUN_PLAN_MAP_H

#include "preload/plan_file.h"

/* NULL, after a line on stderr, if the plan cannot be used. */
const struct plan_header* plan_map(const char* path);

/* The first element of one of its parts. */
const void* plan_part(const struct plan_header* header, const struct plan_part* of);

#endif
