#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "core/frames/node_state.hpp"
#include "core/frames/placement.hpp"
#include "core/replay/memory_tiers.hpp"
#include "tests/cpp/reference_replay.hpp"
#include "tests/cpp/reference_tiers.hpp"

using namespace pagelens;

namespace {

// A node with a core, and one without, of 32 MiB each.
constexpr std::uint32_t node_frames = 8192;
// The program writes all of its pages once; the last ones find node 0 full.
constexpr std::uint32_t pages = 10000, tail = 500;

NodeState fresh_node() {
    return NodeState(numa_layout({node_frames, node_frames}, {0}, {10, 20, 20, 10}), 1);
}

std::shared_ptr<const NumaPlacing> two_tiers() {
    auto numa = std::make_shared<NumaPlacing>();
    numa->cpus = {0};
    numa->node_of_cpu = {0};
    numa->end_of_node = {node_frames, 2 * node_frames};
    numa->policies = {NumaPolicy{}};
    numa->slow_nodes = 2;
    return numa;
}

Op use(std::uint32_t page) { return make_op(OpKind::touch, page, 1, 1, 0); }

// Writes `all` pages, and then uses the last ones so often, in turn. Each pass begins with two
// lines that take the time `line_s`: a scan comes with the first of them.
std::shared_ptr<const Program> program_of(std::uint32_t all, int passes) {
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < all; ++page) {
        ops.push_back(make_op(OpKind::map_write, page, 0, 1, 0));
        addresses.emplace_back(1000 + page);
    }
    for (int pass = 0; pass < passes; ++pass) {
        for (const std::uint32_t page : {0u, 1u})
            ops.push_back(make_op(OpKind::fetch, page, 1, 1, 0));
        for (std::uint32_t page = all - tail; page < all; ++page) ops.push_back(use(page));
    }
    return std::make_shared<reference::ListedProgram>(std::move(ops), std::move(addresses), 2, 1,
                                                      1);
}

struct Met {
    std::vector<std::uint32_t> cold, hot, demoted;
};

Met met(const std::shared_ptr<const Program>& program, NodeState state, const MemoryTiers& rules) {
    const std::shared_ptr<const Placement> placement =
        place_by_kernel(std::move(state), small_order);
    Met found;
    for_each_op(*with_memory_tiers(program, placement, rules), [&](const Op& op) {
        if (op.kind() != OpKind::hint_fault) return;
        auto& list = op.lines == HintFault::is_cold  ? found.cold
                     : op.lines == HintFault::is_hot ? found.hot
                                                     : found.demoted;
        list.push_back(op.page);
    });
    return found;
}

// A program of several processes.
class ProgramOfSpaces : public reference::ListedProgram {
  public:
    ProgramOfSpaces(std::vector<Op> ops, std::vector<VirtualPage> pages, unsigned threads,
                    unsigned spaces)
        : ListedProgram(std::move(ops), std::move(pages), 2, 1, threads), spaces_(spaces) {}
    [[nodiscard]] unsigned spaces() const override { return spaces_; }

  private:
    unsigned spaces_;
};

}  // namespace

TEST_CASE("tiers are the kernel's, event for event, and leave the program as it is") {
    std::mt19937 engine(27);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(engine() % n); };
    std::size_t cold = 0, hot = 0, demoted = 0;
    for (int round = 0; round < 120; ++round) {
        const unsigned threads = 1 + below(4), ranks = 1 + below(3), spaces = 1 + below(2);
        const unsigned fast = 1 + below(2), slow = 1 + below(2), pages = 4 + below(60);
        std::vector<VirtualPage> addresses;
        for (unsigned page = 0; page < pages; ++page)
            addresses.emplace_back((std::uint64_t{below(spaces)} << space_shift) + 300 + page * 2);
        std::ranges::shuffle(addresses, engine);

        const std::uint32_t needed = pages * ranks + pages;  // what it writes, and what it reads
        reference::Room room{.mark = below(4), .spared_as = below(2) == 0 ? 1u : 1u << 18};
        for (unsigned node = 0; node < fast; ++node) room.free.push_back(below(needed));
        for (unsigned node = 0; node < slow; ++node)
            room.free.push_back(below(4) == 0 ? needed / 2 : needed);
        room.free.back() = needed;
        auto numa = std::make_shared<NumaPlacing>();
        for (unsigned thread = 0; thread < ranks * threads; ++thread)
            numa->cpus.push_back(below(fast));
        for (unsigned node = 0; node < fast + slow; ++node) {
            if (node < fast) numa->node_of_cpu.push_back(static_cast<std::uint8_t>(node));
            if (node >= fast) numa->slow_nodes |= 1ull << node;
            numa->end_of_node.push_back((node + 1) * needed);
        }
        numa->policies = {NumaPolicy{}};
        const MemoryTiers rules{.numa = numa,
                                .ranks = ranks,
                                .line_s = {0.001 + 0.01 * below(4)},
                                .most_period_s = 1.0 + below(8),
                                .scan_pages = 1 + below(pages + 3),
                                .hot_s = 0.05 + 0.3 * below(6),
                                .pages_a_second = below(2) == 0 ? 1e6 : 1.0 + below(40)};

        const unsigned touches = below(2) == 0 ? 5 : 48;  // of 60 ops; meanwhile no time passes
        std::vector<Op> ops;
        for (int i = 0; i < 3000; ++i) {
            // A third of the pages has most of the accesses.
            const unsigned page = below(3) == 0 ? below(pages) : below(pages / 3 + 1);
            const unsigned thread = below(threads), what = below(60);
            if (what < 4)
                ops.push_back(make_op(OpKind::map_write, page, 0, 1, thread));
            else if (what == 4)
                ops.push_back(make_op(OpKind::unmap, page, 1 + below(std::min(3u, pages - page))));
            else if (what == 5)
                ops.push_back(make_op(OpKind::map_read, page, 1 + below(pages), 1, thread));
            else if (what == 6)
                ops.push_back(make_op(OpKind::write_back, page, 3, 1, thread));
            else if (what < 7 + touches)
                ops.push_back(make_op(OpKind::touch, page, 1, 1, thread));
            else
                ops.push_back(make_op(what % 2 == 0 ? OpKind::stream_store : OpKind::fetch, page,
                                      engine() | 1, 1, thread));
        }
        const auto program =
            std::make_shared<const ProgramOfSpaces>(ops, addresses, threads, spaces);
        const auto expected = reference::Tiers(*program, room, rules).events(ops);
        const auto placement = std::make_shared<const reference::RoomPlacement>(room, needed);
        std::vector<reference::TierEvent> found;
        std::vector<Op> left;
        for_each_op(*with_memory_tiers(program, placement, rules), [&](const Op& op) {
            if (op.kind() == OpKind::hint_fault)
                found.push_back({left.size(), op.page, op.thread, op.lines});
            else
                left.push_back(op);
        });
        CHECK(found == expected);
        CHECK(std::ranges::equal(left, ops, [](const Op& a, const Op& b) {
            return a.kind() == b.kind() && a.page == b.page && a.lines == b.lines;
        }));
        for (const auto& event : expected)
            ++(event.what == HintFault::is_cold  ? cold
               : event.what == HintFault::is_hot ? hot
                                                 : demoted);
    }
    CHECK(cold > 2000);
    CHECK(hot > 2000);
    CHECK(demoted > 500);
}

