/*
 * The plan of where objects are to lie, as far as it concerns this process: which of its files are
 * loaded, and where.
 */
#ifndef PAGELENS_RUN_PLAN_H
#define PAGELENS_RUN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks/pagelens.h"
#include "preload/plan_file.h"

extern bool plan_active; /* there is a plan, and something of this process is in it */

/* Once, at the start: maps the file and finds the process's part in it. */
void plan_open(const char* path);

const struct plan_header* plan_header(void);
size_t plan_objects(void);
const struct plan_object* plan_object(size_t index);
const char* plan_name(const struct plan_object* object);

/* Whose code a return address lies in, and if it is the plan's, the number of its place. */
enum whose { WHOSE_PROGRAMS, WHOSE_RUNTIMES, WHOSE_OURS };
struct where {
    enum whose whose;
    bool planned;
    uint32_t place;
};
struct where plan_where(uintptr_t return_address);

/* From a step of the plan's tree by a place to the next; NULL: no site goes on so. `from` NULL:
 * from where all begin. */
const struct plan_step* plan_next(const struct plan_step* from, uint32_t place);

/* The i-th variable that is loaded; false: there are fewer. */
struct loaded_variable {
    uintptr_t start;
    size_t bytes;
    uint32_t object;
};
bool plan_variable_loaded(size_t i, struct loaded_variable* variable);

/* Phases are marked regions that objects have shares of, from 1 on; 0 is all else. */
size_t plan_phases(void);
uint32_t plan_phase(const char* region, size_t bytes);
bool plan_moves(size_t object);
double plan_share(size_t object, size_t phase);

/* The i-th pointer that markers of loaded files call; NULL: there are fewer. */
pagelens_hook_function* volatile* plan_hook(size_t i);

#endif
