/*
 * The first pages of each block lie in fast memory and the others do not. A move shifts the border
 * between them. Blocks whose fast part shrinks go first, so that there is room for the others; no
 * page is moved twice for one change of the phase.
 *
 * Small blocks stay where they are: a pool binds each slab as a whole.
 */
#define _GNU_SOURCE
#include "preload/moves.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "preload/blocks.h"
#include "preload/budget.h"
#include "preload/counts.h"
#include "preload/fast_memory.h"
#include "preload/fork_gate.h"
#include "preload/mappings.h"
#include "preload/nodes.h"
#include "preload/phase.h"
#include "preload/plan.h"
#include "preload/settings.h"
#include "preload/system.h"
#include "preload/tally.h"
#include "preload/variables.h"

struct moves_counts moves_counts; /* changed only by the thread that moves */

static size_t phase_of_borders; /* the phase whose shares the borders have now */
static uint64_t begun;          /* when the first region began, in nanoseconds */

/* State of the change under way. */
static bool leaving, last_try;
static size_t lacking;

static bool put(uintptr_t start, size_t bytes, bool fast) {
    struct nodes_seen was = {0}, is = {0};
    const struct plan_header* header = plan_header();
    if (settings.report) nodes_look(start, bytes, header->fast, &was);
    bool slow_named = false;
    for (int word = 0; word < NODE_WORDS; word++) slow_named |= header->slow[word] != 0;
    const bool done = fast || slow_named
                          ? nodes_prefer(start, bytes, fast ? header->fast : header->slow, true)
                          : nodes_as_usual(start, bytes, true);
    if (!done) {
        say_once("objects cannot be moved between regions (%s)", strerror(errno));
        return false;
    }
    if (!settings.report) return true;
    nodes_look(start, bytes, header->fast, &is);
    const size_t there = fast ? is.there : is.elsewhere, had = fast ? was.there : was.elsewhere;
    moves_counts.moved_bytes += there > had ? there - had : 0;
    moves_counts.stayed_bytes += fast ? is.elsewhere : is.there;
    return true;
}

/* Shifts the border of one block; a border_function. */
static void shift(uint32_t object, uintptr_t start, size_t bytes, size_t* fast) {
    if (!plan_moves(object)) return;
    const size_t wanted = phase_fast_bytes(object, bytes);
    if (leaving && wanted < *fast) {
        if (!put(start + wanted, *fast - wanted, false)) return;
        budget_give(*fast - wanted);
        *fast = wanted;
        moves_counts.blocks++;
    } else if (!leaving && wanted > *fast) {
        const size_t got = budget_take(wanted - *fast);
        if (last_try) tally_short(object, wanted - *fast - got);
        lacking += wanted - *fast - got;
        if (got == 0) return;
        if (!put(start + *fast, got, true)) {
            budget_give(got);
            return;
        }
        *fast += got;
        moves_counts.blocks++;
    }
}

static void shift_all(void) {
    lacking = 0;
    variables_each_border(shift);
    mappings_each_border(shift);
    blocks_each_border(shift);
}

/* Whether the share of any object differs between two phases. */
static bool differ(size_t one, size_t other) {
    for (size_t i = 0; i < plan_objects(); i++)
        if (plan_share(i, one) != plan_share(i, other)) return true;
    return false;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Moves what leaves fast memory, then what comes to it. */
static void move(void) {
    blocks_release_moving();
    leaving = true;
    shift_all();
    leaving = last_try = false;
    shift_all();
    if (lacking > 0) { /* memory that is kept for later blocks makes way */
        fast_memory_reclaim();
        last_try = true;
        shift_all();
    }
}

void moves_to(size_t phase) {
    phase_enter(phase);
    if (phase == phase_of_borders || !differ(phase_of_borders, phase)) return;
    const uint64_t began = now();
    if (begun == 0) begun = began;
    if (!moves_allowed(moves_counts.nanoseconds, began - begun)) {
        moves_counts.skipped++;
        say_once(
            "regions change so often that moving objects took a tenth of the time: they stay where "
            "they are in between; plan without --moves, or mark larger regions");
        return;
    }
    if (!gate_enter()) { /* the next marker tries again */
        count_while_forking();
        return;
    }
    phase_of_borders = phase;
    move();
    gate_leave();
    moves_counts.changes++;
    moves_counts.nanoseconds += now() - began;
}
