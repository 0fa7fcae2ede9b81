// DRAM maps: equal to a slow evaluation, one to one, and refused by name where they are not.
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "core/address/linear.hpp"
#include "core/machine/dram_map.hpp"
#include "tests/cpp/drawn_dram.hpp"
#include "tests/cpp/reference_dram.hpp"

using namespace pagelens;

namespace {

std::string refused(const DramFields& fields) {
    try {
        DramMap map(fields);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

DramFields plain() {  // 16 lines a row, two banks, four rows
    DramFields fields;
    fields.offset_bits = 6;
    fields.column = {64, 128, 256, 512};
    fields.bank = {1024};
    fields.row = {2048, 4096};
    return fields;
}

}  // namespace

TEST_CASE("any map gives what a slow evaluation gives, and each place once") {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        DrawnDram draw(seed);
        const DramFields fields = draw.fields();
        const DramMap map(fields);
        std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> places;
        std::uint64_t lines = 0;
        for (std::uint64_t address = 0; address < map.bytes(); address += 64, ++lines) {
            const DramPlace place = map(address);
            const auto slow = reference::place_of(fields, address);
            REQUIRE(place.row == slow.row);
            REQUIRE(place.bank < map.banks());
            REQUIRE((place.bank >> map.channel_shift()) == slow.channel);
            REQUIRE((place.bank >> map.rank_shift()) ==
                    (slow.channel << fields.rank.size() | slow.rank));
            REQUIRE((place.bank & ((1u << map.group_shift()) - 1)) == slow.bank);
            const std::uint64_t block = std::uint64_t{1} << fields.interleave_bit;
            const std::uint64_t local =
                address / block / fields.interleave * block + address % block;
            places.emplace(place.bank, place.row, reference::parities(fields.column, local));
        }
        CAPTURE(seed);
        CHECK(places.size() == lines);
    }
}

TEST_CASE("a mask that is the exclusive or of others is found, with these") {
    CHECK_FALSE(first_dependence(std::vector<std::uint64_t>{64, 192, 256 | 64}));
    CHECK(first_dependence(std::vector<std::uint64_t>{64, 128, 0}) == MaskDependence{2, {}});
    CHECK(first_dependence(std::vector<std::uint64_t>{64, 128, 256, 320, 1024, 448}) ==
          MaskDependence{3, {0, 2}});
    CHECK(first_dependence(std::vector<std::uint64_t>{192, 128, 64}) == MaskDependence{2, {0, 1}});
    std::vector<std::uint64_t> all;
    for (unsigned bit = 0; bit < 64; ++bit) all.push_back(~std::uint64_t{0} << bit);
    CHECK_FALSE(first_dependence(all));
    all.push_back(1);
    CHECK(first_dependence(all) == MaskDependence{64, {0, 1}});
}

TEST_CASE("dependence is found exactly where the values reached are fewer") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        std::mt19937_64 random(seed);
        std::vector<std::uint64_t> masks(1 + random() % 6);
        for (std::uint64_t& mask : masks) mask = random() % 64;
        std::set<std::uint32_t> values;
        for (std::uint64_t address = 0; address < 64; ++address) {
            values.insert(reference::parities(masks, address));
        }
        CAPTURE(seed);
        CHECK(first_dependence(masks).has_value() == (values.size() < 1u << masks.size()));
    }
}

TEST_CASE("maps that are not one to one are refused, naming the bit") {
    CHECK(refused(plain()).empty());
    DramFields fields = plain();
    fields.row[1] = 2048;
    CHECK(refused(fields) == "row.1: is row.0, so two addresses would share a place");
    fields = plain();
    fields.row[1] = 2048 | 1024;
    CHECK(refused(fields) == "row.1: is bank.0 ^ row.0, so two addresses would share a place");
    fields = plain();
    fields.bank[0] = 0;
    CHECK(refused(fields) == "bank.0: is empty, so two addresses would share a place");
    fields = plain();
    fields.bank[0] = 1024 | 32;
    CHECK(refused(fields) == "bank.0: has a bit below bit 6, inside a column");
    fields = plain();
    fields.row[1] = 8192;
    CHECK(refused(fields) ==
          "row: 7 masks place the address bits 6 to 12, but bit 12 is in none of them");
    fields = plain();
    fields.row[1] = 4096 | 8192;
    CHECK(refused(fields) == "row: 7 masks place the address bits 6 to 12, but bit 13 is used too");
    fields = plain();
    fields.interleave = 0;
    CHECK(refused(fields).starts_with("interleave: from 1"));
    fields = plain();
    fields.interleave_bit = 5;
    CHECK(refused(fields).starts_with("interleave_bit: from 6"));
    fields = plain();
    for (unsigned bit = 13; bit < 43; ++bit) fields.row.push_back(std::uint64_t{1} << bit);
    CHECK(refused(fields) == "row: more than 16 bits of banks, or more than 31 of banks and rows");
    for (unsigned bit = 43; bit < 60; ++bit) fields.row.push_back(std::uint64_t{1} << bit);
    CHECK(refused(fields) == "row: more than 52 address bits in all");
}
