// Placement rules: what frames a job gets on a node in a given state.
//
// A Placement is a recipe, immutable and shared between threads; every replay opens a FrameSource
// of its own from it, so that nothing a job does reaches another one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/frames/frame_source.hpp"
#include "core/frames/node_state.hpp"

namespace pagelens {

// The job that is placed.
struct JobShape {
    std::uint32_t ranks;
    std::uint32_t pages_per_rank;   // an upper bound of what a rank has at one time
    std::uint32_t gigabyte_blocks;  // 1 GiB blocks that all ranks together would use
    // The pages of a rank, by index. The rest of pages_per_rank belongs to the kernel. If empty, a
    // rank has page after page, none of them the kernel's.
    std::span<const VirtualPage> pages = {};
};

class Placement {
  public:
    virtual ~Placement() = default;
    [[nodiscard]] virtual std::unique_ptr<FrameSource> open(const JobShape& job) const = 0;
    // Frames of the node.
    [[nodiscard]] virtual std::uint32_t frames() const = 0;
    // The size of the pages it gives to large mappings: small_order, huge_order, gigantic_order.
    [[nodiscard]] virtual unsigned page_order() const { return small_order; }
    // The least that it gives, and gives back: a page of a kernel whose pages are larger than 4 KiB
    // has 2^base_order frames.
    [[nodiscard]] virtual unsigned base_order() const { return small_order; }
    // Whether it gives 2 MiB pages to memory for which the program asks for them, though page_order
    // is small.
    [[nodiscard]] virtual bool heeds_advice() const { return false; }
    // The share above which adaptive mapping shuffles. A replay watches which share of the lines
    // that reach the memory-side cache pushes another out. Where that climbs above this share, it
    // has the source shuffle, and moves the job's small pages to other frames. 1: never.
    [[nodiscard]] virtual double shuffle_above() const { return 1; }
};

// Returns the frames that a job of so many small pages a rank gets, the ranks touching one each in
// turn; fewer where memory runs out.
std::vector<Frame> first_frames(const Placement& placement, std::uint32_t ranks,
                                std::uint32_t pages_per_rank);

// Places as the kernel's allocator does on a node in this state, rank r on CPU r mod cpus. With
// page_order huge_order it gives 2 MiB pages while there are any: from the hugetlb pool if there is
// one, else transparent ones. Where the kernel's pages are larger than 4 KiB, there is no pool. (If
// a request fails, the caller repeats it for 4 KiB pages.)
std::unique_ptr<Placement> place_by_kernel(NodeState state, unsigned page_order);
// Places as `inner` does, whose frames are pages of a kernel of 2^base_order frames of 4 KiB each.
std::unique_ptr<Placement> place_in_larger_pages(std::unique_ptr<Placement> inner,
                                                 unsigned base_order);
// Gives 4 KiB pages from the kernel's allocator until a replay shuffles them (see shuffle_above),
// then random ones of what is free. This is adaptive mapping (Ferreira, Pedretti, Brightwell, CUG
// 2008).
std::unique_ptr<Placement> place_adaptively(NodeState state, double shuffle_above,
                                            std::uint64_t seed, std::uint32_t node);
// Places as the kernel's allocator does for a job bound to the NUMA node with most free memory,
// and, where that is full, to the next one.
std::unique_ptr<Placement> place_by_numa_node(NodeState state);
// Returns the first frames of the 1 GiB pages that can be set aside at boot, from the bottom of
// memory up. A page has no hole in it, and the last four are left to the system.
std::vector<Frame> gigabytes_at_boot(const Memory& memory);
// Gives as many of the 1 GiB pages set aside at boot as the job uses. Smaller mappings come from
// the kernel's allocator in what is left.
std::unique_ptr<Placement> place_in_gigabytes(NodeState state);
// Places each rank's memory in the order of its addresses, one rank after the other from frame 0,
// as Catamount did. The gaps between pages have frames, too, except that whole 2 MiB of a gap,
// which are large pages, have none. If memory does not suffice for that, no gap has any.
std::unique_ptr<Placement> place_contiguously(std::uint32_t frames);
// Draws each page's frame independently; each free frame has the same probability.
std::unique_ptr<Placement> place_at_random(std::uint32_t frames, std::uint64_t seed,
                                           std::uint32_t node);
// Always gives a free page of page_order whose slots (frame mod slots) hold the fewest of the job's
// pages. With small_order this is page colouring, with huge_order Johnny Cache's static policy
// (Lepers and Zwaenepoel, OSDI'23). Throws std::invalid_argument unless slots is a positive
// multiple of 2^page_order.
std::unique_ptr<Placement> place_by_colour(const Memory& state, std::uint32_t slots,
                                           unsigned page_order);
// Gives the frames that a program of one rank was seen to have: `of_pages` by virtual page, from
// the first that it uses; page tables are put where none is given. Large pages are given where
// their frames are neighbours. Throws std::invalid_argument for a frame that is not one of
// `frames`, and when it is opened for more ranks.
std::unique_ptr<Placement> place_as_given(std::vector<Frame> of_pages, std::uint32_t frames,
                                          unsigned page_order);

}  // namespace pagelens
