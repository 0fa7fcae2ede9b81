#define _GNU_SOURCE
#include "preload/ranges.h"

#include "preload/records.h"
#include "preload/system.h"

enum {
    BINS = 256, /* four for each power of two of grains */
    TRIES = 64, /* ranges of a bin that are tried, since some may be too small */
    BUCKETS = 1 << 14,
};

size_t ranges_idle_spans, ranges_idle_planned;
static struct range* bins[SHELVES][BINS];
static struct range* buckets[BUCKETS];

/* Every range in a bin is at least as large as all in the bins before it. */
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

/* The bin for a free range. */
static struct range** bin_for(const struct range* range) {
    return &bins[range->span->shelf][bin_of(range->bytes)];
}

static struct range** bucket_of(const void* block) {
    return &buckets[((uintptr_t)block >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 50];
}

struct range* range_of(const void* block) {
    struct range* range = *bucket_of(block);
    while (range != NULL && range->block != block) range = range->next;
    return range;
}

/* An idle span of the same object fits only if the same pages are bound as the new block needs. */
static bool suits_planned(const struct wish* wish, const struct range* range) {
    const struct span* span = range->span;
    const uintptr_t page = wish_place(wish, range->start) & ~(uintptr_t)(GRAIN - 1);
    return span->idle == range && span->object == wish->planned.object &&
           span->fast_bytes == wish->planned.fast_bytes && span->fast_start == page &&
           round_up(wish_place(wish, range->start) + wish->size, GRAIN) + BEHIND_PLANNED ==
               span->start + span->bytes;
}

static bool fits(const struct wish* wish, const struct range* range) {
    if (wish->shelf == SHELF_PLANNED && !suits_planned(wish, range)) return false;
    const uintptr_t end = range->start + range->bytes, at = wish_place(wish, range->start);
    return at < end && end - at >= wish->size;
}

/* Takes the lowest address in the first bin with a range that fits. A program that frees blocks and
 * asks for the same ones again, as in each time step, then gets the same addresses. */
struct range* range_find(const struct wish* wish) {
    for (size_t bin = bin_of(wish->size); bin < BINS; bin++) {
        struct range *lowest = NULL, *range = bins[wish->shelf][bin];
        for (size_t tries = 0; range && tries < TRIES; range = range->next, tries++)
            if ((lowest == NULL || range->start < lowest->start) && fits(wish, range))
                lowest = range;
        if (lowest != NULL) return lowest;
    }
    return NULL;
}

void range_set_free(struct range* range) {
    range->block = NULL;
    enlist(bin_for(range), range);
    if (range->bytes == range->span->bytes) {
        range->span->idle = range;
        ranges_idle_spans++;
        if (range->span->shelf == SHELF_PLANNED)
            __atomic_fetch_add(&ranges_idle_planned, 1, __ATOMIC_RELAXED);
    }
}

void range_set_used(struct range* range) {
    delist(bin_for(range), range);
    if (range->span->idle) {
        range->span->idle = NULL;
        ranges_idle_spans--;
        if (range->span->shelf == SHELF_PLANNED)
            __atomic_fetch_sub(&ranges_idle_planned, 1, __ATOMIC_RELAXED);
    }
}

struct range* range_cut(struct range* range, uintptr_t at) {
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

void range_join(struct range* range) {
    struct range* rest = range->after;
    range->bytes += rest->bytes;
    range->clean &= rest->clean;
    range->after = rest->after;
    if (range->after) range->after->before = range;
    record_give(rest);
}

void range_trim(struct range* range, uintptr_t end) {
    end = round_up(end, GRAIN);
    if (end >= range->start + range->bytes) return;
    struct range* rest = range_cut(range, end);
    if (rest == NULL) return;
    if (rest->after && !rest->after->block) {
        range_set_used(rest->after);
        range_join(rest);
    }
    range_set_free(rest);
}

void range_enter(struct range* range) { enlist(bucket_of(range->block), range); }

void range_leave(struct range* range) { delist(bucket_of(range->block), range); }

void ranges_each_block(void (*say)(const struct range*)) {
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct range* range = buckets[i]; range; range = range->next) say(range);
}
