// Not recently used: the victim is the first line that was not used since the marks were cleared.
//
// The state has a mark for each way, which a use sets. All are cleared when a victim is needed and
// every way has its mark.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace pagelens {

class Nru {
  public:
    static constexpr std::string_view name = "nru";
    static constexpr std::uint32_t most_ways = 64;  // the bits of the state

    explicit Nru(std::uint32_t ways) : all_(~std::uint64_t{0} >> (64 - ways)) {}

    [[nodiscard]] std::uint64_t first_state(std::uint64_t /*seed*/, std::uint64_t /*set*/) const {
        return 0;
    }
    void on_hit(std::uint64_t& state, std::uint32_t way) const { state |= std::uint64_t{1} << way; }
    void on_fill(std::uint64_t& state, std::uint32_t way) const { on_hit(state, way); }
    [[nodiscard]] std::uint32_t victim(std::uint64_t& state) const {
        if (state == all_) state = 0;
        return static_cast<std::uint32_t>(std::countr_one(state));
    }

  private:
    std::uint64_t all_;  // the marks of all ways
};

}  // namespace pagelens
