// A frame, or none. It is a std::optional<Frame> in 32 bits: gcc returns an optional through
// memory, in two stores that one load cannot be forwarded from, and an allocation hands it up three
// times.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>

#include "core/address/units.hpp"

namespace pagelens {

class MaybeFrame {
  public:
    constexpr MaybeFrame() = default;
    constexpr MaybeFrame(std::nullopt_t) {}
    // Precondition: the frame's number is not the largest of 32 bits.
    constexpr MaybeFrame(Frame frame) : frame_(frame) { assert(has_value()); }

    [[nodiscard]] constexpr bool has_value() const { return frame_ != none; }
    constexpr explicit operator bool() const { return has_value(); }
    // Precondition of both: there is a frame.
    constexpr const Frame& operator*() const {
        assert(has_value());
        return frame_;
    }
    constexpr const Frame* operator->() const { return &**this; }
    friend constexpr bool operator==(MaybeFrame, MaybeFrame) = default;

  private:
    static constexpr Frame none{~std::uint32_t{0}};
    Frame frame_ = none;
};

}  // namespace pagelens
