/*
 * A private page of the kernel's pool that parent and child share is copied when one of them writes
 * to it, and where the pool is dry then the child is killed by SIGBUS. So children get no pages of
 * the pool: what blocks have on them is copied to ordinary memory before the fork.
 *
 * The parent keeps its pages, as other threads may write to them meanwhile and devices may have
 * them pinned: io_uring and RDMA would go on with the frames that it no longer has. Without memory
 * for a copy, it is as without us.
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

static int cancelling; /* of the thread that forks, which has closed the gate */

/* This thread's forks under way in handlers that have interrupted it inside: the kernel's. */
static _Thread_local int within __attribute__((tls_model("initial-exec")));

static size_t bytes_in_pool(void) {
    size_t bytes = 0;
    for (struct span* span = spans_first(); span; span = span->after)
        bytes += span_pool_bytes(span);
    return bytes;
}

/* Other threads may write meanwhile, of which the language knows nothing: it is the machine's copy.
 */
static void copy_bytes(void* to, const void* from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

/* The span's pages of the pool, as they are now, elsewhere. */
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

/* In the child: the copy takes the place that the pages left; the notes on the span follow. */
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
