#include "core/frames/numa_policy.hpp"

#include <bit>
#include <cassert>

namespace pagelens {
namespace {

// Returns the number-th node of a mask. Precondition: it has so many.
unsigned node_at(std::uint64_t nodes, std::uint64_t number) {
    for (; number > 0; --number) nodes &= nodes - 1;
    return static_cast<unsigned>(std::countr_zero(nodes));
}

unsigned weighted_node(const NumaPolicy& policy, std::uint64_t nodes, std::uint64_t index) {
    const auto weight = [&](unsigned node) -> std::uint64_t {
        return node < policy.weights.size() ? policy.weights[node] : 1;
    };
    std::uint64_t all = 0;
    for (std::uint64_t left = nodes; left != 0; left &= left - 1)
        all += weight(static_cast<unsigned>(std::countr_zero(left)));
    std::uint64_t at = index % all;
    for (std::uint64_t left = nodes;; left &= left - 1) {
        const auto node = static_cast<unsigned>(std::countr_zero(left));
        if (at < weight(node)) return node;
        at -= weight(node);
    }
}

}  // namespace

Request request_by(const NumaPolicy& policy, unsigned cpu, unsigned cpu_node, unsigned order,
                   std::uint64_t index, unsigned node_count) {
    const std::uint64_t all = node_count == 64 ? ~0ull : (1ull << node_count) - 1;
    const std::uint64_t nodes = policy.nodes & all;
    assert(nodes != 0);
    Request request{.cpu = cpu, .order = order};
    unsigned home = cpu_node;
    switch (policy.mode) {
        case NumaMode::local:
            break;
        case NumaMode::bind:
            request.numas = nodes;
            break;
        case NumaMode::preferred:
            home = static_cast<unsigned>(std::countr_zero(nodes));
            break;
        case NumaMode::preferred_many:
            request.numas = nodes;
            request.sparing = true;
            break;
        case NumaMode::interleave:
            home = node_at(nodes, index % static_cast<unsigned>(std::popcount(nodes)));
            break;
        case NumaMode::weighted_interleave:
            home = weighted_node(policy, nodes, index);
            break;
    }
    request.home = static_cast<std::uint8_t>(home);
    request.pools = request.numas;
    const bool has_choice = policy.mode == NumaMode::interleave ||
                            policy.mode == NumaMode::weighted_interleave ||
                            policy.mode == NumaMode::preferred_many;
    // alloc_pages_mpol(): only this node is tried first, and without reclaim; by default nothing
    // else follows. A huge page of the policies above is not tied to its node.
    if (order > small_order && !has_choice && (request.numas >> home & 1) != 0) {
        request.numas = 1ull << home;
        request.sparing = true;
    }
    return request;
}

}  // namespace pagelens
