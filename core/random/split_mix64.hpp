// Random draws in sequence: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA 2014, doi:10.1145/2660193.2660195). A draw costs one chain of two
// multiplications, and a sequence is eight bytes of state.
#pragma once

#include <cstdint>

namespace pagelens {

struct SplitMix64 {
    static constexpr std::uint64_t step = 0x9E3779B97F4A7C15ull;

    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
    }
    // The first state of sequence `number` of those that belong to `seed`.
    static std::uint64_t begin(std::uint64_t seed, std::uint64_t number) {
        return mixed(seed + step * (number + 1));
    }
    // A draw below `end`, uniform but for a bias below end / 2^32.
    static std::uint32_t below(std::uint64_t& state, std::uint32_t end) {
        state += step;
        return static_cast<std::uint32_t>((mixed(state) >> 32) * end >> 32);
    }
};

}  // namespace pagelens
