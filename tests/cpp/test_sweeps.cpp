// Declared sweeps against the loops they stand for, written out plainly.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "core/accesses/sweeps.hpp"
#include "core/random/philox.hpp"
#include "tests/cpp/drawn_loops.hpp"

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

// The ops of a program without walks at random, written out: page k of a way's n comes in turn
// ceil(k * turns / n), and what was written leaves when the way takes its next step.
std::vector<Op> written_out(const SweepLoops& loops) {
    std::vector<Op> ops;
    std::vector<std::uint64_t> first_page{0};
    for (const std::uint64_t pages : loops.array_pages)
        first_page.push_back(first_page.back() + pages);
    const auto lines_of = [](std::uint64_t page, double stride) {
        std::uint64_t lines = 0;
        for (double k = 0; k * stride < 64.0 * static_cast<double>(page + 1); ++k) {
            const auto line = static_cast<std::uint64_t>(k * stride);
            if (line / 64 == page) lines |= 1ull << line % 64;
        }
        return lines;
    };
    const auto walked = [&](const SweepStream& s) {
        return s.pages != 0 ? s.pages : loops.array_pages[s.array];
    };
    const auto is_whole = [](Walk walk) { return walk == Walk::shared || walk == Walk::serial; };
    const auto run = [&](const Sweep& sweep) {
        std::uint64_t turns = 0;
        for (const SweepStream& s : sweep.streams)
            turns = std::max(turns, is_whole(s.walk) ? walked(s) : walked(s) / loops.threads + 1);
        const auto take_turn = [&](std::uint64_t turn, unsigned thread, const SweepStream& s) {
            const std::uint64_t all = walked(s);
            std::uint64_t begin = all * thread / loops.threads;
            std::uint64_t end = all * (thread + 1) / loops.threads;
            if (is_whole(s.walk)) begin = 0, end = all;
            if (s.walk == Walk::serial && thread != 0) return;
            const std::uint64_t n = end - begin;
            const auto emit = [&](OpKind kind, std::uint64_t at) {
                const std::uint64_t page = begin + at + static_cast<std::uint64_t>(s.shift);
                if (page >= loops.array_pages[s.array]) return;
                const std::uint64_t lines =
                    kind == OpKind::map_write || s.stride == 1 ? ~0ull : lines_of(page, s.stride);
                if (lines == 0) return;
                ops.push_back(make_op(kind, static_cast<std::uint32_t>(first_page[s.array] + page),
                                      lines, static_cast<std::uint16_t>(s.array + 1), thread));
            };
            for (std::uint64_t at = 0; n != 0 && at <= n; ++at) {
                if (turn != (at * turns + n - 1) / n) continue;
                if (at > 0 && s.kind == StreamKind::write) emit(OpKind::write_back, at - 1);
                if (at == n) continue;
                if (sweep.first_touch) emit(OpKind::map_write, at);
                emit(s.kind == StreamKind::stream_store ? OpKind::stream_store : OpKind::fetch, at);
            }
        };
        for (std::uint64_t turn = 0; turn <= turns; ++turn) {
            for (unsigned thread = 0; thread < loops.threads; ++thread) {
                for (const SweepStream& s : sweep.streams) take_turn(turn, thread, s);
            }
        }
        for (const unsigned array : sweep.unmapped)
            ops.push_back(make_op(OpKind::unmap, static_cast<std::uint32_t>(first_page[array]),
                                  loops.array_pages[array]));
    };
    for (unsigned phase = 0; phase < loops.phase_repeats.size(); ++phase) {
        ops.push_back(make_op(OpKind::phase, phase, 0));
        for (unsigned round = 0; round < loops.phase_repeats[phase]; ++round) {
            for (const Sweep& sweep : loops.sweeps)
                if (sweep.phase == phase) run(sweep);
        }
    }
    return ops;
}

}  // namespace

TEST_CASE("the ops are those of the loops written out, whatever the walks") {
    Random random(1, 0, 0, Stream::declared_lines);
    const auto as_words = [](const Op& op) {
        return std::tuple(op.page, op.object, unsigned{op.thread}, op.kind(), op.lines);
    };
    for (int round = 0; round < 500; ++round) {
        const SweepLoops loops = drawn_loops(random);
        CHECK(std::ranges::equal(all_ops(*declare_sweeps(loops)), written_out(loops), {}, as_words,
                                 as_words));
    }
}

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

