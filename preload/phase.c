#include "preload/phase.h"

#include "preload/plan.h"
#include "preload/system.h"

enum { PAGE = 4096 };

static size_t current; /* changed atomically */

void phase_enter(size_t phase) { __atomic_store_n(&current, phase, __ATOMIC_RELAXED); }

double phase_share(uint32_t object) {
    return plan_share(object, __atomic_load_n(&current, __ATOMIC_RELAXED));
}

size_t phase_fast_bytes(uint32_t object, size_t bytes) {
    const size_t pages = round_up(bytes, PAGE) / PAGE;
    return (size_t)(phase_share(object) * (double)pages + 0.5) * PAGE;
}
