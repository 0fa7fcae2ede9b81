// The timing constraints of a DRAM between its commands, under their JEDEC names (JESD79-2,
// JESD79-4, JESD79-5, JESD235), in picoseconds.
//
// _S is between bank groups of a rank, _L within one; where a DRAM has no groups both are equal.
#pragma once

#include <array>

#include "core/machine/picoseconds.hpp"

namespace pagelens {

struct DramTimings {
    Picoseconds tCK;             // one clock
    Picoseconds burst;           // a line's data on the bus: burst length / 2 clocks
    Picoseconds CL, CWL;         // read, write to the first of its data
    Picoseconds tRCD;            // activate to read or write
    Picoseconds tRP;             // precharge to activate
    Picoseconds tRAS;            // activate to precharge
    Picoseconds tRC;             // activate to activate of the same bank
    Picoseconds tRRD_S, tRRD_L;  // activate to activate of another bank of the rank
    Picoseconds tFAW;            // four activates of a rank
    Picoseconds tCCD_S, tCCD_L;  // read to read, write to write
    Picoseconds tCCD_L_WR;       // write to write in one bank group
    Picoseconds tWTR_S, tWTR_L;  // the end of a write's data to a read of the rank
    Picoseconds tRTW;            // gap on the bus between a read's data and a write's
    Picoseconds tRTRS;           // gap on the bus between two ranks' data
    Picoseconds tRTP;            // read to precharge
    Picoseconds tWR;             // the end of a write's data to precharge
    Picoseconds tREFI, tRFC;     // from refresh to refresh of a rank, and its duration

    // Throws std::invalid_argument, beginning with the timing's name, for a set that no DRAM has:
    // one that is not positive, a tRC shorter than tRAS, an _L shorter than its _S, a refresh that
    // takes longer than the time to the next.
    void check() const;
};

// The least time from one read or write to another of the channel: [first is a write][second is].
struct CasToCas {
    using Gaps = std::array<std::array<Picoseconds, 2>, 2>;
    Gaps same_group, same_rank, other_rank;

    explicit CasToCas(const DramTimings& timings);
    [[nodiscard]] Picoseconds least() const;
};

}  // namespace pagelens
