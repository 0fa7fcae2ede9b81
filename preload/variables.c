#define _GNU_SOURCE
#include "preload/variables.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/fast_memory.h"
#include "preload/object_nodes.h"
#include "preload/phase.h"
#include "preload/plan.h"
#include "preload/system.h"
#include "preload/tally.h"

enum { PAGE = 4096 };

/* The whole pages inside a variable. */
struct variable {
    uintptr_t start;
    size_t bytes, fast_bytes;
    uint32_t object;
};
static struct variable* variables;
static size_t variable_count;

bool variables_open(void) {
    const size_t bytes = plan_header()->variables.count * sizeof *variables;
    void* at = map_memory(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) return false;
    variables = at;
    return true;
}

static void move(const struct loaded_variable* variable) {
    const uint32_t object = variable->object;
    const uintptr_t start = round_up(variable->start, PAGE);
    const uintptr_t end = (variable->start + variable->bytes) & ~(uintptr_t)(PAGE - 1);
    if (end <= start || (phase_share(object) <= 0 && !plan_moves(object))) return;
    const size_t got = fast_memory_take(object, phase_fast_bytes(object, end - start));
    variables[variable_count++] = (struct variable){start, end - start, got, object};
    tally_born(object, variable->bytes, end - start);
    if (got > 0 && !object_bind(object, start, got, true))
        say_once("variables cannot be put on their nodes (%s)", strerror(errno));
}

void variables_move(void) {
    struct loaded_variable variable;
    for (size_t i = 0; plan_variable_loaded(i, &variable); i++) move(&variable);
}

void variables_each(void (*say)(const struct planned_block* block)) {
    for (size_t i = 0; i < variable_count; i++) {
        const struct variable* of = &variables[i];
        say(&(struct planned_block){of->object, of->start, of->bytes, of->start + of->fast_bytes});
    }
}

void variables_each_border(border_function* show) {
    for (size_t i = 0; i < variable_count; i++)
        show(variables[i].object, variables[i].start, variables[i].bytes, &variables[i].fast_bytes);
}
