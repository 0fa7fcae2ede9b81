/* Memory on NUMA nodes, by the kernel's own calls. */
#ifndef PAGELENS_RUN_NODES_H
#define PAGELENS_RUN_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages come from these nodes (NODE_WORDS words, a bit each) as long as they have any. `move`:
 * those that are there already, too. False, with errno, where that cannot be. */
bool nodes_prefer(uintptr_t start, size_t bytes, const uint64_t* nodes, bool move);

/* Pages come from where others of the process do; `move`: those that are there already, too. */
bool nodes_as_usual(uintptr_t start, size_t bytes, bool move);

/* The same of what this thread and its children ask for otherwise. */
bool nodes_prefer_always(const uint64_t* nodes);

struct nodes_seen {
    size_t there, elsewhere, absent; /* bytes of pages: on `nodes`, on others, nowhere yet */
};

/* Adds what is between `start` and `bytes`. */
void nodes_look(uintptr_t start, size_t bytes, const uint64_t* nodes, struct nodes_seen* seen);

#endif
