#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/machine/replacement/bimodal.hpp"
#include "core/machine/replacement/policies.hpp"

using namespace pagelens;

static_assert(ReplacementPolicy<Bimodal>);

namespace {

// Share of hits of the tenth of ten sweeps through `times` as many lines as a cache of 11 ways has.
double hits_of_sweep(Replacement replacement, double times) {
    constexpr std::uint32_t sets = 64, ways = 11;
    HierarchyModel model;
    model.l2.geometry = {sets, ways, replacement, false};
    CacheHierarchy caches(model);
    std::vector<LineAccess> lines(static_cast<std::size_t>(times * sets * ways));
    for (std::uint32_t line = 0; line < lines.size(); ++line) lines[line].line = line;
    MemoryTraffic traffic;
    std::uint64_t before = 0;
    for (int sweep = 0; sweep < 10; ++sweep) {
        before = caches.total(CacheCounter::dram_reads);
        caches.access(lines, traffic);
    }
    const auto missed = static_cast<double>(caches.total(CacheCounter::dram_reads) - before);
    return 1 - missed / static_cast<double>(lines.size());
}

}  // namespace

TEST_CASE("bimodal: a new line goes first, unless it is used again") {
    const Bimodal policy(3);
    std::uint64_t state = 0x0210;  // the counter is far from the next line that is kept
    policy.on_fill(state, 2);
    CHECK(policy.victim(state) == 2);
    policy.on_hit(state, 2);
    CHECK(policy.victim(state) == 1);
}

TEST_CASE("bimodal: one new line of 32 is kept") {
    const Bimodal policy(3);
    std::uint64_t state = policy.first_state(1, 2);
    int kept = 0;
    for (int fill = 0; fill < 320; ++fill) {
        const std::uint32_t way = policy.victim(state);
        policy.on_fill(state, way);
        kept += policy.victim(state) != way;
    }
    CHECK(kept == 10);
}

TEST_CASE(
    "bimodal: a sweep through more than the cache keeps hitting, and one through less as LRU") {
    CHECK(hits_of_sweep(replacement_by<Bimodal>, 0.9) == 1);
    CHECK(hits_of_sweep(replacement_by<Lru>, 0.9) == 1);
    for (const double times : {2.0, 4.0, 10.0}) {
        CAPTURE(times);
        CHECK(hits_of_sweep(replacement_by<Lru>, times) == 0);
        // At most ten of eleven ways can hold what the next sweep uses.
        CHECK(hits_of_sweep(replacement_by<Bimodal>, times) <= 10.0 / 11 / times);
        CHECK(hits_of_sweep(replacement_by<Bimodal>, times) >= 0.6 * 10 / 11 / times);
    }
}
