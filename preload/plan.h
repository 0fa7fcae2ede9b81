/*
 * The plan of which memory objects go to, as far as it concerns this process: which files of the
 * plan the process has loaded, and at which addresses.
 */
#ifndef PAGELENS_RUN_PLAN_H
#define PAGELENS_RUN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks/pagelens.h"
#include "preload/plan_file.h"

extern bool plan_active; /* there is a plan, and it names a file that this process has loaded */

/* Call once, at the start: maps the plan's file and finds the files that the process has loaded. */
void plan_open(const char* path);

const struct plan_header* plan_header(void);
size_t plan_objects(void);
const struct plan_object* plan_object(size_t index);
const char* plan_name(const struct plan_object* object);

/* Whose code a return address lies in and, if the plan names it, the number of its place. */
enum whose { WHOSE_PROGRAMS, WHOSE_RUNTIMES, WHOSE_OURS };
struct where {
    enum whose whose;
    bool planned;
    uint32_t place;
};
struct where plan_where(uintptr_t return_address);

/* The step of the plan's tree that follows `from` by this place, or NULL if no call site continues
 * so. If `from` is NULL it begins at the root. */
const struct plan_step* plan_next(const struct plan_step* from, uint32_t place);

/* Gets the i-th variable of the plan that is loaded. False if there are fewer. */
struct loaded_variable {
    uintptr_t start;
    size_t bytes;
    uint32_t object;
};
bool plan_variable_loaded(size_t i, struct loaded_variable* variable);

/* Phases are the marked regions for which objects have shares of their own, numbered from 1 on.
 * Phase 0 is everything else. */
size_t plan_phases(void);
uint32_t plan_phase(const char* region, size_t bytes);
bool plan_moves(size_t object);
double plan_share(size_t object, size_t phase);

/* The i-th function pointer through which markers in loaded files call, or NULL if there are fewer.
 */
pagelens_hook_function* volatile* plan_hook(size_t i);

#endif
