// Merging lines into page runs changes no count of any cache indexed by address bits 6..11 and
// more.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "core/accesses/page_runs.hpp"
#include "tests/cpp/reference_caches.hpp"

using namespace pagelens;

namespace {

struct Line {
    OpKind kind;
    std::uint32_t page;
    unsigned index;
    std::uint16_t object;
    friend bool operator==(const Line&, const Line&) = default;
};

// Loops over a few pages at once, with jumps.
std::vector<Line> random_lines(std::mt19937_64& random, std::size_t count) {
    std::vector<Line> lines;
    std::vector<std::uint64_t> walks(4);
    const std::uint64_t pages = 2 + random() % 40;
    for (auto& walk : walks) walk = random() % (pages * 64);
    while (lines.size() < count) {
        std::uint64_t& walk = walks[random() % walks.size()];
        walk = random() % 10 == 0 ? random() % (pages * 64) : (walk + 1) % (pages * 64);
        const auto kind = static_cast<OpKind>(random() % 5 == 0 ? random() % 3 : walk % 2);
        const auto page = static_cast<std::uint32_t>(walk / 64);
        lines.push_back(
            {kind, page, static_cast<unsigned>(walk % 64), static_cast<std::uint16_t>(page % 3)});
    }
    return lines;
}

std::vector<Line> expand(const std::vector<Op>& ops) {
    std::vector<Line> lines;
    for (const Op& op : ops)
        for (unsigned i = 0; i < lines_per_page; ++i)
            if ((op.lines >> i & 1) != 0) lines.push_back({op.kind(), op.page, i, op.object});
    return lines;
}

struct Counts {
    std::uint64_t hits[3] = {}, victims[3] = {}, dirty_victims[3] = {};  // by object
    bool operator==(const Counts&) const = default;
};

// Pages stand at random frames, so the upper index bits are anything.
Counts count(const std::vector<Line>& lines, unsigned sets, std::size_t ways,
             const std::vector<std::uint64_t>& frames) {
    reference::LruCache cache(sets, ways);
    Counts counts;
    for (const Line& line : lines) {
        const auto outcome =
            cache.access(frames[line.page] * 64 + line.index, line.kind != OpKind::fetch);
        counts.hits[line.object] += outcome.hit;
        if (!outcome.victim) continue;
        ++counts.victims[line.object];
        counts.dirty_victims[line.object] += outcome.victim->dirty;
    }
    return counts;
}

}  // namespace

TEST_CASE("page runs: caches count the same as line by line") {
    std::mt19937_64 random(2);
    for (int round = 0; round < 60; ++round) {
        const std::vector<Line> lines = random_lines(random, 3000);
        std::vector<Op> ops;
        PageRuns runs(ops);
        for (const Line& line : lines) runs.line(line.kind, line.page, line.index, line.object, 0);
        const std::vector<Line> merged = expand(ops);
        CHECK(merged.size() == lines.size());
        CHECK(ops.size() < lines.size());
        std::vector<std::uint64_t> frames(64);
        for (auto& frame : frames) frame = random() % 1000;
        for (const unsigned sets : {64u, 128u, 1024u})
            for (const std::size_t ways : {1u, 2u, 4u})
                CHECK(count(merged, sets, ways, frames) == count(lines, sets, ways, frames));
    }
}

TEST_CASE("page runs: a copy loop becomes whole pages") {
    std::vector<Op> ops;
    PageRuns runs(ops);
    for (unsigned i = 0; i < 128; ++i) {
        runs.line(OpKind::fetch, i / 64, i % 64, 1, 0);
        runs.line(OpKind::fetch, 10 + i / 64, i % 64, 2, 0);
    }
    REQUIRE(ops.size() == 4);
    for (const Op& op : ops) CHECK(op.lines == ~std::uint64_t{0});
}

TEST_CASE("page runs in order are the lines one by one") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 20; ++round) {
        std::vector<Line> lines = random_lines(random, 1000);
        for (std::size_t i = 1; i < lines.size();
             ++i) {  // some sweeps, so that there is what to merge
            if (random() % 2 == 0) lines[i] = lines[i - 1];
            if (random() % 2 == 0) lines[i].index = (lines[i - 1].index + 1) % lines_per_page;
        }
        std::vector<Op> ops;
        PageRuns runs(ops, LineOrder::all);
        for (const Line& line : lines) runs.line(line.kind, line.page, line.index, line.object, 0);
        CHECK(expand(ops) == lines);
        CHECK(ops.size() < lines.size());
    }
}

TEST_CASE("page runs: a line that a later op has opens a new op") {
    std::vector<Op> ops;
    PageRuns runs(ops);
    runs.line(OpKind::fetch, 0, 5, 1, 0);
    runs.line(OpKind::fetch, 1, 6, 1, 0);
    runs.line(OpKind::fetch, 0, 6, 1, 0);  // page 1 came first at index 6
    CHECK(ops.size() == 3);
    runs.line(OpKind::fetch, 0, 7, 1, 0);
    CHECK(ops.size() == 3);
    runs.line(OpKind::fetch, 0, 7, 1, 0);  // the same line twice is two accesses
    CHECK(ops.size() == 4);
}

TEST_CASE("page runs: nothing moves past a barrier, another object or another thread") {
    std::vector<Op> ops;
    PageRuns runs(ops);
    runs.line(OpKind::fetch, 0, 0, 1, 0);
    runs.barrier(make_op(OpKind::map_write, 1, 0));
    runs.line(OpKind::fetch, 0, 1, 1, 0);
    runs.line(OpKind::fetch, 0, 2, 2, 0);
    runs.line(OpKind::fetch, 0, 3, 2, 1);
    runs.line(OpKind::write_back, 0, 4, 2, 1);
    CHECK(ops.size() == 6);
}

TEST_CASE("page runs: only the latest ops take more lines") {
    std::vector<Op> ops;
    PageRuns runs(ops);
    runs.line(OpKind::fetch, 0, 0, 1, 0);
    for (unsigned page = 1; page < open_ops; ++page) runs.line(OpKind::fetch, page, 1, 1, 0);
    runs.line(OpKind::fetch, 0, 2, 1, 0);
    CHECK(ops.size() == open_ops);
    runs.line(OpKind::fetch, open_ops, 1, 1, 0);
    runs.line(OpKind::fetch, 0, 3, 1, 0);
    CHECK(ops.size() == open_ops + 2);
}
