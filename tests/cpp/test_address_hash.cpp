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
        if (level.modulo) {
            const auto scale = std::uint64_t{1} << level.low.size();
            value +=
                address / (std::uint64_t{1} << level.modulo->shift) % level.modulo->divisor * scale;
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
    std::uint64_t uppers = 1;
    switch (draw(3)) {
        case 0:
            break;
        case 1:
            last.high = {masks(6), static_cast<std::uint32_t>(threshold), keep};
            uppers = (1u << keep) + 1;
            break;
        default:
            uppers = 3 + draw(5);
            last.modulo = {static_cast<unsigned>(draw(40)), static_cast<std::uint32_t>(uppers)};
    }
    form.group_values = static_cast<std::uint32_t>((uppers << low) + draw(9));
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

TEST_CASE("a remainder and masks of lower bits are a bijection where 3 and 2^n take turns") {
    // Chinese remainders: of 3 x 2^n neighbouring units each has a pair of its own.
    for (unsigned shift : {6u, 8u, 12u}) {
        for (unsigned bits = 0; bits < 6; ++bits) {
            HashForm form{{{{}, {}, HashForm::Modulo{shift, 3}}}, 3u << bits, {}};
            for (unsigned bit = 0; bit < bits; ++bit) {
                form.levels[0].low.push_back(std::uint64_t{1} << (shift + bit));
            }
            const AddressHash hash(form);
            for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{123'456'789} << 12}) {
                std::set<std::uint32_t> values;
                for (std::uint64_t unit = 0; unit < hash.values(); ++unit) {
                    values.insert(hash(start + (unit << shift)));
                }
                CHECK(values.size() == hash.values());
            }
        }
    }
}

TEST_CASE("a remainder changes at its units' edges and nowhere else") {
    for (const unsigned shift : {6u, 8u, 12u}) {
        const AddressHash hash({{{{}, {}, HashForm::Modulo{shift, 3}}}, 3, {}});
        const std::uint64_t unit = std::uint64_t{1} << shift;
        CHECK(hash.address_bits() == (std::uint64_t{1} << 56) - unit);
        for (std::uint64_t number = 0; number < 30; ++number) {
            CHECK(hash(number * unit) == number % 3);
            CHECK(hash(number * unit + unit - 1) == number % 3);
        }
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

TEST_CASE("many parities alone are the value's bits, unless the groups leave values out") {
    std::mt19937_64 random(7);
    HashForm form;
    form.levels.resize(1);
    for (Masks* masks : {&form.levels[0].low, &form.group}) {
        for (int bit = 0; bit < 11; ++bit) masks->push_back(random() >> 12 | 64);
    }
    for (const std::uint32_t group_values : {1u << 11, (1u << 11) + 1}) {
        form.group_values = group_values;
        const AddressHash hash(form);
        for (int i = 0; i < 1000; ++i) {
            const std::uint64_t address = random() >> 12;
            REQUIRE(hash(address) == slow_hash(form, address));
        }
    }
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
    const HashForm::Modulo third{8, 3};
    const HashForm sound[] = {{{four}, 4, {}},
                              {{{{64}, high}}, 6, {}},
                              {{four, {{64}, {}}}, 3, {}},
                              {{{{64}, {}, third}}, 6, {}}};
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
        {{{{64}, high, third}}, 99, {}},                      // a threshold and a remainder
        {{{{64}, {}, third}}, 5, {}},                         // reaches 5
        {{{{64}, {}, HashForm::Modulo{8, 2}}}, 99, {}},       // a mask would do
        {{{{64}, {}, HashForm::Modulo{56, 3}}}, 99, {}},      // no such address bit
        {{{Masks(20, 64), {}, HashForm::Modulo{8, 1u << 20}}, four}, 4, {}},  // too many values
    };
    for (const HashForm& form : wrong) CHECK_THROWS_AS(AddressHash{form}, std::invalid_argument);
}
