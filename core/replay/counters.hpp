// The counts of a replay: a typed table of phase x object x component, and the properties of the
// placement itself. Lines are of 64 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/machine/cache_model.hpp"
#include "core/replay/collisions.hpp"
#include "core/replay/dram_sums.hpp"

namespace pagelens {

inline constexpr std::uint16_t page_clearing =
    0;  // the kernel's object: cleared pages, page tables

enum class Component : std::uint8_t {
    l2_accesses,         // lines that reach the level below L1 (non-temporal stores not counted)
    l2_misses,           // of these, fetched from the memory side
    l2_write_backs,      // dirty lines that leave L2, by the object that owns them
    msc_reads,           // lines read at the memory-side cache (or memory, on a flat machine)
    msc_writes,          // lines written there: write-backs, non-temporal stores, page clearing
    msc_misses,          // of both, not found; each one is a fill and a read of DDR
    msc_read_misses,     // of msc_reads, not found: somebody waits for these
    ddr_writes,          // dirty lines pushed out to DDR, by the object whose access pushed them
    conflict_evictions,  // lines pushed out, clean or dirty, by this object's accesses
    two_way_misses,      // the same stream through a two-way cache of that size
    two_way_read_misses,
    two_way_ddr_writes,
    ideal_misses,  // the same stream through a fully associative cache of that size
    ideal_read_misses,
    ideal_ddr_writes,
    first_misses,  // and through an infinite one: the first use of each line of a frame
    first_read_misses,
};
inline constexpr std::size_t components = 17;
inline constexpr std::array<std::string_view, components> component_names = {
    "l2_accesses",        "l2_misses",         "l2_write_backs",      "msc_reads",
    "msc_writes",         "msc_misses",        "msc_read_misses",     "ddr_writes",
    "conflict_evictions", "two_way_misses",    "two_way_read_misses", "two_way_ddr_writes",
    "ideal_misses",       "ideal_read_misses", "ideal_ddr_writes",    "first_misses",
    "first_read_misses"};

// How the resident pages lie in the slots, at the moment when most pages are resident.
struct Residency {
    std::uint64_t pages = 0;              // all ranks'
    std::uint64_t conflicting_pages = 0;  // of these, whose slot holds another of them
    std::uint32_t map_bins = 0;           // the slots in this many bins of neighbours ...
    std::vector<std::uint32_t> map;       // ... and the resident pages of each bin

    [[nodiscard]] double conflict_share() const {
        return pages == 0 ? 0 : static_cast<double>(conflicting_pages) / static_cast<double>(pages);
    }
};

struct Counters {
    unsigned phases = 0, objects = 0;
    std::vector<std::uint64_t> table;  // [phase][object][component]
    Collisions collisions;
    // [phase][CacheCounter], where a hierarchy of caches was run: l2_* above are then not counted.
    std::vector<std::uint64_t> caches;
    // [phase][dram] of the stretches that were timed behind the memory-side cache
    // (rows_behind.hpp): not of the whole phase.
    std::vector<DramSums> drams;
    Residency residency;
    std::uint64_t huge_pages = 0;       // 2 MiB or 1 GiB pages handed out
    std::uint64_t small_fallbacks = 0;  // times when one was wanted and there was none

    Counters(unsigned phase_count, unsigned object_count)
        : phases(phase_count),
          objects(object_count),
          table(std::size_t{phase_count} * object_count * components) {}

    std::uint64_t* row(unsigned phase, unsigned object) {
        return &table[(std::size_t{phase} * objects + object) * components];
    }
    [[nodiscard]] std::uint64_t at(unsigned phase, unsigned object, Component component) const {
        return table[(std::size_t{phase} * objects + object) * components +
                     static_cast<std::size_t>(component)];
    }
};

}  // namespace pagelens
