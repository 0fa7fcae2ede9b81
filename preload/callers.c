#define _GNU_SOURCE
#include "preload/callers.h"

#include <stdbool.h>
#include <stddef.h>
#include <unwind.h>

#include "preload/plan.h"

enum {
    MOST_FRAME = 512,  /* bytes of a runtime's frame that can be skipped */
    MOST_DEPTH = 16,   /* frames of a call site, as in pagelens/place/plan.py */
    MOST_FRAMES = 256, /* frames that are unwound, those of runtimes included */
};

uint64_t caller_entries[CALLER_ENTRIES], caller_usual;

static uint64_t make(uintptr_t address, enum caller_kind kind, unsigned times, size_t words) {
    return (uint64_t)address << 16 | words << 6 | (uint64_t)times << 2 | (uint64_t)kind;
}

static void write_entry(uintptr_t address, uint64_t known) {
    __atomic_store_n(caller_entry(address), known, __ATOMIC_RELAXED);
}

/* Notes that the unwinder has reported this size of a runtime's frame. */
static void learn(uintptr_t address, ptrdiff_t bytes) {
    const uint64_t known = caller_known(address);
    const bool usable = bytes > 0 && bytes <= MOST_FRAME && bytes % 8 == 0;
    const size_t words = usable ? (size_t)bytes / 8 : 0;
    unsigned times = 1;
    if (known != 0 && caller_kind(known) == CALLER_RUNTIME) {
        if (caller_words(known) != words) { /* the size varies: never skip this frame */
            write_entry(address, make(address, CALLER_RUNTIME, 0, 0));
            if (__atomic_load_n(&caller_usual, __ATOMIC_RELAXED) >> 16 == address)
                __atomic_store_n(&caller_usual, 0, __ATOMIC_RELAXED);
            return;
        }
        times = caller_times(known) < 15 ? caller_times(known) + 1 : 15;
    }
    const uint64_t now = make(address, CALLER_RUNTIME, words ? times : 0, words);
    write_entry(address, now);
    if (caller_times(now) == CALLER_SURE) {
        uint64_t none = 0;
        __atomic_compare_exchange_n(&caller_usual, &none, now, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
}

struct walk {
    const struct plan_step* step; /* NULL before the first frame of the program */
    uint32_t object;
    int depth, frames;
    uintptr_t runtime; /* return address of the previous frame if it was a runtime's, else 0 */
    uintptr_t frame;   /* where the previous frame began */
};

static _Unwind_Reason_Code visit(struct _Unwind_Context* context, void* argument) {
    struct walk* walk = argument;
    const uintptr_t address = _Unwind_GetIP(context), frame = _Unwind_GetCFA(context);
    if (address == 0 || walk->frames++ == MOST_FRAMES) return _URC_END_OF_STACK;
    const struct where where = plan_where(address);
    if (where.whose == WHOSE_OURS) return _URC_NO_REASON;
    if (walk->step == NULL && walk->runtime) learn(walk->runtime, (ptrdiff_t)(frame - walk->frame));
    walk->runtime = 0;
    if (where.whose == WHOSE_RUNTIMES) {
        if (walk->step != NULL) return _URC_END_OF_STACK; /* a site ends where a runtime calls it */
        walk->runtime = address;
        walk->frame = frame;
        return _URC_NO_REASON;
    }
    const struct plan_step* next = where.planned ? plan_next(walk->step, where.place) : NULL;
    if (walk->step == NULL)
        write_entry(address, make(address, next ? CALLER_BEGINS : CALLER_NOTHING, 0, 0));
    if (next == NULL) return _URC_END_OF_STACK;
    walk->step = next;
    if (next->object) walk->object = next->object;
    return ++walk->depth == MOST_DEPTH || next->count == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static _Thread_local bool unwinding __attribute__((tls_model("initial-exec")));

uint32_t callers_object(void) {
    if (unwinding) return 0; /* the unwinder itself allocates */
    unwinding = true;
    struct walk walk = {0};
    _Unwind_Backtrace(visit, &walk);
    unwinding = false;
    return walk.object;
}
