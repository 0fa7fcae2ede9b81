/*
 * A span without blocks is kept for later ones as long as all spans together are not larger than
 * all blocks once were at the same time. So the process never becomes larger than it had to be.
 * Spans of more than KEPT_BYTES go back to the kernel at once, as glibc's mappings do
 * (DEFAULT_MMAP_THRESHOLD_MAX), unless their frames were chosen, which is costly.
 */
#define _GNU_SOURCE
#include "preload/blocks.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/budget.h"
#include "preload/counts.h"
#include "preload/deferred.h"
#include "preload/fork_gate.h"
#include "preload/frames.h"
#include "preload/plan.h"
#include "preload/ranges.h"
#include "preload/records.h"
#include "preload/spans.h"
#include "preload/system.h"
#include "preload/tally.h"
#include "preload/transparent.h"
#include "preload/wishes.h"

enum { KEPT_BYTES = 32 << 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t span_bytes;

/* Only for threads that are inside the gate to change something. */
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

void blocks_look(void) {
    if (gate_look()) lock();
}

void blocks_looked(void) {
    if (gate_may_change()) unlock();
    gate_leave();
}

static void count_peak(void) {
    if (counts.live_bytes <= counts.peak_bytes) return;
    counts.peak_bytes = counts.live_bytes;
    counts.peak_blocks = counts.live_blocks;
    memcpy(counts.peak_mapped, counts.mapped, sizeof counts.mapped);
    counts.peak_gaps = span_bytes - counts.live_bytes;
}

/* Makes a block out of a range that fits. */
static void* carve(struct range* range, const struct wish* wish) {
    range_set_used(range);
    const uintptr_t at = wish_place(wish, range->start), start = at & ~(uintptr_t)(GRAIN - 1);
    if (start > range->start) {
        struct range* rest = range_cut(range, start);
        if (rest != NULL) {
            range_set_free(range);
            range = rest;
        }
    }
    range->block = (void*)at;
    range->index = wish->index;
    range_trim(range, at + wish->size);
    range->clean = false; /* from now on the program may write to it */
    range_enter(range);
    counts.blocks++;
    counts.bytes += wish->size;
    counts.live_blocks++;
    counts.live_bytes += range->bytes;
    if (wish->index > 1) counts.staggered++;
    if (wish->offset > counts.most_offset) counts.most_offset = wish->offset;
    count_peak();
    return range->block;
}

/* Removes an idle span from all lists and counts. The caller then calls drop() without the lock. */
static void retire(struct span* span) {
    struct range* whole = span->idle;
    range_set_used(whole);
    record_give(whole);
    span_unlink(span);
    span_bytes -= span->bytes;
    for (int kind = 0; kind < PAGE_KINDS; kind++) counts.mapped[kind] -= span->part[kind];
    budget_give(span->fast_bytes);
    frames_forget(span);
}

static void drop(struct span* span) {
    const int state = cancelling_off();
    transparent_look(span);
    cancelling_back(state);
    unmap_memory((void*)span->start, span->bytes);
    lock();
    record_give(span);
    unlock();
}

/* Retires and returns an idle span that is one too many when `more` bytes are added; NULL if none
 * is. */
static struct span* excess(size_t more) {
    const size_t live = counts.live_bytes + more;
    const size_t bound = live > counts.peak_bytes ? live : counts.peak_bytes;
    if (ranges_idle_spans == 0 || span_bytes + more <= bound) return NULL;
    struct span* span = spans_first();
    while (span->idle == NULL) span = span->after;
    retire(span);
    return span;
}

/* A new span as one free range. Called with the lock held, which is released for slow work. */
static struct range* add_span(const struct wish* wish) {
    size_t slack = wish->offset; /* since spans begin at multiples of 2 MiB */
    if (wish->period > MIB(2)) slack = wish->period;
    if (wish->period == 0 && wish->alignment > MIB(2)) slack = wish->alignment;
    struct range* range = record_take();
    if (range == NULL) return NULL;
    unlock();
    const size_t bytes = span_size(wish->size + slack, wish->shelf);
    lock();
    struct span *span, *surplus;
    while ((surplus = excess(bytes)) != NULL) {
        unlock();
        drop(surplus);
        lock();
    }
    span = bytes ? span_reserve(bytes) : NULL;
    if (span == NULL) {
        record_give(range);
        return NULL;
    }
    span_bytes += bytes;
    span->shelf = wish->shelf;
    /* A copy, so that a fork sees the span only when it is complete. */
    struct span filling = {.start = span->start, .bytes = bytes, .shelf = wish->shelf};
    if (wish->shelf == SHELF_PLANNED) {
        filling.object = wish->planned.object;
        filling.fast_start = wish_place(wish, span->start) & ~(uintptr_t)(GRAIN - 1);
        filling.fast_bytes = wish->planned.fast_bytes;
    }
    unlock();
    const bool filled = span_fill(&filling);
    if (filled) frames_choose(&filling);
    lock();
    if (!filled) {
        span_bytes -= bytes;
        span_unlink(span);
        unmap_memory((void*)span->start, span->bytes);
        record_give(span);
        record_give(range);
        return NULL;
    }
    memcpy(span->part, filling.part, sizeof span->part);
    span->placed = filling.placed;
    span->object = wish->planned.object;
    span->fast_start = filling.fast_start;
    span->fast_bytes = filling.fast_bytes;
    for (int kind = 0; kind < PAGE_KINDS; kind++) counts.mapped[kind] += span->part[kind];
    *range = (struct range){.start = span->start, .bytes = bytes, .span = span, .clean = true};
    range_set_free(range);
    return range;
}

/* A block as wished: from a free range or, if `anew`, else from a new span. Releases the lock. */
static void* take(struct wish* wish, bool zeroed, bool anew) {
    bool clean = false;
    void* block = NULL;
    struct range* range = range_find(wish);
    if (range == NULL && anew) {
        const int state = cancelling_off();
        range = add_span(wish);
        cancelling_back(state);
    }
    if (range != NULL) {
        clean = range->clean;
        block = carve(range, wish);
    } else {
        wish_index_give(wish->index);
        counts.refused += wish->shelf != SHELF_PLANNED;
    }
    unlock();
    if (block != NULL && zeroed && !clean) memset(block, 0, wish->size);
    return block;
}

static bool possible(size_t size, size_t alignment) {
    return size <= territory.bytes / 2 && alignment <= GIB(1);
}

void* blocks_take(size_t size, size_t alignment, bool zeroed) {
    if (!possible(size, alignment)) return NULL;
    if (!gate_enter()) {
        count_while_forking();
        return NULL;
    }
    const int saved_errno = errno;
    lock();
    struct wish wish = wish_for(size, alignment);
    void* block = take(&wish, zeroed, true);
    gate_leave();
    errno = saved_errno;
    return block;
}

static void* take_planned(size_t size, size_t alignment, bool zeroed,
                          const struct planned_wish* planned, bool anew) {
    if (!possible(size, alignment)) return NULL;
    lock();
    struct wish wish = wish_for(size, alignment);
    wish.shelf = SHELF_PLANNED;
    wish.planned = *planned;
    return take(&wish, zeroed, anew);
}

void* blocks_take_planned(size_t size, size_t alignment, bool zeroed,
                          const struct planned_wish* planned) {
    return take_planned(size, alignment, zeroed, planned, true);
}

void* blocks_take_again(size_t size, size_t alignment, bool zeroed,
                        const struct planned_wish* planned) {
    return take_planned(size, alignment, zeroed, planned, false);
}

static void release(bool all) {
    if (__atomic_load_n(&ranges_idle_planned, __ATOMIC_RELAXED) == 0) return;
    lock();
    for (struct span* span = spans_first(); span;) {
        if (span->idle == NULL || span->shelf != SHELF_PLANNED ||
            !(all || plan_moves(span->object))) {
            span = span->after;
            continue;
        }
        retire(span);
        unlock();
        drop(span);
        lock();
        span = spans_first(); /* others may have changed the list */
    }
    unlock();
}

void blocks_release_planned(void) { release(true); }
void blocks_release_moving(void) { release(false); }

void blocks_each_border(border_function* show) {
    lock();
    for (struct span* span = spans_first(); span; span = span->after) {
        if (span->shelf != SHELF_PLANNED || span->idle || span->fast_start == 0) continue;
        const uintptr_t end = span->start + span->bytes - BEHIND_PLANNED;
        show(span->object, span->fast_start, end - span->fast_start, &span->fast_bytes);
    }
    unlock();
}

static struct planned_block planned_block_of(const struct range* range) {
    const struct span* span = range->span;
    const uintptr_t end = range->start + range->bytes, fast = span->fast_start + span->fast_bytes;
    return (struct planned_block){span->object, range->start, range->bytes,
                                  fast < end ? fast : end};
}

static void (*say_planned)(const struct planned_block* block); /* used with the lock held */

static void say_if_planned(const struct range* range) {
    if (range->span->shelf != SHELF_PLANNED) return;
    const struct planned_block block = planned_block_of(range);
    say_planned(&block);
}

void blocks_each_planned(void (*say)(const struct planned_block* block)) {
    say_planned = say;
    ranges_each_block(say_if_planned);
}

size_t blocks_usable(const void* block) {
    blocks_look();
    const struct range* range = range_of(block);
    const size_t bytes = range ? range->start + range->bytes - (uintptr_t)block : 0;
    blocks_looked();
    return bytes;
}

static bool give(void* block) {
    const int saved_errno = errno;
    struct span* surplus = NULL;
    lock();
    struct range* range = range_of(block);
    if (range != NULL && range->span->shelf == SHELF_PLANNED) {
        const struct planned_block gone = planned_block_of(range);
        /* Asking the kernel where it lay takes time; until then the block is still the caller's. */
        unlock();
        tally_gone(&gone);
        lock();
    }
    if (range != NULL) {
        range_leave(range);
        wish_index_give(range->index);
        range->clean = false;
        counts.live_blocks--;
        counts.live_bytes -= range->bytes;
        if (range->after && !range->after->block) {
            range_set_used(range->after);
            range_join(range);
        }
        if (range->before && !range->before->block) {
            range = range->before;
            range_set_used(range);
            range_join(range);
        }
        range_set_free(range);
        struct span* span = range->span;
        if (span->idle && span->bytes > KEPT_BYTES && !span->placed) retire(surplus = span);
    }
    unlock();
    if (surplus != NULL) drop(surplus);
    errno = saved_errno;
    return range != NULL;
}

bool blocks_give(void* block) {
    const bool may_change = gate_look();
    const bool given = may_change ? give(block) : range_of(block) != NULL;
    if (!may_change && given) deferred_free(block);
    gate_leave();
    return given;
}

bool blocks_resize(void* block, size_t size) {
    if (!gate_enter()) return false;
    lock();
    struct range* range = range_of(block);
    const uintptr_t end = range ? round_up((uintptr_t)block + size, GRAIN) : 0;
    bool done = false;
    if (range != NULL && range->span->shelf == SHELF_PLANNED) {
        done = end <= range->start + range->bytes; /* its pages are counted when it is freed */
    } else if (range != NULL && size <= territory.bytes / 2) {
        const size_t before = range->bytes;
        struct range* next = range->after;
        if (end > range->start + range->bytes && next && !next->block &&
            end <= next->start + next->bytes) {
            range_set_used(next);
            range_join(range);
        }
        done = end <= range->start + range->bytes;
        if (done) range_trim(range, end);
        counts.live_bytes += range->bytes - before;
        count_peak();
    }
    unlock();
    gate_leave();
    return done;
}
