#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "core/frames/memmap.hpp"

using namespace pagelens;

TEST_CASE("piles hold what plain vectors hold, whatever is pushed at either end or taken out") {
    constexpr std::uint32_t units = 300, grain = 64;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        Memmap map(units * grain, grain, 2);
        std::array<std::vector<Unit>, 2> expected;
        std::vector<int> pile(units, -1);
        for (Unit unit = 0; unit < units; ++unit) {
            map.set_pages(unit, 1, MigrateType::movable);
            map.set_free_parts(unit, 1);
        }
        // First mostly pushes, then mostly takes from the head, then from anywhere.
        for (int step = 0; step < 6000; ++step) {
            const Memmap::List list = random() % 2;
            std::vector<Unit>& plain = expected[list];
            const auto unit = static_cast<Unit>(random() % units);
            const bool push = random() % 10 < (step < 2000 ? 8u : 4u);
            if (push && pile[unit] < 0) {
                pile[unit] = static_cast<int>(list);
                if (random() % 4 != 0) {
                    map.push_shared_head(list, unit);
                    plain.insert(plain.begin(), unit);
                } else {
                    map.push_shared_tail(list, unit);
                    plain.push_back(unit);
                }
            } else if (!push && !plain.empty()) {
                const bool anywhere = step >= 4000 || random() % 8 == 0;
                const auto at = plain.begin() + (anywhere ? random() % plain.size() : 0);
                map.unlink_shared(*at);
                pile[*at] = -1;
                plain.erase(at);
            } else if (random() % 50 == 0) {
                std::shuffle(plain.begin(), plain.end(), random);
                map.reorder(list, plain);
            }
            for (const Memmap::List of : {0u, 1u}) {
                REQUIRE(map.first_shared(of) == (expected[of].empty() ? no_unit : expected[of][0]));
            }
            if (step % 20 == 0) REQUIRE(map.elements(list) == plain);
        }
    }
}
