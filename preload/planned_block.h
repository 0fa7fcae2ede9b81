/* How the library shows a planned object's memory (a block, a mapping or a variable) to functions
 * that report it or move it. */
#ifndef PAGELENS_RUN_PLANNED_BLOCK_H
#define PAGELENS_RUN_PLANNED_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct planned_block {
    uint32_t object; /* its index in the plan */
    uintptr_t start;
    size_t bytes;
    uintptr_t fast_end; /* the pages before this address were to be in fast memory */
};

/* Gets memory that begins at a page boundary, and how many of its first bytes are bound to the fast
 * nodes. The function may rebind pages and then updates `fast_bytes`. */
typedef void border_function(uint32_t object, uintptr_t start, size_t bytes, size_t* fast_bytes);

#endif
