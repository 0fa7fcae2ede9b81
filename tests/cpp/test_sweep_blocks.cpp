// Replays of declared sweeps that make only the ops of sampled pages, against those of all ops.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "core/accesses/program_around.hpp"
#include "core/accesses/sweep_blocks.hpp"
#include "core/replay/replay.hpp"
#include "core/replay/rows_behind.hpp"
#include "core/replay/streamed_l2s.hpp"
#include "tests/cpp/drawn_loops.hpp"
#include "tests/cpp/small_dram.hpp"

using namespace pagelens;

namespace {

const std::atomic<bool> run_on{false};

// The same ops, of which nobody can tell that they are those of sweeps.
class PlainProgram final : public ProgramAround {
  public:
    using ProgramAround::ProgramAround;
    [[nodiscard]] std::unique_ptr<Cursor> open() const override { return inner().open(); }
};

using Words = std::tuple<std::uint32_t, unsigned, unsigned, OpKind, std::uint64_t>;
Words as_words(const Op& op) { return {op.page, op.object, op.thread, op.kind(), op.lines}; }

bool moves_lines(const Op& op) {
    return op.kind() == OpKind::fetch || op.kind() == OpKind::write_back ||
           op.kind() == OpKind::stream_store;
}

std::unique_ptr<Placement> drawn_placement(Random& random, unsigned order, unsigned base_order) {
    const std::uint32_t grain = random.below(2) == 0 ? 1 : 16;
    if (random.below(2) == 0) return place_at_random(8192, 1, random.below(100));
    return place_by_kernel(NodeState(linux_layout(8192, 1, 2, dma32_end, base_order), grain),
                           order);
}

// Replays loops, and a program of the same ops, on a placement.
void check_counts(SweepLoops loops, const Placement& placement, const Hierarchy& machine,
                  std::uint32_t ranks, Random& random) {
    const std::shared_ptr<const Program> sweeps = declare_sweeps(loops);
    ReplayOptions options;
    options.ranks = ranks;
    options.two_way = options.ideal = true;
    options.map_bins = 16;
    options.sampling = Sampling::draw(1, random.below(1000), 2, 8, 2);
    loops.order = LineOrder::all;
    const auto in_order = declare_sweeps(loops);
    const std::uint32_t stretch = 64 + random.below(3000), rest = random.below(300000);
    const Excerpt some{stretch + rest, stretch, random.below(stretch), random.below(rest + 1)};
    const RowStretches stretches(*in_order, {some, some});
    const RowModel rows{&stretches,
                        most_lines_by_phase(*sweeps),
                        nullptr,
                        {reference::small_dram(5, 3, 12, RowPolicy::open)}};
    if (random.below(2) == 0) options.rows = &rows;
    const Counters fast = replay(*sweeps, placement, machine, options, run_on);
    const Counters slow = replay(PlainProgram(sweeps), placement, machine, options, run_on);
    CHECK(fast.table == slow.table);
    CHECK(fast.collisions == slow.collisions);
    CHECK(fast.drams == slow.drams);
    CHECK(fast.residency.map == slow.residency.map);
    CHECK(fast.residency.conflicting_pages == slow.residency.conflicting_pages);
    CHECK(fast.huge_pages == slow.huge_pages);
    CHECK(fast.small_fallbacks == slow.small_fallbacks);
}

}  // namespace

