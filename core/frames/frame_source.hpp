// Where pages get their frames: one interface for the kernel's allocator and for its alternatives.
#pragma once

#include <cstdint>
#include <optional>

#include "core/address/units.hpp"

namespace pagelens {

inline constexpr unsigned small_order = 0;      // a 4 KiB page
inline constexpr unsigned huge_order = 9;       // a 2 MiB page
inline constexpr unsigned gigantic_order = 18;  // a 1 GiB page

// Who asks, and for how much. (The memory node and the migrate type join when there are zones.)
struct Request {
    unsigned cpu;
    unsigned order;  // small_order, huge_order or gigantic_order
};

class FrameSource {
  public:
    virtual ~FrameSource() = default;
    // The first of 2^order neighbouring frames, aligned to their number; nothing if there are none.
    virtual std::optional<Frame> alloc(Request request) = 0;
    // Gives back what alloc(request) gave.
    virtual void free(Request request, Frame frame) = 0;
};

}  // namespace pagelens
