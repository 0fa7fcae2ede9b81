#define _GNU_SOURCE
#include "preload/wishes.h"

#include "preload/settings.h"
#include "preload/stagger.h"
#include "preload/system.h"

enum { MOST_INDEX = 4096 /* live blocks that can have different offsets */ };
static uint64_t indices[MOST_INDEX / 64];

static size_t index_take(void) {
    for (size_t i = 0; i < MOST_INDEX / 64; i++)
        if (~indices[i] != 0) {
            const size_t bit = (size_t)__builtin_ctzl(~indices[i]);
            indices[i] |= UINT64_C(1) << bit;
            return 64 * i + bit + 1;
        }
    return 0;
}

void wish_index_give(size_t index) {
    if (index != 0) indices[(index - 1) / 64] &= ~(UINT64_C(1) << (index - 1) % 64);
}

/* A program that asks for whole pages may protect, discard or unmap some of them. */
static enum shelf shelf_for(size_t alignment) {
    return alignment >= GRAIN && settings.pages <= PAGES_2M ? SHELF_CUT : SHELF_ANY;
}

struct wish wish_for(size_t size, size_t alignment) {
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

uintptr_t wish_place(const struct wish* wish, uintptr_t start) {
    if (wish->period == 0) return round_up(start, wish->alignment);
    return start + ((wish->offset - start) & (wish->period - 1));
}
