// The source of frames for pages: one interface for the kernel's allocator and for its
// alternatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/address/units.hpp"
#include "core/frames/maybe_frame.hpp"
#include "core/frames/migrate_type.hpp"

namespace pagelens {

inline constexpr std::uint8_t own_numa = 0xff;

// A request says who asks, and for how much.
struct Request {
    unsigned cpu = 0;
    unsigned order = small_order;
    MigrateType type = MigrateType::movable;
    std::uint64_t numas = ~0ull;   // bit n: NUMA node n may serve it; the nearest comes first
    std::uint64_t pools = ~0ull;   // the same of the hugetlb pools, if there are any
    std::uint32_t page = 0;        // of the rank's, for sources that go by address (JobShape)
    std::uint32_t rank = 0;        // whose page it is, for the same sources; its CPU may be any
    std::uint8_t home = own_numa;  // the NUMA node that nodes are near to; own_numa: the CPU's
    bool sparing = false;  // leaves every zone above its low watermark, and reclaims nothing
};

class FrameSource {
  public:
    virtual ~FrameSource() = default;
    // Returns the first of 2^order neighbouring frames, aligned to their number, or nothing.
    virtual MaybeFrame alloc(const Request& request) = 0;
    // Returns how many single frames there were for these pages, one after the other, and writes
    // them to `frames`, which is as long. They are those that as many calls of alloc() would give.
    virtual std::size_t alloc_each(Request request, std::span<const std::uint32_t> pages,
                                   std::span<Frame> frames) {
        std::size_t given = 0;
        for (; given < pages.size(); ++given) {
            request.page = pages[given];
            const MaybeFrame frame = alloc(request);
            if (!frame) break;
            frames[given] = *frame;
        }
        return given;
    }
    // Gives back what alloc(request) gave.
    virtual void free(const Request& request, Frame frame) = 0;
    // Makes room on a NUMA node for pages that Linux promotes, by pages of the page cache that go
    // to nodes of the bit mask `slow` (NodeState::make_room()). Returns how many frames are
    // missing.
    virtual std::uint32_t make_room(unsigned /*numa*/, std::uint64_t /*slow*/) { return 0; }
    // Returns how many frames the node has to spare for such pages.
    [[nodiscard]] virtual std::uint32_t spare_frames(unsigned /*numa*/) const { return 0; }
    // Makes single frames random from now on, if the placement adapts.
    virtual void shuffle() {}
};

}  // namespace pagelens
