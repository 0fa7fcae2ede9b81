// All memory of a node as Linux's page allocator keeps it: zones, per-cpu lists, and which zone a
// request is served from. A plain value: copying it is a snapshot, and copies go on independently.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/frames/frame_source.hpp"
#include "core/frames/layout.hpp"
#include "core/frames/maybe_frame.hpp"
#include "core/frames/memmap.hpp"
#include "core/frames/per_cpu_lists.hpp"
#include "core/frames/zone.hpp"

namespace pagelens {

struct FreeBlock {
    Frame first;
    unsigned order;
    MigrateType type;
    friend bool operator==(const FreeBlock&, const FreeBlock&) = default;
};

struct CachedBlock {  // in a per-cpu list
    unsigned cpu;
    FreeBlock block;
};

// The use of a page frame of a running kernel, for a state that is taken over.
enum class FrameUse : std::uint8_t { pinned, movable, hole };

class Memory {
  public:
    // How far a request may lower a zone's free memory: at first to its low watermark, to its min
    // watermark once reclaim did what it could, or to nothing, instead of killing a process.
    enum class Mark : std::uint8_t { low, min, none };

    // Makes the memory of a node fresh from boot: all is free, and every list is in order of
    // address, rising or falling. The frames of a last, incomplete unit belong to nobody. Throws
    // std::invalid_argument for a grain that is not a power of two from 1 to 64, or zones that are
    // out of order or do not begin on a 2 MiB boundary.
    Memory(Layout layout, std::uint32_t grain);

    // Takes over the state of a running machine, at grain 1. `free` holds the blocks of all free
    // lists, each list's head first (how the lists are interleaved does not matter); `cached` those
    // of the per-cpu lists likewise. `use` has an entry a frame and says what the others are;
    // `pageblocks` has the type of each 2 MiB. Throws std::invalid_argument where a block is
    // misaligned, overlaps another or lies outside of every zone, or an array has another length.
    static Memory taken_over(Layout layout, std::span<const FreeBlock> free,
                             std::span<const CachedBlock> cached, std::span<const FrameUse> use,
                             std::span<const MigrateType> pageblocks);

    // Returns the first of 2^order neighbouring frames, aligned to their number. (They are a whole
    // unit if that is more and the order is not 0.) Returns nothing if no zone has such a block
    // above the mark. Precondition: order <= max_order, the type is not isolate, the CPU exists.
    MaybeFrame alloc(const Request& request, Mark mark);
    // Returns up to `most` > 0 single pages, as neighbours or in one unit of the grain; the count
    // is 0 where alloc would give nothing. The request's order is not looked at.
    Run alloc_run(const Request& request, Mark mark, std::uint32_t most);
    // Returns single pages that lie in a list of the CPU. They are those that as many calls for one
    // page would give. The count is 0 where such a call would not take from a list, or fill it
    // first.
    Run alloc_listed(const Request& request, Mark mark, std::uint32_t most);
    // Gives single pages back in the run's order. Precondition: it lies in at most two pageblocks.
    void free_run(unsigned cpu, Run run);
    // Gives back what an alloc of this order gave, through the lists of `cpu`.
    void free(unsigned cpu, Frame frame, unsigned order);
    // Empties the per-cpu lists, of one CPU or of all.
    void drain(unsigned cpu);
    void drain();

    // Returns whether every zone of these NUMA nodes is below its high watermark. Reclaim goes on
    // until one is not.
    [[nodiscard]] bool below_high(std::uint64_t numas) const;
    // Returns how many free frames a zone of this NUMA node has above the watermark of promotion,
    // up to which kswapd frees memory if pages are promoted; that of the zone with most, or below
    // 0.
    [[nodiscard]] std::int64_t above_promotion(unsigned numa) const;
    [[nodiscard]] const KernelRules& kernel() const { return layout_.kernel; }

