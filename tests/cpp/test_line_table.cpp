#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "core/machine/line_table.hpp"
#include "core/random/philox.hpp"

using namespace pagelens;

namespace {

// Lines come, change their words and go at random; there are `most` of them at times.
template <class Cell>
void check_against_a_map(std::uint64_t most, std::uint64_t first, std::uint64_t words) {
    LineTableOf<Cell> table(most);
    std::unordered_map<std::uint64_t, std::uint64_t> expected;  // line, word
    Random random(most, 0, 0, Stream::history);
    std::uint64_t fullest = 0;
    for (int step = 0; step < 4000; ++step) {
        const std::uint64_t line = first + random.below(static_cast<std::uint32_t>(2 * most));
        std::uint64_t* const found = table.find(line);
        const auto known = expected.find(line);
        REQUIRE((found != nullptr) == (known != expected.end()));
        if (found != nullptr) REQUIRE((*found & words) == known->second);
        if (found != nullptr && random.below(2) == 0) {
            table.remove(line);
            expected.erase(line);
        } else if (found != nullptr || expected.size() < most) {
            std::uint64_t& word = table.at(line);
            if (found == nullptr) REQUIRE((word & words) == 0);
            const std::uint64_t now = random.below(1u << 16);
            word = (word & ~words) | now;
            expected[line] = now;
        }
        fullest = std::max<std::uint64_t>(fullest, expected.size());
    }
    CHECK(fullest == most);
}

}  // namespace

TEST_CASE("a table of lines keeps the words of a map, in wide and in packed cells") {
    for (const std::uint64_t most : {1u, 2u, 3u, 100u}) {
        for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 47) - 500}) {
            check_against_a_map<WideCell>(most, first, ~std::uint64_t{0});
            check_against_a_map<PackedCell>(most, first, PackedCell::mask);
        }
    }
}
