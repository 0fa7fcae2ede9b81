#define _GNU_SOURCE
#include "preload/tally.h"

#include <sys/mman.h>

#include "preload/object_nodes.h"
#include "preload/plan.h"
#include "preload/settings.h"
#include "preload/system.h"

/* So many blocks of an object are located when they go; after those only the 32nd, 64th, ... */
enum { ALL_LOOKED = 16 };

struct object {
    struct planned_counts counts; /* changed atomically */
    size_t gone;
};
static struct object* objects;

static size_t add(size_t* to, size_t value) {
    return __atomic_add_fetch(to, value, __ATOMIC_RELAXED);
}

static void raise(size_t* to, size_t value) {
    size_t before = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (before < value && !__atomic_compare_exchange_n(to, &before, value, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

bool tally_open(void) {
    void* at = map_memory(NULL, plan_objects() * sizeof *objects + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) return false;
    objects = at;
    return true;
}

const struct planned_counts* planned_counts(size_t object) { return &objects[object].counts; }

void tally_born(uint32_t object, size_t bytes, size_t held) {
    struct planned_counts* counts = &objects[object].counts;
    add(&counts->blocks, 1);
    add(&counts->bytes, bytes);
    tally_grown(object, held);
}

void tally_grown(uint32_t object, size_t held) {
    struct planned_counts* counts = &objects[object].counts;
    raise(&counts->peak_bytes, add(&counts->live_bytes, held));
}

void tally_small(uint32_t object) { add(&objects[object].counts.small, 1); }
void tally_mapped(uint32_t object) { add(&objects[object].counts.mappings, 1); }
void tally_short(uint32_t object, size_t bytes) {
    if (bytes > 0) add(&objects[object].counts.short_bytes, bytes);
}

void tally_look(const struct planned_block* block) {
    struct planned_counts* counts = &objects[block->object].counts;
    struct nodes_seen fast = {0}, others = {0};
    const uint64_t* nodes = object_nodes(block->object);
    const uintptr_t start = block->start, fast_end = block->fast_end, end = start + block->bytes;
    if (fast_end > start) nodes_look(start, fast_end - start, nodes, &fast);
    if (end > fast_end) nodes_look(fast_end, end - fast_end, nodes, &others);
    add(&counts->looked, 1);
    add(&counts->to_be_fast.there, fast.there);
    add(&counts->to_be_fast.elsewhere, fast.elsewhere);
    add(&counts->to_be_fast.absent, fast.absent);
    add(&counts->others.there, others.there);
    add(&counts->others.elsewhere, others.elsewhere);
    add(&counts->others.absent, others.absent);
    for (int node = 0; node < SHOWN_NODES; node++)
        if (fast.on[node] + others.on[node] > 0)
            add(&counts->on[node], fast.on[node] + others.on[node]);
}

void tally_gone(const struct planned_block* block) {
    struct object* object = &objects[block->object];
    __atomic_fetch_sub(&object->counts.live_bytes, block->bytes, __ATOMIC_RELAXED);
    const size_t nth = add(&object->gone, 1);
    if (settings.report && (nth <= ALL_LOOKED || (nth & (nth - 1)) == 0)) tally_look(block);
}

void tally_shrunk(uint32_t object, size_t bytes) {
    __atomic_fetch_sub(&objects[object].counts.live_bytes, bytes, __ATOMIC_RELAXED);
}