    [[nodiscard]] std::uint32_t frames() const { return layout_.frames; }
    [[nodiscard]] std::uint32_t grain() const { return map_.grain(); }
    // log2 of the 4 KiB in a frame, which is a page of the kernel.
    [[nodiscard]] unsigned page_order() const { return layout_.page_order; }
    [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(layout_.cpu_numa.size()); }
    [[nodiscard]] unsigned numas() const { return static_cast<unsigned>(zonelists_.size()); }
    // Returns the free frames in the lists of all zones; those in per-cpu lists are counted apart,
    // as in /proc/meminfo.
    [[nodiscard]] std::uint32_t free_frames() const;
    [[nodiscard]] std::uint32_t cached_frames() const;
    // Returns a bit for each frame, which says whether it lies in a per-cpu list.
    [[nodiscard]] std::vector<bool> per_cpu_frames() const;
    // Returns the blocks of one free list, head first; those of orders below the grain come unit by
    // unit.
    [[nodiscard]] std::vector<Frame> free_list(std::size_t zone, unsigned order,
                                               MigrateType type) const;
    // Returns the blocks of all zones' free lists: zone by zone, order by order, type by type, head
    // first.
    [[nodiscard]] std::vector<FreeBlock> free_blocks() const;
    // Returns the NUMA node that a request is near to.
    [[nodiscard]] unsigned home_of(const Request& request) const {
        return request.home == own_numa ? layout_.cpu_numa[request.cpu] : request.home;
    }
    [[nodiscard]] unsigned numa_of(Frame frame) const {
        return zones_[zone_index(map_.unit_of(frame))].spec().numa;
    }
    // Returns the zones in the order in which a NUMA node's requests try them.
    [[nodiscard]] std::span<const std::uint8_t> zonelist(unsigned numa) const {
        return zonelists_[numa];
    }

    // Gives access to compaction, sorting and hotplug, which also change memory.
    [[nodiscard]] Memmap& map() { return map_; }
    [[nodiscard]] const Memmap& map() const { return map_; }
    [[nodiscard]] std::vector<Zone>& zones() { return zones_; }
    [[nodiscard]] const std::vector<Zone>& zones() const { return zones_; }
    [[nodiscard]] Zone& zone_of(Unit unit) { return zones_[zone_index(unit)]; }

  private:
    struct Empty {};
    Memory(Layout layout, std::uint32_t grain, Empty);

    [[nodiscard]] std::size_t zone_index(Unit unit) const {
        return zone_of_[unit >> map_.pageblock_level()];
    }
    // Calls take(zone, no_fragment, most) for the zones that may serve the request, until it says
    // true. It may take `most` frames, or else one block.
    template <class Take>
    bool try_zones(const Request& request, std::uint32_t frames, Mark mark, Take&& take);
    template <class Take>
    bool try_all_zones(const Request& request, std::uint32_t frames, Mark mark, std::uint32_t most,
                       Take&& take);
    template <class Take>
    bool try_fair_zones(const Request& request, std::uint32_t frames, Mark mark, Take&& take);
    // Notes that a zone gave frames, for the turns of the zones.
    void count_taken(std::uint8_t zone, std::uint32_t frames) {
        if (!layout_.kernel.fair_zones) return;
        turn_left_[zone] -= frames;
        if (turn_left_[zone] <= 0) turn_over_[zone] = true;
    }
    [[nodiscard]] std::int64_t turn_of(const Zone& zone) const {
        return std::int64_t{zone.spec().high} - zone.spec().low;
    }
    [[nodiscard]] bool above(const Zone& zone, ZoneKind preferred, std::uint32_t frames,
                             Mark mark) const;

    Layout layout_;
    Memmap map_;
    std::vector<Zone> zones_;
    std::vector<PerCpuLists> per_cpu_;                  // [zone]
    std::vector<std::vector<std::uint8_t>> zonelists_;  // [numa]
    std::vector<std::uint8_t> zone_of_;                 // [pageblock]
    // [zone] The frames that it still gives before others of its NUMA node do, if its kernel has
    // such turns; and whether it has given all of them.
    std::vector<std::int64_t> turn_left_;
    std::vector<bool> turn_over_;
};

}  // namespace pagelens
