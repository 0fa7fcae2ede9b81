#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/frames/placement.hpp"
#include "core/replay/conflict_watch.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t window = 1000;

// A watch, and the counter that it watches.
class Watched {
  public:
    explicit Watched(double limit) : watch_(limit, window), counters_(1, 1) {}

    // What the watch says after so many lines, this share of which pushed another out.
    bool after(double share, std::uint64_t lines = window) {
        std::uint64_t* const row = counters_.row(0, 0);
        const auto count = [row](Component component) -> std::uint64_t& {
            return row[static_cast<std::size_t>(component)];
        };
        count(Component::msc_reads) += lines / 2;
        count(Component::msc_writes) += lines - lines / 2;
        count(Component::conflict_evictions) +=
            static_cast<std::uint64_t>(share * static_cast<double>(lines));
        return watch_.look(counters_);
    }

  private:
    ConflictWatch watch_;
    Counters counters_;
};

}  // namespace

TEST_CASE("pages are shuffled when conflicts climb above the limit, and not before") {
    Watched watched(0.25);
    CHECK(!watched.after(0.25));
    CHECK(!watched.after(0.4, window / 2));  // too few lines to tell
    CHECK(!watched.after(0, window / 2 - 1));
    CHECK(!watched.after(0, 1));
    CHECK(watched.after(0.26));
}

TEST_CASE("pages are shuffled again only when conflicts are a quarter more than that left") {
    Watched watched(0.25);
    REQUIRE(watched.after(0.8));
    CHECK(!watched.after(1));    // the copies
    CHECK(!watched.after(0.4));  // what they left
    CHECK(!watched.after(0.5));
    CHECK(watched.after(0.51));
    CHECK(!watched.after(1));
    CHECK(!watched.after(0.1));
    CHECK(!watched.after(0.25));
    CHECK(watched.after(0.26));  // the limit holds where less was left
}

TEST_CASE("an adaptive mapping gives the kernel's frames, and then random ones of what is free") {
    NodeState node(bare_layout(16 * 1024), 1);
    const auto kernel = place_by_kernel(node, small_order)->open({1, 0, 0});
    const auto placement = place_adaptively(node, 0.25, 1, 1);
    const auto source = placement->open({1, 0, 0});
    std::set<Frame> held;
    for (int i = 0; i < 1000; ++i) {
        const Frame frame = *source->alloc({});
        CHECK(frame == kernel->alloc({}));
        held.insert(frame);
    }
    source->shuffle();
    source->shuffle();  // a second time there is nothing new to draw from
    std::vector<Frame> drawn;
    for (int i = 0; i < 8000; ++i) {
        drawn.push_back(*source->alloc({}));
        CHECK(held.insert(drawn.back()).second);
    }
    // Neighbours are rare: of random draws one in 8000 follows the one before it.
    int neighbours = 0;
    double mean = 0;
    for (std::size_t i = 1; i < drawn.size(); ++i) {
        neighbours += drawn[i].raw() == drawn[i - 1].raw() + 1;
        mean += drawn[i].raw() / 8000.0;
    }
    CHECK(neighbours < 10);
    CHECK(mean == doctest::Approx(8.5 * 1024).epsilon(0.03));
    // What is given back is drawn again, all of it.
    for (const Frame frame : held) source->free({}, frame);
    std::set<Frame> again;
    while (const auto frame = source->alloc({})) CHECK(again.insert(*frame).second);
    CHECK(again.size() == 16 * 1024);
}
