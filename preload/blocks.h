/* Large blocks, cut from spans. All functions are for any thread, and keep errno. While the process
 * forks, none is given or changed, and what is given back is noted. */
#ifndef PAGELENS_RUN_BLOCKS_H
#define PAGELENS_RUN_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "preload/planned_block.h"
#include "preload/wishes.h"

/* NULL: there is no memory, or not here. `alignment` is a power of two, or 0. */
void* blocks_take(size_t size, size_t alignment, bool zeroed);

/* The same for an object of the plan: a span of its own, with so many bytes from the block's first
 * page on bound to the fast nodes. */
void* blocks_take_planned(size_t size, size_t alignment, bool zeroed,
                          const struct planned_wish* planned);

/* The same in a span that the object had and is kept for it; NULL: there is none that is so. */
void* blocks_take_again(size_t size, size_t alignment, bool zeroed,
                        const struct planned_wish* planned);

/* What is kept so goes; or only what is kept of objects that move. */
void blocks_release_planned(void);
void blocks_release_moving(void);

/* Shows all blocks in use. Others wait for theirs meanwhile. */
void blocks_each_border(border_function* show);

/* Says all such blocks. Between these two. */
void blocks_each_planned(void (*say)(const struct planned_block* block));

/* 0 where it is no block. */
size_t blocks_usable(const void* block);

/* False where it is no block. */
bool blocks_give(void* block);

/* Makes a block have `size` bytes where it lies; false where that cannot be. */
bool blocks_resize(void* block, size_t size);

/* From the first of these to the second nothing changes. */
void blocks_look(void);
void blocks_looked(void);

#endif
