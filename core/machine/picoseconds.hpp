// Time in whole picoseconds, as a type of its own: a count of clocks is no time.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace pagelens {

class Picoseconds {
  public:
    constexpr Picoseconds() = default;
    constexpr explicit Picoseconds(std::int64_t count) : count_(count) {}
    // Returns a time later than every event, and small enough that 64 times as much is a number
    // too.
    static constexpr Picoseconds never() {
        return Picoseconds(std::numeric_limits<std::int64_t>::max() / 64);
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

// Return the earliest of two times and the latest of several. They take values, because std::min
// and std::max take references, and a list would go through memory.
constexpr Picoseconds earliest(Picoseconds a, Picoseconds b) { return b < a ? b : a; }
constexpr Picoseconds latest(Picoseconds a, Picoseconds b) { return a < b ? b : a; }
template <class... More>
constexpr Picoseconds latest(Picoseconds a, Picoseconds b, More... more) {
    return latest(latest(a, b), more...);
}

}  // namespace pagelens
