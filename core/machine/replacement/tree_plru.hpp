// Tree-based pseudo-LRU: a binary tree over the ways, whose nodes say in which half the victim is.
//
// The state has a bit for each node. The use of a way turns the nodes on the path to it away from
// it. Where the number of ways is no power of two, the search never enters a half without ways.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pagelens {

class TreePlru {
  public:
    static constexpr std::string_view name = "tree_plru";
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

    [[nodiscard]] std::uint64_t first_state(std::uint64_t /*seed*/, std::uint64_t /*set*/) const {
        return 0;  // all nodes point to the left
    }
    void on_hit(std::uint64_t& state, std::uint32_t way) const {
        state = (state & ~path_[way]) | away_[way];
    }
    void on_fill(std::uint64_t& state, std::uint32_t way) const { on_hit(state, way); }
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
    std::vector<std::uint64_t> path_;  // of each way: the nodes above it
    std::vector<std::uint64_t> away_;  // of each way: those of them that then point to the right
};

}  // namespace pagelens
