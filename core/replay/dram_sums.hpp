// The counts of a DRAM, summed over all of its banks.
#pragma once

#include <cstdint>

#include "core/machine/dram.hpp"

namespace pagelens {

struct DramSums {
    std::uint64_t reads = 0, writes = 0;
    std::uint64_t row_hits = 0, row_misses = 0, row_conflicts = 0;
    std::uint64_t refreshes = 0;
    Picoseconds time;          // until the last line is there, with as many under way as cores keep
    Picoseconds read_latency;  // summed over reads

    // Since its beginning.
    static DramSums of(const Dram& dram) {
        DramSums sums;
        for (const DramBankCounts& bank : dram.counts()) {
            sums.reads += bank.reads;
            sums.writes += bank.writes;
            sums.row_hits += bank.hits;
            sums.row_misses += bank.misses;
            sums.row_conflicts += bank.conflicts;
            sums.refreshes += bank.refreshes;
        }
        sums.time = dram.totals().time;
        sums.read_latency = dram.totals().read_latency;
        return sums;
    }
    // Adds what it did from one moment to another.
    void add(const DramSums& from, const DramSums& to) {
        reads += to.reads - from.reads;
        writes += to.writes - from.writes;
        row_hits += to.row_hits - from.row_hits;
        row_misses += to.row_misses - from.row_misses;
        row_conflicts += to.row_conflicts - from.row_conflicts;
        refreshes += to.refreshes - from.refreshes;
        time += to.time - from.time;
        read_latency += to.read_latency - from.read_latency;
    }
    friend bool operator==(const DramSums&, const DramSums&) = default;
};

}  // namespace pagelens
