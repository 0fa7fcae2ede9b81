/*
 * A span is tiled by ranges: blocks and what is free between them. Free ranges are in bins by size,
 * blocks in a table by address; both are notes outside of the spans, so that no page is touched
 * before the program does.
 *
 * A span with no block left is kept for the next ones as long as all spans together have no more
 * bytes than blocks once had at the same time: the process never is larger than it had to be. Those
 * of more than KEPT_BYTES go back at once, as glibc's own mappings do (DEFAULT_MMAP_THRESHOLD_MAX),
 * unless their frames have been chosen at some cost.
 */
#define _GNU_SOURCE
#include "preload/blocks.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/budget.h"
#include "preload/counts.h"
#include "preload/frames.h"
#include "preload/records.h"
#include "preload/spans.h"
#include "preload/stagger.h"
#include "preload/system.h"
#include "preload/transparent.h"

enum {
    GRAIN = 4096,
    KEPT_BYTES = 32 << 20,
    BINS = 256, /* four to each power of two of grains */
    TRIES = 64, /* ranges of a bin that may be too small */
    BUCKETS = 1 << 14,
    MOST_INDEX = 4096, /* blocks at different offsets at one time */
};

struct range {
    uintptr_t start;
    size_t bytes;
    struct range *before, *after;  /* neighbours in the span */
    struct range *next, *previous; /* in a bin or bucket */
    struct span* span;
    void* block;  /* NULL: free */
    size_t index; /* of its offset, + 1; 0: it has none */
    bool clean;   /* zeros as they came from the kernel */
};

struct wish {
    size_t size, alignment, period, offset, index;
    enum shelf shelf;
    struct planned_wish planned; /* of its shelf */
};

struct counts counts;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct range* bins[SHELVES][BINS];
static struct range* buckets[BUCKETS];
static uint64_t indices[MOST_INDEX / 64];
static size_t span_bytes, idle_spans;
static size_t idle_planned; /* of them the plan's; also read without the lock */

/* This thread is in fork(), between our handlers. In the static TLS block: reaching it never
 * allocates. */
static _Thread_local bool forking __attribute__((tls_model("initial-exec")));

void blocks_lock(void) {
    if (!forking) pthread_mutex_lock(&mutex);
}

void blocks_unlock(void) {
    if (!forking) pthread_mutex_unlock(&mutex);
}

void blocks_fork_begins(void) {
    blocks_lock();
    forking = true;
}

void blocks_fork_ends(void) {
    forking = false;
    blocks_unlock();
}

