// A DRAM of one channel and few banks with the timings of a DDR4, for tests.
#pragma once

#include "core/machine/dram.hpp"

namespace pagelens::reference {

// Address bits from 6 on: so many of columns, of banks and of rows.
inline Dram small_dram(unsigned columns, unsigned banks, unsigned rows, RowPolicy policy) {
    DramConfig config;
    config.map.offset_bits = 6;
    unsigned bit = 6;
    for (; columns > 0; --columns) config.map.column.push_back(1ull << bit++);
    for (; banks > 0; --banks) config.map.bank.push_back(1ull << bit++);
    for (; rows > 0; --rows) config.map.row.push_back(1ull << bit++);
    const auto ns = [](std::int64_t n) { return Picoseconds(n * 1000); };
    DramTimings& t = config.timings;
    t.tCK = ns(1), t.burst = ns(4), t.CL = ns(14), t.CWL = ns(12), t.tRCD = ns(14), t.tRP = ns(14);
    t.tRAS = ns(32), t.tRC = ns(46), t.tRRD_S = t.tRRD_L = ns(5), t.tFAW = ns(21);
    t.tCCD_S = t.tCCD_L = t.tCCD_L_WR = ns(4), t.tWTR_S = t.tWTR_L = ns(8), t.tRTW = ns(2);
    t.tRTRS = ns(1), t.tRTP = ns(8), t.tWR = ns(15), t.tREFI = ns(7800), t.tRFC = ns(260);
    config.policy = policy;
    config.window = 8;
    config.outstanding = 4;
    return Dram(config);
}

}  // namespace pagelens::reference
