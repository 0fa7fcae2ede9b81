#define _GNU_SOURCE
#include "preload/planned.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/blocks.h"
#include "preload/budget.h"
#include "preload/counts.h"
#include "preload/fork_gate.h"
#include "preload/mappings.h"
#include "preload/moves.h"
#include "preload/nodes.h"
#include "preload/plan.h"
#include "preload/pools.h"
#include "preload/regions.h"
#include "preload/settings.h"
#include "preload/spans.h"
#include "preload/system.h"
#include "preload/tally.h"

enum { PAGE = 4096 };

/* Of each object's small blocks: its overflow says that the next one is fast. */
static uint32_t* turns;

/* Variables with pages of their own. */
struct variable {
    uintptr_t start;
    size_t bytes, fast_bytes;
    uint32_t object;
};
static struct variable* variables;
static size_t variable_count;

static double share_of(uint32_t object) { return plan_share(object, moves_phase()); }

size_t planned_fast_part(uint32_t object, size_t bytes) {
    const size_t pages = round_up(bytes, PAGE) / PAGE;
    return (size_t)(share_of(object) * (double)pages + 0.5) * PAGE;
}

/* Of small blocks a share is fast: those at whose turn the sum of shares passes a whole. */
static bool small_is_fast(uint32_t object) {
    const double share = share_of(object);
    if (share >= 1) return true;
    const uint32_t step = (uint32_t)(share * 4294967296.0);
    const uint32_t before = __atomic_fetch_add(&turns[object], step, __ATOMIC_RELAXED);
    return before + step < before;
}

void planned_make_room(void) {
    blocks_release_planned();
    pools_trim();
}

size_t planned_room(uint32_t object, size_t wanted) {
    size_t got = budget_take(wanted);
    if (got < wanted) {
        planned_make_room();
        got += budget_take(wanted - got);
    }
    tally_short(object, wanted - got);
    return got;
}

static void* take_small(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    if (!small_is_fast(object)) return NULL;
    void* block = pools_take(object, size, alignment);
    if (block == NULL) {
        planned_make_room();
        block = pools_take(object, size, alignment);
    }
    if (block == NULL) {
        tally_short(object, size);
        return NULL;
    }
    tally_small(object);
    tally_born(object, size, pools_usable(block));
    return zeroed ? memset(block, 0, size) : block;
}

static void* take_large(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    struct planned_wish wish = {object, planned_fast_part(object, size)};
    const bool moves = plan_moves(object); /* then it may be fast later on */
    if (wish.fast_bytes == 0 && !moves) return NULL;
    void* block = blocks_take_again(size, alignment, zeroed, &wish);
    if (block == NULL) {
        wish.fast_bytes = planned_room(object, wish.fast_bytes);
        if (wish.fast_bytes == 0 && !moves) return NULL;
        block = blocks_take_planned(size, alignment, zeroed, &wish);
        if (block == NULL) {
            budget_give(wish.fast_bytes);
            return NULL;
        }
    }
    tally_born(object, size, round_up(size, PAGE));
    return block;
}

void* planned_take(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    if (share_of(object) <= 0 && !plan_moves(object)) return NULL;
    const bool small = size < settings.large && size <= POOLED_MOST;
    if (!gate_enter()) {
        if (size < settings.large)
            count_while_forking(); /* else blocks_take() is asked, and does */
        return NULL;
    }
    const int saved_errno = errno;
    void* block = (small ? take_small : take_large)(object, size, alignment, zeroed);
    gate_leave();
    errno = saved_errno;
    return block;
}

/* Whole pages of its own: what it shares with its neighbours stays. */
static void move_variable(const struct loaded_variable* variable) {
    const uint32_t object = variable->object;
    const uintptr_t start = round_up(variable->start, PAGE);
    const uintptr_t end = (variable->start + variable->bytes) & ~(uintptr_t)(PAGE - 1);
    if (end <= start || (share_of(object) <= 0 && !plan_moves(object))) return;
    const size_t got = planned_room(object, planned_fast_part(object, end - start));
    variables[variable_count++] = (struct variable){start, end - start, got, object};
    tally_born(object, variable->bytes, end - start);
    if (got > 0 && !nodes_prefer(start, got, plan_header()->fast, true))
        say_once("variables cannot be put on the fast node (%s)", strerror(errno));
}

void planned_each_variable(border_function* show) {
    for (size_t i = 0; i < variable_count; i++)
        show(variables[i].object, variables[i].start, variables[i].bytes, &variables[i].fast_bytes);
}

static void* map_notes(size_t bytes) {
    return map_memory(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

void planned_begin(void) {
    const int saved_errno = errno;
    turns = map_notes(plan_objects() * sizeof *turns);
    variables = map_notes(plan_header()->variables.count * sizeof *variables);
    if ((void*)turns == MAP_FAILED || (void*)variables == MAP_FAILED || !tally_open() ||
        !mappings_open()) {
        plan_active = false;
        return;
    }
    bool slow = false;
    for (int word = 0; word < NODE_WORDS; word++) slow |= plan_header()->slow[word] != 0;
    if (slow && !nodes_prefer_always(plan_header()->slow))
        say_once("memory that is not planned cannot be put on the slow node (%s)", strerror(errno));
    pools_open(plan_objects(), territory_pools(), territory_pools_bytes());
    struct loaded_variable variable;
    for (size_t i = 0; plan_variable_loaded(i, &variable); i++) move_variable(&variable);
    regions_begin();
    errno = saved_errno;
}

static void look_at_slab(uint32_t object, uintptr_t start, size_t bytes) {
    tally_look(&(struct planned_block){object, start, bytes, start + bytes});
}

void planned_look_at_all(void) {
    mappings_each(tally_look);
    blocks_look();
    pools_each(look_at_slab);
    blocks_each_planned(tally_look);
    blocks_looked();
    for (size_t i = 0; i < variable_count; i++) {
        const struct variable* of = &variables[i];
        tally_look(
            &(struct planned_block){of->object, of->start, of->bytes, of->start + of->fast_bytes});
    }
}
