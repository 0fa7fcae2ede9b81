/* Large blocks, cut from spans. Any thread may call these functions; they keep errno. While the
 * process forks, no block is handed out or changed, and blocks that are given back are noted for
 * later. */
#ifndef PAGELENS_RUN_BLOCKS_H
#define PAGELENS_RUN_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "preload/planned_block.h"
#include "preload/wishes.h"

/* NULL if there is no memory, or if the next allocator should provide the block. `alignment` is a
 * power of two, or 0. */
void* blocks_take(size_t size, size_t alignment, bool zeroed);

/* A block for an object of the plan, in a span of its own. Only for threads that are inside the
 * gate (fork_gate.h). */
void* blocks_take_planned(size_t size, size_t alignment, bool zeroed,
                          const struct planned_wish* planned);

/* The same, in an idle span that the object had before and with the same bytes bound; NULL if there
 * is none. */
void* blocks_take_again(size_t size, size_t alignment, bool zeroed,
                        const struct planned_wish* planned);

/* Unmaps idle spans of the plan: of all objects, or only of those that move. */
void blocks_release_planned(void);
void blocks_release_moving(void);

/* Shows all planned blocks in use. Threads that ask for a block meanwhile wait. */
void blocks_each_border(border_function* show);

/* Calls `say` for all planned blocks. Call it between blocks_look() and blocks_looked(). */
void blocks_each_planned(void (*say)(const struct planned_block* block));

/* How many bytes a block has from its beginning; 0 if it is not a block of spans. */
size_t blocks_usable(const void* block);

/* Gives a block back; false if it is not a block of spans. */
bool blocks_give(void* block);

/* Gives a block a new size where it lies; false if that is impossible. */
bool blocks_resize(void* block, size_t size);

/* Between these two calls nothing changes. */
void blocks_look(void);
void blocks_looked(void);

#endif
