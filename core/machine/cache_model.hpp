// The model of a hierarchy of caches: its parts, its input and output, and its counters.
// docs/caches.md states the rules.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/address/address_hash.hpp"
#include "core/machine/replacement/policies.hpp"

namespace pagelens {

struct CacheGeometry {
    static constexpr std::uint32_t most_ways = 64;

    std::uint32_t sets = 1;  // of a slice; a power of two
    std::uint32_t ways = 1;
    Replacement replacement = replacement_by<Lru>;
    bool fully_associative = false;  // of sets x ways lines; few policies serve it

    [[nodiscard]] std::uint64_t lines() const { return std::uint64_t{sets} * ways; }
};

// The relation of a cache's contents to those of the caches above it.
enum class Inclusion : std::uint8_t {
    inclusive,  // holds all that they hold: what leaves it leaves them
    exclusive,  // holds nothing that they hold: filled by what leaves them, emptied by hits
    victim,     // (L3) filled by what leaves them; a line that is read stays, a written one goes
    non_inclusive,  // (L2) filled by fetches, independent of them
};

struct HierarchyModel {
    struct Private {
        CacheGeometry geometry;
        std::uint32_t shared_by = 1;  // neighbouring cores
    };
    struct Shared {
        CacheGeometry geometry;  // of a slice
        Inclusion inclusion = Inclusion::inclusive;
    };

    std::uint32_t cores = 1;
    std::optional<Private> l1;  // without: it has run before, and its fetches and write-backs come
    Private l2;                 // the last private level, which the snoop filter watches
    Inclusion l2_inclusion = Inclusion::non_inclusive;  // of l1
    std::optional<Shared> l3;
    std::optional<CacheGeometry> snoop_filter;  // of a slice; fully_associative: unlimited
    std::optional<AddressHash> slices;          // of l3 and snoop filter; without: one slice
    // Of a slice of another L3, which gets what the private caches ask of l3. It shows what memory
    // behind it would do. Needs a victim l3 and a model without l1.
    std::optional<CacheGeometry> l3_beside;
    std::uint64_t seed = 0;  // of the replacement policies
    // A line is written to memory when it becomes dirty, not when it leaves. In the long run this
    // makes as many writes. Over a stretch of a run, it counts the writes of the stretch itself,
    // and not those of lines that were dirty before. Needs a model without l1.
    bool writes_at_once = false;
};

// Counters of each core. An access counts for the core that made it, except for
// l2_back_invalidations. The events of Intel's processors that count the same are in parentheses.
enum class CacheCounter : std::uint8_t {
    accesses,               // lines asked for (MEM_INST_RETIRED.ALL_LOADS + ALL_STORES)
    l1d_replacement,        // lines brought into L1 (L1D.REPLACEMENT)
    l1d_writebacks,         // dirty lines from L1 to L2 (L2_TRANS.L1D_WB)
    l2_references,          // lines that L1 asks L2 for (L2_RQSTS.REFERENCES)
    l2_misses,              // of these, not found (L2_RQSTS.MISS)
    l2_lines_in,            // lines brought into L2: L2 fills (L2_LINES_IN.ALL)
    l2_writebacks,          // dirty lines that L2 pushes out (L2_TRANS.L2_WB)
    l3_hits,                // L2 misses found in L3 (MEM_LOAD_RETIRED.L3_HIT)
    l3_misses,              // not found there (LONGEST_LAT_CACHE.MISS)
    core_forwards,          // of these, found in another core (MEM_LOAD_L3_HIT_RETIRED.XSNP_FWD)
    sf_evictions,           // snoop filter entries that made room (UNC_CHA_SF_EVICTION)
    l2_back_invalidations,  // lines that this core's caches lost to the snoop filter or to L3
    llc_victims_m,          // dirty lines pushed out of L3 (UNC_CHA_LLC_VICTIMS.M_STATE)
    dram_reads,             // lines read from memory (UNC_M_CAS_COUNT.RD)
    dram_writes,            // lines written to memory (UNC_M_CAS_COUNT.WR)
};
inline constexpr std::size_t cache_counters = 15;
inline constexpr std::array<std::string_view, cache_counters> cache_counter_names = {
    "accesses",     "l1d_replacement",       "l1d_writebacks", "l2_references", "l2_misses",
    "l2_lines_in",  "l2_writebacks",         "l3_hits",        "l3_misses",     "core_forwards",
    "sf_evictions", "l2_back_invalidations", "llc_victims_m",  "dram_reads",    "dram_writes"};

enum class AccessKind : std::uint8_t {
    read,          // a load, or a fetch by an L1 that has run before
    write,         // a store: the line is fetched if it is not there
    write_back,    // a dirty line from an L1 that has run before: it is whole, so not fetched
    stream_store,  // a whole line written past all caches (non-temporal)
};

struct LineAccess {
    std::uint64_t line = 0;  // physical address / 64
    std::uint32_t core = 0;
    AccessKind kind = AccessKind::read;
};

// Lines of one page, in ascending order.
struct PageRun {
    std::uint64_t lines = 0;  // mask
    std::uint32_t frame = 0;
    std::uint16_t core = 0;
    AccessKind kind = AccessKind::read;
};

// A line that memory reads or writes, and the core whose access made it; one word.
class MemoryAccess {
  public:
    MemoryAccess(std::uint64_t line, std::uint32_t core, bool write)
        : word_(line << line_shift | std::uint64_t{core} << 1 | static_cast<unsigned>(write)) {}
    [[nodiscard]] std::uint64_t line() const { return word_ >> line_shift; }
    [[nodiscard]] std::uint32_t core() const { return word_ >> 1 & (most_cores - 1); }
    [[nodiscard]] bool write() const { return (word_ & 1) != 0; }

    static constexpr std::uint32_t most_cores = 1u << 16;
    static constexpr std::uint64_t end_of_lines = 1ull << 47;

  private:
    static constexpr unsigned line_shift = 17;
    std::uint64_t word_;
};
using MemoryTraffic = std::vector<MemoryAccess>;  // in order of time

}  // namespace pagelens
