/* Binds the memory of a planned object to the nodes that the plan names for it. */
#ifndef PAGELENS_RUN_OBJECT_NODES_H
#define PAGELENS_RUN_OBJECT_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the object has nodes and a policy of its own. Such an object is bound as a whole. */
bool object_has_rule(uint32_t object);

/* The object's nodes, NODE_WORDS words: those of its policy, or the fast ones. */
const uint64_t* object_nodes(uint32_t object);

/* Binds a part of the object. `move` also moves the pages that exist already. On failure returns
 * false and sets errno. */
bool object_bind(uint32_t object, uintptr_t start, size_t bytes, bool move);

#endif
