// Bimodal insertion: a new line is the next victim, unless it is used again; one of 32 is kept.
//
// LRU loses all lines of a sweep through more than the cache, each shortly before its next use.
// Here most new lines take the place of the line before them, so the others stay until the next
// sweep. One new line of 32 becomes the most recent of its set instead, so that lines which nobody
// uses any more leave in time (Qureshi et al., Adaptive Insertion Policies for High Performance
// Caching, ISCA 2007).
//
// The state has the ways from the most to the least recent one, four bits each, and a counter of
// fills above them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/random/split_mix64.hpp"

namespace pagelens {

class Bimodal {
  public:
    static constexpr std::string_view name = "bimodal";
    static constexpr std::uint32_t most_ways = 14;  // their order leaves room for the counter

    explicit Bimodal(std::uint32_t ways) : last_(ways - 1) {}

    // The counters of sets begin at different values, so that not all keep the same lines.
    [[nodiscard]] std::uint64_t first_state(std::uint64_t seed, std::uint64_t set) const {
        return (SplitMix64::begin(seed, set) << counter_at) | 0x00dc'ba98'7654'3210;
    }
    void on_hit(std::uint64_t& state, std::uint32_t way) const { move(state, way, 0); }
    void on_fill(std::uint64_t& state, std::uint32_t way) const {
        state += std::uint64_t{1} << counter_at;
        move(state, way, (state >> counter_at) % kept_of == 0 ? 0 : last_);
    }
    [[nodiscard]] std::uint32_t victim(std::uint64_t state) const { return at(state, last_); }

  private:
    static constexpr unsigned counter_at = 56;
    static constexpr std::uint64_t kept_of = 32;  // as in the publication

    [[nodiscard]] static std::uint32_t at(std::uint64_t state, std::uint32_t place) {
        return static_cast<std::uint32_t>(state >> (4 * place) & 15);
    }
    static void put(std::uint64_t& state, std::uint32_t place, std::uint64_t way) {
        state = (state & ~(std::uint64_t{15} << (4 * place))) | way << (4 * place);
    }
    // Puts a way to a place, and moves the ways between by one place.
    void move(std::uint64_t& state, std::uint32_t way, std::uint32_t to) const {
        std::uint32_t from = 0;
        while (from < last_ && at(state, from) != way) ++from;
        for (; from > to; --from) put(state, from, at(state, from - 1));
        for (; from < to; ++from) put(state, from, at(state, from + 1));
        put(state, to, way);
    }

    std::uint32_t last_;  // place of the least recent way
};

}  // namespace pagelens
