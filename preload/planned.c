#define _GNU_SOURCE
#include "preload/planned.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/blocks.h"
#include "preload/budget.h"
#include "preload/counts.h"
#include "preload/fast_memory.h"
#include "preload/fork_gate.h"
#include "preload/mappings.h"
#include "preload/nodes.h"
#include "preload/object_nodes.h"
#include "preload/phase.h"
#include "preload/plan.h"
#include "preload/pools.h"
#include "preload/regions.h"
#include "preload/settings.h"
#include "preload/spans.h"
#include "preload/system.h"
#include "preload/tally.h"
#include "preload/variables.h"

enum { PAGE = 4096 };

/* By object, the sum of the shares of its small blocks so far, as a fraction of 2^32. */
static uint32_t* turns;

/* Whether the next small block is a fast one: it is if the sum of the shares passes a whole number
 * with it, so that of many blocks the share is fast. */
static bool small_is_fast(uint32_t object) {
    const double share = phase_share(object);
    if (share >= 1) return true;
    const uint32_t step = (uint32_t)(share * 4294967296.0);
    const uint32_t before = __atomic_fetch_add(&turns[object], step, __ATOMIC_RELAXED);
    return before + step < before;
}

static void* take_small(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    if (!small_is_fast(object)) return NULL;
    void* block = pools_take(object, size, alignment);
    if (block == NULL) {
        fast_memory_reclaim();
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
    struct planned_wish wish = {object, phase_fast_bytes(object, size)};
    const bool moves = plan_moves(object); /* a slow block may have to be fast later */
    if (wish.fast_bytes == 0 && !moves) return NULL;
    void* block = blocks_take_again(size, alignment, zeroed, &wish);
    if (block == NULL) {
        wish.fast_bytes = fast_memory_take(object, wish.fast_bytes);
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
    if (phase_share(object) <= 0 && !plan_moves(object)) return NULL;
    const bool small = size < settings.large && size <= POOLED_MOST;
    if (small && object_has_rule(object)) return NULL; /* pools lie on the fast nodes */
    if (!gate_enter()) {
        /* For a large block the caller asks blocks_take() next, which counts it. */
        if (size < settings.large) count_while_forking();
        return NULL;
    }
    const int saved_errno = errno;
    void* block = (small ? take_small : take_large)(object, size, alignment, zeroed);
    gate_leave();
    errno = saved_errno;
    return block;
}

static bool open_turns(void) {
    void* at = map_memory(NULL, plan_objects() * sizeof *turns + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) return false;
    turns = at;
    return true;
}

void planned_begin(void) {
    const int saved_errno = errno;
    if (!open_turns() || !variables_open() || !tally_open() || !mappings_open()) {
        plan_active = false;
        return;
    }
    bool slow = false;
    for (int word = 0; word < NODE_WORDS; word++) slow |= plan_header()->slow[word] != 0;
    if (slow && !nodes_prefer_always(plan_header()->slow))
        say_once("memory that is not planned cannot be put on the slow node (%s)", strerror(errno));
    pools_open(plan_objects(), territory_pools(), territory_pools_bytes());
    variables_move();
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
    variables_each(tally_look);
}
