// How unevenly threads are busy: against a clock that is followed instruction by instruction.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "core/accesses/thread_load.hpp"

using namespace pagelens;

namespace {

struct Executed {
    unsigned thread;
    std::uint64_t count, until, lines;
};

struct Part {
    std::uint64_t clock = 0;
    std::vector<std::uint64_t> executed, lines;
};

using Parts = std::map<std::uint32_t, std::vector<Part>>;  // by phase

Parts parts_of(const ThreadLoads& loads, std::size_t threads) {
    Parts result;
    for (std::size_t i = 0; i < loads.phases.size(); ++i) {
        const auto of = [&](const std::vector<std::uint64_t>& all) {
            const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * threads);
            return std::vector(first, first + static_cast<std::ptrdiff_t>(threads));
        };
        result[loads.phases[i]].push_back({loads.clock[i], of(loads.executed), of(loads.lines)});
    }
    return result;
}

// In bins of `width`, all instructions one by one; parts by how many threads work in the bin.
std::map<std::size_t, Part> slowly(const std::vector<Executed>& all, std::size_t threads,
                                   std::uint64_t width) {
    std::uint64_t began = all.front().until - all.front().count, end = 0;
    std::map<std::uint64_t, std::vector<std::uint64_t>> bins;
    for (const Executed& one : all) {
        const std::uint64_t begin = one.until - one.count;
        for (std::uint64_t i = 0; i < one.count; ++i) {
            const std::uint64_t at = (begin < began ? 0 : begin - began) + i;
            auto& bin = bins.try_emplace(at / width, threads).first->second;
            ++bin[one.thread];
            end = std::max(end, at + 1);
        }
    }
    std::map<std::size_t, Part> parts;
    for (const auto& [number, bin] : bins) {
        const std::uint64_t most = std::ranges::max(bin);
        const auto working = static_cast<std::size_t>(
            std::ranges::count_if(bin, [&](std::uint64_t count) { return count * 8 >= most; }));
        Part& part = parts[working];
        const std::uint64_t sum = std::accumulate(bin.begin(), bin.end(), std::uint64_t{0});
        part.clock += std::max(most, std::min({width, end - number * width, sum}));
        part.executed.resize(threads);
        for (std::size_t thread = 0; thread < threads; ++thread)
            part.executed[thread] += bin[thread];
    }
    return parts;
}

}  // namespace

TEST_CASE("thread load: equal to a count of single instructions, whatever the length of bins") {
    std::mt19937_64 random(5);
    const auto up_to = [&](std::uint64_t most) {
        return std::uniform_int_distribution<std::uint64_t>(1, most)(random);
    };
    for (int round = 0; round < 40; ++round) {
        const std::size_t threads = 1 + up_to(4);
        std::vector<std::uint64_t> clock(threads, up_to(100'000));
        std::vector<Executed> all;
        const std::uint64_t longest = up_to(60'000);
        for (int i = 0; i < 200; ++i) {
            const auto thread = static_cast<unsigned>(up_to(threads) - 1);
            if (up_to(10) == 1) clock[thread] = std::ranges::max(clock);  // it waited
            const std::uint64_t count = up_to(longest);
            all.push_back({thread, count, clock[thread] += count, up_to(1000)});
        }
        std::ranges::stable_sort(all, {},
                                 [](const Executed& one) { return one.until - one.count; });

        ThreadLoad load(threads);
        for (const Executed& one : all) load.execute(one.thread, one.count, one.until, one.lines);
        load.end_phase(3);
        const auto found = parts_of(load.finish(), threads).at(3);

        const std::uint64_t begin = all.front().until - all.front().count;
        std::uint64_t width = 4096;
        while ((std::ranges::max(clock) - begin - 1) / width >= 512) width *= 2;
        const auto wanted = slowly(all, threads, width);
        REQUIRE(found.size() == wanted.size());
        std::vector<std::uint64_t> lines(threads), of_all(threads);
        for (const Executed& one : all) of_all[one.thread] += one.lines;
        std::size_t i = 0;
        for (const auto& [working, part] : wanted) {
            CHECK(found[i].clock == part.clock);
            CHECK(found[i].executed == part.executed);
            for (std::size_t thread = 0; thread < threads; ++thread)
                lines[thread] += found[i].lines[thread];
            ++i;
        }
        CHECK(lines == of_all);
    }
}

TEST_CASE("thread load: phases are apart, and one thread has none") {
    ThreadLoad load(2);
    load.execute(0, 10'000, 10'000, 7);  // alone
    load.end_phase(0);
    load.execute(0, 6'000, 16'000, 1);  // both
    load.execute(1, 6'000, 16'000, 2);
    load.end_phase(1);
    load.execute(1, 500, 16'500, 3);  // phase 0 again
    load.end_phase(0);
    const Parts parts = parts_of(load.finish(), 2);
    REQUIRE(parts.at(0).size() == 1);
    CHECK(parts.at(0)[0].clock == 10'500);
    CHECK(parts.at(0)[0].executed == std::vector<std::uint64_t>{10'000, 500});
    CHECK(parts.at(0)[0].lines == std::vector<std::uint64_t>{7, 3});
    REQUIRE(parts.at(1).size() == 1);
    CHECK(parts.at(1)[0].clock == 6'000);

    ThreadLoad alone(1);
    alone.execute(0, 10'000, 10'000, 7);
    alone.end_phase(0);
    CHECK(alone.finish().phases.empty());
}
