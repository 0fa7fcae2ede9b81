// Set sampling: sets of a set-indexed cache are independent, so simulating some sets alone is exact
// for those sets, and an unbiased sample of all.
//
// Two choices are made: of the slots, those that are = `chosen` (mod `modulus`); of the 64 lines of
// a page, those in `lines`. Both leave whole sets of every cache that indexes with address bits
// from 6 upwards without a gap: a set is in the sample or it is not.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>

#include "core/frames/philox.hpp"

namespace pagelens {

struct Sampling {
    std::uint32_t modulus = 1;  // a power of two, at most 64
    std::uint32_t chosen = 0;   // below modulus
    std::uint64_t lines = ~0ull;

    // One slot in `modulus`, and one line of each group of 64 / `line_count` neighbours (spread so
    // that strided accesses are hit alike). Precondition: both are powers of two from 1 to 64.
    static Sampling draw(std::uint64_t seed, std::uint32_t node, std::uint32_t modulus,
                         std::uint32_t line_count) {
        assert(std::has_single_bit(modulus) && modulus <= 64);
        assert(std::has_single_bit(line_count) && line_count <= 64);
        Random random(seed, node, 0, Stream::sampling);
        Sampling sampling{modulus, random.below(modulus), 0};
        const std::uint32_t group = 64 / line_count;
        for (std::uint32_t first = 0; first < 64; first += group) {
            sampling.lines |= 1ull << (first + random.below(group));
        }
        return sampling;
    }

    [[nodiscard]] bool covers(std::uint32_t frame) const {
        return (frame & (modulus - 1)) == chosen;
    }
    // One line in how many is simulated.
    [[nodiscard]] double factor() const { return modulus * 64.0 / std::popcount(lines); }
};

}  // namespace pagelens
