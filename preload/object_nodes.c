#include "preload/object_nodes.h"

#include "preload/nodes.h"
#include "preload/plan.h"

bool object_has_rule(uint32_t object) { return plan_object(object)->rule != RULE_FAST; }

const uint64_t* object_nodes(uint32_t object) {
    return object_has_rule(object) ? plan_object(object)->nodes : plan_header()->fast;
}

bool object_bind(uint32_t object, uintptr_t start, size_t bytes, bool move) {
    const uint64_t rule = plan_object(object)->rule;
    const uint64_t* nodes = object_nodes(object);
    if (rule == RULE_FAST || rule == RULE_PREFER) return nodes_prefer(start, bytes, nodes, move);
    return nodes_follow(start, bytes, (enum plan_rule)rule, nodes, move);
}
