#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/frames/node_state.hpp"
#include "core/frames/placement.hpp"
#include "core/random/philox.hpp"
#include "core/replay/rank_pages.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

using Cpus = std::map<std::uint32_t, unsigned>;  // by frame

// Hands out frame after frame, and notes which CPU asked for each and which gave it back.
class NotedSource final : public FrameSource {
  public:
    NotedSource(Cpus& asked, Cpus& given_back) : asked_(asked), given_back_(given_back) {}
    MaybeFrame alloc(const Request& request) override {
        asked_[next_] = request.cpu;
        return Frame(next_++);
    }
    void free(const Request& request, Frame frame) override {
        given_back_[frame.raw()] = request.cpu;
    }

  private:
    std::uint32_t next_ = 1;
    Cpus &asked_, &given_back_;
};

class NotedPlacement final : public Placement {
  public:
    std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<NotedSource>(asked, given_back);
    }
    std::uint32_t frames() const override { return 1024; }
    mutable Cpus asked, given_back;
};

}  // namespace

TEST_CASE("a rank's frames go back through the CPU that it runs on") {
    constexpr std::uint32_t ranks = 3, pages = 4;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(page);
    const reference::ListedProgram program({}, std::move(addresses), 1, 1, 1);
    NumaPlacing numa;
    numa.cpus = {0, 12, 24};
    numa.node_of_cpu.assign(36, 0);
    numa.end_of_node = {1024};
    numa.policies = {NumaPolicy{}};
    for (const NumaPlacing* given :
         {static_cast<const NumaPlacing*>(nullptr), &std::as_const(numa)}) {
        const NotedPlacement placement;
        RankPages mapped(program, placement, ranks, Sampling(), RankPages::Listed::covered,
                         SlotPopulation(0, 0), 0, given);
        const auto ignore = [](std::uint32_t, std::uint32_t, std::uint32_t) {};
        for (std::uint32_t page = 0; page + 1 < pages; ++page) mapped.map_write(page, ignore);
        mapped.unmap(0, pages - 1);
        mapped.map_write(pages - 1,
                         ignore);  // what is given back goes before the next one is asked for
        CHECK(placement.given_back.size() == (pages - 1) * ranks);
        for (const auto& [frame, cpu] : placement.given_back)
            CHECK(cpu == placement.asked.at(frame));
    }
}

namespace {

// Gives frames of the nearest allowed node: 0 to 99 are on node 0, 100 to 199 on node 1. Node 1 has
// `spare` of them for requests that leave something over.
class TwoNodes final : public FrameSource {
  public:
    explicit TwoNodes(std::uint32_t spare) : spare_(spare) {}
    MaybeFrame alloc(const Request& request) override {
        const unsigned node = (request.numas >> request.home & 1) != 0 ? request.home : 0;
        if (request.sparing) CHECK(std::popcount(request.numas) == 1);  // a move has one target
        if (request.sparing && spare_-- == 0) return std::nullopt;
        return Frame(100 * node + next_[node]++);
    }
    void free(const Request&, Frame frame) override { freed.push_back(frame.raw()); }
    static inline std::vector<std::uint32_t> freed;

  private:
    std::uint32_t spare_;
    std::uint32_t next_[2] = {0, 0};
};

class OnTwoNodes final : public Placement {
  public:
    explicit OnTwoNodes(std::uint32_t spare) : spare_(spare) {}
    std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<TwoNodes>(spare_);
    }
    std::uint32_t frames() const override { return 200; }

  private:
    std::uint32_t spare_;
};

}  // namespace

TEST_CASE("a page moves to the node of a thread in each rank, if that node has frames to spare") {
    const reference::ListedProgram program({}, {VirtualPage(1), VirtualPage(2)}, 1, 1, 2);
    NumaPlacing numa;
    numa.cpus = {0, 1, 0, 1};  // each of two ranks has a thread on each node
    numa.node_of_cpu = {0, 1};
    numa.end_of_node = {100, 200};
    numa.policies = {NumaPolicy{}};
    TwoNodes::freed.clear();
    RankPages pages(program, OnTwoNodes(3), 2, Sampling(), RankPages::Listed::covered,
                    SlotPopulation(0, 0), 0, &numa);
    const auto ignore = [](std::uint32_t, std::uint32_t, std::uint32_t) {};
    for (const std::uint32_t page : {0u, 1u}) pages.map_write(page, ignore, 0);
    std::map<std::uint32_t, std::uint32_t> moved;
    const auto note = [&](std::uint32_t from, std::uint32_t to) { moved[from] = to; };
    CHECK(pages.move(0, 0, note) == 0);  // it is there
    CHECK(pages.move(0, 1, note) == 2);
    CHECK(moved == std::map<std::uint32_t, std::uint32_t>{{0, 100}, {1, 101}});
    CHECK(TwoNodes::freed == std::vector<std::uint32_t>{0, 1});
    CHECK(pages.frame(0, 0) == 100);
    CHECK(pages.frame(0, 1) == 101);
    CHECK(pages.move(1, 1, note) == 1);  // the node has no more to spare for the second rank
    CHECK(pages.frame(1, 0) == 102);
    CHECK(pages.frame(1, 1) == 3);
    std::vector<std::uint32_t> listed;
    pages.for_sampled(0, ~0ull, [&](std::span<const RankPage> of_page, std::uint64_t) {
        for (const RankPage& each : of_page) listed.push_back(each.frame);
    });
    CHECK(listed == std::vector<std::uint32_t>{100, 101});
}

