// The index of a fully associative array's keys against a look at all of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/machine/key_index.hpp"

using namespace pagelens;

TEST_CASE("key index: finds what a look at all ways finds, through puts and clears") {
    std::mt19937 random(1);
    for (const std::uint32_t ways : {1u, 17u, 72u, 3000u}) {
        CAPTURE(ways);
        KeyIndex index(ways);
        CHECK(index.exists());
        // A way that holds nothing keeps its last key, as in the array.
        std::vector<std::uint64_t> keys(ways, 0);
        std::vector<bool> held(ways, false);
        const auto look = [&](std::uint64_t key) {
            for (std::uint32_t way = 0; way < ways; ++way)
                if (held[way] && keys[way] == key) return way;
            return KeyIndex::nowhere;
        };
        std::uint32_t found = 0;
        for (int step = 0; step < 20000; ++step) {
            const std::uint64_t key = 8 * (random() % (2 * ways)) + 1;
            const auto way = static_cast<std::uint32_t>(random() % ways);
            REQUIRE(index.find(key, keys.data()) == look(key));
            if (look(key) != KeyIndex::nowhere) {
                ++found;
            } else if (step % 5 != 0) {
                index.put(way, key);
                keys[way] = key;
                held[way] = true;
            } else {
                index.clear(way);
                held[way] = false;
            }
            REQUIRE(index.holds_a_key(way) == held[way]);
        }
        CHECK(found > 2000);
    }
    CHECK_FALSE(KeyIndex(0).exists());
}
