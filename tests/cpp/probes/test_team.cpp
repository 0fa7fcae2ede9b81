#include <doctest/doctest.h>
#include <sched.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "probes/team.hpp"
#include "tests/cpp/probes/usable_cpus.hpp"

using namespace pagelens::probes;

namespace {

void nothing(const Member&) {}

}  // namespace

TEST_CASE("each thread runs on its processor, and the caller is where it was") {
    const std::vector<int> before = usable_cpus(1024), cpus = usable_cpus(2);
    std::vector<int> ran(cpus.size(), -1);
    run_pinned(cpus, [&](const Member& member) { ran[member.index] = sched_getcpu(); });
    CHECK(ran == cpus);
    {
        const Confined confined(std::vector{cpus[0]});
        CHECK(usable_cpus(1024) == std::vector{cpus[0]});
    }
    CHECK(usable_cpus(1024) == before);
}

TEST_CASE("no thread passes a barrier before all have come") {
    const std::vector<int> cpus = usable_cpus(2);
    std::atomic<std::size_t> come{0};
    std::atomic<bool> early{false};
    run_pinned(cpus, [&](const Member& member) {
        for (std::size_t round = 1; round <= 1000; ++round) {
            ++come;
            member.barrier.wait();
            if (come < round * member.count) early = true;
            member.barrier.wait();
        }
    });
    CHECK(!early);
}

TEST_CASE("parts are whole units that cover everything once") {
    Barrier barrier(1);
    for (std::size_t n : {0, 1, 7, 8, 9, 1000}) {
        for (std::size_t count : {1, 2, 3, 16}) {
            std::size_t end = 0;
            for (std::size_t index = 0; index < count; ++index) {
                const auto [first, last] = Member{index, count, barrier}.part_of(n, 8);
                CHECK(first == end);
                CHECK(first % 8 == 0);
                end = last;
            }
            CHECK(end == n);
        }
    }
}

TEST_CASE("the time of a repetition is from the first begin to the last end") {
    Times times(2, 2);
    times.set(0, 0, 100, 300);
    times.set(1, 0, 150, 250);
    times.set(0, 1, 400, 500);
    times.set(1, 1, 450, 650);
    const auto ns = [](std::vector<double> seconds) {
        for (double& each : seconds) each = std::round(each * 1e9);
        return seconds;
    };
    CHECK(ns(times.slowest()) == std::vector<double>{200, 250});
    CHECK(ns(times.each()) == std::vector<double>{200, 100, 100, 200});
}

TEST_CASE("processors that cannot be had are refused") {
    const int cpu = usable_cpus(1)[0];
    CHECK_THROWS_AS(run_pinned({}, nothing), std::invalid_argument);
    CHECK_THROWS_AS(run_pinned(std::vector{cpu, cpu}, nothing), std::invalid_argument);
    CHECK_THROWS_AS(run_pinned(std::vector{-1}, nothing), std::invalid_argument);
    CHECK_THROWS_AS(run_pinned(std::vector{1 << 30}, nothing), std::invalid_argument);
    const Confined confined(std::vector{cpu});
    for (int other = 0; other < 4096; ++other) {
        if (other == cpu) continue;
        CHECK_THROWS_AS(run_pinned(std::vector{other}, nothing), std::invalid_argument);
    }
    CHECK_THROWS_AS(timed(std::vector{cpu}, 0, nothing), std::invalid_argument);
}
