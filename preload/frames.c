#define _GNU_SOURCE
#include "preload/frames.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "preload/pagemap.h"
#include "preload/pins.h"
#include "preload/slots.h"
#include "preload/spans.h"
#include "preload/system.h"

#define HUGE_BYTES MIB(2)
enum {
    MOST_ROUNDS = 8, /* each takes as many new frames as there are bad pages, or pages at all */
    NOWHERE = -1,    /* the slot of a page without a frame */
};

struct placed {
    size_t pages, bytes; /* bytes: of this record's own mapping */
    uint32_t* first;     /* the slot of each page, had its first frame been kept; or NOWHERE */
    uint32_t* now;       /* the slot of each page */
    uint32_t slots[];    /* memory of both arrays */
};

struct frames_result frames_result;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t slots;            /* of the cache, FRAME_BYTES each */
static struct tally first, now; /* of the pages of all spans */
static uint32_t* population;    /* pages in each group of HUGE_FRAMES slots */
static size_t exchanges_left;

static void* room_for(size_t count, size_t size) {
    void* room = map_memory(NULL, count * size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    return room == MAP_FAILED ? NULL : room;
}

/* An exchange may add two mappings, so the library uses up to a quarter of those that a process can
 * have. */
static size_t most_exchanges(void) {
    char text[32];
    size_t most = 65530;
    if (read_text("/proc/sys/vm/max_map_count", text, sizeof text)) sscanf(text, "%zu", &most);
    return most / 8;
}

/* On the first call, finds out whether the kernel shows frames, and sets up tables for the cache.
 */
static bool ready(void) {
    static enum { UNKNOWN, YES, NO } state;
    if (state != UNKNOWN) return state == YES;
    state = NO;
    if (!pagemap_readable()) {
        say_once("frames cannot be chosen: the kernel shows them with CAP_SYS_ADMIN only");
        return false;
    }
    slots = settings.cache / FRAME_BYTES;
    first.of_slot = room_for(slots, sizeof *first.of_slot);
    now.of_slot = room_for(slots, sizeof *now.of_slot);
    population = room_for(slots / HUGE_FRAMES, sizeof *population);
    if (!first.of_slot || !now.of_slot || !population) return false;
    exchanges_left = most_exchanges();
    state = YES;
    return true;
}

static uint32_t slot_of(uint64_t frame) { return (uint32_t)(frame % slots); }
static uint32_t group_of(uint64_t frame) { return (uint32_t)(frame % slots / HUGE_FRAMES); }

/* Records that a page keeps this frame. */
static void keep(struct placed* placed, size_t page, uint64_t frame) {
    placed->now[page] = (uint32_t)NOWHERE;
    if (frame == 0) return;
    placed->now[page] = slot_of(frame);
    tally_add(&now, slot_of(frame));
    population[group_of(frame)]++;
}

static bool is_huge(const uint64_t* frames) {
    if (frames[0] == 0 || frames[0] % HUGE_FRAMES != 0) return false;
    for (size_t i = 1; i < HUGE_FRAMES; i++)
        if (frames[i] != frames[0] + i) return false;
    return true;
}

/* Huge pages that may replace others; each has its frames. `pages` counts 4 KiB. */
struct spare {
    uintptr_t at;
    size_t pages;
    void* mapping;
    size_t bytes;
};

static struct spare take_spare(size_t units, bool of_pool) {
    const struct spare none = {.pages = 0};
    if (of_pool && units > pool_pages(HUGE_BYTES)) units = pool_pages(HUGE_BYTES);
    if (units == 0) return none;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (of_pool ? MAP_HUGETLB | 21 << 26 : 0);
    const size_t bytes = units * HUGE_BYTES, slack = of_pool ? 0 : HUGE_BYTES;
    void* room = map_memory(NULL, bytes + slack, PROT_READ | PROT_WRITE, flags);
    if (room == MAP_FAILED) return none;
    const uintptr_t at = round_up((uintptr_t)room, HUGE_BYTES);
    if (!of_pool) madvise((void*)at, bytes, MADV_HUGEPAGE);
    if (populate((void*)at, bytes, of_pool ? HUGE_BYTES : FRAME_BYTES))
        return (struct spare){at, units * HUGE_FRAMES, room, bytes + slack};
    unmap_memory(room, bytes + slack);
    return none;
}

/* Lists the units of 2 MiB from `start` on that are huge pages. Returns how many there are. */
static size_t add_units(struct unit* units, uintptr_t start, const uint64_t* frames, size_t pages,
                        bool spare) {
    size_t count = 0;
    for (size_t page = 0; page + HUGE_FRAMES <= pages; page += HUGE_FRAMES)
        if (is_huge(frames + page))
            units[count++] = (struct unit){
                .at = start + page * FRAME_BYTES, .group = group_of(frames[page]), .spare = spare};
    return count;
}

/* Moves the spare units that were chosen, which are those among the first `wanted`, to the
 * addresses of units that were not. */
static void exchange(const struct unit* units, size_t count, size_t wanted) {
    size_t given_up = wanted;
    for (size_t i = 0; i < wanted && exchanges_left > 0; i++) {
        if (!units[i].spare) continue;
        while (given_up < count && units[given_up].spare) given_up++;
        if (given_up == count) return;
        if (remap_memory((void*)units[i].at, HUGE_BYTES, (void*)units[given_up++].at) ==
            MAP_FAILED) {
            say_once("pages cannot be exchanged here (%s)", strerror(errno));
            exchanges_left = 0;
            return;
        }
        exchanges_left--;
        frames_result.exchanged += HUGE_FRAMES;
    }
}

/* Bytes that may be taken for a short time without pushing out the memory of others. */
static size_t memory_to_try(void) { return memory_available() / 4; }

/* Chooses the best among the huge units of a part of a span and as many spare ones, which are taken
 * up to MOST_ROUNDS times. */
static void choose_huge(uintptr_t start, const uint64_t* frames, size_t pages, bool of_pool) {
    const size_t most = pages / HUGE_FRAMES;
    if (most == 0) return;
    struct unit* units = room_for((MOST_ROUNDS + 1) * most, sizeof *units);
    uint64_t* seen = room_for(pages, sizeof *seen);
    struct spare spares[MOST_ROUNDS];
    size_t taken = 0;
    if (units != NULL && seen != NULL) {
        const size_t wanted = add_units(units, start, frames, pages, false);
        /* The pages of each group if they were spread evenly. */
        const size_t level = now.pages / slots * HUGE_FRAMES;
        size_t count = wanted, left = memory_to_try() / HUGE_BYTES;
        while (wanted > 0) {
            units_order(units, count, population, HUGE_FRAMES);
            if (units[wanted - 1].key <= level || taken == MOST_ROUNDS || exchanges_left == 0)
                break;
            const struct spare spare = take_spare(wanted < left ? wanted : left, of_pool);
            if (spare.pages == 0) break;
            spares[taken++] = spare;
            if (!pagemap_read(spare.at, spare.pages, seen)) break;
            count += add_units(units + count, spare.at, seen, spare.pages, true);
            frames_result.tried += spare.pages;
            if (!of_pool) left -= spare.pages / HUGE_FRAMES;
        }
        exchange(units, count, wanted);
    }
    while (taken-- > 0) unmap_memory(spares[taken].mapping, spares[taken].bytes);
    if (units) unmap_memory(units, (MOST_ROUNDS + 1) * most * sizeof *units);
    if (seen) unmap_memory(seen, pages * sizeof *seen);
}

/* Gives `count` pages from `start` on new frames. The old frames are held until then, so that the
 * kernel does not hand out the same ones again. */
static bool refault(struct pins* pins, uintptr_t start, size_t count, uint64_t* frames) {
    const size_t bytes = count * FRAME_BYTES;
    return pins_hold(pins, start, bytes) == bytes &&
           madvise((void*)start, bytes, MADV_DONTNEED) == 0 &&
           populate((void*)start, bytes, FRAME_BYTES) && pagemap_read(start, count, frames);
}

/* Whether the frame's slot has no more pages than each slot would have if they were spread evenly.
 */
static bool is_good(uint64_t frame) {
    return frame != 0 && now.of_slot[slot_of(frame)] <= now.pages / slots;
}

/* Gives the pages of 4 KiB whose numbers are in `bad[0..count)` new frames, until each has a good
 * one or the limit of frames to examine is reached. */
static void choose_small(struct placed* placed, uintptr_t start, uint64_t* frames, uint32_t* bad,
                         size_t count) {
    struct pins pins = {.count = 0};
    size_t left = memory_to_try() / FRAME_BYTES;
    if (left > MOST_ROUNDS * placed->pages) left = MOST_ROUNDS * placed->pages;
    bool able = true;
    while (able && count > 0) {
        size_t still = 0;
        for (size_t i = 0, run; i < count; i += run) {
            for (run = 1; i + run < count && bad[i + run] == bad[i] + run;) run++;
            able = able && run <= left &&
                   refault(&pins, start + (uintptr_t)bad[i] * FRAME_BYTES, run, frames + bad[i]);
            if (able) {
                left -= run;
                frames_result.tried += run;
                frames_result.exchanged += run;
            }
            for (size_t page = bad[i], end = page + run; page < end; page++)
                if (is_good(frames[page]))
                    keep(placed, page, frames[page]);
                else
                    bad[still++] = (uint32_t)page;
        }
        count = still;
    }
    for (size_t i = 0; i < count; i++) keep(placed, bad[i], frames[bad[i]]);
    pins_release(&pins);
}

/* Keeps huge pages and pages with good frames, and chooses new frames for the rest. */
static void settle(struct placed* placed, uintptr_t start, uint64_t* frames) {
    uint32_t* bad = room_for(placed->pages, sizeof *bad);
    size_t count = 0;
    for (size_t unit = 0; unit < placed->pages; unit += HUGE_FRAMES) {
        const bool fixed = bad == NULL || is_huge(frames + unit);
        for (size_t page = unit; page < unit + HUGE_FRAMES; page++)
            if (!fixed && frames[page] != 0 && !is_good(frames[page]))
                bad[count++] = (uint32_t)page;
            else
                keep(placed, page, frames[page]);
    }
    if (bad == NULL) return;
    choose_small(placed, start, frames, bad, count);
    unmap_memory(bad, placed->pages * sizeof *bad);
}

static void count_most(void) {
    if (now.pages < frames_result.pages) return;
    frames_result.pages = now.pages;
    frames_result.sharing = now.sharing;
    frames_result.sharing_first = first.sharing;
}

static struct placed* new_placed(size_t pages) {
    const size_t bytes = sizeof(struct placed) + 2 * pages * sizeof(uint32_t);
    struct placed* placed = room_for(1, bytes);
    if (placed != NULL)
        *placed = (struct placed){pages, bytes, placed->slots, placed->slots + pages};
    return placed;
}

/* Records the frames that the kernel gave, for the report to compare with, and then chooses. */
static void place(struct span* span, uint64_t* frames) {
    const size_t pages = span->bytes / FRAME_BYTES;
    const size_t gigantic = span->part[PAGES_1G] / FRAME_BYTES,
                 pooled = span_pool_bytes(span) / FRAME_BYTES;
    if (!pagemap_read(span->start, pages, frames)) return;
    struct placed* placed = new_placed(pages);
    if (placed == NULL) return;
    for (size_t page = 0; page < pages; page++) {
        placed->first[page] = frames[page] ? slot_of(frames[page]) : (uint32_t)NOWHERE;
        if (frames[page]) tally_add(&first, placed->first[page]);
    }
    frames_result.tried += pages;
    choose_huge(span->start + gigantic * FRAME_BYTES, frames + gigantic, pooled - gigantic, true);
    choose_huge(span->start + pooled * FRAME_BYTES, frames + pooled, pages - pooled, false);
    if (!pagemap_read(span->start, pages, frames)) memset(frames, 0, pages * sizeof *frames);
    settle(placed, span->start, frames);
    span->placed = placed;
    count_most();
}

/* Gives all pages of the span a frame; the pool's pages have theirs already. The program may never
 * touch some of them, so this takes at most half of the memory that is left. */
static bool populate_rest(const struct span* span) {
    const size_t pooled = span_pool_bytes(span), rest = span->bytes - pooled;
    if (rest == 0) return true;
    if (rest <= memory_available() / 2 &&
        populate((void*)(span->start + pooled), rest, FRAME_BYTES))
        return true;
    say_once("frames are not chosen for a block of %zu MiB: there is too little memory to fill it",
             rest >> 20);
    return false;
}

void frames_choose(struct span* span) {
    if (settings.cache == 0) return;
    const int saved_errno = errno;
    struct timespec begin, end;
    pthread_mutex_lock(&mutex);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (ready() && populate_rest(span)) {
        const size_t pages = span->bytes / FRAME_BYTES;
        uint64_t* frames = room_for(pages, sizeof *frames);
        if (frames != NULL) {
            place(span, frames);
            unmap_memory(frames, pages * sizeof *frames);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    frames_result.nanoseconds +=
        (uint64_t)((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
    pthread_mutex_unlock(&mutex);
    errno = saved_errno;
}

void frames_forget(struct span* span) {
    struct placed* placed = span->placed;
    if (placed == NULL) return;
    pthread_mutex_lock(&mutex);
    for (size_t page = 0; page < placed->pages; page++) {
        if (placed->first[page] != (uint32_t)NOWHERE) tally_remove(&first, placed->first[page]);
        if (placed->now[page] == (uint32_t)NOWHERE) continue;
        tally_remove(&now, placed->now[page]);
        population[placed->now[page] / HUGE_FRAMES]--;
    }
    pthread_mutex_unlock(&mutex);
    unmap_memory(placed, placed->bytes);
    span->placed = NULL;
}