TEST_CASE("what is skimmed has as many lines and gives the same pages") {
    using enum StreamKind;
    SweepLoops loops = triad(23, 3, 2);
    loops.sweeps.push_back(
        {1, false, 1.0, {{1, read, 0, 9, 1, Walk::random}, {0, write, 2, 0, 3.5}}});
    loops.sweeps.push_back({2, false, 1.0, {{2, read, 0, 0, 1, Walk::shared}}, {1}});
    loops.phase_repeats = {1, 2, 2};
    loops.order = LineOrder::all;
    const auto program = declare_sweeps(loops);
    const std::vector<Op> lines = all_ops(*program);

    const auto cursor = program->open();
    REQUIRE(cursor->skims());
    std::vector<Op> in_full;
    std::size_t skimmed_ops = 0;
    bool same_lines = true, same_pages = true;
    for (auto batch = cursor->skim(); !batch.empty(); batch = cursor->skim()) {
        const std::vector<Op> skimmed(batch.begin(), batch.end());
        const auto full = cursor->in_full();
        in_full.insert(in_full.end(), full.begin(), full.end());
        skimmed_ops += skimmed.size();
        const auto moved = [](std::span<const Op> ops, OpKind kind) {
            int sum = 0;
            for (const Op& op : ops)
                if (op.kind() == kind) sum += std::popcount(op.lines);
            return sum;
        };
        for (const OpKind kind : {OpKind::fetch, OpKind::write_back, OpKind::stream_store})
            same_lines &= moved(skimmed, kind) == moved(full, kind);
        const auto pages = [](std::span<const Op> ops) {
            std::vector<std::tuple<OpKind, std::uint32_t, std::uint64_t>> found;
            for (const Op& op : ops)
                if (op.kind() == OpKind::map_write || op.kind() == OpKind::unmap ||
                    op.kind() == OpKind::phase)
                    found.emplace_back(op.kind(), op.page, op.lines);
            return found;
        };
        same_pages &= pages(skimmed) == pages(full);
    }
    CHECK(same_lines);
    CHECK(same_pages);
    CHECK(skimmed_ops * 8 < lines.size());
    const auto same = [](const Op& a, const Op& b) {
        return a.page == b.page && a.kind() == b.kind() && a.lines == b.lines &&
               a.object == b.object && a.thread == b.thread;
    };
    CHECK(std::ranges::equal(in_full, lines, same));
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

TEST_CASE("a walk covers as many pages as it is told, from its shift on") {
    SweepLoops loops = triad(12, 2, 1);
    loops.sweeps.push_back({1, false, 1.0, {{0, StreamKind::read, 3, 5}}});
    std::map<std::uint32_t, int> reads;
    for (const Op& op : all_ops(*declare_sweeps(loops)))
        if (op.object == 1 && op.kind() == OpKind::fetch) ++reads[op.page];
    for (std::uint32_t page = 0; page < 12; ++page)
        CHECK(reads[page] == (3 <= page && page < 8 ? 2 : 1));  // 1 in the first touch
}

TEST_CASE("of so many lines one is moved, in any order of lines") {
    for (const double stride : {1.0, 1.3, 2.0, 4.25, 70.0}) {
        for (const LineOrder order : {LineOrder::by_set, LineOrder::all}) {
            SweepLoops loops = triad(40, 1, 1);
            loops.sweeps.push_back({1, false, 1.0, {{0, StreamKind::write, 0, 0, stride}}});
            loops.order = order;
            std::vector<int> read(40 * lines_per_page), written(read);
            bool in_phase = false;
            for (const Op& op : all_ops(*declare_sweeps(loops))) {
                in_phase |= op.kind() == OpKind::phase && op.page == 1;
                if (!in_phase || op.object != 1 || op.kind() == OpKind::stream_store) continue;
                for (unsigned line = 0; line < lines_per_page; ++line) {
                    auto& seen = op.kind() == OpKind::fetch ? read : written;
                    seen[op.page * lines_per_page + line] += (op.lines >> line & 1) != 0;
                }
            }
            std::vector<int> expected(read.size());
            for (double at = 0; at < static_cast<double>(expected.size()); at += stride)
                expected[static_cast<std::size_t>(at + 1e-9)] = 1;
            CHECK(read == expected);
            CHECK(written == expected);
        }
    }
}

TEST_CASE("a shared walk is every thread's, from its beginning to its end") {
    SweepLoops loops = triad(12, 4, 1);
    loops.sweeps.push_back({1, false, 1.0, {{1, StreamKind::read, 0, 0, 1, Walk::shared}}});
    std::map<std::pair<std::uint32_t, unsigned>, int> reads;
    bool in_phase = false;
    for (const Op& op : all_ops(*declare_sweeps(loops))) {
        in_phase |= op.kind() == OpKind::phase && op.page == 1;
        if (in_phase && op.object == 2) ++reads[{op.page - 12, op.thread}];
    }
    for (std::uint32_t page = 0; page < 12; ++page) {
        for (unsigned thread = 0; thread < 4; ++thread)
            CHECK(reads[{page, thread}] == (page / 3 == thread ? 2 : 1));
    }
}

TEST_CASE(
    "drawn lines are spread evenly, differ from round to round, and come alike in every run") {
    for (const LineOrder order : {LineOrder::by_set, LineOrder::all}) {
        constexpr std::uint64_t table = 64, drawn = 4096;
        const SweepLoops loops{
            .array_pages = {table},
            .sweeps = {{0, true, 1.0, {{0, StreamKind::write}}},
                       {1, false, 1.0, {{0, StreamKind::write, 0, drawn, 1, Walk::random}}}},
            .phase_repeats = {1, 2},
            .threads = 2,
            .order = order};
        const auto program = declare_sweeps(loops);
        std::vector<Op> fetched, written;
        std::vector<std::uint64_t> of_page(table);
        bool in_phase = false;
        for (const Op& op : all_ops(*program)) {
            in_phase |= op.kind() == OpKind::phase && op.page == 1;
            if (!in_phase || op.kind() == OpKind::phase) continue;
            (op.kind() == OpKind::fetch ? fetched : written).push_back(op);
            if (op.kind() == OpKind::fetch)
                of_page[op.page] += static_cast<unsigned>(std::popcount(op.lines));
        }
        // Each is written back where it was fetched, thread by thread in the same order.
        for (unsigned thread = 0; thread < 2; ++thread) {
            std::vector<std::pair<std::uint32_t, std::uint64_t>> in, out;
            for (const Op& op : fetched)
                if (op.thread == thread) in.emplace_back(op.page, op.lines);
            for (const Op& op : written)
                if (op.thread == thread) out.emplace_back(op.page, op.lines);
            CHECK(in == out);
            const auto half = in.begin() + static_cast<std::ptrdiff_t>(in.size() / 2);
            CHECK_FALSE(std::equal(in.begin(), half, half));
        }
        // 128 draws of each page, or 64 times 128: within five standard deviations.
        const double mean = 2.0 * drawn * lines_per_page / table;
        const double unit = order == LineOrder::all ? 1 : lines_per_page;
        for (const std::uint64_t n : of_page)
            CHECK(std::abs(static_cast<double>(n) - mean) < 5 * std::sqrt(mean * unit));
        const auto same = [](const Op& a, const Op& b) {
            return a.page == b.page && a.lines == b.lines && a.thread == b.thread;
        };
        CHECK(std::ranges::equal(all_ops(*program), all_ops(*declare_sweeps(loops)), same));
    }
}

TEST_CASE("a sweep gives its arrays back when it ends, and the next maps them again") {
    SweepLoops loops = triad(8, 2, 3);
    loops.sweeps.push_back({1, true, 1.0, {{1, StreamKind::write}}, {1}});
    std::vector<bool> mapped(24, false);
    int unmaps = 0;
    for (const Op& op : all_ops(*declare_sweeps(loops))) {
        if (op.kind() == OpKind::map_write) mapped[op.page] = true;
        if (op.kind() != OpKind::unmap) continue;
        ++unmaps;
        CHECK(op.page == 8);
        CHECK(op.lines == 8);
        for (std::uint32_t page = 8; page < 16; ++page) {
            CHECK(mapped[page]);
            mapped[page] = false;
        }
    }
    CHECK(unmaps == 3);
}

TEST_CASE("walks that cannot be are refused") {
    SweepLoops loops = triad(8, 1, 1);
    loops.sweeps[1].streams[0].stride = 0.5;
    CHECK_THROWS_AS(declare_sweeps(loops), std::invalid_argument);
    loops = triad(8, 1, 1);
    loops.sweeps[0].streams[0].walk = Walk::random;
    CHECK_THROWS_AS(declare_sweeps(loops), std::invalid_argument);
    loops = triad(8, 1, 1);
    loops.sweeps[1].unmapped = {3};
    CHECK_THROWS_AS(declare_sweeps(loops), std::invalid_argument);
}
