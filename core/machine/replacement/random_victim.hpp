// Random replacement: every way is the victim with the same probability.
//
// Every set draws from a sequence of its own. The draws of a set therefore do not depend on the
// order in which sets are used, and a sample of the sets behaves as these sets do in the whole
// cache.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/machine/replacement/policy.hpp"
#include "core/random/split_mix64.hpp"

namespace pagelens {

class RandomVictim {
  public:
    static constexpr std::string_view name = "random";
    static constexpr std::uint32_t most_ways = any_ways;

    explicit RandomVictim(std::uint32_t ways) : ways_(ways) {}

    [[nodiscard]] std::uint64_t first_state(std::uint64_t seed, std::uint64_t set) const {
        return SplitMix64::begin(seed, set);
    }
    void on_hit(std::uint64_t& /*state*/, std::uint32_t /*way*/) const {}
    void on_fill(std::uint64_t& /*state*/, std::uint32_t /*way*/) const {}
    [[nodiscard]] std::uint32_t victim(std::uint64_t& state) const {
        return SplitMix64::below(state, ways_);
    }

  private:
    std::uint32_t ways_;
};

}  // namespace pagelens
