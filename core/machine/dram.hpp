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
#include "core/machine/dram_timings.hpp"

namespace pagelens {

struct DramConfig {
    DramFields map;
    DramTimings timings;
    RowPolicy policy = RowPolicy::open;
    unsigned window = 1;  // requests that a channel's scheduler chooses from
    unsigned outstanding =
        1;  // lines that a core has under way; writes too, until their data moved
    // From a core's issue to the controller and from the data to the core, together; of reads.
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
    [[nodiscard]] const DramTotals& totals() const { return totals_; }
    // Of all banks, in the order of DramPlace::bank.
    [[nodiscard]] std::vector<DramBankCounts> counts() const;
    // The time that a bank spent on opening and closing rows, refreshing and moving data, as far as
    // its counts say: conflicts x (tRP + tRCD) + misses x tRCD + accesses x burst + refreshes x
    // tRFC.
    [[nodiscard]] Picoseconds busy(const DramBankCounts& counts) const;

  private:
    struct Done {
        Picoseconds at;
        std::uint32_t core;
    };
    // Lines that are on their way back; of one kind, so that they arrive in the order of commands.
    class Returns {
      public:
        [[nodiscard]] Picoseconds next() const {
            return size_ == 0 ? Picoseconds::never() : ring_[head_].at;
        }
        void reserve(std::size_t most) {
            if (ring_.size() < most) ring_.resize(most);
        }
        void push(const Done& done) {
            std::size_t tail = head_ + size_++;
            if (tail >= ring_.size()) tail -= ring_.size();
            ring_[tail] = done;
        }
        Done pop() {
            const Done done = ring_[head_];
            if (++head_ == ring_.size()) head_ = 0;
            --size_;
            return done;
        }

      private:
        std::vector<Done> ring_;
        std::size_t head_ = 0, size_ = 0;
    };

    void check(std::span<const std::span<const std::uint64_t>> cores) const;
    void reserve(std::size_t cores);
    void issue(std::uint64_t request, std::uint32_t core, Picoseconds now);
    void step(std::size_t channel);

    DramMap map_;
    DramConfig config_;
    Picoseconds read_time_, write_time_;  // from the command until the core has its place back
    std::size_t cores_ = 0;               // that there is room for
    std::vector<DramChannel> channels_;
    std::vector<Picoseconds> next_;  // of each channel
    Returns reads_, writes_;
    DramTotals totals_;
};

}  // namespace pagelens
