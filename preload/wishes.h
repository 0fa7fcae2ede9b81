/* What a requested block needs of its place in memory. Callers hold the lock of blocks.c. */
#ifndef PAGELENS_RUN_WISHES_H
#define PAGELENS_RUN_WISHES_H

#include <stddef.h>
#include <stdint.h>

#include "preload/spans.h"

enum { GRAIN = 4096 /* ranges begin and end at multiples of it */ };

/* For a planned object: how many bytes from the block's first page on are bound to the fast nodes.
 */
struct planned_wish {
    uint32_t object;
    size_t fast_bytes; /* whole pages */
};

struct wish {
    size_t size, alignment, period, offset, index;
    enum shelf shelf;
    struct planned_wish planned; /* for SHELF_PLANNED */
};

/* Takes the first offset (stagger.h) that no live block has, so that a block that is freed and
 * requested again gets its old place. */
struct wish wish_for(size_t size, size_t alignment);
void wish_index_give(size_t index); /* frees an offset; does nothing for 0, no offset */

/* Where the block would begin in a range that begins at `start`. */
uintptr_t wish_place(const struct wish* wish, uintptr_t start);

#endif
