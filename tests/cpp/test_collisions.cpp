#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <utility>

#include "core/random/philox.hpp"
#include "core/replay/collisions.hpp"

using namespace pagelens;

TEST_CASE("collisions are those of a plain map, in its order") {
    Collisions collisions;
    std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint64_t> plain;
    Random random(1, 0, 0, Stream::history);
    for (int i = 0; i < 20'000; ++i) {
        const auto object = static_cast<std::uint16_t>(random.below(200) * 327);
        const auto victim = static_cast<std::uint16_t>(65'535 - random.below(200));
        collisions.add(object, victim, i % 7u);
        plain[{object, victim}] += i % 7u;
    }
    collisions.scale([](std::uint16_t object) { return object == 0 ? 2.5 : 3.0; });
    const auto found = collisions.sorted();
    REQUIRE(found.size() == plain.size());
    auto next = found.begin();
    for (const auto& [pair, lines] : plain) {
        CHECK(next->object == pair.first);
        CHECK(next->victim == pair.second);
        CHECK(next->lines == (pair.first == 0 ? (5 * lines + 1) / 2 : 3 * lines));
        ++next;
    }
}
