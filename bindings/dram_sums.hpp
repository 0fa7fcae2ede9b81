// The counts of a DRAM in a replay, in order.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/replay/dram_sums.hpp"

namespace pagelens {

inline constexpr std::array<std::string_view, 8> dram_sum_names = {
    "reads",         "writes",    "row_hits", "row_misses",
    "row_conflicts", "refreshes", "time_ps",  "read_latency_ps"};

inline std::array<std::uint64_t, dram_sum_names.size()> values_of(const DramSums& sums) {
    return {sums.reads,
            sums.writes,
            sums.row_hits,
            sums.row_misses,
            sums.row_conflicts,
            sums.refreshes,
            static_cast<std::uint64_t>(sums.time.raw()),
            static_cast<std::uint64_t>(sums.read_latency.raw())};
}

}  // namespace pagelens
