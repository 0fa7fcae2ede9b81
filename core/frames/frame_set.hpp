// A set of frames: one bit a frame.
#pragma once

#include <cstdint>
#include <vector>

namespace pagelens {

class FrameSet {
  public:
    FrameSet(std::uint32_t frames, bool all) : words_((frames + 63) / 64, all ? ~0ull : 0) {}
    [[nodiscard]] bool has(std::uint32_t f) const { return (words_[f / 64] >> (f % 64) & 1) != 0; }
    void add(std::uint32_t f) { words_[f / 64] |= 1ull << (f % 64); }
    void remove(std::uint32_t f) { words_[f / 64] &= ~(1ull << (f % 64)); }

  private:
    std::vector<std::uint64_t> words_;
};

}  // namespace pagelens
