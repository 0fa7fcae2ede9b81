#include <doctest/doctest.h>

#include <vector>

#include "core/frames/node_state.hpp"
#include "core/frames/numa_policy.hpp"
#include "core/frames/placement.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t node_frames = 1u << 15;

// Three NUMA nodes, of which the first two are near to each other, with so many pages each.
NodeState pools_of(const std::vector<std::uint32_t>& pages) {
    NodeState state(numa_layout({node_frames, node_frames, node_frames}, {0, 1, 2},
                                {10, 12, 30,  //
                                 12, 10, 20,  //
                                 30, 20, 10}),
                    1);
    for (unsigned numa = 0; numa < pages.size(); ++numa)
        REQUIRE(state.fill_huge_pool(numa, pages[numa]) == pages[numa]);
    return state;
}

// The nodes of pages of the pools that this policy gets on a CPU, one after the other.
std::vector<int> nodes_of(FrameSource& source, const NumaPolicy& policy, unsigned cpu, int pages) {
    std::vector<int> nodes;
    for (int page = 0; page < pages; ++page) {
        const auto index = static_cast<std::uint64_t>(page);
        const auto frame = source.alloc(request_by(policy, cpu, cpu, huge_order, index, 3));
        nodes.push_back(frame ? static_cast<int>(frame->raw() / node_frames) : -1);
    }
    return nodes;
}

}  // namespace

TEST_CASE("a page of the hugetlb pools comes from the nearest node that has one") {
    const auto open = [](const NumaPolicy& policy, unsigned cpu, int pages) {
        const auto placement = place_by_kernel(pools_of({1, 2, 3}), huge_order);
        return nodes_of(*placement->open({1, 0, 0}), policy, cpu, pages);
    };
    using Nodes = std::vector<int>;
    CHECK(open({}, 0, 7) == Nodes{0, 1, 1, 2, 2, 2, -1});
    CHECK(open({}, 2, 6) == Nodes{2, 2, 2, 1, 1, 0});
    CHECK(open({.mode = NumaMode::bind, .nodes = 0b101}, 1, 5) == Nodes{0, 2, 2, 2, -1});
    CHECK(open({.mode = NumaMode::preferred_many, .nodes = 0b110}, 0, 6) ==
          Nodes{1, 1, 2, 2, 2, -1});
    CHECK(open({.mode = NumaMode::interleave, .nodes = 0b110}, 0, 6) == Nodes{1, 2, 1, 2, 0, 2});
}

TEST_CASE("a page goes back to the pool of its own node") {
    const auto placement = place_by_kernel(pools_of({1, 1, 1}), huge_order);
    const auto source = placement->open({1, 0, 0});
    const Request request{.cpu = 0, .order = huge_order};
    std::vector<Frame> frames;
    for (int page = 0; page < 3; ++page) frames.push_back(*source->alloc(request));
    for (const Frame frame : frames) source->free(request, frame);
    CHECK(nodes_of(*source, {}, 1, 3) == std::vector<int>{1, 0, 2});
}
