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
#include "preload/errors.h"
#include "preload/frames.h"
#include "preload/inside.h"
#include "preload/mappings.h"
#include "preload/pools.h"
#include "preload/regions.h"
#include "preload/spans.h"
#include "preload/system.h"

static int cancelling; /* of the thread that forks, which has the locks */
static int was_inside, is_inside;

_Thread_local volatile int inside __attribute__((tls_model("initial-exec")));

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

static void before(void) {
    const int saved_errno = errno;
    const int state = cancelling_off();
    was_inside = inside;
    regions_fork_begins();
    mappings_fork_begins();
    pools_fork_begins();
    blocks_fork_begins();
    frames_lock();
    cancelling = state;
    is_inside = inside;
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
    inside = 0;
    errno = saved_errno;
}

static void in_parent(void) {
    const int saved_errno = errno;
    inside = is_inside;
    for (struct span* span = spans_first(); span; span = span->after) {
        if (span->copy == NULL) continue;
        madvise((void*)span->start, span_pool_bytes(span), MADV_DOFORK);
        unmap_memory(span->copy, span_pool_bytes(span));
        span->copy = NULL;
    }
    const int state = cancelling;
    frames_unlock();
    blocks_fork_ends();
    pools_fork_ends(false);
    mappings_fork_ends(false);
    regions_fork_ends(false);
    cancelling_back(state);
    errno = saved_errno;
}

static void in_child(void) {
    const int saved_errno = errno;
    frames_reset_lock();
    errors_forked();
    for (struct span* span = spans_first(); span; span = span->after)
        if (span->copy != NULL) move_to_copy(span);
    blocks_fork_ends_in_child();
    pools_fork_ends(true);
    mappings_fork_ends(true);
    regions_fork_ends(true);
    inside = was_inside;
    cancelling_back(cancelling);
    errno = saved_errno;
}

void fork_prepared(void) { pthread_atfork(before, in_parent, in_child); }
