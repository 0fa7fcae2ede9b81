#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

#include "probes/branches.hpp"
#include "probes/conflict.hpp"
#include "probes/gups.hpp"
#include "probes/issue.hpp"
#include "probes/l2sum.hpp"
#include "probes/latency.hpp"
#include "probes/stream.hpp"
#include "probes/team.hpp"
#include "tests/cpp/probes/usable_cpus.hpp"

using namespace pagelens::probes;

namespace {

constexpr std::size_t one_array[] = {0};
constexpr std::size_t mib = 1 << 20;

std::uint64_t next(std::uint64_t r) { return r << 1 ^ ((r >> 63) != 0 ? 7u : 0u); }

}  // namespace

TEST_CASE("STREAM's answers are right with every kernel, loop and odd length") {
    const auto cpus = usable_cpus(2);
    const Memory memory(mib, Pages::small, cpus, one_array);
    for (const std::size_t n : {1, 7, 4097, 12345}) {
        for (const auto kernel :
             {StreamKernel::copy, StreamKernel::scale, StreamKernel::add, StreamKernel::triad}) {
            for (const Isa isa : isas()) {
                const auto result = stream(memory, kernel, n, 8 * (n % 5), 3, cpus, isa,
                                           Stores::nontemporal, Order::spread);
                CHECK(result.error <= 1e-13);
                CHECK(result.seconds.size() == 3);
            }
        }
    }
}

