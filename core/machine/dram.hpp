// A node's DRAM in a closed loop: each core keeps so many lines outstanding, and issues its next
// request in the moment in which one of them is done.
//
// Counts and times are exact for the stated map, timings and scheduler (dram_channel.hpp). Time
// goes on from run to run, and rows stay open: a run begins when all lines of the one before are
// there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/dram_channel.hpp"
#include "core/machine/dram_map.hpp"
#include "core/machine/dram_returns.hpp"
#include "core/machine/dram_timings.hpp"

namespace pagelens {

struct DramConfig {
    DramFields map;
    DramTimings timings;
    RowPolicy policy = RowPolicy::open;
    unsigned window = 1;  // requests that a channel's scheduler chooses from
    unsigned outstanding =
        1;  // lines that a core has under way; writes too, until their data moved
    // The time from a core's issue to the controller, plus that from the data to the core, for
    // reads.
    Picoseconds path;
};

struct DramTotals {
    Picoseconds time;          // since the beginning
    Picoseconds read_latency;  // summed over reads, from a core's issue to its data
    friend bool operator==(const DramTotals&, const DramTotals&) = default;
};

class Dram {
  public:
    static constexpr std::uint64_t write_bit = std::uint64_t{1} << 63;
    static constexpr unsigned most_outstanding = 4096;

    // Throws std::invalid_argument, beginning with the name of what is wrong.
    explicit Dram(const DramConfig& config);

    // Runs one core for each span, all requests to the end. A request is a physical address below
    // bytes(), for a write with write_bit.
    // Throws std::out_of_range, before anything is run, where one is not.
    void run(std::span<const std::span<const std::uint64_t>> cores);

    [[nodiscard]] const DramMap& map() const { return map_; }
    [[nodiscard]] DramTotals totals() const { return {time_, returns_.read_latency()}; }
    // Returns the counts of all banks, in the order of DramPlace::bank.
    [[nodiscard]] std::vector<DramBankCounts> counts() const;
    // Returns the time that a bank spent on opening and closing rows, refreshing and moving data,
    // as far as its counts say: conflicts x (tRP + tRCD) + misses x tRCD + accesses x burst +
    // refreshes x tRFC.
    [[nodiscard]] Picoseconds busy(const DramBankCounts& counts) const;

  private:
    // A core's requests that are still to be issued, and where the first of them goes.
    struct Core {
        std::span<const std::uint64_t> requests;
        std::size_t channel = 0;
        DramLine first;
    };

    void check(std::span<const std::span<const std::uint64_t>> cores) const;
    void reserve(std::size_t cores);
    void locate(Core& core) const;
    void issue(std::uint32_t core, Picoseconds now);
    void issue_arrived(Picoseconds end);

    DramMap map_;
    DramConfig config_;
    std::vector<DramChannel> channels_;
    std::vector<Core> cores_;
    DramReturns returns_;
    Picoseconds time_;
};

}  // namespace pagelens