namespace {

constexpr std::uint32_t node_frames = 1u << 12;

// Nodes with a core each, nearest first by number, and the kernel's allocator on them.
NumaPlacing nodes_with_cores(unsigned nodes, NumaPolicy policy) {
    NumaPlacing numa;
    numa.cpus = {0};
    for (unsigned node = 0; node < nodes; ++node) {
        numa.node_of_cpu.push_back(static_cast<std::uint8_t>(node));
        numa.end_of_node.push_back((node + 1) * node_frames);
    }
    numa.policies = {std::move(policy)};
    return numa;
}

NodeState fresh_nodes(unsigned nodes, std::vector<std::uint8_t> distances = {}) {
    std::vector<std::uint8_t> cpu_numa;
    for (unsigned node = 0; node < nodes; ++node)
        cpu_numa.push_back(static_cast<std::uint8_t>(node));
    return NodeState(numa_layout(std::vector<std::uint32_t>(nodes, node_frames),
                                 std::move(cpu_numa), std::move(distances)),
                     1);
}

// The node of each page, if they are touched in the order of their numbers.
std::vector<unsigned> nodes_of_pages(const NumaPlacing& numa, std::vector<VirtualPage> addresses) {
    const auto pages = static_cast<std::uint32_t>(addresses.size());
    const reference::ListedProgram program({}, std::move(addresses), 1, 1, 1);
    const auto placement = place_by_kernel(fresh_nodes(numa.nodes()), small_order);
    RankPages mapped(program, *placement, 1, Sampling(), RankPages::Listed::covered,
                     SlotPopulation(0, 0), 0, &numa);
    std::vector<unsigned> nodes;
    for (std::uint32_t page = 0; page < pages; ++page) {
        mapped.map_write(page, [](std::uint32_t, std::uint32_t, std::uint32_t) {});
        nodes.push_back(numa.node_of_frame(mapped.frame(page, 0)));
    }
    return nodes;
}

}  // namespace

TEST_CASE("a page's address decides where it is interleaved, not when it is touched") {
    const auto numa = nodes_with_cores(3, {.mode = NumaMode::interleave, .nodes = 0b101});
    const std::vector<VirtualPage> addresses{VirtualPage(9), VirtualPage(4), VirtualPage(7),
                                             VirtualPage(6)};
    CHECK(nodes_of_pages(numa, addresses) == std::vector<unsigned>{2, 0, 2, 0});
}

TEST_CASE("several preferred nodes give what they can spare, and then the others follow") {
    NodeState copy = fresh_nodes(3);
    std::size_t spare = 0;
    while (copy.memory().alloc({.cpu = 0, .numas = 0b110, .home = 0}, Memory::Mark::low)) ++spare;
    const auto numa = nodes_with_cores(3, {.mode = NumaMode::preferred_many, .nodes = 0b110});
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < spare + 100; ++page) addresses.emplace_back(page);
    const std::vector<unsigned> nodes = nodes_of_pages(numa, std::move(addresses));
    const auto outside = std::ranges::find(nodes, 0u);
    CHECK(outside - nodes.begin() == static_cast<std::ptrdiff_t>(spare));
    CHECK(std::all_of(outside, nodes.end(), [](unsigned node) { return node == 0; }));
}

TEST_CASE("preferred pools of 2 MiB pages that are empty leave a page to the other pools") {
    const auto numa = nodes_with_cores(3, {.mode = NumaMode::preferred_many, .nodes = 0b010});
    NodeState state = fresh_nodes(3);
    for (unsigned node = 0; node < 3; ++node) REQUIRE(state.fill_huge_pool(node, 1) == 1);
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < 3u << huge_order; ++page) {
        ops.push_back(make_op(OpKind::map_write, page, 0));
        ops.push_back(make_op(OpKind::write_back, page, 1));
        addresses.emplace_back(page);
    }
    const reference::ListedProgram program(std::move(ops), addresses, 1, 1, 1);
    const auto placement = place_by_kernel(std::move(state), huge_order);
    RankPages mapped(program, *placement, 1, Sampling(), RankPages::Listed::covered,
                     SlotPopulation(0, 0), 0, &numa);
    std::vector<unsigned> nodes;
    for (std::uint32_t page = 0; page < addresses.size(); page += 1u << huge_order) {
        mapped.map_write(page, [](std::uint32_t, std::uint32_t, std::uint32_t) {});
        nodes.push_back(numa.node_of_frame(mapped.frame(page, 0)));
    }
    CHECK(nodes == std::vector<unsigned>{1, 0, 2});
    CHECK(mapped.huge_pages() == 3);
}

