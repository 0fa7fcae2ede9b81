// Which line of a full set makes room for another.
//
// tree_plru: a binary tree over the ways, a bit a node, that says in which half to look for the
// victim; using a way turns the bits on the path to it away from it. Where the ways are no power of
// two, halves without ways are never looked in.
// random: every set has a sequence of draws of its own, so sets stay independent of each other
// (which set sampling needs), and the draws do not depend on the order in which sets are used.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace pagelens {

enum class Replacement : std::uint8_t { lru, tree_plru, random };

// The tree of one number of ways; a set's state is a word, which is 0 in the beginning.
class TreePlru {
  public:
    static constexpr std::uint32_t most_ways = 64;

    explicit TreePlru(std::uint32_t ways)
        : ways_(ways),
          levels_(static_cast<unsigned>(std::countr_zero(std::bit_ceil(ways)))),
          path_(ways),
          away_(ways) {
        for (std::uint32_t way = 0; way < ways; ++way) {
            for (unsigned level = 0; level < levels_; ++level) {
                const std::uint64_t node = 1ull << node_above(way, level);
                path_[way] |= node;
                const bool right = (way >> (levels_ - level - 1) & 1) != 0;
                if (!right) away_[way] |= node;
            }
        }
    }

    [[nodiscard]] std::uint64_t used(std::uint64_t state, std::uint32_t way) const {
        return (state & ~path_[way]) | away_[way];
    }
    [[nodiscard]] std::uint32_t victim(std::uint64_t state) const {
        std::uint32_t way = 0;
        for (unsigned level = 0; level < levels_; ++level) {
            const std::uint32_t right = way + (1u << (levels_ - level - 1));
            if ((state >> node_above(way, level) & 1) != 0 && right < ways_) way = right;
        }
        return way;
    }

  private:
    // Nodes are numbered from the root, 0, level by level.
    [[nodiscard]] std::uint32_t node_above(std::uint32_t way, unsigned level) const {
        return (1u << level) - 1 + (way >> (levels_ - level));
    }

    std::uint32_t ways_;
    unsigned levels_;
    std::vector<std::uint64_t> path_, away_;  // of each way: the nodes above it; their new bits
};

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014,
// doi:10.1145/2660193.2660195): one multiplication chain a draw, and eight bytes of state.
struct RandomVictims {
    static constexpr std::uint64_t step = 0x9E3779B97F4A7C15ull;

    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
    }
    // The state in the beginning of the sequence that belongs to a set of the cache with `seed`.
    static std::uint64_t begin(std::uint64_t seed, std::uint64_t set) {
        return mixed(seed + step * (set + 1));
    }
    // Uniform below `ways`; the bias is below ways / 2^32.
    static std::uint32_t next(std::uint64_t& state, std::uint32_t ways) {
        state += step;
        return static_cast<std::uint32_t>((mixed(state) >> 32) * ways >> 32);
    }
};

}  // namespace pagelens
