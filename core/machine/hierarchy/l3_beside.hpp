// A second L3 beside a hierarchy's own, with the memory behind it: what the private caches ask of
// the one, they would ask of the other. That holds for a victim L3 without an L1 above, since
// nothing that such an L3 does changes what private caches and snoop filter hold.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/machine/cache_model.hpp"
#include "core/machine/hierarchy/model_checks.hpp"
#include "core/machine/physical_cache.hpp"

namespace pagelens {

// What private caches ask of a victim L3.
struct L3Request {
    enum class Kind : std::uint8_t {
        read,        // a line to share; `flag`: another core would forward it
        own,         // a line to fetch and write to, likewise
        take_whole,  // a line that is written as a whole, so L3 loses it
        put,         // a line that leaves them; `flag`: dirty
        overwrite,   // a line that is written past all caches; `flag`: it was dirty
    };
    std::uint64_t line = 0;
    std::uint16_t core = 0;
    std::uint8_t slice = 0;
    Kind kind = Kind::read;
    bool flag = false;
    bool was_dirty = false;  // own, take_whole: in another core's caches
};

class L3Beside {
  public:
    // Precondition: model.l3 and model.l3_beside are there.
    explicit L3Beside(const HierarchyModel& model)
        : cache_(*model.l3_beside, hierarchy::slices_of(model), hierarchy::seeds_of(model, 3, 1),
                 false),
          writes_at_once_(model.writes_at_once) {}

    // The requests in their order. What memory is asked for is appended to `traffic`.
    void run(std::span<const L3Request> requests, MemoryTraffic& traffic) {
        for (std::size_t i = 0; i < requests.size(); ++i) {
            if (i + ahead < requests.size())
                cache_.prefetch(requests[i + ahead].line, requests[i + ahead].slice);
            access(requests[i], traffic);
        }
    }

    // Puts in a line, if it is not there, as the one that was used longest ago, if there is room.
    void append(std::uint64_t line, std::uint32_t slice, bool dirty) {
        auto spot = cache_.find(line, slice);
        if (!spot) cache_.append(spot, line, dirty);
    }
    // Holds what `other` holds from now on, and keeps its counts.
    void become(const L3Beside& other) { cache_ = other.cache_; }

    // Those of L3 and memory; all others are of the private caches.
    [[nodiscard]] std::uint64_t count(CacheCounter counter) const {
        return counts_[static_cast<std::size_t>(counter)];
    }
    static constexpr bool counts(CacheCounter counter) {
        using enum CacheCounter;
        return counter == l3_hits || counter == l3_misses || counter == core_forwards ||
               counter == llc_victims_m || counter == dram_reads || counter == dram_writes;
    }

  private:
    static constexpr std::size_t ahead = 24;  // requests

    void access(const L3Request& its, MemoryTraffic& traffic) {
        auto spot = cache_.find(its.line, its.slice);
        const bool found = static_cast<bool>(spot);
        switch (its.kind) {
            case L3Request::Kind::read:
                if (found) cache_.use(spot, false);
                return fetch(its, found, traffic);
            case L3Request::Kind::own:
                fetch(its, found, traffic);
                [[fallthrough]];
            case L3Request::Kind::take_whole: {
                const bool was_dirty = (found && cache_.remove(spot)) || its.was_dirty;
                if (writes_at_once_ && !was_dirty) memory(its.line, its.core, true, traffic);
                return;
            }
            case L3Request::Kind::put: {
                if (found) return cache_.use(spot, its.flag);
                const auto victim = cache_.fill(spot, its.line, its.flag);
                if (!victim.dirty) return;
                add(CacheCounter::llc_victims_m);
                if (!writes_at_once_) memory(victim.line, its.core, true, traffic);
                return;
            }
            case L3Request::Kind::overwrite: {
                const bool was_dirty = (found && cache_.remove(spot)) || its.flag;
                if (was_dirty && !writes_at_once_) memory(its.line, its.core, true, traffic);
                return memory(its.line, its.core, true, traffic);
            }
        }
    }
    void fetch(const L3Request& its, bool found, MemoryTraffic& traffic) {
        add(found ? CacheCounter::l3_hits : CacheCounter::l3_misses);
        if (!found && its.flag) add(CacheCounter::core_forwards);
        if (!found && !its.flag) memory(its.line, its.core, false, traffic);
    }
    void memory(std::uint64_t line, std::uint32_t core, bool write, MemoryTraffic& traffic) {
        add(write ? CacheCounter::dram_writes : CacheCounter::dram_reads);
        traffic.push_back(MemoryAccess(line, core, write));
    }
    void add(CacheCounter counter) { ++counts_[static_cast<std::size_t>(counter)]; }

    PhysicalCache<false> cache_;
    bool writes_at_once_;
    std::array<std::uint64_t, cache_counters> counts_{};
};

}  // namespace pagelens
