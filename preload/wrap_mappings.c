/*
 * The functions for memory that the program maps itself. Large anonymous mappings get transparent
 * huge pages if the settings ask for them, and mappings of the plan's call sites are put where the
 * plan says.
 *
 * The same must hold as in wrap.c. The library leaves mappings alone that the program puts at an
 * address of its choice (MAP_FIXED), makes without access, or makes of anything but private pages
 * of 4 KiB.
 */
#define _GNU_SOURCE
#define NEXT_FUNCTIONS(DO) DO(mmap) DO(mmap64) DO(munmap) DO(mremap)
#include <stdint.h>

#include "hooks/mremap_target.h"
#include "hooks/next_functions.h"
#include "preload/callers.h"
#include "preload/counts.h"
#include "preload/fork_gate.h"
#include "preload/mappings.h"
#include "preload/plan.h"
#include "preload/system.h"
#include "preload/wrap.h"

struct asked {
    void* hint;
    size_t size;
    int protection, flags, file;
    off64_t offset;
};

/* Whether it is private, writable memory whose address the kernel chooses. */
static bool is_memory(const struct asked* asked, int allowed_flags) {
    const int wanted = MAP_PRIVATE | MAP_ANONYMOUS;
    return active && asked->size > 0 && asked->size <= PTRDIFF_MAX &&
           (asked->protection & PROT_WRITE) && (asked->flags & ~allowed_flags) == wanted;
}

/* Whether the mapping gets transparent huge pages. The pool's pages will not do, because the
 * program may unmap a part of its mapping by 4 KiB, which is impossible within a page of the pool.
 */
static bool suits_large(const struct asked* asked) {
    return settings.pages != PAGES_4K && asked->hint == NULL && asked->size >= MIB(2) &&
           asked->size >= settings.large && is_memory(asked, MAP_POPULATE);
}

/* The index + 1 of the object that the mapping belongs to, or 0 for none. Mappings that an
 * allocator or another runtime makes are not the program's. */
static uint32_t object_of(const struct asked* asked, struct caller caller) {
    if (!plan_active || inside || !is_memory(asked, MAP_POPULATE | MAP_NORESERVE | MAP_STACK) ||
        callers_none(caller) || plan_where(caller.address).whose != WHOSE_PROGRAMS)
        return 0;
    return callers_object();
}

static void* map_aligned(const struct asked* asked) {
    const size_t bytes = round_up(asked->size, PAGE_BYTES);
    char* room = real.mmap(NULL, bytes + MIB(2), asked->protection, asked->flags, -1, 0);
    if (room == MAP_FAILED) return MAP_FAILED;
    char* at = (char*)round_up((uintptr_t)room, MIB(2));
    if (at > room) real.munmap(room, (size_t)(at - room));
    if (at < room + MIB(2)) real.munmap(at + bytes, (size_t)(room + MIB(2) - at));
    if (madvise(at, bytes, MADV_HUGEPAGE) == 0) {
        __atomic_fetch_add(&counts.mappings, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts.mapping_bytes, bytes, __ATOMIC_RELAXED);
    }
    return at;
}

/* Maps without pages first, so that pages are only given once they are of the right kind and place.
 */
static void* map_ours(struct asked asked, bool large, uint32_t object) {
    const bool populated = asked.flags & MAP_POPULATE;
    asked.flags &= ~MAP_POPULATE;
    void* at = large ? map_aligned(&asked) : MAP_FAILED;
    if (at == MAP_FAILED)
        at = real.mmap(asked.hint, asked.size, asked.protection, asked.flags, -1, 0);
    if (at == MAP_FAILED) return MAP_FAILED;
    if (object) mappings_born(object - 1, at, asked.size);
    if (populated) populate(at, round_up(asked.size, PAGE_BYTES), PAGE_BYTES);
    return at;
}

static inline bool may_hit(const void* start, size_t bytes) {
    return __builtin_expect(plan_active && mappings_may_be(start, bytes) && !inside, 0);
}

static inline void* map(struct asked asked, bool wide, struct caller caller) {
    if (!usable()) return MAP_FAILED;
    const bool large = suits_large(&asked);
    const uint32_t object = object_of(&asked, caller);
    if (large || object) {
        const int saved_errno = errno, state = cancelling_off();
        void* at = map_ours(asked, large, object);
        cancelling_back(state);
        errno = saved_errno;
        if (at != MAP_FAILED) return at;
    }
    const bool over = (asked.flags & MAP_FIXED) && may_hit(asked.hint, asked.size);
    if (over) mappings_going(asked.hint, asked.size);
    void* at = (wide ? real.mmap64 : real.mmap)(asked.hint, asked.size, asked.protection,
                                                asked.flags, asked.file, asked.offset);
    if (over) mappings_gone();
    return at;
}

EXPORT void* mmap(void* hint, size_t size, int protection, int flags, int file, off_t offset) {
    return map((struct asked){hint, size, protection, flags, file, offset}, false, CALLER);
}

EXPORT void* mmap64(void* hint, size_t size, int protection, int flags, int file, off64_t offset) {
    return map((struct asked){hint, size, protection, flags, file, offset}, true, CALLER);
}

EXPORT int munmap(void* start, size_t bytes) {
    if (!usable()) return unmap_memory(start, bytes);
    const bool sound = (uintptr_t)start % PAGE_BYTES == 0 && bytes > 0 && bytes <= PTRDIFF_MAX;
    if (!sound || !may_hit(start, bytes)) return real.munmap(start, bytes);
    mappings_going(start, bytes);
    const int done = real.munmap(start, bytes);
    mappings_gone();
    return done;
}

EXPORT void* mremap(void* old, size_t old_size, size_t size, int flags, ...) {
    va_list given;
    if (!usable()) return MAP_FAILED;
    va_start(given, flags);
    void* wanted = mremap_target(flags, given);
    va_end(given);
    if (!may_hit(old, old_size) && !((flags & MREMAP_FIXED) && may_hit(wanted, size)))
        return real.mremap(old, old_size, size, flags, wanted);
    return mappings_remap(old, old_size, size, flags, wanted, real.mremap);
}
