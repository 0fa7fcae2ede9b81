// What must hold of every replacement policy that is registered, and of the example in the docs.
#include <doctest/doctest.h>

#include <concepts>
#include <stdexcept>
#include <variant>

#include "core/machine/cache_hierarchy.hpp"
#include "core/machine/replacement/nru.hpp"
#include "core/machine/replacement/policies.hpp"
#include "core/random/philox.hpp"

using namespace pagelens;

namespace {

// Uses a full set of every size that the policy takes.
template <ReplacementPolicy Policy>
void check_victims() {
    CAPTURE(Policy::name);
    Random random(1, 0, 0, Stream::history);
    for (std::uint32_t ways = 1; ways <= std::min<std::uint32_t>(Policy::most_ways, 64); ++ways) {
        const Policy policy(ways);
        std::uint64_t state = policy.first_state(7, ways);
        for (std::uint32_t way = 0; way < ways; ++way) policy.on_fill(state, way);
        for (int i = 0; i < 500; ++i) {
            if (random.below(3) != 0) {
                policy.on_hit(state, random.below(ways));
                continue;
            }
            const std::uint32_t victim = policy.victim(state);
            REQUIRE(victim < ways);
            policy.on_fill(state, victim);
        }
    }
}

template <class... Policies>
void check_all(const std::variant<Policies...>* /*list*/) {
    const auto check = []<class Policy>() {
        if constexpr (!std::same_as<Policy, Lru>) check_victims<Policy>();
    };
    (check.template operator()<Policies>(), ...);
}

HierarchyModel one_l2(const CacheGeometry& geometry) {
    HierarchyModel model;
    model.l2.geometry = geometry;
    return model;
}

}  // namespace

TEST_CASE("replacement: every victim is a way of the set") {
    check_all(static_cast<const ReplacementPolicies*>(nullptr));
    check_victims<Nru>();
}

TEST_CASE("replacement: under every policy a set keeps as many lines as it has ways, and no more") {
    for (std::size_t position = 0; position < replacement_facts.size(); ++position) {
        const auto replacement = static_cast<Replacement>(position);
        CAPTURE(facts_of(replacement).name);
        const std::uint32_t ways =
            std::min(CacheGeometry::most_ways, facts_of(replacement).most_ways);
        for (const bool fully_associative : {false, true}) {
            if (fully_associative && !serves_fully_associative(replacement)) continue;
            CacheHierarchy caches(one_l2({1, ways, replacement, fully_associative}));
            std::vector<LineAccess> lines(ways);
            for (std::uint32_t line = 0; line < ways; ++line) lines[line].line = line;
            MemoryTraffic traffic;
            for (int round = 0; round < 3; ++round) caches.access(lines, traffic);
            CHECK(caches.total(CacheCounter::dram_reads) == ways);
            caches.access(std::array{LineAccess{ways}}, traffic);
            caches.access(lines, traffic);
            CHECK(caches.total(CacheCounter::dram_reads) >= ways + 2);
        }
    }
}

TEST_CASE(
    "replacement: a fully associative cache refuses a policy whose state grows with the ways") {
    CHECK_THROWS_WITH_AS(
        CacheHierarchy(one_l2({1, 8, replacement_by<TreePlru>, true})),
        doctest::Contains("a fully associative cache has replacement lru or random"),
        std::invalid_argument);
}
