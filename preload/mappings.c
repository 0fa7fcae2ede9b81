/*
 * If only a part of a mapping is bound to the fast nodes, the kernel keeps two mappings with a
 * border between them, and mremap refuses to move two at once. So the binding is removed for the
 * duration of that call. The kernel then joins the two only if the mapping had a page before it was
 * divided, so each new mapping with a border gets a page for a moment.
 */
#define _GNU_SOURCE
#include "preload/mappings.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/budget.h"
#include "preload/counts.h"
#include "preload/deferred.h"
#include "preload/fast_memory.h"
#include "preload/fork_gate.h"
#include "preload/mapping_notes.h"
#include "preload/nodes.h"
#include "preload/object_nodes.h"
#include "preload/phase.h"
#include "preload/plan.h"
#include "preload/system.h"
#include "preload/tally.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7 */
#endif

enum { PAGE = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Only for threads that are inside the gate to change something. */
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

bool mappings_open(void) { return notes_open(); }

bool mappings_may_be(const void* start, size_t bytes) {
    return notes_near((uintptr_t)start, (uintptr_t)start + bytes);
}

static struct planned_block block_of(const struct mapping* mapping) {
    return (struct planned_block){mapping->object, mapping->start, mapping->end - mapping->start,
                                  mapping->fast_end};
}

/* Accounts for a mapping that is gone. */
static void end(const struct mapping* mapping) {
    const struct planned_block block = block_of(mapping);
    tally_gone(&block);
    budget_give(mapping_fast_bytes(mapping));
}

static void cut_out(size_t index, const struct mapping* middle) {
    const struct mapping lost = notes_cut_out(index, middle);
    if (lost.end > lost.start) end(&lost); /* the list is full: follow it no further */
}

static void cut(uintptr_t start, uintptr_t stop) {
    for (size_t i = notes_behind(start); i < notes_count && notes[i].start < stop;
         i = notes_behind(start)) {
        const struct mapping gone = mapping_part(&notes[i], start, stop);
        end(&gone);
        cut_out(i, &gone);
    }
}

static bool has_border(const struct mapping* mapping) {
    return mapping->fast_end > mapping->start && mapping->fast_end < mapping->end;
}

/* Gives a new mapping a page for a moment. It is taken away again because it may be a huge page
 * that reaches over the border, and because a program that handles page faults itself (userfaultfd)
 * waits for the first one. */
static void touch_first(const struct mapping* mapping) {
    if (populate((void*)mapping->start, PAGE, PAGE))
        madvise((void*)mapping->start, mapping->end - mapping->start, MADV_DONTNEED);
}

static bool bind_fast(const struct mapping* mapping, bool move) {
    if (mapping_fast_bytes(mapping) == 0 ||
        object_bind(mapping->object, mapping->start, mapping_fast_bytes(mapping), move))
        return true;
    say_once("mappings cannot be put on their nodes (%s)", strerror(errno));
    return false;
}

static void unbind_rest(const struct mapping* mapping) {
    if (mapping->end > mapping->fast_end)
        nodes_as_usual(mapping->fast_end, mapping->end - mapping->fast_end, false);
}

static void bind_new(const struct mapping* mapping) {
    if (has_border(mapping)) {
        const struct mapping whole = {mapping->start, mapping->end, mapping->end, mapping->object};
        if (!bind_fast(&whole, false)) return;
        touch_first(mapping);
        unbind_rest(mapping);
    } else {
        bind_fast(mapping, false);
        if (plan_moves(mapping->object)) touch_first(mapping); /* it may have a border later */
    }
}

static void enter(uint32_t object, void* start, size_t size) {
    const size_t bytes = round_up(size, PAGE);
    const size_t got = fast_memory_take(object, phase_fast_bytes(object, bytes));
    const uintptr_t at = (uintptr_t)start;
    const struct mapping mapping = {at, at + bytes, at + got, object};
    bind_new(&mapping);
    lock();
    cut(at, at + bytes); /* older mappings that were unmapped without the library's knowledge */
    const bool entered = notes_insert(&mapping);
    unlock();
    if (!entered) {
        nodes_as_usual(at, bytes, false);
        budget_give(got);
        return;
    }
    tally_born(object, size, bytes);
    tally_mapped(object);
}

void mappings_born(uint32_t object, void* start, size_t size) {
    if (plan_object(object)->share <= 0 && !plan_moves(object)) return; /* it stays slow */
    if (!gate_enter()) {
        count_while_forking();
        return;
    }
    enter(object, start, size);
    gate_leave();
}

void mappings_going(void* start, size_t bytes) {
    const int saved_errno = errno;
    if (gate_look()) {
        lock();
        cut((uintptr_t)start, (uintptr_t)start + round_up(bytes, PAGE));
    } else {
        deferred_unmap(start, round_up(bytes, PAGE));
    }
    errno = saved_errno;
}

void mappings_gone(void) {
    if (gate_may_change()) unlock();
    gate_leave();
}

/* `from` now begins at `start` and has `bytes`; its pages lie where they did. Binds the object's
 * share of it. */
static void settle(const struct mapping* from, uintptr_t start, size_t bytes) {
    const size_t had = from->end - from->start, kept = mapping_fast_bytes(from);
    struct mapping now = {start, start + bytes, start + (kept < bytes ? kept : bytes),
                          from->object};
    budget_give(kept - mapping_fast_bytes(&now));
    const size_t wanted = phase_fast_bytes(now.object, bytes), has = mapping_fast_bytes(&now);
    if (bytes > had && wanted > has) now.fast_end += fast_memory_take(now.object, wanted - has);
    bind_fast(&now, now.fast_end - now.start > kept);
    unbind_rest(&now);
    cut(now.start, now.end);
    if (!notes_insert(&now)) {
        budget_give(mapping_fast_bytes(&now));
        return;
    }
    if (bytes > had)
        tally_grown(now.object, bytes - had);
    else
        tally_shrunk(now.object, had - bytes);
}

/* The part from `start` to `stop` of the mapping with index `at` now lies at `now` and has `size`
 * bytes. */
static void moved(size_t at, uintptr_t start, uintptr_t stop, void* now, size_t size, int flags) {
    const struct mapping whole = notes[at];
    const struct mapping part = mapping_part(&whole, start, stop);
    const struct mapping before = mapping_part(&whole, whole.start, start);
    const struct mapping after = mapping_part(&whole, stop, whole.end);
    cut_out(at, &part);
    if (flags & MREMAP_DONTUNMAP) nodes_as_usual(start, stop - start, false);
    if (has_border(&whole) && before.end > before.start) bind_fast(&before, false);
    if (has_border(&whole) && after.end > after.start) bind_fast(&after, false);
    settle(&part, (uintptr_t)now, round_up(size, PAGE));
}

/* Forgets what lies there: at once, or when the process has forked. */
static void forget(uintptr_t start, uintptr_t stop) {
    if (start >= stop) return;
    if (gate_may_change())
        cut(start, stop);
    else
        deferred_unmap((void*)start, stop - start);
}

void* mappings_remap(void* old, size_t old_size, size_t size, int flags, void* wanted,
                     remap_function* remap) {
    const uintptr_t start = (uintptr_t)old, stop = start + round_up(old_size, PAGE);
    const bool may_change = gate_look();
    if (may_change) lock();
    if (flags & MREMAP_FIXED) forget((uintptr_t)wanted, (uintptr_t)wanted + round_up(size, PAGE));
    const size_t at = notes_holder(start, stop);
    const bool known = at < notes_count && old_size > 0;
    const struct mapping whole = known ? notes[at] : (struct mapping){0};
    if (known && has_border(&whole)) nodes_as_usual(whole.start, whole.end - whole.start, false);
    void* now = remap(old, old_size, size, flags, wanted);
    const int why = errno;
    if (now != MAP_FAILED && known && may_change) {
        moved(at, start, stop, now, size, flags);
    } else if (now != MAP_FAILED && known) {
        forget(whole.start, whole.end); /* do not follow it further */
        count_while_forking();
    } else if (now != MAP_FAILED) {
        forget(now == old ? start + round_up(size, PAGE) : start, stop);
    } else if (known && has_border(&whole)) {
        bind_fast(&whole, false);
    }
    if (may_change) unlock();
    gate_leave();
    errno = why;
    return now;
}

void mappings_each(void (*say)(const struct planned_block* block)) {
    if (gate_look()) lock();
    for (size_t i = 0; i < notes_count; i++) {
        const struct planned_block block = block_of(&notes[i]);
        say(&block);
    }
    mappings_gone();
}

void mappings_each_border(border_function* show) {
    lock();
    for (size_t i = 0; i < notes_count; i++) {
        size_t fast = mapping_fast_bytes(&notes[i]);
        show(notes[i].object, notes[i].start, notes[i].end - notes[i].start, &fast);
        notes[i].fast_end = notes[i].start + fast;
    }
    unlock();
}
