// Declared sweeps against the loops they stand for, written out plainly.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "core/accesses/sweeps.hpp"

using namespace pagelens;

namespace {

std::vector<Op> all_ops(const Program& program) {
    std::vector<Op> ops;
    const auto cursor = program.open();
    for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
        ops.insert(ops.end(), batch.begin(), batch.end());
    }
    return ops;
}

SweepLoops triad(std::uint64_t pages, unsigned threads, unsigned repeats) {
    using enum StreamKind;
    return {.array_pages = {pages, pages, pages},
            .sweeps = {{0, true, 4.0, {{0, write}, {1, write}, {2, write}}},
                       {1, false, 5.0, {{1, read}, {2, read}, {0, stream_store}}}},
            .phase_repeats = {1, repeats},
            .threads = threads};
}

}  // namespace

TEST_CASE("each repeat visits each page of each stream once, mapped before its first use") {
    for (const unsigned threads : {1u, 3u, 7u}) {
        const auto program = declare_sweeps(triad(23, threads, 4));
        std::map<std::uint32_t, int> fetches, stores, maps;
        bool used_unmapped = false;
        unsigned phase = 99;
        for (const Op& op : all_ops(*program)) {
            if (op.kind() == OpKind::phase) {
                phase = op.page;
            } else if (op.kind() == OpKind::map_write) {
                ++maps[op.page];
            } else {
                used_unmapped |= maps[op.page] == 0;
                fetches[op.page] += op.kind() == OpKind::fetch && phase == 1;
                stores[op.page] += op.kind() == OpKind::stream_store;
            }
        }
        CHECK_FALSE(used_unmapped);
        CHECK(program->pages().size() == 69);
        for (std::uint32_t page = 0; page < 69; ++page) {
            CHECK(maps[page] == 1);
            CHECK(fetches[page] == (page < 23 ? 0 : 4));
            CHECK(stores[page] == (page < 23 ? 4 : 0));
        }
    }
}

TEST_CASE("padding moves arrays and changes nothing else") {
    SweepLoops loops = triad(10, 2, 3);
    const auto plain = declare_sweeps(loops);
    loops.padding = Padding({VirtualPage(10), VirtualPage(20)}, 7);
    const auto padded = declare_sweeps(loops);
    const auto same = [](const Op& a, const Op& b) {
        return a.page == b.page && a.kind() == b.kind() && a.lines == b.lines &&
               a.object == b.object && a.thread == b.thread;
    };
    CHECK(std::ranges::equal(all_ops(*plain), all_ops(*padded), same));
    for (std::uint64_t page = 0; page < 30; ++page)
        CHECK(padded->pages()[page].raw() == page + page / 10 * 7);
}

TEST_CASE("in order, the same lines come line by line in turn") {
    for (const unsigned threads : {1u, 3u}) {
        SweepLoops loops = triad(23, threads, 2);
        const std::vector<Op> pages = all_ops(*declare_sweeps(loops));
        loops.order = LineOrder::all;
        const std::vector<Op> lines = all_ops(*declare_sweeps(loops));
        using Key = std::tuple<OpKind, std::uint32_t, unsigned>;
        std::map<Key, int> of_pages, of_lines;
        for (const Op& op : pages) ++of_pages[{op.kind(), op.page, op.thread}];
        unsigned changes = 0;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const Op& op = lines[i];
            const bool moves = op.kind() != OpKind::map_write && op.kind() != OpKind::phase;
            if (moves) CHECK(std::popcount(op.lines) == 1);
            if (!moves || op.lines == 1) ++of_lines[{op.kind(), op.page, op.thread}];
            changes += moves && i > 0 && lines[i - 1].page != op.page;
        }
        CHECK(of_lines == of_pages);
        CHECK(lines.size() > 60 * pages.size() / 2);
        CHECK(changes > lines.size() / 2);
    }
}

TEST_CASE("written pages are written back once a sweep, after their fetch") {
    SweepLoops loops = triad(10, 2, 1);
    loops.sweeps.push_back({1, false, 1.0, {{2, StreamKind::write}}});
    std::map<std::uint32_t, int> fetched, backs;
    unsigned phase = 99;
    for (const Op& op : all_ops(*declare_sweeps(loops))) {
        if (op.kind() == OpKind::phase) phase = op.page;
        if (op.object != 3 || phase != 1) continue;
        fetched[op.page] += op.kind() == OpKind::fetch;
        if (op.kind() == OpKind::write_back) {
            CHECK(fetched[op.page] == 2);  // the triad's read and the update's own fetch came first
            ++backs[op.page];
        }
    }
    CHECK(backs.size() == 10);
    for (const auto& [page, n] : backs) CHECK(n == 1);
}

TEST_CASE("a thread stays in its part, and a shifted stream leaves out what lies outside") {
    SweepLoops loops = triad(12, 4, 1);
    loops.sweeps.push_back({1, false, 1.0, {{0, StreamKind::read, -2}, {0, StreamKind::read, 2}}});
    int reads = 0;
    for (const Op& op : all_ops(*declare_sweeps(loops))) {
        if (op.kind() == OpKind::stream_store) CHECK(op.page / 3 == op.thread);
        reads += op.kind() == OpKind::fetch && op.object == 1;
    }
    CHECK(reads == 12 + 2 * (12 - 2));  // 12 in the first touch
}

TEST_CASE("two arrays of different length advance proportionally") {
    using enum StreamKind;
    const SweepLoops loops{.array_pages = {30, 10},
                           .sweeps = {{0, true, 1.0, {{0, read}, {1, read}}}},
                           .phase_repeats = {1},
                           .threads = 1};
    int long_seen = 0, short_seen = 0;
    for (const Op& op : all_ops(*declare_sweeps(loops))) {
        if (op.kind() != OpKind::fetch) continue;
        (op.object == 1 ? long_seen : short_seen) += 1;
        CHECK(std::abs(long_seen - 3 * short_seen) <= 4);
    }
    CHECK(long_seen == 30);
    CHECK(short_seen == 10);
}

TEST_CASE("what cannot be swept is refused") {
    CHECK_THROWS_AS(declare_sweeps({}), std::invalid_argument);
    CHECK_THROWS_AS(declare_sweeps(triad(3, 4, 1)), std::invalid_argument);  // 3 pages, 4 threads
    SweepLoops loops = triad(8, 1, 1);
    loops.sweeps[1].streams[0].array = 3;
    CHECK_THROWS_AS(declare_sweeps(loops), std::invalid_argument);
}
