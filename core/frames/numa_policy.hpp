// The memory policies of Linux (mm/mempolicy.c, baseline 6.12): on which NUMA node a page begins to
// look for its frame, and which nodes may serve it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/frames/frame_source.hpp"

namespace pagelens {

enum class NumaMode : std::uint8_t {
    local,                // no policy: the node of the CPU that faults, then others by distance
    bind,                 // the same within `nodes`, and never outside
    preferred,            // the lowest of `nodes`, then others by its distances
    preferred_many,       // within `nodes` while they are above their watermarks, then all
    interleave,           // by address: page number modulo the number of `nodes`
    weighted_interleave,  // by address, `weights` pages on a node before the next one's turn
};

struct NumaPolicy {
    NumaMode mode = NumaMode::local;
    std::uint64_t nodes = ~0ull;             // bit n: node n. Precondition: not empty
    std::vector<std::uint8_t> weights = {};  // [node] from 1 to 255, of weighted interleave
};

// Returns the request that the policy makes for a page, given the node of the CPU that faults and
// the page's `index`, its address in units of its size. A huge page may come from its first node
// alone: a task that finds none there takes small pages. Of preferred_many the request is sparing;
// if it gets nothing, one for all nodes follows. Precondition: `nodes` has one below `node_count`.
Request request_by(const NumaPolicy& policy, unsigned cpu, unsigned cpu_node, unsigned order,
                   std::uint64_t index, unsigned node_count);

// Where a job's threads run, and the policies of its pages.
struct NumaPlacing {
    std::vector<std::uint32_t> cpus;         // [rank * threads + thread]
    std::vector<std::uint8_t> node_of_cpu;   // [CPU]
    std::vector<std::uint32_t> end_of_node;  // [node] one past its last frame, ascending
    std::vector<NumaPolicy> policies;        // at least one
    std::vector<std::uint8_t> of_page;       // [page of the program] its policy; empty: the first
    // [page of the program] the thread that touches it first in place of the one that does, or
    // as_it_is; empty: all are as they are.
    std::vector<std::uint16_t> touched_by;
    // Bit n: node n belongs to a lower tier of memory than the nodes with cores.
    std::uint64_t slow_nodes = 0;
    static constexpr std::uint16_t as_it_is = 0xffff;

    // Returns the thread that touches a page first under this policy, if in the program this
    // `thread` does. The kernel clears the page on the core of the thread returned.
    [[nodiscard]] unsigned first_thread(std::uint32_t page, unsigned thread) const {
        return touched_by.empty() || touched_by[page] == as_it_is ? thread : touched_by[page];
    }
    [[nodiscard]] unsigned nodes() const { return static_cast<unsigned>(end_of_node.size()); }
    [[nodiscard]] unsigned node_of_frame(std::uint32_t frame) const {
        unsigned node = 0;
        while (node + 1 < end_of_node.size() && frame >= end_of_node[node]) ++node;
        return node;
    }
};

}  // namespace pagelens
