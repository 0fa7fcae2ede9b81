// Time in whole picoseconds, as a type of its own: a count of clocks is no time.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>

namespace pagelens {

class Picoseconds {
  public:
    constexpr Picoseconds() = default;
    constexpr explicit Picoseconds(std::int64_t count) : count_(count) {}
    // Later than every event.
    static constexpr Picoseconds never() {
        return Picoseconds(std::numeric_limits<std::int64_t>::max());
    }

    [[nodiscard]] constexpr std::int64_t raw() const { return count_; }
    friend constexpr auto operator<=>(Picoseconds, Picoseconds) = default;
    friend constexpr Picoseconds operator+(Picoseconds a, Picoseconds b) {
        return Picoseconds(a.count_ + b.count_);
    }
    friend constexpr Picoseconds operator-(Picoseconds a, Picoseconds b) {
        return Picoseconds(a.count_ - b.count_);
    }
    constexpr Picoseconds& operator+=(Picoseconds other) { return *this = *this + other; }

  private:
    std::int64_t count_ = 0;
};

// The latest of several; std::max of a list goes through memory.
constexpr Picoseconds latest(Picoseconds a, Picoseconds b) { return std::max(a, b); }
template <class... More>
constexpr Picoseconds latest(Picoseconds a, Picoseconds b, More... more) {
    return latest(latest(a, b), more...);
}

}  // namespace pagelens
