// The caches of a node: one hierarchy for each group of neighbouring cores that share an L3.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"

namespace pagelens {

// What the cores of a node access, kept until the caches get it, so that a hierarchy gets long
// batches. Several machines with the same cores can be given the same.
class PendingRuns {
  public:
    // For groups of so many of the `cores`. Precondition: both are at least 1.
    PendingRuns(std::uint32_t cores_of_group, std::uint32_t cores)
        : cores_of_group_(cores_of_group), groups_((cores - 1) / cores_of_group + 1) {}

    [[nodiscard]] std::uint32_t cores_of_group() const { return cores_of_group_; }
    [[nodiscard]] std::uint32_t groups() const {
        return static_cast<std::uint32_t>(groups_.size());
    }
    // Lines that wait.
    [[nodiscard]] std::uint64_t lines() const { return lines_; }
    [[nodiscard]] std::uint16_t group_of(std::uint32_t core) const {
        return static_cast<std::uint16_t>(core / cores_of_group_);
    }
    [[nodiscard]] std::uint32_t first_core(std::uint16_t group) const {
        return group * cores_of_group_;
    }
    [[nodiscard]] std::span<const PageRun> of(std::uint32_t group) const { return groups_[group]; }

    void push(std::uint64_t lines, std::uint32_t frame, std::uint32_t core, AccessKind kind) {
        const auto in_group = static_cast<std::uint16_t>(core % cores_of_group_);
        groups_[core / cores_of_group_].push_back({lines, frame, in_group, kind});
        lines_ += static_cast<unsigned>(std::popcount(lines));
    }
    void clear() {
        for (auto& runs : groups_) runs.clear();
        lines_ = 0;
    }

  private:
    std::uint32_t cores_of_group_;
    std::vector<std::vector<PageRun>> groups_;
    std::uint64_t lines_ = 0;
};

class CacheGroups {
  public:
    // As often as `cores` need it. Precondition: cores >= 1.
    CacheGroups(const CacheHierarchy& of_group, std::uint32_t cores)
        : groups_((cores - 1) / of_group.cores() + 1, of_group) {}

    // What waits goes through the caches, group by group; what they ask of memory is appended to
    // `traffic`. visit(first core of the group, its part of the traffic, what they ask of memory
    // behind an l3_beside) after each. Precondition: the groups are as large as these.
    template <class Visit>
    void access(const PendingRuns& runs, MemoryTraffic& traffic, Visit&& visit) {
        if (runs.lines() == 0) return;
        for (std::uint32_t group = 0; group < groups_.size(); ++group) {
            const std::size_t before = traffic.size();
            groups_[group].access(runs.of(group), traffic);
            visit(group * runs.cores_of_group(), std::span(traffic).subspan(before),
                  std::span(groups_[group].traffic_beside()));
        }
    }

    // What waits goes through the caches. For each group, `traffic` gets what its caches ask of
    // memory, and `ends` how much of it there is after each access of the group.
    void access(const PendingRuns& runs, std::span<MemoryTraffic> traffic,
                std::span<std::vector<std::size_t>> ends) {
        for (std::uint32_t group = 0; group < groups_.size(); ++group)
            groups_[group].access(runs.of(group), traffic[group], &ends[group]);
    }

    // As access(), where nobody asks what memory does. Lines at different places of their pages
    // share no set, so they can go one part of the page after the other. The rows of a part stay in
    // the host's caches while many lines go through them.
    void warm_up(const PendingRuns& runs) {
        part_by_part(runs, [&](CacheHierarchy& caches, std::span<const PageRun> part) {
            unasked_.clear();
            caches.access(part, unasked_);
        });
    }

    // The caches hold what they would hold `as_new` and after these reads and write-backs, as
    // CacheHierarchy::refill() means it.
    void refill(const PendingRuns& runs, const CacheHierarchy& as_new) {
        for (CacheHierarchy& caches : groups_) caches.become(as_new);
        part_by_part(runs, [](CacheHierarchy& caches, std::span<const PageRun> part) {
            caches.refill(part);
        });
    }

    // Counts of all cores, since the beginning; with l3_beside in place of l3.
    using Totals = std::array<std::uint64_t, cache_counters>;
    [[nodiscard]] Totals totals() const { return sums(&CacheHierarchy::total); }
    [[nodiscard]] Totals totals_beside() const { return sums(&CacheHierarchy::total_beside); }

  private:
    static constexpr unsigned places = 4;  // lines of a page that are one part

    // Calls visit(caches of a group, some of its runs).
    template <class Visit>
    void part_by_part(const PendingRuns& runs, Visit&& visit) {
        for (std::uint32_t group = 0; group < groups_.size(); ++group) {
            CacheHierarchy& caches = groups_[group];
            if (!caches.places_are_apart()) {
                visit(caches, runs.of(group));
                continue;
            }
            divide(runs.of(group));
            for (std::vector<PageRun>& part : parts_) {
                visit(caches, std::span<const PageRun>(part));
                part.clear();
            }
        }
    }
    void divide(std::span<const PageRun> runs) {
        constexpr std::uint64_t of_part = (1u << places) - 1;
        for (const PageRun& run : runs) {
            for (std::uint64_t rest = run.lines; rest != 0;) {
                const unsigned part = static_cast<unsigned>(std::countr_zero(rest)) / places;
                const std::uint64_t mask = of_part << (part * places);
                parts_[part].push_back({rest & mask, run.frame, run.core, run.kind});
                rest &= ~mask;
            }
        }
    }
    [[nodiscard]] Totals sums(std::uint64_t (CacheHierarchy::*total)(CacheCounter) const) const {
        Totals sums{};
        for (const CacheHierarchy& caches : groups_) {
            for (std::size_t i = 0; i < cache_counters; ++i)
                sums[i] += (caches.*total)(static_cast<CacheCounter>(i));
        }
        return sums;
    }

    std::vector<CacheHierarchy> groups_;
    std::array<std::vector<PageRun>, lines_per_page / places> parts_;  // of a group's runs
    MemoryTraffic unasked_;
};

}  // namespace pagelens
