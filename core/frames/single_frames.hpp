// Single frames out of a buddy system of any grain: what a unit has free is used before another
// unit is opened, and a unit goes back, to merge, when all its frames are free.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/frames/buddy.hpp"

namespace pagelens {

class SingleFrames {
  public:
    static constexpr std::uint32_t largest_grain = 16;

    explicit SingleFrames(Buddy buddy)
        : buddy_(std::move(buddy)),
          shift_(static_cast<unsigned>(std::countr_zero(buddy_.grain()))) {
        if (buddy_.grain() > largest_grain) {
            throw std::invalid_argument("grain: " + std::to_string(buddy_.grain()) +
                                        " is more than a placement takes (16)");
        }
        if (shift_ > 0) free_.resize(buddy_.frames() >> shift_);
    }

    [[nodiscard]] Buddy& buddy() { return buddy_; }

    // Fills `out` with frames, ascending inside a unit; how many there were.
    unsigned take(std::span<Frame> out) {
        unsigned count = 0;
        while (count < out.size()) {
            if (opened_.empty()) {
                const auto first = buddy_.alloc(0);
                if (!first) break;
                if (shift_ == 0) {
                    out[count++] = *first;
                    continue;
                }
                free_[first->raw() >> shift_] = all_free();
                opened_.push_back(first->raw() >> shift_);
            }
            const std::uint32_t unit = opened_.back();
            for (std::uint16_t& rest = free_[unit]; rest != 0 && count < out.size();
                 rest = static_cast<std::uint16_t>(rest & (rest - 1))) {
                out[count++] =
                    Frame((unit << shift_) + static_cast<unsigned>(std::countr_zero(rest)));
            }
            if (free_[unit] == 0) opened_.pop_back();
        }
        return count;
    }

    void put(Frame frame) {
        if (shift_ == 0) return buddy_.free(frame, 0);
        const std::uint32_t unit = frame.raw() >> shift_;
        std::uint16_t& rest = free_[unit];
        if (rest == 0) opened_.push_back(unit);
        rest = static_cast<std::uint16_t>(rest | 1u << (frame.raw() & (buddy_.grain() - 1)));
        if (rest != all_free()) return;
        rest = 0;  // its entry in opened_ is skipped when it comes up
        buddy_.free(Frame(unit << shift_), 0);
    }

  private:
    [[nodiscard]] std::uint16_t all_free() const {
        return static_cast<std::uint16_t>((1u << buddy_.grain()) - 1);
    }

    Buddy buddy_;
    unsigned shift_;                     // log2 of frames in a unit
    std::vector<std::uint16_t> free_;    // [unit] frames of it that are free, while it is opened
    std::vector<std::uint32_t> opened_;  // units with free frames, last freed on top; may be stale
};

}  // namespace pagelens