TEST_CASE("STREAM refuses what it cannot run") {
    const auto cpus = usable_cpus(1);
    const Memory memory(mib, Pages::small, cpus, one_array);
    const auto with = [&](std::size_t n, std::size_t offset, std::size_t repeats) {
        (void)stream(memory, StreamKernel::copy, n, offset, repeats, cpus, Isa::sse2, Stores::plain,
                     Order::in_turn);
    };
    CHECK_NOTHROW(with(mib / 24, 0, 1));
    CHECK_THROWS_AS(with(mib / 24 + 1, 0, 1), std::invalid_argument);
    CHECK_NOTHROW(with(mib / 24, 8, 1));  // to the last byte
    CHECK_THROWS_AS(with(mib / 24, 16, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(0, 0, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(8, 4, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(8, 0, 0), std::invalid_argument);
}

TEST_CASE("stores go past the caches when the arrays are larger") {
    const auto cpus = usable_cpus(1);
    CHECK(better_stores(StreamKernel::triad, std::size_t{1} << 40, cpus) == Stores::nontemporal);
    CHECK(stream_bytes(StreamKernel::copy) == 16);
    CHECK(stream_bytes(StreamKernel::triad) == 24);
}

TEST_CASE("the chase goes once through one line of every stride") {
    const int cpu = usable_cpus(1)[0];
    const Memory memory(mib, Pages::small, std::vector{cpu}, one_array);
    for (const std::size_t stride : {64, 4096, 192}) {
        for (const std::size_t places : {2, 3, 250}) {
            CHECK(latency(memory, places * stride, stride, 100, 2, cpu, 7).ok);
            const Memory::Use use(memory);
            const auto at = [&](std::uintptr_t place) {
                return *reinterpret_cast<std::uintptr_t*>(place);
            };
            std::uintptr_t start =
                0;  // the line of the first stride that points into the footprint
            for (std::size_t line = 0; line < stride; line += 64) {
                const std::uintptr_t to = at(memory.address() + line) - memory.address();
                if (to < places * stride && start == 0) start = memory.address() + line;
            }
            std::set<std::size_t> strides;
            std::uintptr_t place = start;
            do {
                CHECK(place % 64 == 0);
                strides.insert((place - memory.address()) / stride);
                place = at(place);
            } while (place != start && strides.size() <= places);
            CHECK(strides.size() == places);
        }
        const Memory::Use use(memory);
        std::fill_n(use.at<char>(0, mib, "all"), mib, '\xff');  // no places
    }
}

TEST_CASE("cycles of different seeds differ, those of one do not") {
    const int cpu = usable_cpus(1)[0];
    const Memory memory(mib, Pages::small, std::vector{cpu}, one_array);
    const auto links = [&](std::uint64_t seed) {
        (void)latency(memory, 64 * 64, 64, 1, 1, cpu, seed);
        const Memory::Use use(memory);
        const auto* const words = use.at<std::uint64_t>(0, 512, "all");
        return std::vector(words, words + 512);
    };
    const auto first = links(1);
    CHECK(first == links(1));
    CHECK(first != links(2));
}

TEST_CASE("the chase refuses what it cannot run") {
    const int cpu = usable_cpus(1)[0];
    const Memory memory(mib, Pages::small, std::vector{cpu}, one_array);
    const auto with = [&](std::size_t footprint, std::size_t stride, std::size_t loads,
                          std::size_t repeats) {
        (void)latency(memory, footprint, stride, loads, repeats, cpu, 1);
    };
    CHECK_THROWS_AS(with(64, 64, 1, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(128, 32, 1, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(128, 0, 1, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(100, 64, 1, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(mib + 64, 64, 1, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(128, 64, 0, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(128, 64, 1, 0), std::invalid_argument);
}

TEST_CASE("the register's numbers are those that it steps through") {
    std::uint64_t r = 1;
    for (std::uint64_t n = 0; n < 1000; ++n, r = next(r)) REQUIRE(gups_number(n) == r);
    // Its period, as HPC Challenge states it.
    CHECK(gups_number(1317624576693539401u) == 1);
}

TEST_CASE("random updates are those of the plain loop") {
    constexpr std::uint64_t words = 1 << 10, first = 1000, updates = 128 * 40;
    std::vector<std::uint64_t> plain(words, 5);
    std::uint64_t r = gups_number(first);
    for (std::uint64_t i = 0; i < updates; ++i) {
        r = next(r);
        plain[r % words] ^= r;
    }
    for (const bool exact : {false, true}) {
        std::vector<std::uint64_t> table(words, 5);
        gups_update(table, first, updates, exact);
        CHECK(table == plain);
    }
}

TEST_CASE("threads' parts of the updates are all of them, whatever their number") {
    constexpr std::uint64_t words = 1 << 13, updates = 4 * words;
    std::vector<std::uint64_t> whole(words);
    gups_update(whole, 0, updates, false);
    Barrier barrier(1);
    for (const std::size_t threads : {2, 3, 48, 300}) {  // of 300 some get nothing
        std::vector<std::uint64_t> table(words);
        for (std::size_t index = 0; index < threads; ++index) {
            const auto [begin, end] = gups_part(Member{index, threads, barrier}, updates);
            gups_update(table, begin, end - begin, true);
        }
        CHECK(table == whole);
    }
}

TEST_CASE("RandomAccess: one thread makes no error, and a small table is unofficial") {
    const auto cpus = usable_cpus(2);
    const Memory memory(mib, Pages::small, cpus, one_array);
    const auto one = gups(memory, mib, 4 * mib / 8, std::span(cpus).first(1));
    CHECK(one.errors == 0);
    CHECK(!one.official);
    CHECK(one.updates == 4 * mib / 8);
    const auto all = gups(memory, mib / 2, 4 * mib / 16, cpus);
    CHECK(all.updates == 4 * mib / 16);  // how many of them get lost is chance
    CHECK(gups(memory, mib, 3 * 128, cpus).updates == 3 * 128);  // parts that are not equal
    CHECK_THROWS_AS((void)gups(memory, 2 * mib, 128, cpus), std::invalid_argument);
    CHECK_THROWS_AS((void)gups(memory, mib - 8, 128, cpus), std::invalid_argument);
    CHECK_THROWS_AS((void)gups(memory, 4096, 128, cpus), std::invalid_argument);
    CHECK_THROWS_AS((void)gups(memory, mib, 0, cpus), std::invalid_argument);
    CHECK_THROWS_AS((void)gups(memory, mib, 127, cpus), std::invalid_argument);
}

TEST_CASE("each core sums its own block") {
    const auto cpus = usable_cpus(2);
    const Memory memory(mib, Pages::small, cpus, one_array);
    for (const Isa isa : isas()) {
        const auto result = l2sum(memory, 80008, 262144, 3, 4, cpus, isa);
        CHECK(result.ok);
        CHECK(result.seconds.size() == 4 * cpus.size());
    }
    const auto with = [&](std::size_t block, std::size_t apart, std::size_t sweeps) {
        (void)l2sum(memory, block, apart, sweeps, 1, cpus, Isa::sse2);
    };
    CHECK_THROWS_AS(with(0, 64, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(12, 64, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(64, 56, 1), std::invalid_argument);
    CHECK_THROWS_AS(with(64, 64, 0), std::invalid_argument);
    CHECK_THROWS_AS(with(mib + 8, 2 * mib, 1), std::invalid_argument);
}

TEST_CASE("two streams give right sums and contents at any distance") {
    const int cpu = usable_cpus(1)[0];
    const Memory memory(mib, Pages::small, std::vector{cpu}, one_array);
    for (const auto kind : {ConflictKind::read, ConflictKind::write, ConflictKind::copy}) {
        CHECK(conflict(memory, 0, 4096, 4096, kind, 2, cpu).ok);
        CHECK(conflict(memory, 65600, 64, 65536, kind, 2, cpu).ok);
    }
    const auto with = [&](std::size_t first, std::size_t second, std::size_t bytes) {
        (void)conflict(memory, first, second, bytes, ConflictKind::read, 1, cpu);
    };
    CHECK_THROWS_AS(with(0, 4032, 4096), std::invalid_argument);
    CHECK_THROWS_AS(with(32, 4160, 64), std::invalid_argument);
    CHECK_THROWS_AS(with(0, mib, 64), std::invalid_argument);
    CHECK_THROWS_AS(with(0, 4096, 0), std::invalid_argument);
    CHECK_THROWS_AS(with(0, 4096, 100), std::invalid_argument);
}

TEST_CASE("branches are passed through so many times, within the bytes that an L1 holds") {
    const int cpu = usable_cpus(1).front();
    CHECK(branches(most_branches, true, 3, cpu, 1).seconds.size() == 3);
    CHECK_THROWS_AS((void)branches(0, true, 1, cpu, 1), std::invalid_argument);
    CHECK_THROWS_AS((void)branches(most_branches + 1, true, 1, cpu, 1), std::invalid_argument);
    CHECK_THROWS_AS((void)branches(1, true, 0, cpu, 1), std::invalid_argument);
}

TEST_CASE("issue: a core begins more than one operation in a cycle, and not more than it can") {
    const int cpu = usable_cpus(1).front();
    for (const Mix mix : {Mix::adds_and_loads, Mix::typical}) {
        std::vector<double> rates = issue(mix, 101, cpu).rates;
        REQUIRE(rates.size() == 101);
        std::nth_element(rates.begin(), rates.begin() + 50, rates.end());
        CHECK(rates[50] > 0.01);  // as the schema allows, on any machine
        CHECK(rates[50] < 1000);
    }
    CHECK_THROWS_AS((void)issue(Mix::typical, 0, cpu), std::invalid_argument);
    CHECK_THROWS_AS((void)issue(Mix::typical, 1, -1), std::invalid_argument);
}
