#define _GNU_SOURCE
#include "preload/mapping_notes.h"

#include <string.h>
#include <sys/mman.h>

#include "preload/intervals.h"
#include "preload/system.h"

enum { MOST = 1 << 16 };

struct mapping* notes;
size_t notes_count;
static uintptr_t lowest = UINTPTR_MAX, highest; /* of all mappings ever listed; atomic */

bool notes_open(void) {
    void* at = map_memory(NULL, MOST * sizeof *notes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (at == MAP_FAILED) return false;
    notes = at;
    return true;
}

bool notes_near(uintptr_t start, uintptr_t stop) {
    return start < __atomic_load_n(&highest, __ATOMIC_RELAXED) &&
           stop > __atomic_load_n(&lowest, __ATOMIC_RELAXED);
}

size_t notes_behind(uintptr_t address) {
    const size_t upto = intervals_upto(&notes->start, sizeof *notes, notes_count, address);
    return upto > 0 && notes[upto - 1].end > address ? upto - 1 : upto;
}

bool notes_insert(const struct mapping* mapping) {
    if (notes_count == MOST) return false;
    const size_t at = notes_behind(mapping->start);
    memmove(&notes[at + 1], &notes[at], (notes_count - at) * sizeof *notes);
    notes[at] = *mapping;
    notes_count++;
    if (mapping->start < lowest) __atomic_store_n(&lowest, mapping->start, __ATOMIC_RELAXED);
    if (mapping->end > highest) __atomic_store_n(&highest, mapping->end, __ATOMIC_RELAXED);
    return true;
}

static void take_out(size_t index) {
    notes_count--;
    memmove(&notes[index], &notes[index + 1], (notes_count - index) * sizeof *notes);
}

struct mapping mapping_part(const struct mapping* mapping, uintptr_t start, uintptr_t stop) {
    struct mapping part = *mapping;
    if (part.start < start) part.start = start;
    if (part.end > stop) part.end = stop;
    if (part.end < part.start) part.end = part.start;
    if (part.fast_end > part.end) part.fast_end = part.end;
    if (part.fast_end < part.start) part.fast_end = part.start;
    return part;
}

size_t notes_holder(uintptr_t start, uintptr_t stop) {
    const size_t at = notes_behind(start);
    return at < notes_count && notes[at].start <= start && notes[at].end >= stop ? at : notes_count;
}

struct mapping notes_cut_out(size_t index, const struct mapping* middle) {
    const struct mapping whole = notes[index];
    const struct mapping before = mapping_part(&whole, whole.start, middle->start),
                         after = mapping_part(&whole, middle->end, whole.end);
    take_out(index);
    if (before.end > before.start) notes_insert(&before);
    const bool noted = after.end == after.start || notes_insert(&after);
    return noted ? (struct mapping){0} : after;
}
