#include <doctest/doctest.h>

#include "core/machine/replacement/nru.hpp"
#include "core/machine/replacement/policy.hpp"

using namespace pagelens;

static_assert(ReplacementPolicy<Nru>);

TEST_CASE("nru: the victim is the first line that was not used since the marks were cleared") {
    const Nru policy(3);
    std::uint64_t state = policy.first_state(0, 0);
    for (const std::uint32_t way : {0u, 1u, 2u}) policy.on_fill(state, way);
    CHECK(policy.victim(state) == 0);  // all were used, so the marks are cleared
    policy.on_fill(state, 0);
    CHECK(policy.victim(state) == 1);
    policy.on_hit(state, 1);
    CHECK(policy.victim(state) == 2);
}