TEST_CASE("pages that are used soon after a scan are promoted, and the oldest ones make room") {
    const Met found =
        met(program_of(pages, 40), fresh_node(), {.numa = two_tiers(), .line_s = {0.5}});
    CHECK(found.cold.empty());
    // Each of the hot pages has its fault; one that finds no room has another one after the next
    // scan.
    std::vector<std::uint32_t> hot = found.hot;
    std::ranges::sort(hot);
    hot.erase(std::ranges::unique(hot).begin(), hot.end());
    REQUIRE(hot.size() == tail);
    CHECK(hot.front() == pages - tail);
    CHECK(found.hot.size() < tail + 40);
    // As many pages leave as come, but for the watermarks, and they are those written first.
    CHECK(found.demoted.size() >= tail);
    CHECK(found.demoted.size() < tail + 200);
    CHECK(std::ranges::is_sorted(found.demoted));
    CHECK(found.demoted.back() < pages - tail);
}

TEST_CASE("pages that are used a while after a scan stay in slow memory") {
    const Met found =
        met(program_of(pages, 40), fresh_node(), {.numa = two_tiers(), .line_s = {3}});
    CHECK(found.hot.empty());
    CHECK(found.demoted.empty());
    CHECK(found.cold.size() >= tail);
}

TEST_CASE("the page cache makes room before the program's own pages do") {
    NodeState state = fresh_node();
    state.buffered_io(7000);
    const Met found = met(program_of(3000, 40), state, {.numa = two_tiers(), .line_s = {0.5}});
    CHECK(found.hot.size() >= tail);
    CHECK(found.demoted.empty());
}

TEST_CASE("a demoted page of the page cache lies on the slow node, and goes when that is full") {
    NodeState state = fresh_node();
    state.buffered_io(7900);
    const auto before = state.page_cache_frames();
    CHECK(state.make_room(0, 2) == 0);
    const auto has_room = [](const Zone& zone) {
        const ZoneSpec& of = zone.spec();
        return of.numa == 0 && zone.free_frames() >= 2 * of.high - of.low + of.protection;
    };
    CHECK(std::ranges::any_of(state.memory().zones(), has_room));  // WMARK_PROMO
    CHECK(state.page_cache_frames() == before);
    NodeState full = fresh_node();
    full.buffered_io(16000);
    const auto cached = full.page_cache_frames();
    CHECK(full.make_room(0, 2) == 0);
    CHECK(full.page_cache_frames() < cached);
}

TEST_CASE("a limit on promotions keeps pages in slow memory") {
    const Met found = met(program_of(pages, 40), fresh_node(),
                          {.numa = two_tiers(), .line_s = {0.5}, .pages_a_second = 10});
    CHECK(found.hot.size() < 40 * 10);
    CHECK(found.cold.size() > found.hot.size());
}

TEST_CASE("the settings of tiers are checked") {
    const auto program = program_of(pages, 1);
    const std::shared_ptr<const Placement> placement = place_by_kernel(fresh_node(), small_order);
    CHECK_THROWS_AS(with_memory_tiers(program, placement, {.numa = nullptr, .line_s = {1}}),
                    std::invalid_argument);
    CHECK_THROWS_AS(
        with_memory_tiers(program, placement, {.numa = two_tiers(), .line_s = {1}, .hot_s = 0}),
        std::invalid_argument);
}
