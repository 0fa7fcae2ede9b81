#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/random/philox.hpp"
#include "core/replay/cache_groups.hpp"

using namespace pagelens;

namespace {

// Cores with an L2 each, an L3 and a snoop filter that are too small for 4 of them.
HierarchyModel small_caches() {
    HierarchyModel caches;
    caches.cores = 4;
    caches.l2.geometry = {64, 4};
    caches.l3 = HierarchyModel::Shared{{128, 8}, Inclusion::victim};
    caches.snoop_filter = CacheGeometry{64, 6};
    return caches;
}

void push_some(PendingRuns& runs, Random& random, int count) {
    for (int i = 0; i < count; ++i) {
        const std::uint64_t lines = random.below(3) == 0
                                        ? std::uint64_t{random.below(1u << 31)} << random.below(34)
                                        : 1ull << random.below(64);
        runs.push(lines == 0 ? 1 : lines, random.below(120), random.below(8),
                  static_cast<AccessKind>(2 * random.below(2)));
    }
}

}  // namespace

TEST_CASE("caches are the same whether their lines came in order or part by part") {
    for (const unsigned ideal : {0u, 1u, 2u, 3u, 4u}) {
        CAPTURE(ideal);
        HierarchyModel model = small_caches();
        model.l2.geometry.fully_associative = ideal == 1;
        model.l3->geometry.fully_associative = ideal == 2;
        model.snoop_filter->fully_associative = ideal == 3;
        if (ideal == 4) model.l3_beside = CacheGeometry{128, 8, replacement_by<Lru>, true};
        const CacheHierarchy caches(model);
        CHECK(caches.places_are_apart() == (ideal == 0 || ideal == 3));
        CacheGroups in_order(caches, 8), in_parts(caches, 8);
        Random random(ideal, 0, 0, Stream::history);
        PendingRuns runs(caches.cores(), 8);
        MemoryTraffic traffic, other;
        const auto nothing = [](auto&&...) {};
        push_some(runs, random, 20000);
        in_order.access(runs, traffic, nothing);
        in_parts.warm_up(runs);
        CHECK(in_parts.totals() == in_order.totals());
        if (ideal == 4) CHECK(in_parts.totals_beside() == in_order.totals_beside());
        runs.clear();
        traffic.clear();
        push_some(runs, random, 5000);
        in_order.access(runs, traffic, nothing);
        in_parts.access(runs, other, nothing);
        CHECK(in_parts.totals() == in_order.totals());
        REQUIRE(traffic.size() == other.size());
        CHECK(!traffic.empty());
        bool same = true;
        for (std::size_t i = 0; i < traffic.size(); ++i)
            same &= traffic[i].line() == other[i].line() && traffic[i].core() == other[i].core() &&
                    traffic[i].write() == other[i].write();
        CHECK(same);
    }
}

TEST_CASE("caches are refilled part by part, and forget what they held") {
    for (const bool ideal : {false, true}) {
        CAPTURE(ideal);
        HierarchyModel model = small_caches();
        model.l3->geometry.fully_associative = ideal;
        const CacheHierarchy as_new(model);
        CacheGroups groups(as_new, 8);
        Random random(ideal, 0, 0, Stream::history);
        PendingRuns runs(as_new.cores(), 8);
        push_some(runs, random, 5000);
        groups.warm_up(runs);
        const auto before = groups.totals();
        runs.clear();
        push_some(runs, random, 5000);
        groups.refill(runs, as_new);
        CHECK(groups.totals().front() == before.front());  // the counts stay
        std::vector<CacheHierarchy> each(runs.groups(), as_new);
        for (std::uint32_t group = 0; group < runs.groups(); ++group)
            each[group].refill(runs.of(group));
        runs.clear();
        push_some(runs, random, 5000);
        MemoryTraffic traffic, expected;
        groups.access(runs, traffic, [](auto&&...) {});
        for (std::uint32_t group = 0; group < runs.groups(); ++group)
            each[group].access(runs.of(group), expected);
        CHECK(!traffic.empty());
        CHECK(std::ranges::equal(traffic, expected, [](const auto& one, const auto& other) {
            return one.line() == other.line() && one.core() == other.core() &&
                   one.write() == other.write();
        }));
    }
}

TEST_CASE("caches say what each access of a batch asked of memory") {
    constexpr std::uint32_t cores = 8;
    const CacheHierarchy caches(small_caches());
    CacheGroups together(caches, cores), one_by_one(caches, cores);
    Random random(5, 0, 0, Stream::history);
    PendingRuns runs(caches.cores(), cores), one(caches.cores(), cores);
    std::vector<MemoryTraffic> traffic(runs.groups());
    std::vector<std::vector<std::size_t>> ends(runs.groups());
    push_some(runs, random, 3000);
    together.access(runs, traffic, ends);
    std::size_t asked = 0;
    for (std::uint32_t group = 0; group < runs.groups(); ++group) {
        std::size_t access = 0, begin = 0;
        for (const PageRun& run : runs.of(group)) {
            one.clear();
            one.push(run.lines, run.frame, group * caches.cores() + run.core, run.kind);
            MemoryTraffic expected;
            one_by_one.access(one, expected, [](auto&&...) {});
            access += static_cast<std::size_t>(std::popcount(run.lines));
            const std::size_t end = ends[group][access - 1];
            REQUIRE(end - begin == expected.size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
                REQUIRE(traffic[group][begin + i].line() == expected[i].line());
                REQUIRE(traffic[group][begin + i].core() == expected[i].core());
                REQUIRE(traffic[group][begin + i].write() == expected[i].write());
            }
            asked += expected.size();
            begin = end;
        }
        CHECK(ends[group].size() == access);
    }
    CHECK(asked > 10'000);
    CHECK(together.totals() == one_by_one.totals());
}
