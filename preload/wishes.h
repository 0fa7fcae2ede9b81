/* What a block that is asked for needs of the place that it gets. With the lock of blocks.c. */
#ifndef PAGELENS_RUN_WISHES_H
#define PAGELENS_RUN_WISHES_H

#include <stddef.h>
#include <stdint.h>

#include "preload/spans.h"

enum { GRAIN = 4096 /* of ranges */ };

/* For a planned object: how many bytes from the block's first page on are bound to the fast nodes.
 */
struct planned_wish {
    uint32_t object;
    size_t fast_bytes; /* whole pages */
};

struct wish {
    size_t size, alignment, period, offset, index;
    enum shelf shelf;
    struct planned_wish planned; /* of its shelf */
};

/* The lowest offset that no live block has: what is freed and asked for again finds its old place.
 */
struct wish wish_for(size_t size, size_t alignment);
void wish_index_give(size_t index); /* its offset is free again; 0: it has none */

/* Where a block would begin in a range from `start` on. */
uintptr_t wish_place(const struct wish* wish, uintptr_t start);

#endif
