/*
 * Spans: memory from the kernel on the pages that were asked for, from which blocks are cut.
 *
 * All lie in one territory of the address space, so that "is this pointer ours?" is one comparison.
 * Nothing is reserved in it: what is not a span is free for others, as everywhere.
 */
#ifndef PAGELENS_RUN_SPANS_H
#define PAGELENS_RUN_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings.h"

struct territory {
    uintptr_t base;
    size_t bytes;
};
extern struct territory territory; /* until territory_open() all addresses */

/* Bytes behind a planned block that are mapped, too, and never used: vector loops that read a
 * little more than there is, and QEMU's scalar FMA, which loads 16 bytes for 8, find it as behind
 * others. */
enum { BEHIND_PLANNED = 4096 };

struct placed; /* frames.c */

/* What blocks a span is for. */
enum shelf {
    SHELF_ANY,
    SHELF_CUT,     /* whose pages the program may treat one by one: none of the pool */
    SHELF_PLANNED, /* one block of an object of the plan, and the pages for it */
    SHELVES
};

struct span {
    struct span *before, *after; /* by address */
    uintptr_t start;
    size_t bytes;
    enum shelf shelf;
    size_t part[PAGE_KINDS]; /* bytes on pages of each kind, which lie in this order */
    struct range* idle;      /* the one range, where nothing of the span is in use */
    struct placed* placed;   /* its frames, where they were chosen */
    void* copy;              /* of the pool's pages, while the process forks */
    uint32_t object;         /* of the plan, on its shelf; */
    uintptr_t fast_start; /* 0 while it is made; from there on so many bytes are bound to the fast
                             nodes */
    size_t fast_bytes;
};

/* Where the territory lies: the same in every call. */
uintptr_t territory_start(void);
void territory_open(void);

/* The part of it that is not for spans: pools.c. */
uintptr_t territory_pools(void);
size_t territory_pools_bytes(void);

/* Whether new spans have frames for all their pages at once: those of the pool, and chosen ones. */
bool spans_are_filled(enum shelf shelf);

/* Bytes that a span for `bytes` has: at least as many, in whole pages of 1 GiB or 2 MiB. */
size_t span_size(size_t bytes, enum shelf shelf);

/* These three with the lock of blocks.c. */
struct span* span_reserve(size_t bytes); /* address space only; NULL without any */
void span_unlink(struct span* span);     /* its memory is the caller's to unmap */
struct span* spans_first(void);

/* Puts memory for its shelf between `start` and `bytes` of a reserved span, and says which; false
 * if there is none. Without the lock, hence on notes of the caller's own. */
bool span_fill(struct span* span);

static inline size_t span_pool_bytes(const struct span* span) {
    return span->part[PAGES_1G] + span->part[PAGES_2M];
}

#endif
