// The caches of one processor: private ones of many cores, a shared L3 in slices, and the snoop
// filter that watches the private ones. All are found by physical lines; accesses of the cores come
// interleaved, in batches; what the caches ask of memory goes into a buffer. docs/caches.md states
// the rules; their slow, obvious version is tests/cpp/reference_hierarchy.hpp.
//
// A line that one core has written is in no other core's caches (MESI). A node of several
// processors, or of several groups of cores with an L3 each, has a hierarchy for each: lines that
// cores of two of them use are not kept coherent between them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "core/address/units.hpp"
#include "core/machine/cache_model.hpp"
#include "core/machine/hierarchy/hierarchy_of.hpp"

namespace pagelens {

class CacheHierarchy {
  public:
    // Throws std::invalid_argument for what cannot be: the message names the part and the range.
    explicit CacheHierarchy(const HierarchyModel& model);

    // The accesses one after the other; memory's share is appended to `traffic`, which grows as it
    // has to (kept and cleared between batches, it does not). Throws std::invalid_argument, before
    // anything is done, for a core, kind or line that is not there.
    void access(std::span<const LineAccess> batch, MemoryTraffic& traffic);
    // `ends`, if given, gets for each access how long `traffic` is after it.
    void access(std::span<const PageRun> batch, MemoryTraffic& traffic,
                std::vector<std::size_t>* ends = nullptr);
    // Does the same for columns of one length.
    void access(std::span<const std::uint64_t> lines, std::span<const std::uint32_t> cores,
                std::span<const AccessKind> kinds, MemoryTraffic& traffic);
    // Does the same for page runs: frames, and the lines of each.
    void access(std::span<const std::uint32_t> frames, std::span<const std::uint64_t> lines,
                std::span<const std::uint16_t> cores, std::span<const AccessKind> kinds,
                MemoryTraffic& traffic);

    // Holds what another hierarchy of the same model holds from now on. The counts stay.
    void become(const CacheHierarchy& other);
    // Puts in what LRU caches hold after these reads and write-backs, without doing them one by
    // one: from the last use on, each line goes to its L2 where that has room, or else to L3. So L3
    // has its lines in the order of their last uses, and not in that in which L2s lost them.
    // Precondition: the caches have not held a line of these sets, and there is no L1. Throws as
    // access() does.
    void refill(std::span<const PageRun> uses);

    [[nodiscard]] std::uint32_t cores() const;
    // The fewest sets of a slice, of the parts that lines' low bits index; 2^31 if there is none.
    [[nodiscard]] std::uint32_t fewest_sets() const;
    // Whether lines at different places of their pages share no set, so that their order does not
    // matter.
    [[nodiscard]] bool places_are_apart() const;
    // [core][counter]
    [[nodiscard]] std::span<const std::uint64_t> counts() const;
    [[nodiscard]] std::uint64_t count(std::uint32_t core, CacheCounter counter) const {
        return counts()[core * cache_counters + static_cast<std::size_t>(counter)];
    }
    [[nodiscard]] std::uint64_t total(CacheCounter counter) const;
    // Whether the model has an l3_beside; then, what memory behind it did for the last accesses,
    // and what was counted since the beginning with it in place of l3.
    [[nodiscard]] bool has_beside() const;
    [[nodiscard]] const MemoryTraffic& traffic_beside() const;
    [[nodiscard]] std::uint64_t total_beside(CacheCounter counter) const;
    // Resets the counts, but for those of l3_beside. The caches keep what they hold.
    void reset_counts();

    // Whether a core's private caches (those that it shares, too) hold the line, and whether L3
    // does.
    [[nodiscard]] bool private_holds(std::uint32_t core, std::uint64_t line) const;
    [[nodiscard]] bool l3_holds(std::uint64_t line) const;

  private:
    std::variant<HierarchyOf<true>, HierarchyOf<false>> its_;
};

}  // namespace pagelens
