// The caches of a node before its memory side where cores share some: what they ask for of sampled
// slots goes to the memory side, what they count is counted by phase.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/replay/cache_groups.hpp"
#include "core/replay/counters.hpp"
#include "core/replay/memory_side.hpp"
#include "core/replay/sampling.hpp"

namespace pagelens {

class SharedCaches {
  public:
    // Precondition: cores >= 1. Gives `counters` those of caches.
    SharedCaches(const CacheHierarchy& of_group, std::uint32_t cores, const Sampling& sampling,
                 const FrameOwners& owners, MemorySide& memory, Counters& counters)
        : runs_(of_group.cores(), cores),
          groups_(of_group, cores),
          sampling_(sampling),
          owners_(owners),
          memory_(memory),
          counters_(counters) {
        counters_.caches.resize(std::size_t{counters_.phases} * cache_counters);
    }

    void push(std::uint64_t lines, std::uint32_t frame, std::uint32_t core, AccessKind kind) {
        runs_.push(lines, frame, core, kind);
    }

    // Whether what waits should wait no longer: of several groups the lines of each op, or the
    // groups would take turns by batches.
    [[nodiscard]] bool due() const { return runs_.groups() > 1 || runs_.lines() >= batch_lines; }

    // What waits goes through the caches, and what they ask for to memory.
    void flush(unsigned phase) {
        groups_.access(
            runs_, traffic_, [&](std::uint32_t, std::span<const MemoryAccess> traffic, auto&&) {
                for (std::size_t i = 0; i < traffic.size();) {
                    const auto frame =
                        static_cast<std::uint32_t>(traffic[i].line() / lines_per_page);
                    const bool write = traffic[i].write();
                    std::uint64_t lines = 0;  // neighbours of one page are one access
                    for (; i < traffic.size() && traffic[i].line() / lines_per_page == frame &&
                           traffic[i].write() == write;
                         ++i) {
                        const std::uint64_t line = 1ull << traffic[i].line() % lines_per_page;
                        if ((lines & line) != 0) break;
                        lines |= line;
                    }
                    if (sampling_.covers(frame))
                        memory_.access(phase, owners_.of(frame), frame, lines, write);
                }
            });
        runs_.clear();
        traffic_.clear();
    }

    // What the caches did since the last phase was left is this one's.
    void leave(unsigned phase) {
        flush(phase);
        const auto now = groups_.totals();
        for (std::size_t i = 0; i < cache_counters; ++i)
            counters_.caches[phase * cache_counters + i] += now[i] - before_[i];
        before_ = now;
    }

  private:
    static constexpr std::uint64_t batch_lines = 1u << 13;

    PendingRuns runs_;
    CacheGroups groups_;
    const Sampling& sampling_;
    const FrameOwners& owners_;
    MemorySide& memory_;
    Counters& counters_;
    MemoryTraffic traffic_;  // of a flush
    std::array<std::uint64_t, cache_counters> before_{};
};

}  // namespace pagelens
