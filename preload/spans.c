#define _GNU_SOURCE
#include "preload/spans.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>

#include "preload/object_nodes.h"
#include "preload/records.h"
#include "preload/system.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17; to older kernels the address is a hint */
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

/* The territory lies between the usual places of the executable and of libraries, on machines with
 * 47 and with 48 address bits. It holds 16 TiB of blocks and gaps. */
#ifndef TERRITORY
#define TERRITORY UINT64_C(0x400000000000)
#endif
#ifndef TERRITORY_BYTES
#define TERRITORY_BYTES ((size_t)1 << 44)
#endif
enum { FOREIGN_TRIES = 64, SHARED_SPAN = 32 << 20 };

struct territory territory = {0, SIZE_MAX};
static struct span *first, *latest;

/* It is moved by a random amount of up to 1 TiB, unless address randomization is off. */
uintptr_t territory_start(void) {
    static uintptr_t start;
    if (start == 0) {
        uint64_t random = 0;
        const unsigned long bytes = getauxval(AT_RANDOM);
        if (bytes != 0 && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
            memcpy(&random, (const void*)bytes, sizeof random);
        start = TERRITORY + GIB(random % (TERRITORY_BYTES >> 34));
    }
    return start;
}

void territory_open(void) {
    territory.base = territory_start();
    territory.bytes = TERRITORY_BYTES - (territory.base - TERRITORY);
}

uintptr_t territory_pools(void) { return territory.base + territory.bytes - TERRITORY_BYTES / 8; }
size_t territory_pools_bytes(void) { return TERRITORY_BYTES / 8; }

struct span* spans_first(void) { return first; }

static size_t page_bytes(enum page_kind kind) { return kind == PAGES_1G ? GIB(1) : MIB(2); }

/* The largest kind of pages that a shelf may have. */
static enum page_kind best_kind(enum shelf shelf) {
    return shelf != SHELF_ANY && settings.pages < PAGES_THP ? PAGES_THP : settings.pages;
}

bool spans_are_filled(enum shelf shelf) {
    return settings.cache != 0 || (best_kind(shelf) <= PAGES_2M && pool_pages(MIB(2)) > 0);
}

/* Where untouched pages cost nothing, small blocks share a large span, so that little memory is
 * lost between blocks. */
size_t span_size(size_t bytes, enum shelf shelf) {
    if (bytes > TERRITORY_BYTES) return 0;
    if (shelf == SHELF_PLANNED) return round_up(bytes, 4096) + BEHIND_PLANNED;
    if (best_kind(shelf) == PAGES_1G && pool_pages(GIB(1)) >= round_up(bytes, GIB(1)) >> 30)
        return round_up(bytes, GIB(1));
    return round_up(bytes < SHARED_SPAN && !spans_are_filled(shelf) ? SHARED_SPAN : bytes, MIB(2));
}

/* Maps address space from `at` on if it is free. */
static bool claim(uintptr_t at, size_t bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* got = map_memory((void*)at, bytes, PROT_NONE, flags);
    if (got == MAP_FAILED) return false;
    if (got == (void*)at) return true;
    unmap_memory(got, bytes);
    errno = EEXIST;
    return false;
}

/* Claims address space in the gap behind `before`, or in the first gap if that is NULL. Returns 0
 * if there is no room, with errno EEXIST or ENOMEM. */
static uintptr_t claim_behind(const struct span* before, size_t bytes) {
    const size_t step = settings.pages == PAGES_1G ? GIB(1) : MIB(2);
    const struct span* next = before ? before->after : first;
    /* The first GiB is for the bootstrap pool. */
    const uintptr_t start = before ? before->start + before->bytes : territory.base + GIB(1);
    const uintptr_t end = next ? next->start : territory_pools();
    uintptr_t at = round_up(start, step);
    errno = EEXIST;
    for (int i = 0; i < FOREIGN_TRIES && at < end && end - at >= bytes; i++, at += GIB(1)) {
        if (claim(at, bytes)) return at;
        if (errno != EEXIST) break; /* skip memory of others */
    }
    return 0;
}

struct span* span_reserve(size_t bytes) {
    struct span* span = record_take();
    if (span == NULL) return NULL;
    _Static_assert(sizeof *span <= RECORD_BYTES, "a span is kept in a record");
    struct span* before = latest;
    do {
        if ((span->start = claim_behind(before, bytes)) != 0) {
            span->bytes = bytes;
            span->before = before;
            span->after = before ? before->after : first;
            if (span->after) span->after->before = span;
            *(before ? &before->after : &first) = span;
            return latest = span;
        }
        before = before ? before->after : first; /* after the last gap comes the first one */
    } while (errno == EEXIST && before != latest);
    record_give(span);
    return NULL;
}

void span_unlink(struct span* span) {
    if (latest == span) latest = span->before;
    if (span->after) span->after->before = span->before;
    *(span->before ? &span->before->after : &first) = span->after;
}

static bool map(uintptr_t at, size_t bytes, int more_flags) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | more_flags;
    return map_memory((void*)at, bytes, PROT_READ | PROT_WRITE, flags) != MAP_FAILED;
}

/* Maps as many of the pool's pages as there are, and gives each its frame. Returns how many bytes.
 */
static size_t map_pool(uintptr_t at, size_t bytes, enum page_kind kind) {
    const size_t page = page_bytes(kind), wanted = bytes / page;
    const size_t available = wanted > 0 ? pool_pages(page) : 0;
    size_t pages = wanted < available ? wanted : available;
    const int huge = MAP_HUGETLB | (kind == PAGES_1G ? 30 : 21) << MAP_HUGE_SHIFT;
    while (pages > 0 && !map(at, pages * page, huge)) pages /= 2; /* others took some */
    if (pages > 0 && !populate((void*)at, pages * page, page)) {
        say_once("the pool's pages cannot be had here (%s); is it the cpuset or memory policy?",
                 strerror(errno));
        pages = 0; /* fill() maps other pages over them */
    }
    if (pages < wanted)
        say_once("%zu of %zu pages of %s are free in the kernel's pool; vm.nr_hugepages sets it",
                 pages, wanted, kind == PAGES_1G ? "1 GiB" : "2 MiB");
    return pages * page;
}

static bool fill(struct span* span) {
    uintptr_t at = span->start;
    const uintptr_t end = at + span->bytes;
    for (enum page_kind kind = best_kind(span->shelf); kind < PAGES_THP; kind++) {
        span->part[kind] = map_pool(at, end - at, kind);
        at += span->part[kind];
    }
    if (at == end) return true;
    if (!map(at, end - at, 0)) return false;
    enum page_kind rest = PAGES_4K;
    if (settings.pages < PAGES_4K) {
        if (transparent_possible() && madvise((void*)at, end - at, MADV_HUGEPAGE) == 0)
            rest = PAGES_THP;
        else
            say_once(
                "transparent huge pages are off: pages have 4 KiB; see "
                "/sys/kernel/mm/transparent_hugepage/enabled");
    }
    span->part[rest] = end - at;
    return true;
}

/* Binds the fast part before any page has its frame. If that fails the memory is still usable. */
static void bind_planned(const struct span* span) {
    if (span->fast_bytes > 0 &&
        !object_bind(span->object, span->fast_start, span->fast_bytes, false))
        say_once("objects cannot be put on their nodes (%s)", strerror(errno));
}

bool span_fill(struct span* span) {
    if (!fill(span)) return false;
    if (span->shelf == SHELF_PLANNED) bind_planned(span);
    return true;
}