TEST_CASE("a page is demoted to the slow node that is nearest to its own") {
    NumaPlacing numa = nodes_with_cores(4, {});
    numa.cpus = {1};
    numa.node_of_cpu = {0, 1};
    numa.slow_nodes = 0b1100;
    const reference::ListedProgram program({}, {VirtualPage(1)}, 1, 1, 1);
    const auto placement = place_by_kernel(fresh_nodes(4, {10, 20, 14, 24,  //
                                                           20, 10, 24, 14,  //
                                                           14, 24, 10, 30,  //
                                                           24, 14, 30, 10}),
                                           small_order);
    RankPages pages(program, *placement, 1, Sampling(), RankPages::Listed::covered,
                    SlotPopulation(0, 0), 0, &numa);
    pages.map_write(0, [](std::uint32_t, std::uint32_t, std::uint32_t) {});
    REQUIRE(numa.node_of_frame(pages.frame(0, 0)) == 1);
    CHECK(pages.demote(0, 1, [](std::uint32_t, std::uint32_t) {}) == 1);
    CHECK(numa.node_of_frame(pages.frame(0, 0)) == 3);
}

namespace {

// Hands out blocks of 2^order frames one after the other, and takes each back once.
class Blocks final : public FrameSource {
  public:
    explicit Blocks(std::map<std::uint32_t, unsigned>& out) : out_(out) {}
    MaybeFrame alloc(const Request& request) override {
        const Frame first(next_ << request.order);
        ++next_;
        out_[first.raw()] = request.order;
        return first;
    }
    void free(const Request& request, Frame frame) override {
        CHECK(out_.at(frame.raw()) == request.order);
        out_.erase(frame.raw());
    }

  private:
    std::uint32_t next_ = 1;
    std::map<std::uint32_t, unsigned>& out_;
};

class LargerPages final : public Placement {
  public:
    explicit LargerPages(unsigned base) : base_(base) {}
    std::unique_ptr<FrameSource> open(const JobShape&) const override {
        return std::make_unique<Blocks>(out);
    }
    std::uint32_t frames() const override { return 1u << 30; }
    unsigned base_order() const override { return base_; }
    mutable std::map<std::uint32_t, unsigned> out;  // frame and order of what was not given back

  private:
    unsigned base_;
};

}  // namespace

TEST_CASE("pages of a larger page of the kernel come and go together, as in a slow count") {
    constexpr std::uint32_t ranks = 2, count = 200;
    Random random(7, 0, 0, Stream::history);
    for (const unsigned base : {0u, 2u, 4u}) {
        std::vector<VirtualPage> addresses;
        for (std::uint32_t page = 0; page < count; ++page) addresses.emplace_back(3 * page / 2 + 5);
        const reference::ListedProgram program({}, addresses, 1, 1, 1);
        const LargerPages placement(base);
        RankPages pages(program, placement, ranks, Sampling(), RankPages::Listed::covered,
                        SlotPopulation(0, 0));
        std::uint64_t cleared = 0;
        const auto count_frames = [&](std::uint32_t, std::uint32_t, std::uint32_t n) {
            cleared += n;
        };
        // The slow count: the frame of each kernel's page that a rank has, and the pages in it.
        std::map<std::pair<std::uint64_t, std::uint32_t>, std::map<std::uint32_t, Frame>> held;
        std::uint64_t taken = 0;
        for (int step = 0; step < 600; ++step) {
            const auto page = static_cast<std::uint32_t>(random.below(count));
            if (pages.mapped(page)) {
                pages.unmap(page, 1);
                for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                    auto& of = held.at({addresses[page].raw() >> base, rank});
                    of.erase(page);
                    if (of.empty()) held.erase({addresses[page].raw() >> base, rank});
                }
                continue;
            }
            pages.map_write(page, count_frames);
            for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                auto& of = held[{addresses[page].raw() >> base, rank}];
                if (of.empty()) taken += 1u << base;
                of.emplace(page, Frame(pages.frame(page, rank)));
                for (const auto& [other, frame] : of) {
                    const bool beside = frame.raw() >> base == pages.frame(page, rank) >> base;
                    CHECK(beside);
                    const std::uint64_t mask = (1u << base) - 1;
                    CHECK((frame.raw() & mask) == (addresses[other].raw() & mask));
                }
            }
            CHECK(placement.out.size() == held.size());  // what was unmapped has gone back by now
            CHECK(cleared == taken);
        }
    }
}

TEST_CASE("pages of files that are shown at one address after another have frames of their own") {
    const reference::ListedProgram program({}, {VirtualPage(4), VirtualPage(5)}, 1, 1, 1);
    for (const unsigned base : {0u, 2u}) {
        const LargerPages placement(base);
        RankPages pages(program, placement, 1, Sampling(), RankPages::Listed::covered,
                        SlotPopulation(0, 0));
        std::set<std::uint32_t> frames;
        for (std::uint32_t part = 0; part < 3; ++part) {  // a window that moves along a file
            for (const std::uint32_t page : {0u, 1u}) {
                pages.map_read(page, 2 * part + page);
                frames.insert(pages.frame(page, 0));
            }
            CHECK(pages.frame(1, 0) == pages.frame(0, 0) + 1);
            pages.unmap(0, 2);
        }
        CHECK(frames.size() == 6);
    }
}
