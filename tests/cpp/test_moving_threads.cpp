#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/replay/moving_threads.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

// Two threads fetch a line a second in turn.
std::shared_ptr<const Program> fetching(int seconds) {
    std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 1, 0)};
    for (int i = 0; i < seconds; ++i) ops.push_back(make_op(OpKind::fetch, 0, 1, 1, i % 2));
    return std::make_shared<reference::ListedProgram>(std::move(ops), std::vector{VirtualPage(100)},
                                                      3, 1, 2);
}

struct Swap {
    std::size_t before;  // ops of the program
    std::uint32_t one, other;
};

std::vector<Swap> swaps_of(const Program& program) {
    std::vector<Swap> swaps;
    std::size_t at = 0;
    for_each_op(program, [&](const Op& op) {
        if (op.kind() == OpKind::swap_threads)
            swaps.push_back({at, op.page, static_cast<std::uint32_t>(op.lines)});
        else
            ++at;
    });
    return swaps;
}

}  // namespace

TEST_CASE("a thread stays on a node as long as was said, on average, and always moves to another") {
    // Two copies of two threads: copy 0 has one on each node, and copy 1 as well.
    std::vector<std::uint8_t> nodes{0, 1, 0, 1};
    const int seconds = 8000;
    const auto moving = with_moving_threads(
        fetching(seconds), {.node_of_thread = nodes, .line_s = {1}, .stay_s = 10, .seed = 3});
    const std::vector<Swap> swaps = swaps_of(*moving);
    CHECK(swaps.size() == seconds / 5);  // each moves two of four threads
    std::vector<int> moves(4);
    for (const Swap& swap : swaps) {
        CHECK(nodes[swap.one] != nodes[swap.other]);
        std::swap(nodes[swap.one], nodes[swap.other]);
        ++moves[swap.one], ++moves[swap.other];
    }
    for (const int of_thread : moves)
        CHECK(of_thread == doctest::Approx(seconds / 10).epsilon(0.1));
    CHECK(swaps.front().before == 5);  // of the op that ends the fifth second
    CHECK(swaps[1].before - swaps[0].before == 5);
}

TEST_CASE("threads of one node stay, and what moves follows from the seed") {
    const auto moved = [](std::vector<std::uint8_t> nodes, std::uint64_t seed) {
        std::vector<std::uint32_t> found;
        for (const Swap& swap : swaps_of(*with_moving_threads(
                 fetching(400),
                 {.node_of_thread = std::move(nodes), .line_s = {1}, .stay_s = 2, .seed = seed})))
            found.push_back(swap.one);
        return found;
    };
    CHECK(moved({1, 1}, 1).empty());
    CHECK(moved({0, 1, 1, 0}, 1) == moved({0, 1, 1, 0}, 1));
    CHECK(moved({0, 1, 1, 0}, 1) != moved({0, 1, 1, 0}, 2));
    CHECK_THROWS_AS(moved({0, 1, 1}, 1), std::invalid_argument);  // no whole copies
}
