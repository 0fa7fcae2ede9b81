// Counts of lines a set: equal to a map that is filled line by line, after any adding and removing.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/machine/set_counts.hpp"

using namespace pagelens;

namespace {

// The slices of a Skylake-SP with 24 of them (machines/hashes/skx-24.toml).
AddressHash skylake() {
    const HashForm::High high{
        {0x138bca3080, 0x38bca30800, 0x1c5e518400, 0x0e2f28c200, 0x2717946100, 0x09c5e51840},
        42,
        1};
    return AddressHash({{{{0x14c896c740, 0x0a57f311c0, 0x2c56e59300}, high}}, 24, {}});
}
// A plain cache: one slice.
AddressHash one() { return AddressHash({{{{}, {}}}, 1, {}}); }

struct Pieces {
    std::vector<std::uint64_t> addresses;
    std::vector<std::uint32_t> lines;
    [[nodiscard]] Extents all() const { return {addresses, lines}; }
};

// Every line one by one, each set's lines by their addresses.
struct Slow {
    AddressHash slices;
    std::uint32_t sets, ways;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::uint64_t>> lines_of;

    [[nodiscard]] auto set_of(std::uint64_t address) const {
        return std::pair{slices(address), address / 64 % sets};
    }
    void add(const Pieces& pieces) {
        for (std::size_t i = 0; i < pieces.addresses.size(); ++i) {
            for (std::uint64_t line = 0; line < pieces.lines[i]; ++line) {
                const std::uint64_t address = pieces.addresses[i] / 64 * 64 + 64 * line;
                lines_of[set_of(address)].push_back(address);
            }
        }
    }
    [[nodiscard]] std::uint64_t excess() const {
        std::uint64_t beyond = 0;
        for (const auto& [set, lines] : lines_of) {
            if (lines.size() > ways) beyond += lines.size() - ways;
        }
        return beyond;
    }
    [[nodiscard]] bool crowded(std::uint64_t address) const {
        return lines_of.at(set_of(address)).size() > ways;
    }
};

Pieces drawn(std::mt19937_64& random, std::size_t count) {
    Pieces pieces;
    for (std::size_t i = 0; i < count; ++i) {
        pieces.addresses.push_back(random() % (std::uint64_t{1} << 38));
        pieces.lines.push_back(static_cast<std::uint32_t>(random() % 300));
    }
    return pieces;
}

void check_equal(const SetCounts& counts, const Slow& slow, const Pieces& pieces) {
    REQUIRE(counts.excess() == slow.excess());
    std::map<std::uint64_t, std::uint64_t> sizes{
        {0, counts.counts().size() - slow.lines_of.size()}};
    for (const auto& [set, lines] : slow.lines_of) {
        REQUIRE(counts.counts()[set.first * slow.sets + set.second] == lines.size());
        ++sizes[lines.size()];
    }
    const std::vector<std::uint64_t> histogram = counts.histogram();
    REQUIRE(histogram.size() == sizes.rbegin()->first + 1);
    for (std::size_t n = 0; n < histogram.size(); ++n) {
        REQUIRE(histogram[n] == (sizes.contains(n) ? sizes[n] : 0));
    }
    std::vector<std::uint32_t> crowded(pieces.addresses.size());
    counts.crowded(pieces.all(), crowded);
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < crowded.size(); ++i) {
        const std::size_t before = expected.size();
        for (std::uint64_t line = 0; line < pieces.lines[i]; ++line) {
            const std::uint64_t address = pieces.addresses[i] / 64 * 64 + 64 * line;
            if (slow.crowded(address)) expected.push_back(address);
        }
        REQUIRE(crowded[i] == expected.size() - before);
    }
    REQUIRE(counts.crowded_lines(pieces.all()) == expected);
}

}  // namespace

TEST_CASE("counts of lines a set are those of a map filled line by line") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        std::mt19937_64 random(seed);
        CAPTURE(seed);
        const AddressHash slices = seed % 2 != 0 ? skylake() : one();
        const auto sets = 1u << random() % 8;
        const auto ways = 1 + static_cast<std::uint32_t>(random() % 12);
        SetCounts counts(slices, sets, ways);
        Slow slow{slices, sets, ways, {}};
        const Pieces stay = drawn(random, 20), go = drawn(random, 10);
        counts.add(go.all());
        counts.add(stay.all());
        counts.remove(go.all());
        slow.add(stay);
        check_equal(counts, slow, stay);
        slow.add(go);
        counts.add(go.all());
        check_equal(counts, slow, go);
        counts.clear();
        slow.lines_of.clear();
        check_equal(counts, slow, {});
    }
}

TEST_CASE("the excess with other lines is what adding them gives") {
    std::mt19937_64 random(1);
    const SetCounts empty(skylake(), 64, 3);
    for (int round = 0; round < 20; ++round) {
        SetCounts counts = empty, other = empty, both = empty;
        const Pieces first = drawn(random, 30), second = drawn(random, 20);
        counts.add(first.all());
        other.add(second.all());
        both.add(first.all());
        both.add(second.all());
        CHECK(counts.excess_with(other) == both.excess());
        CHECK(counts.excess_with(empty) == counts.excess());
    }
    CHECK_THROWS_AS((void)empty.excess_with(SetCounts(skylake(), 32, 3)), std::invalid_argument);
}

TEST_CASE("as many lines as ways are held, one more is not") {
    SetCounts counts(one(), 2048, 12);
    std::vector<std::uint64_t> addresses;
    for (std::uint64_t i = 0; i < 12; ++i) addresses.push_back(i << 17);
    const std::vector<std::uint32_t> lines(13, 1);
    counts.add({addresses, std::span(lines).first(12)});
    CHECK(counts.excess() == 0);
    CHECK(counts.crowded_lines({addresses, std::span(lines).first(12)}).empty());
    addresses.push_back(std::uint64_t{12} << 17);
    counts.add({std::span(addresses).last(1), std::span(lines).first(1)});
    CHECK(counts.excess() == 1);
    CHECK(counts.crowded_lines({addresses, lines}) == addresses);
}

TEST_CASE("impossible geometries are refused") {
    CHECK_NOTHROW(SetCounts(skylake(), 2048, 12));
    CHECK_THROWS_AS(SetCounts(skylake(), 0, 12), std::invalid_argument);
    CHECK_THROWS_AS(SetCounts(skylake(), 2047, 12), std::invalid_argument);
    CHECK_THROWS_AS(SetCounts(skylake(), 1u << 26, 12), std::invalid_argument);
    CHECK_THROWS_AS(SetCounts(skylake(), 2048, 0), std::invalid_argument);
}
