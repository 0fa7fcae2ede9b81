#define _GNU_SOURCE
#include "preload/fork_gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum state {
    OPEN,
    BUSY, /* a fork copies pages: others wait */
    LOOK, /* a fork waits: others may look */
};
static uint32_t state; /* atomic; a futex */

/* How many threads are inside, or are about to find out whether they may be. Counted in several
 * cache lines, so that threads seldom write to the same one. Atomic. */
enum { SHARDS = 64, LINE = 64 };
static struct {
    _Alignas(LINE) uint32_t inside;
} shards[SHARDS];

static uint32_t left; /* how many threads have left while the gate was not open; atomic; a futex */

#define IN_STATIC_BLOCK __attribute__((tls_model("initial-exec")))
_Thread_local volatile int inside IN_STATIC_BLOCK;
static _Thread_local volatile bool looking IN_STATIC_BLOCK; /* this thread may change nothing */
static _Thread_local volatile bool forking IN_STATIC_BLOCK; /* this thread has closed the gate */

/* The TLS blocks of threads lie far apart, so their addresses spread over the shards. */
static uint32_t* shard(void) {
    return &shards[((uintptr_t)&inside >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 58].inside;
}

static uint32_t state_now(void) { return __atomic_load_n(&state, __ATOMIC_SEQ_CST); }

static void wait_while(uint32_t* futex, uint32_t value) {
    const int saved_errno = errno;
    syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    errno = saved_errno;
}

static void wake_all(uint32_t* futex) {
    const int saved_errno = errno;
    syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved_errno;
}

static void set_state(enum state now) {
    __atomic_store_n(&state, now, __ATOMIC_SEQ_CST);
    wake_all(&state);
}

/* Either the fork sees that this thread is counted, or this thread sees the fork's state: both
 * write before they read. */
static void count(void) { __atomic_fetch_add(shard(), 1, __ATOMIC_SEQ_CST); }

static void count_no_more(void) {
    __atomic_fetch_sub(shard(), 1, __ATOMIC_SEQ_CST);
    if (__builtin_expect(state_now() == OPEN, 1)) return;
    __atomic_fetch_add(&left, 1, __ATOMIC_SEQ_CST);
    wake_all(&left);
}

bool gate_look(void) {
    inside = inside + 1;
    if (inside > 1) return !looking;
    for (;;) {
        const uint32_t seen = state_now();
        if (seen == BUSY) {
            wait_while(&state, BUSY);
            continue;
        }
        looking = seen == LOOK;
        count();
        if (state_now() == seen) return !looking;
        count_no_more();
    }
}

void gate_leave(void) {
    if (inside == 1) count_no_more();
    inside = inside - 1;
}

bool gate_enter(void) {
    if (gate_look()) return true;
    gate_leave();
    return false;
}

bool gate_may_change(void) { return !looking; }

static bool all_have_left(void) {
    for (size_t i = 0; i < SHARDS; i++)
        if (__atomic_load_n(&shards[i].inside, __ATOMIC_SEQ_CST) != 0) return false;
    return true;
}

static void wait_for_all(void) {
    for (;;) {
        const uint32_t seen = __atomic_load_n(&left, __ATOMIC_SEQ_CST);
        if (all_have_left()) return;
        wait_while(&left, seen);
    }
}

/* The thread that forks is inside while it works, but is not counted. */
static void begin_work(void) {
    inside = inside + 1;
    looking = false;
}

bool gate_close(void) {
    if (inside > 0 || forking) return false;
    forking = true;
    begin_work();
    uint32_t was = OPEN;
    while (!__atomic_compare_exchange_n(&state, &was, BUSY, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
        wait_while(&state, was); /* another thread forks */
        was = OPEN;
    }
    wait_for_all();
    return true;
}

void gate_show(void) {
    set_state(LOOK);
    inside = inside - 1;
}

void gate_hide(void) {
    begin_work();
    set_state(BUSY);
    wait_for_all();
}

void gate_open(void) {
    set_state(OPEN);
    forking = false;
    inside = inside - 1;
}

/* The child has only this thread. `own` is how often it is counted in its shard. */
static void forget_others(uint32_t own) {
    for (size_t i = 0; i < SHARDS; i++)
        __atomic_store_n(&shards[i].inside, shard() == &shards[i].inside ? own : 0,
                         __ATOMIC_SEQ_CST);
}

void gate_hide_in_child(void) {
    begin_work();
    forget_others(0);
    set_state(BUSY);
}

/* The signal may have interrupted the thread before or after it was counted. No other thread is
 * inside, so its shard tells. */
void gate_reset_in_child(void) {
    forget_others(__atomic_load_n(shard(), __ATOMIC_SEQ_CST) > 0);
    set_state(OPEN);
}
