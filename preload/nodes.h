/* Binds memory to NUMA nodes, by the kernel's system calls. */
#ifndef PAGELENS_RUN_NODES_H
#define PAGELENS_RUN_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/plan_file.h"

enum { SHOWN_NODES = 64 };

/* Takes the memory's pages from these nodes as long as they have free pages. `nodes` has NODE_WORDS
 * words with a bit for each node. `move` also moves the pages that exist already. On failure
 * returns false and sets errno. */
bool nodes_prefer(uintptr_t start, size_t bytes, const uint64_t* nodes, bool move);

/* Removes such a binding, so that pages come from where the process's other pages do. `move` as
 * above. */
bool nodes_as_usual(uintptr_t start, size_t bytes, bool move);

/* Binds the memory by a rule of a plan that is neither RULE_FAST nor RULE_PREFER. */
bool nodes_follow(uintptr_t start, size_t bytes, enum plan_rule rule, const uint64_t* nodes,
                  bool move);

/* Prefers these nodes for all other memory of this thread and its children. */
bool nodes_prefer_always(const uint64_t* nodes);

struct nodes_seen {
    size_t there, elsewhere, absent; /* bytes: on these nodes, on others, without a frame */
    size_t on[SHOWN_NODES];          /* bytes on each of the first nodes */
};

/* Adds where the pages of `bytes` from `start` on lie. */
void nodes_look(uintptr_t start, size_t bytes, const uint64_t* nodes, struct nodes_seen* seen);

#endif