TEST_CASE("blocks of sweeps have all maps, the ops of wanted pages in order, and all lines") {
    Random random(2, 0, 0, Stream::declared_lines);
    unsigned compared = 0;
    for (int round = 0; round < 300; ++round) {
        const auto program = declare_sweeps(drawn_loops(random, 200));
        const auto blocks = SweepBlocks::of(*program);
        if (blocks == nullptr) continue;
        ++compared;
        PageSet wanted(program->pages().size());
        for (std::uint32_t page = 0; page < program->pages().size(); ++page)
            if (random.below(3) == 0) wanted.add(page);
        std::vector<Words> ops, all, expected, expected_all;
        std::vector<std::uint32_t> maps, expected_maps;
        std::vector<std::uint64_t> lines(program->objects()), expected_lines = lines;
        std::uint64_t most = 0, expected_most = 0;
        for (bool more = true; more;) {
            more = blocks->next();
            for (const Op& op : blocks->before()) ops.push_back(as_words(op));
            if (!more) break;
            std::ranges::copy(blocks->maps(), std::back_inserter(maps));
            for (std::size_t object = 0; object < lines.size(); ++object)
                lines[object] += blocks->lines()[object];
            most += blocks->most_lines();
            for (const Op& op : blocks->of(wanted)) ops.push_back(as_words(op));
            std::map<std::uint32_t, Words> by_moment;
            blocks->for_all(
                [&](std::uint32_t moment, OpKind kind, std::uint32_t page, std::uint64_t of_op) {
                    CHECK(moment < blocks->moments());
                    CHECK(by_moment.emplace(moment, Words{page, 0, 0, kind, of_op}).second);
                });
            for (const auto& [moment, op] : by_moment) all.push_back(op);
        }
        for_each_op(*program, [&](const Op& op) {
            const bool is_map = op.kind() == OpKind::map_write;
            if (is_map) expected_maps.push_back(op.page);
            if (moves_lines(op))
                expected_lines[op.object] += static_cast<unsigned>(std::popcount(op.lines));
            if (is_map || moves_lines(op)) {
                expected_all.emplace_back(op.page, 0, 0, op.kind(), op.lines);
                expected_most += static_cast<unsigned>(std::popcount(op.lines));
            }
            if ((!is_map && !moves_lines(op)) || wanted.contains(op.page))
                expected.push_back(as_words(op));
        });
        CHECK(maps == expected_maps);
        CHECK(ops == expected);
        CHECK(all == expected_all);
        CHECK(lines == expected_lines);
        CHECK(most == expected_most);
    }
    CHECK(compared > 50);
}

TEST_CASE("a replay of declared sweeps counts what one of the same ops does") {
    Random random(3, 0, 0, Stream::declared_lines);
    for (int round = 0; round < 120; ++round) {
        CAPTURE(round);
        const SweepLoops loops = drawn_loops(random, 400);
        const unsigned order = random.below(3) == 0 ? huge_order : small_order;
        const unsigned base_order = random.below(4) == 0 ? 1 : 0;
        const auto placement = drawn_placement(random, order, base_order);
        const std::uint32_t ranks = random.below(2) == 0 ? 1 : 3;
        const Hierarchy machine{.slots = 512, .ways = 1u << random.below(2)};
        check_counts(loops, *placement, machine, ranks, random);
    }
}

TEST_CASE("L2s under walks through whole arrays do what the same ops do to a bank of L2s") {
    Random random(5, 0, 0, Stream::declared_lines);
    unsigned streamed = 0;
    for (int round = 0; round < 120; ++round) {
        CAPTURE(round);
        const SweepLoops loops = drawn_whole_walks(random);
        const auto placement = random.below(4) == 0
                                   ? place_contiguously(8192)
                                   : drawn_placement(random, small_order, random.below(4) / 3);
        const Hierarchy machine{.l2_sets = 64u << (2 + random.below(2)),
                                .l2_ways = 7 + random.below(10),
                                .l2_shared_by = 1 + random.below(2),
                                .slots = 512};
        ReplayOptions options;
        const auto sweeps = declare_sweeps(loops);
        const auto blocks = SweepBlocks::of(*sweeps);
        streamed += StreamedL2s::of(blocks.get(), machine, options, loops.threads) ? 1 : 0;
        check_counts(loops, *placement, machine, 1, random);
    }
    CHECK(streamed > 60);
}

TEST_CASE("frames for many pages at once are those that single requests get") {
    for (const std::uint32_t grain : {1u, 16u}) {
        NodeState node(linux_layout(16384, 1, 2), grain);
        Random random(4, 0, 0, Stream::history);
        std::vector<Frame> held;
        for (int i = 0; i < 9000; ++i) held.push_back(*node.alloc({.cpu = random.below(2)}));
        for (const Frame frame : held)
            if (random.below(3) != 0) node.free(random.below(2), frame, small_order);
        const auto placement = place_by_kernel(node, small_order);
        const auto at_once = placement->open({2, 20000, 0}),
                   singly = placement->open({2, 20000, 0});
        for (std::size_t memory_left = 1; memory_left != 0;) {
            const std::vector<std::uint32_t> pages(1 + random.below(500));
            const unsigned cpu = random.below(2);
            std::vector<Frame> given(pages.size());
            given.resize(at_once->alloc_each({.cpu = cpu}, pages, given));
            std::vector<Frame> expected;
            while (expected.size() < pages.size()) {
                const MaybeFrame frame = singly->alloc({.cpu = cpu});
                if (!frame) break;
                expected.push_back(*frame);
            }
            REQUIRE(given == expected);
            memory_left = given.size();
            for (const Frame frame : given) {  // some come back
                if (random.below(4) != 0) continue;
                const unsigned by = random.below(2);
                at_once->free({.cpu = by}, frame);
                singly->free({.cpu = by}, frame);
            }
        }
    }
}
