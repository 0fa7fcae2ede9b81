/*
 * Spans: pieces of memory from the kernel, on the kind of pages that was asked for. Blocks are cut
 * from them.
 *
 * All spans lie in one territory of the address space, so that one comparison tells whether a
 * pointer may be the library's. The territory is not reserved: others may use what is not a span.
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
extern struct territory territory; /* all addresses, until territory_open() */

/* Bytes behind a planned block that are mapped and never used. Some code reads a little past the
 * end of a block: vector loops do, and so does QEMU's scalar FMA, which loads 16 bytes for 8.
 * Behind other blocks there is memory; here there must be, too. */
enum { BEHIND_PLANNED = 4096 };

struct placed; /* of frames.c */

/* Which blocks a span is for. */
enum shelf {
    SHELF_ANY,
    SHELF_CUT,     /* blocks whose pages the program may change one by one: no pages of the pool */
    SHELF_PLANNED, /* a single block of an object of the plan */
    SHELVES
};

struct span {
    struct span *before, *after; /* by address */
    uintptr_t start;
    size_t bytes;
    enum shelf shelf;
    size_t part[PAGE_KINDS]; /* bytes on pages of each kind; they lie in the order of the kinds */
    struct range* idle;      /* the only range, if nothing of the span is in use */
    struct placed* placed;   /* its frames, if they were chosen */
    void* copy;              /* of the pool's pages, while the process forks */
    uint32_t object;         /* for SHELF_PLANNED: index of the plan's object */
    /* Bytes that are bound to the fast nodes, and where they begin: 0 while the span is made. */
    uintptr_t fast_start;
    size_t fast_bytes;
};

/* Where the territory begins; every call returns the same. */
uintptr_t territory_start(void);
void territory_open(void);

/* The part of the territory that is for pools.c and not for spans. */
uintptr_t territory_pools(void);
size_t territory_pools_bytes(void);

/* Whether all pages of a new span get their frames at once: because they are the pool's, or because
 * frames are chosen. */
bool spans_are_filled(enum shelf shelf);

/* The size of a span for blocks of `bytes`: at least as much, in whole pages of 1 GiB or 2 MiB, or
 * of 4 KiB for SHELF_PLANNED. */
size_t span_size(size_t bytes, enum shelf shelf);

/* Callers of these three hold the lock of blocks.c. */
struct span* span_reserve(size_t bytes); /* address space only; NULL if there is none */
void span_unlink(struct span* span);     /* the caller unmaps its memory */
struct span* spans_first(void);

/* Maps memory for a reserved span and sets `part`; false if there is none. This may take long, so
 * it is called without the lock, on a copy of the span's record. */
bool span_fill(struct span* span);

static inline size_t span_pool_bytes(const struct span* span) {
    return span->part[PAGES_1G] + span->part[PAGES_2M];
}

#endif
