// Address hashes: equal to a slow evaluation of the form, bijective where all bits are used, and
// refused where the form makes no sense. The forms of processors are held to published tables in
// tests/python/test_address_hashes.py.
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "core/address/address_hash.hpp"

using namespace pagelens;

namespace {

std::uint64_t field(const Masks& masks, std::uint64_t address) {
    std::uint64_t value = 0;
    for (std::size_t i = masks.size(); i-- > 0;) {
        value = 2 * value + static_cast<std::uint64_t>(std::popcount(masks[i] & address) % 2);
    }
    return value;
}

// As HashForm's comments say, bit by bit.
std::uint64_t slow_hash(const HashForm& form, std::uint64_t address) {
    for (const HashForm::Level& level : form.levels) {
        std::uint64_t value = field(level.low, address);
        if (level.high) {
            const std::uint64_t kept = std::uint64_t{1} << level.high->keep_bits;
            const std::uint64_t h = field(level.high->masks, address);
            const std::uint64_t part = h < level.high->threshold ? h % kept : kept;
            value += part * (std::uint64_t{1} << level.low.size());
        }
        if (value < form.group_values) {
            return value + form.group_values * field(form.group, address);
        }
    }
    FAIL("no level");
    return 0;
}

HashForm drawn_form(std::mt19937_64& random) {
    const auto draw = [&random](std::uint64_t below) { return random() % below; };
    const auto masks = [&](std::uint64_t count) {
        Masks drawn(count);
        for (std::uint64_t& mask : drawn) mask = random() >> 12 | 64;
        return drawn;
    };
    HashForm form;
    form.group = masks(draw(3));
    const auto low = 1 + draw(4);
    const auto keep = static_cast<unsigned>(draw(3));
    const std::uint64_t threshold = (1u << keep) + draw(64 - (1u << keep));
    HashForm::Level last{masks(low), {}};
    if (draw(2) == 1) last.high = {masks(6), static_cast<std::uint32_t>(threshold), keep};
    const std::uint64_t most = ((last.high ? (1u << keep) + 1 : 1) << low) - 1;
    form.group_values = static_cast<std::uint32_t>(most + 1 + draw(9));
    if (draw(2) == 1) form.levels.push_back({masks(1 + draw(6)), {}});
    form.levels.push_back(last);
    return form;
}

}  // namespace

TEST_CASE("any form gives what a slow evaluation of it gives") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        std::mt19937_64 random(seed);
        const HashForm form = drawn_form(random);
        const AddressHash hash(form);
        CAPTURE(seed);
        for (int i = 0; i < 500; ++i) {
            const std::uint64_t address = random() >> 12;
            const std::uint64_t value = slow_hash(form, address);
            REQUIRE(hash(address) == value);
            REQUIRE(value < hash.values());
        }
    }
}

TEST_CASE("independent masks of as many bits are a bijection, and dependent ones are not") {
    // Bit i and some lower ones: a triangular matrix.
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        std::mt19937_64 random(seed);
        HashForm form{{{}}, 1u << 12, {}};
        for (unsigned bit = 6; bit < 18; ++bit) {
            const std::uint64_t below = (std::uint64_t{1} << bit) - 64;
            form.levels[0].low.push_back(std::uint64_t{1} << bit | (random() & below));
        }
        const auto reached = [&form] {
            const AddressHash hash(form);
            std::set<std::uint32_t> values;
            for (std::uint64_t address = 0; address < 1u << 18; address += 64) {
                values.insert(hash(address));
            }
            return values.size();
        };
        CHECK(reached() == 1u << 12);
        form.levels[0].low[3] ^= form.levels[0].low[7];
        CHECK(reached() == 1u << 12);
        form.levels[0].low[3] = form.levels[0].low[7];
        CHECK(reached() == 1u << 11);
    }
}

TEST_CASE("a hash may have 32 bits") {
    HashForm form{{}, 1u << 16, {}};
    for (unsigned level = 0; level < 2; ++level) {
        form.levels.emplace_back();
        for (unsigned bit = 0; bit < 16; ++bit) {
            form.levels.back().low.push_back(std::uint64_t{1} << (6 + 16 * level + bit));
        }
    }
    const AddressHash hash(form);  // the group has no bit left
    CHECK(hash(0xabcd << 6) == 0xabcd);
    CHECK(hash(~std::uint64_t{0} >> 8) == 0xffff);
}

TEST_CASE("batches give what single addresses give") {
    std::mt19937_64 random(1);
    const AddressHash hash(drawn_form(random));
    std::vector<std::uint64_t> addresses(1000);
    for (std::uint64_t& address : addresses) address = random() >> 12;
    std::vector<std::uint32_t> values(addresses.size());
    hash.apply(addresses, values);
    for (std::size_t i = 0; i < addresses.size(); ++i) CHECK(values[i] == hash(addresses[i]));
}

TEST_CASE("forms that make no sense are refused") {
    const HashForm::Level four{{64, 128}, {}};
    const HashForm::High high{{256, 512, 1024}, 6, 1};  // 0, 1 or 2
    const HashForm sound[] = {
        {{four}, 4, {}}, {{{{64}, high}}, 6, {}}, {{four, {{64}, {}}}, 3, {}}};
    for (const HashForm& form : sound) CHECK_NOTHROW(AddressHash{form});
    const HashForm wrong[] = {
        {{}, 4, {}},                                          // no level
        {{four}, 3, {}},                                      // reaches 3
        {{{{64}, high}}, 5, {}},                              // reaches 5
        {{{{64}, HashForm::High{{256}, 2, 0}}}, 9, {}},       // 2 is not reached by one bit
        {{{{64}, HashForm::High{{256}, 1, 2}}}, 99, {}},      // keeps more bits than there are
        {{{{64}, HashForm::High{{256, 512}, 1, 1}}}, 9, {}},  // threshold below what is kept
        {{{{0}, {}}}, 2, {}},                                 // a mask without bits
        {{{{std::uint64_t{1} << 56}, {}}}, 2, {}},            // no such address bit
        {{{Masks(33, 64), {}}}, 2, {}},                       // too many bits
    };
    for (const HashForm& form : wrong) CHECK_THROWS_AS(AddressHash{form}, std::invalid_argument);
}
