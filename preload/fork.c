/*
 * After a fork, parent and child share the private pages of the kernel's huge-page pool. When one
 * of them writes to a page, the kernel copies it, and if the pool has no free page then, the child
 * is killed by SIGBUS. So the library gives children no pages of the pool: before the fork it
 * copies their contents to ordinary memory, which the child gets in their place.
 *
 * The parent keeps its pages. Other threads may write to them during the fork, and devices may have
 * them pinned: io_uring and RDMA would go on with frames that the parent no longer has. If there is
 * no memory for the copies, the fork is as without the library.
 */
#define _GNU_SOURCE
#include "preload/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/blocks.h"
#include "preload/counts.h"
#include "preload/deferred.h"
#include "preload/errors.h"
#include "preload/fork_gate.h"
#include "preload/mappings.h"
#include "preload/pools.h"
#include "preload/regions.h"
#include "preload/spans.h"
#include "preload/system.h"

static int cancelling; /* cancellation state of the thread that forks and has closed the gate */

/* How many forks this thread has under way in signal handlers that interrupted it inside the gate.
 * The library leaves these forks to the kernel. */
static _Thread_local int within __attribute__((tls_model("initial-exec")));

static size_t bytes_in_pool(void) {
    size_t bytes = 0;
    for (struct span* span = spans_first(); span; span = span->after)
        bytes += span_pool_bytes(span);
    return bytes;
}

/* Other threads may write to these bytes at the same time, a data race in C: hence the machine
 * instruction. */
static void copy_bytes(void* to, const void* from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

/* A copy of the span's pages of the pool, in other memory. */
static void* copy_of(const struct span* span) {
    const size_t bytes = span_pool_bytes(span);
    char* room =
        map_memory(NULL, bytes + MIB(2), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (room == MAP_FAILED) return NULL;
    char* copy = (char*)round_up((uintptr_t)room, MIB(2));
    if (copy > room) unmap_memory(room, (size_t)(copy - room));
    unmap_memory(copy + bytes, (size_t)(room + MIB(2) - copy));
    madvise(copy, bytes, MADV_HUGEPAGE);
    copy_bytes(copy, (const void*)span->start, bytes);
    return copy;
}

/* In the child: moves the copy to where the pages of the pool were, and updates the span. */
static void move_to_copy(struct span* span) {
    const size_t bytes = span_pool_bytes(span);
    if (remap_memory(span->copy, bytes, (void*)span->start) == MAP_FAILED)
        say_once("a child cannot have its copy of the pool's pages (%s)", strerror(errno));
    span->copy = NULL;
    const enum page_kind now = transparent_possible() ? PAGES_THP : PAGES_4K;
    for (int kind = PAGES_1G; kind <= PAGES_2M; kind++) {
        counts.mapped[kind] -= span->part[kind];
        counts.mapped[now] += span->part[kind];
        span->part[kind] = 0;
    }
    span->part[now] += bytes;
}

static void make_copies(void) {
    const size_t bytes = bytes_in_pool();
    if (bytes > memory_available()) {
        say_once(
            "a child has no copy of the pool's pages for want of memory; it may be killed by "
            "SIGBUS if it writes");
    } else if (bytes > 0) {
        counts.forks++;
        counts.copied += bytes;
        for (struct span* span = spans_first(); span; span = span->after) {
            if (span_pool_bytes(span) > 0 && (span->copy = copy_of(span)) != NULL)
                madvise((void*)span->start, span_pool_bytes(span), MADV_DONTFORK);
        }
    }
}

static void drop_copies(void) {
    for (struct span* span = spans_first(); span; span = span->after) {
        if (span->copy == NULL) continue;
        madvise((void*)span->start, span_pool_bytes(span), MADV_DOFORK);
        unmap_memory(span->copy, span_pool_bytes(span));
        span->copy = NULL;
    }
}

static void give(void* block) {
    if (!pools_give(block)) blocks_give(block);
}

static void forget(void* start, size_t bytes) {
    mappings_going(start, bytes);
    mappings_gone();
}

static void before(void) {
    const int saved_errno = errno, state = cancelling_off();
    if (gate_close()) {
        cancelling = state;
        make_copies();
        gate_show();
    } else {
        within++;
        cancelling_back(state);
    }
    errno = saved_errno;
}

static void in_parent(void) {
    if (within > 0) {
        within--;
        return;
    }
    const int saved_errno = errno, state = cancelling;
    gate_hide();
    drop_copies();
    deferred_do(give, forget);
    gate_open();
    cancelling_back(state);
    errno = saved_errno;
}

static void in_child(void) {
    const int saved_errno = errno;
    errors_forked();
    regions_forked();
    if (within > 0) {
        within--;
        gate_reset_in_child();
    } else {
        gate_hide_in_child();
        for (struct span* span = spans_first(); span; span = span->after)
            if (span->copy != NULL) move_to_copy(span);
        deferred_do(give, forget);
        gate_open();
        cancelling_back(cancelling);
    }
    errno = saved_errno;
}

void fork_prepared(void) { pthread_atfork(before, in_parent, in_child); }
