#define _GNU_SOURCE
#include "preload/planned.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/blocks.h"
#include "preload/budget.h"
#include "preload/plan.h"
#include "preload/pools.h"
#include "preload/settings.h"
#include "preload/spans.h"
#include "preload/system.h"

enum { PAGE = 4096, ALL_LOOKED = 16 /* blocks of an object; later ones as their number doubles */ };

struct object {
    struct planned_counts counts; /* changed atomically */
    uint32_t turn;                /* of small blocks: its overflow says that the next one is fast */
    size_t gone;
    bool finished; /* a variable: counted when it is moved */
};
static struct object* objects;
static size_t fast_used, fast_peak;

static size_t add(size_t* to, size_t value) {
    return __atomic_add_fetch(to, value, __ATOMIC_RELAXED);
}

static void raise(size_t* to, size_t value) {
    size_t before = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (before < value && !__atomic_compare_exchange_n(to, &before, value, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

size_t budget_take(size_t wanted) {
    size_t used = __atomic_load_n(&fast_used, __ATOMIC_RELAXED), got;
    do {
        const size_t capacity = plan_header()->capacity,
                     left = capacity > used ? capacity - used : 0;
        got = wanted < left ? wanted : left & ~(size_t)(PAGE - 1);
    } while (!__atomic_compare_exchange_n(&fast_used, &used, used + got, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    raise(&fast_peak, used + got);
    return got;
}

void budget_give(size_t bytes) { __atomic_fetch_sub(&fast_used, bytes, __ATOMIC_RELAXED); }

size_t planned_peak(void) { return fast_peak; }
const struct planned_counts* planned_counts(size_t object) { return &objects[object].counts; }

static double share_of(uint32_t object) { return plan_object(object)->share; }

/* Of so many bytes from the beginning of a page, those of the first pages that are to be fast. */
static size_t fast_part(uint32_t object, size_t bytes) {
    const size_t pages = round_up(bytes, PAGE) / PAGE;
    return (size_t)(share_of(object) * (double)pages + 0.5) * PAGE;
}

static void born(uint32_t object, size_t bytes, size_t held) {
    struct planned_counts* counts = &objects[object].counts;
    add(&counts->blocks, 1);
    add(&counts->bytes, bytes);
    raise(&counts->peak_bytes, add(&counts->live_bytes, held));
}

static void look(uint32_t object, uintptr_t start, uintptr_t fast_end, uintptr_t end) {
    struct planned_counts* counts = &objects[object].counts;
    struct nodes_seen fast = {0}, others = {0};
    if (fast_end > start) nodes_look(start, fast_end - start, plan_header()->fast, &fast);
    if (end > fast_end) nodes_look(fast_end, end - fast_end, plan_header()->fast, &others);
    add(&counts->looked, 1);
    add(&counts->to_be_fast.there, fast.there);
    add(&counts->to_be_fast.elsewhere, fast.elsewhere);
    add(&counts->to_be_fast.absent, fast.absent);
    add(&counts->others.there, others.there);
    add(&counts->others.elsewhere, others.elsewhere);
    add(&counts->others.absent, others.absent);
}

void planned_gone(const struct planned_block* block) {
    struct object* object = &objects[block->object];
    __atomic_fetch_sub(&object->counts.live_bytes, block->bytes, __ATOMIC_RELAXED);
    const size_t nth = add(&object->gone, 1);
    if (settings.report && (nth <= ALL_LOOKED || (nth & (nth - 1)) == 0))
        look(block->object, block->start, block->fast_end, block->start + block->bytes);
}

void planned_small_gone(uint32_t object, size_t bytes) {
    __atomic_fetch_sub(&objects[object].counts.live_bytes, bytes, __ATOMIC_RELAXED);
}

/* Of small blocks a share is fast: those at whose turn the sum of shares passes a whole. */
static bool small_is_fast(uint32_t object) {
    const double share = share_of(object);
    if (share >= 1) return true;
    const uint32_t step = (uint32_t)(share * 4294967296.0);
    const uint32_t before = __atomic_fetch_add(&objects[object].turn, step, __ATOMIC_RELAXED);
    return before + step < before;
}

/* What is kept for the next blocks of any object makes way. */
static void make_room(void) {
    blocks_release_planned();
    pools_trim();
}

static void* take_small(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    if (!small_is_fast(object)) return NULL;
    void* block = pools_take(object, size, alignment);
    if (block == NULL) {
        make_room();
        block = pools_take(object, size, alignment);
    }
    if (block == NULL) {
        add(&objects[object].counts.short_bytes, size);
        return NULL;
    }
    add(&objects[object].counts.small, 1);
    born(object, size, pools_usable(block));
    return zeroed ? memset(block, 0, size) : block;
}

static void* take_large(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    const size_t wanted = fast_part(object, size);
    if (wanted == 0) return NULL;
    struct planned_wish wish = {object, wanted};
    void* block = blocks_take_again(size, alignment, zeroed, &wish);
    if (block == NULL) {
        size_t got = budget_take(wanted);
        if (got < wanted) {
            make_room();
            got += budget_take(wanted - got);
        }
        if (got < wanted) add(&objects[object].counts.short_bytes, wanted - got);
        if (got == 0) return NULL;
        wish.fast_bytes = got;
        block = blocks_take_planned(size, alignment, zeroed, &wish);
        if (block == NULL) {
            budget_give(got);
            return NULL;
        }
    }
    born(object, size, round_up(size, PAGE));
    return block;
}

void* planned_take(uint32_t object, size_t size, size_t alignment, bool zeroed) {
    if (share_of(object) <= 0) return NULL;
    const int saved_errno = errno;
    const bool small = size < settings.large && size <= POOLED_MOST;
    void* block = (small ? take_small : take_large)(object, size, alignment, zeroed);
    errno = saved_errno;
    return block;
}

/* Whole pages of its own: what it shares with its neighbours stays. */
static void move_variable(const struct loaded_variable* variable) {
    const uint32_t object = variable->object;
    if (share_of(object) <= 0) return;
    const uintptr_t start = round_up(variable->start, PAGE);
    const uintptr_t end = (variable->start + variable->bytes) & ~(uintptr_t)(PAGE - 1);
    if (end <= start) return;
    const size_t wanted = fast_part(object, end - start), got = budget_take(wanted);
    struct planned_counts* counts = &objects[object].counts;
    counts->short_bytes += wanted - got;
    born(object, variable->bytes, end - start);
    if (got > 0 && !nodes_prefer(start, got, plan_header()->fast, true))
        say_once("variables cannot be put on the fast node (%s)", strerror(errno));
}

void planned_begin(void) {
    const int saved_errno = errno;
    const size_t bytes = plan_objects() * sizeof *objects;
    void* at = map_memory(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) {
        plan_active = false;
        return;
    }
    objects = at;
    bool slow = false;
    for (int word = 0; word < NODE_WORDS; word++) slow |= plan_header()->slow[word] != 0;
    if (slow && !nodes_prefer_always(plan_header()->slow))
        say_once("memory that is not planned cannot be put on the slow node (%s)", strerror(errno));
    pools_open(plan_objects(), territory_pools(), territory_pools_bytes());
    struct loaded_variable variable;
    for (size_t i = 0; plan_variable_loaded(i, &variable); i++) move_variable(&variable);
    errno = saved_errno;
}

static void look_at_slab(uint32_t object, uintptr_t start, size_t bytes) {
    look(object, start, start + bytes, start + bytes);
}

static void look_at_block(const struct planned_block* block) {
    look(block->object, block->start, block->fast_end, block->start + block->bytes);
}

void planned_look_at_all(void) {
    pools_each(look_at_slab);
    blocks_each_planned(look_at_block);
    struct loaded_variable variable;
    for (size_t i = 0; plan_variable_loaded(i, &variable); i++) {
        const uintptr_t start = round_up(variable.start, PAGE);
        const uintptr_t end = (variable.start + variable.bytes) & ~(uintptr_t)(PAGE - 1);
        if (end > start && share_of(variable.object) > 0)
            look(variable.object, start, start + fast_part(variable.object, end - start), end);
    }
}
