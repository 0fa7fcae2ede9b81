#include <doctest/doctest.h>

#include <set>

#include "core/random/philox.hpp"

using namespace pagelens;

// Known answers published with the generator (Random123, tests/kat_vectors: philox4x32 10).
TEST_CASE("philox4x32-10 gives the published answers") {
    CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
          PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    const std::uint32_t ones = 0xffffffff;
    CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
          PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("four blocks at once are those one by one, also where the counter overflows") {
    for (const std::uint32_t first : {0u, 5u, ~0u - 2, 0x89abcdefu}) {
        const PhiloxBlock counter{first, 0xfedcba98, first * 3, 7};
        const std::array<std::uint32_t, 2> key{first + 1, 0xdeadbeef};
        const auto four = four_philox4x32(counter, key);
        for (std::uint32_t i = 0; i < 4; ++i) {
            CHECK(four[i] == philox4x32({first + i, counter[1], counter[2], counter[3]}, key));
        }
    }
}

TEST_CASE("every part of the key changes the draws") {
    std::set<std::uint64_t> first;
    for (const std::uint64_t seed : {1ull, 2ull, 1ull << 40}) {
        for (const std::uint32_t node : {0u, 1u}) {
            for (const std::uint32_t run : {0u, 1u}) {
                for (const Stream stream : {Stream::history, Stream::sampling}) {
                    first.insert(Random(seed, node, run, stream).bits64());
                }
            }
        }
    }
    CHECK(first.size() == 24);
    CHECK(Random(7, 3, 1, Stream::history).bits64() == Random(7, 3, 1, Stream::history).bits64());
}

TEST_CASE("draws stay in their range and fill it") {
    Random random(1, 2, 3, Stream::history);
    unsigned counts[7] = {};
    for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
    for (const unsigned count : counts) CHECK(count == doctest::Approx(10000).epsilon(0.05));
    double sum = 0;
    for (int i = 0; i < 10000; ++i) {
        const double u = random.uniform();
        CHECK_UNARY(u >= 0 && u < 1);
        sum += u;
        const double v = random.log_uniform(4, 80);
        CHECK_UNARY(v >= 4 && v < 80.0001);
    }
    CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.03));
}
