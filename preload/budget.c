#include "preload/budget.h"

#include <stdbool.h>

#include "preload/plan.h"

enum { PAGE = 4096 };

static size_t used, peak; /* bytes; changed atomically */

static void raise_peak(size_t value) {
    size_t before = __atomic_load_n(&peak, __ATOMIC_RELAXED);
    while (before < value && !__atomic_compare_exchange_n(&peak, &before, value, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

size_t budget_take(size_t wanted) {
    size_t before = __atomic_load_n(&used, __ATOMIC_RELAXED), got;
    do {
        const size_t capacity = plan_header()->capacity,
                     left = capacity > before ? capacity - before : 0;
        got = wanted < left ? wanted : left & ~(size_t)(PAGE - 1);
    } while (!__atomic_compare_exchange_n(&used, &before, before + got, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    raise_peak(before + got);
    return got;
}

void budget_give(size_t bytes) { __atomic_fetch_sub(&used, bytes, __ATOMIC_RELAXED); }

size_t budget_peak(void) { return peak; }