void blocks_fork_ends_in_child(void) {
    forking = false;
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Ranges in a bin have at least as many bytes as those of the bins before it. */
static size_t bin_of(size_t bytes) {
    const size_t grains = bytes / GRAIN;
    if (grains < 4) return grains;
    const unsigned power = 63 - (unsigned)__builtin_clzl(grains);
    return 4 * power + (grains >> (power - 2) & 3) - 4;
}

static void enlist(struct range** list, struct range* range) {
    range->previous = NULL;
    range->next = *list;
    if (*list) (*list)->previous = range;
    *list = range;
}

static void delist(struct range** list, struct range* range) {
    if (range->next) range->next->previous = range->previous;
    *(range->previous ? &range->previous->next : list) = range->next;
}

/* Of free ranges. */
static struct range** bin_for(const struct range* range) {
    return &bins[range->span->shelf][bin_of(range->bytes)];
}

static struct range** bucket_of(const void* block) {
    return &buckets[((uintptr_t)block >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 50];
}

static struct range* range_of(const void* block) {
    struct range* range = *bucket_of(block);
    while (range != NULL && range->block != block) range = range->next;
    return range;
}

static size_t index_take(void) {
    for (size_t i = 0; i < MOST_INDEX / 64; i++)
        if (~indices[i] != 0) {
            const size_t bit = (size_t)__builtin_ctzl(~indices[i]);
            indices[i] |= UINT64_C(1) << bit;
            return 64 * i + bit + 1;
        }
    return 0;
}

static void index_give(size_t index) {
    if (index != 0) indices[(index - 1) / 64] &= ~(UINT64_C(1) << (index - 1) % 64);
}

/* Who asks for whole pages may protect, discard or unmap some of them. */
static enum shelf shelf_for(size_t alignment) {
    return alignment >= GRAIN && settings.pages <= PAGES_2M ? SHELF_CUT : SHELF_ANY;
}

/* The lowest offset that no live block has: what is freed and asked for again finds its old place.
 */
static struct wish wish_for(size_t size, size_t alignment) {
    struct wish wish = {.size = size,
                        .alignment = alignment < GRAIN ? GRAIN : alignment,
                        .shelf = shelf_for(alignment)};
    wish.period = stagger_period(settings.period, size);
    if (alignment > STAGGER_LINE && wish.period <= alignment) wish.period = 0;
    if (wish.period == 0 || (wish.index = index_take()) == 0) {
        wish.period = 0;
        return wish;
    }
    wish.offset = stagger_offset(wish.index - 1, wish.period);
    if (alignment > STAGGER_LINE) wish.offset &= ~(alignment - 1);
    return wish;
}

/* Where a block would begin in a range from `start` on. */
static uintptr_t place(const struct wish* wish, uintptr_t start) {
    if (wish->period == 0) return round_up(start, wish->alignment);
    return start + ((wish->offset - start) & (wish->period - 1));
}

/* A span that the object had is the same again only with the same pages bound. */
static bool suits_planned(const struct wish* wish, const struct range* range) {
    const struct span* span = range->span;
    const uintptr_t page = place(wish, range->start) & ~(uintptr_t)(GRAIN - 1);
    return span->idle == range && span->object == wish->planned.object &&
           span->fast_bytes == wish->planned.fast_bytes && span->fast_start == page &&
           round_up(place(wish, range->start) + wish->size, GRAIN) + BEHIND_PLANNED ==
               span->start + span->bytes;
}

static bool fits(const struct wish* wish, const struct range* range) {
    if (wish->shelf == SHELF_PLANNED && !suits_planned(wish, range)) return false;
    const uintptr_t end = range->start + range->bytes, at = place(wish, range->start);
    return at < end && end - at >= wish->size;
}

/* Of the smallest that fit the one at the lowest address: who frees blocks and asks for the same
 * again, as time steps do, has the same again. */
static struct range* find(const struct wish* wish) {
    for (size_t bin = bin_of(wish->size); bin < BINS; bin++) {
        struct range *lowest = NULL, *range = bins[wish->shelf][bin];
        for (size_t tries = 0; range && tries < TRIES; range = range->next, tries++)
            if ((lowest == NULL || range->start < lowest->start) && fits(wish, range))
                lowest = range;
        if (lowest != NULL) return lowest;
    }
    return NULL;
}

static void set_free(struct range* range) {
    range->block = NULL;
    enlist(bin_for(range), range);
    if (range->bytes == range->span->bytes) {
        range->span->idle = range;
        idle_spans++;
        if (range->span->shelf == SHELF_PLANNED)
            __atomic_fetch_add(&idle_planned, 1, __ATOMIC_RELAXED);
    }
}

static void set_used(struct range* range) {
    delist(bin_for(range), range);
    if (range->span->idle) {
        range->span->idle = NULL;
        idle_spans--;
        if (range->span->shelf == SHELF_PLANNED)
            __atomic_fetch_sub(&idle_planned, 1, __ATOMIC_RELAXED);
    }
}

/* Cuts what lies from `at` on off a range that is in no list. NULL, and nothing is cut, without
 * memory for the note. */
static struct range* cut(struct range* range, uintptr_t at) {
    struct range* rest = record_take();
    _Static_assert(sizeof *rest <= RECORD_BYTES, "a range is kept in a record");
    if (rest == NULL) return NULL;
    *rest = (struct range){.start = at,
                           .bytes = range->start + range->bytes - at,
                           .before = range,
                           .after = range->after,
                           .span = range->span,
                           .clean = range->clean};
    if (rest->after) rest->after->before = rest;
    range->after = rest;
    range->bytes = at - range->start;
    return rest;
}

/* Joins a range in no list with the one behind it, in none either. */
static void join(struct range* range) {
    struct range* rest = range->after;
    range->bytes += rest->bytes;
    range->clean &= rest->clean;
    range->after = rest->after;
    if (range->after) range->after->before = range;
    record_give(rest);
}

/* Cuts the tail of a block that it does not need off. */
static void trim(struct range* range, uintptr_t end) {
    end = round_up(end, GRAIN);
    if (end >= range->start + range->bytes) return;
    struct range* rest = cut(range, end);
    if (rest == NULL) return;
    if (rest->after && !rest->after->block) {
        set_used(rest->after);
        join(rest);
    }
    set_free(rest);
}

static void count_peak(void) {
    if (counts.live_bytes <= counts.peak_bytes) return;
    counts.peak_bytes = counts.live_bytes;
    counts.peak_blocks = counts.live_blocks;
    memcpy(counts.peak_mapped, counts.mapped, sizeof counts.mapped);
    counts.peak_gaps = span_bytes - counts.live_bytes;
}

/* Makes a block of a range that fits. */
static void* carve(struct range* range, const struct wish* wish) {
    set_used(range);
    const uintptr_t at = place(wish, range->start), start = at & ~(uintptr_t)(GRAIN - 1);
    if (start > range->start) {
        struct range* rest = cut(range, start);
        if (rest != NULL) {
            set_free(range);
            range = rest;
        }
    }
    range->block = (void*)at;
    range->index = wish->index;
    trim(range, at + wish->size);
    range->clean = false; /* from now on the program's to write */
    enlist(bucket_of(range->block), range);
    counts.blocks++;
    counts.bytes += wish->size;
    counts.live_blocks++;
    counts.live_bytes += range->bytes;
    if (wish->index > 1) counts.staggered++;
    if (wish->offset > counts.most_offset) counts.most_offset = wish->offset;
    count_peak();
    return range->block;
}

/* Takes an idle span out of everything; `drop` unmaps it, without the lock. */
static void retire(struct span* span) {
    struct range* whole = span->idle;
    set_used(whole);
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
    munmap((void*)span->start, span->bytes);
    blocks_lock();
    record_give(span);
    blocks_unlock();
}

/* An idle span that is in excess with `more` bytes to come; retired already. */
static struct span* excess(size_t more) {
    const size_t live = counts.live_bytes + more;
    const size_t bound = live > counts.peak_bytes ? live : counts.peak_bytes;
    if (idle_spans == 0 || span_bytes + more <= bound) return NULL;
    struct span* span = spans_first();
    while (span->idle == NULL) span = span->after;
    retire(span);
    return span;
}

/* A new span as one free range; called and left with the lock, which is open meanwhile. */
static struct range* add_span(const struct wish* wish) {
    size_t slack = wish->offset; /* spans begin at multiples of 2 MiB */
    if (wish->period > MIB(2)) slack = wish->period;
    if (wish->period == 0 && wish->alignment > MIB(2)) slack = wish->alignment;
    struct range* range = record_take();
    if (range == NULL) return NULL;
    blocks_unlock();
    const size_t bytes = span_size(wish->size + slack, wish->shelf);
    blocks_lock();
    struct span *span, *surplus;
    while ((surplus = excess(bytes)) != NULL) {
        blocks_unlock();
        drop(surplus);
        blocks_lock();
    }
    span = bytes ? span_reserve(bytes) : NULL;
    if (span == NULL) {
        record_give(range);
        return NULL;
    }
    span_bytes += bytes;
    span->shelf = wish->shelf;
    struct span filling = {.start = span->start,
                           .bytes = bytes,
                           .shelf = wish->shelf}; /* a fork sees it when it is whole */
    if (wish->shelf == SHELF_PLANNED) {
        filling.fast_start = place(wish, span->start) & ~(uintptr_t)(GRAIN - 1);
        filling.fast_bytes = wish->planned.fast_bytes;
    }
    blocks_unlock();
    const bool filled = span_fill(&filling);
    blocks_lock();
    if (!filled) {
        span_bytes -= bytes;
        span_unlink(span);
        munmap((void*)span->start, span->bytes);
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
    set_free(range);
    return range;
}

/* A block as wished, from what there is, or if it may from a new span. */
static void* take(struct wish* wish, bool zeroed, bool anew) {
    bool clean = false;
    void* block = NULL;
    struct range* range = find(wish);
    if (range == NULL && anew) {
        const int state = cancelling_off();
        range = add_span(wish);
        cancelling_back(state);
    }
    if (range != NULL) {
        clean = range->clean;
        block = carve(range, wish);
    } else {
        index_give(wish->index);
        counts.refused += wish->shelf != SHELF_PLANNED;
    }
    blocks_unlock();
    if (block != NULL && zeroed && !clean) memset(block, 0, wish->size);
    return block;
}

static bool possible(size_t size, size_t alignment) {
    return !forking && size <= territory.bytes / 2 && alignment <= GIB(1);
}

void* blocks_take(size_t size, size_t alignment, bool zeroed) {
    if (!possible(size, alignment)) return NULL;
    const int saved_errno = errno;
    blocks_lock();
    struct wish wish = wish_for(size, alignment);
    void* block = take(&wish, zeroed, true);
    errno = saved_errno;
    return block;
}

static void* take_planned(size_t size, size_t alignment, bool zeroed,
                          const struct planned_wish* planned, bool anew) {
    if (!possible(size, alignment)) return NULL;
    blocks_lock();
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

void blocks_release_planned(void) {
    if (forking || __atomic_load_n(&idle_planned, __ATOMIC_RELAXED) == 0) return;
    blocks_lock();
    for (struct span* span = spans_first(); span;) {
        if (span->idle == NULL || span->shelf != SHELF_PLANNED) {
            span = span->after;
            continue;
        }
        retire(span);
        blocks_unlock();
        drop(span);
        blocks_lock();
        span = spans_first(); /* it may all be different now */
    }
    blocks_unlock();
}

static struct planned_block planned_block_of(const struct range* range) {
    const struct span* span = range->span;
    const uintptr_t end = range->start + range->bytes, fast = span->fast_start + span->fast_bytes;
    return (struct planned_block){span->object, range->start, range->bytes,
                                  fast < end ? fast : end};
}

void blocks_each_planned(void (*say)(const struct planned_block* block)) {
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct range* range = buckets[i]; range; range = range->next)
            if (range->span->shelf == SHELF_PLANNED) {
                const struct planned_block block = planned_block_of(range);
                say(&block);
            }
}

size_t blocks_usable(const void* block) {
    blocks_lock();
    const struct range* range = range_of(block);
    const size_t bytes = range ? range->start + range->bytes - (uintptr_t)block : 0;
    blocks_unlock();
    return bytes;
}

bool blocks_give(void* block) {
    const int saved_errno = errno;
    struct span* surplus = NULL;
    blocks_lock();
    struct range* range = range_of(block);
    if (range != NULL && range->span->shelf == SHELF_PLANNED) {
        const struct planned_block gone = planned_block_of(range);
        blocks_unlock(); /* the kernel is asked where it lay; the block is the caller's until then
                          */
        planned_gone(&gone);
        blocks_lock();
    }
    if (range != NULL) {
        delist(bucket_of(block), range);
        index_give(range->index);
        range->clean = false;
        counts.live_blocks--;
        counts.live_bytes -= range->bytes;
        if (range->after && !range->after->block) {
            set_used(range->after);
            join(range);
        }
        if (range->before && !range->before->block) {
            range = range->before;
            set_used(range);
            join(range);
        }
        set_free(range);
        struct span* span = range->span;
        /* While the process forks, a span may have a copy. */
        if (span->idle && span->bytes > KEPT_BYTES && !span->placed && !forking)
            retire(surplus = span);
    }
    blocks_unlock();
    if (surplus != NULL) drop(surplus);
    errno = saved_errno;
    return range != NULL;
}

bool blocks_resize(void* block, size_t size) {
    blocks_lock();
    struct range* range = range_of(block);
    const uintptr_t end = range ? round_up((uintptr_t)block + size, GRAIN) : 0;
    bool done = false;
    if (range != NULL && range->span->shelf == SHELF_PLANNED) {
        done = end <= range->start + range->bytes; /* its pages are counted when it goes */
    } else if (range != NULL && size <= territory.bytes / 2) {
        const size_t before = range->bytes;
        struct range* next = range->after;
        if (end > range->start + range->bytes && next && !next->block &&
            end <= next->start + next->bytes) {
            set_used(next);
            join(range);
        }
        done = end <= range->start + range->bytes;
        if (done) trim(range, end);
        counts.live_bytes += range->bytes - before;
        count_peak();
    }
    blocks_unlock();
    return done;
}
