#include "preload/fast_memory.h"

#include "preload/blocks.h"
#include "preload/budget.h"
#include "preload/pools.h"
#include "preload/tally.h"

void fast_memory_reclaim(void) {
    blocks_release_planned();
    pools_trim();
}

size_t fast_memory_take(uint32_t object, size_t wanted) {
    size_t got = budget_take(wanted);
    if (got < wanted) {
        fast_memory_reclaim();
        got += budget_take(wanted - got);
    }
    tally_short(object, wanted - got);
    return got;
}
