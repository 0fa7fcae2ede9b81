// The caches of a node: one hierarchy for each group of neighbouring cores that share an L3. What
// the cores access is kept until it is flushed, so that a hierarchy gets long batches.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"

namespace pagelens {

class CacheGroups {
  public:
    // As often as `cores` need it. Precondition: cores >= 1.
    CacheGroups(const CacheHierarchy& of_group, std::uint32_t cores)
        : cores_of_group_(of_group.cores()),
          groups_((cores - 1) / of_group.cores() + 1, of_group),
          runs_(groups_.size()) {}

    [[nodiscard]] std::size_t size() const { return groups_.size(); }
    // Lines that wait.
    [[nodiscard]] std::uint64_t pending() const { return pending_; }

    void push(std::uint64_t lines, std::uint32_t frame, std::uint32_t core, AccessKind kind) {
        const auto in_group = static_cast<std::uint16_t>(core % cores_of_group_);
        runs_[core / cores_of_group_].push_back({lines, frame, in_group, kind});
        pending_ += static_cast<unsigned>(std::popcount(lines));
    }

    // What waits goes through the caches, group by group; what they ask of memory is appended to
    // `traffic`. visit(first core of the group, its part of the traffic) after each.
    template <class Visit>
    void flush(MemoryTraffic& traffic, Visit&& visit) {
        if (pending_ == 0) return;
        pending_ = 0;
        for (std::uint32_t group = 0; group < groups_.size(); ++group) {
            const std::size_t before = traffic.size();
            groups_[group].access(runs_[group], traffic);
            runs_[group].clear();
            visit(group * cores_of_group_, std::span(traffic).subspan(before));
        }
    }

    // Of all cores, since the beginning.
    [[nodiscard]] std::array<std::uint64_t, cache_counters> totals() const {
        std::array<std::uint64_t, cache_counters> sums{};
        for (const CacheHierarchy& caches : groups_) {
            for (std::size_t i = 0; i < cache_counters; ++i)
                sums[i] += caches.total(static_cast<CacheCounter>(i));
        }
        return sums;
    }

  private:
    std::uint32_t cores_of_group_;
    std::vector<CacheHierarchy> groups_;
    std::vector<std::vector<PageRun>> runs_;  // of each
    std::uint64_t pending_ = 0;
};

}  // namespace pagelens
