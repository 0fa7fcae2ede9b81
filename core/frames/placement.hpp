// Placement policies: what frames a job gets on a node in a given state.
//
// A Placement is a recipe, immutable and shared between threads; every replay opens a FrameSource
// of its own from it, so that nothing a job does reaches another one.
#pragma once

#include <cstdint>
#include <memory>

#include "core/frames/buddy.hpp"
#include "core/frames/frame_source.hpp"

namespace pagelens {

// The job that is placed.
struct JobShape {
    std::uint32_t ranks;
    std::uint32_t pages_per_rank;   // an upper bound of what a rank has at one time
    std::uint32_t gigabyte_blocks;  // 1 GiB blocks that all ranks together would use
};

class Placement {
  public:
    virtual ~Placement() = default;
    [[nodiscard]] virtual std::unique_ptr<FrameSource> open(const JobShape& job) const = 0;
    // Frames of the node.
    [[nodiscard]] virtual std::uint32_t frames() const = 0;
    // The size of the pages it gives to large mappings: small_order, huge_order, gigantic_order.
    [[nodiscard]] virtual unsigned page_order() const { return small_order; }
};

// The kernel's allocator on a node in this state; with page_order huge_order, 2 MiB pages while
// there are any (a request that fails is the caller's to repeat with 4 KiB pages).
std::unique_ptr<Placement> place_by_buddy(Buddy state, unsigned page_order);
// 1 GiB pages reserved at boot at the bottom of memory (as many as the job uses, but for the last
// 4 GiB); smaller mappings come from the kernel's allocator in what is left.
std::unique_ptr<Placement> place_in_gigabytes(Buddy state);
// Each rank's pages one after the other from frame 0, as Catamount did.
std::unique_ptr<Placement> place_contiguously(std::uint32_t frames);
// Independent draws, each free frame with the same probability.
std::unique_ptr<Placement> place_at_random(std::uint32_t frames, std::uint64_t seed,
                                           std::uint32_t node);
// Of the frames that are free in this state, always one whose slot (frame mod slots) holds fewest
// of the job's pages. Throws std::invalid_argument if slots is 0.
std::unique_ptr<Placement> place_by_colour(const Buddy& state, std::uint32_t slots);

}  // namespace pagelens
