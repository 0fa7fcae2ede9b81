// A buddy allocator in Linux's manner: free blocks of 2^order frames in one list an order, taken
// from the head; a larger block is split and its upper halves put at the heads; a freed block
// merges with its buddy as long as that is free, and goes to the head.
//
// All is counted in frames, but kept in units of `grain` frames: 1 is exact, 16 makes a node's
// history 16 times faster and leaves the shares of conflicting pages as they are (a test holds it),
// because a unit's frames lie in neighbouring slots. Copying it is a snapshot. No zones, migrate
// types or per-cpu lists yet: `Request` is where they will be named.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/address/units.hpp"
#include "core/frames/migrate_type.hpp"

namespace pagelens {

class Buddy {
  public:
    // All `frames` free, the lists in order of address: a node fresh from boot.
    // Throws std::invalid_argument unless grain is a power of two <= 1024 that divides frames > 0.
    Buddy(std::uint32_t frames, std::uint32_t grain);

    // The first of 2^order neighbouring frames (of a whole unit if that is more), aligned to their
    // number; nothing if no block is left. Precondition: order <= max_order.
    std::optional<Frame> alloc(unsigned order);
    // Gives back what alloc(order) gave.
    void free(Frame frame, unsigned order);

    // Puts every list in order of address (zonesort).
    void sort();
    // Takes the free blocks inside [begin, end) out of the lists for good, for memory set aside at
    // boot. Precondition: both are multiples of 2^max_order.
    void reserve(Frame begin, Frame end);

    [[nodiscard]] std::uint32_t frames() const { return units() << grain_order_; }
    [[nodiscard]] std::uint32_t grain() const { return 1u << grain_order_; }
    [[nodiscard]] std::uint32_t free_frames() const { return free_units_ << grain_order_; }
    // Free blocks of an order, head first (shown by /proc/buddyinfo as counts).
    [[nodiscard]] std::vector<Frame> free_list(unsigned order) const;

  private:
    static constexpr std::uint32_t none = ~0u;
    static constexpr std::int8_t taken = -1;
    struct Link {
        std::uint32_t next, previous;
    };

    [[nodiscard]] std::uint32_t units() const { return static_cast<std::uint32_t>(order_.size()); }
    [[nodiscard]] unsigned levels() const { return max_order - grain_order_ + 1; }
    [[nodiscard]] unsigned level_of(unsigned order) const {
        return order > grain_order_ ? order - grain_order_ : 0;
    }
    void push_head(unsigned level, std::uint32_t unit);
    void push_tail(unsigned level, std::uint32_t unit);
    void unlink(std::uint32_t unit);

    unsigned grain_order_;
    std::vector<Link> links_;         // of the first unit of each free block
    std::vector<std::int8_t> order_;  // level of the free block that begins at this unit, or taken
    std::array<std::uint32_t, max_order + 1> head_{}, tail_{};
    std::uint32_t free_units_ = 0;
};

}  // namespace pagelens
