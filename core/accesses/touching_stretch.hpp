// The place in an interval of a program where lines of all sets touch their pages, for TLBs
// (LineSample).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace pagelens::detail {

class TouchingStretch {
  public:
    // Selects one in `touching` instructions of each interval of that length. 0 means none.
    TouchingStretch(std::uint64_t interval, std::uint32_t touching)
        : interval_(interval),
          length_(touching == 0 ? 0 : std::max<std::uint64_t>(1, interval / touching)) {}

    // Begins the interval of this number. Its stretch lies elsewhere than the one before, so that
    // they do not always meet the same place of a loop.
    void begin(unsigned number) {
        if (length_ == 0) return;
        const double place = std::fmod(static_cast<double>(number) * golden_ratio, 1.0);
        begin_ = static_cast<std::uint64_t>(place * static_cast<double>(interval_ - length_));
        end_ = 0;
        reach(0);
    }
    // Says how many instructions of the interval are done. This is noticed between batches of
    // events.
    void reach(std::uint64_t executed) {
        if (length_ == 0) return;
        if (end_ == 0 && executed >= begin_) end_ = executed + length_;
        now_ = executed < end_;
    }
    [[nodiscard]] bool now() const { return now_; }

  private:
    static constexpr double golden_ratio = 0.6180339887498949;  // its multiples keep apart modulo 1

    std::uint64_t interval_, length_;    // instructions
    std::uint64_t begin_ = 0, end_ = 0;  // of this interval's; end 0: it has not begun
    bool now_ = false;
};

}  // namespace pagelens::detail
