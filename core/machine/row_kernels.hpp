// One operation on the 64 lines of a page: look up, move to front, fill. The versions (scalar,
// AVX2, AVX-512BW) give equal results (a test holds it); the best one that the host runs is chosen
// once.
#pragma once

#include <cstdint>
#include <string_view>

namespace pagelens {

inline constexpr unsigned most_ways = 16;
inline constexpr std::uint8_t row_dirty = 0x80;
inline constexpr std::uint8_t row_tag = 0x7f;

// Masks of lines: missed, of these those that pushed a line out, of these those whose victim was
// dirty.
struct RowResult {
    std::uint64_t missed, victims, dirty;
};

// `row`: ways x 64 bytes, most recent way first. `lines`: which are accessed. `entry`: tag + 1,
// with row_dirty for a write. `evicted`: 64 bytes, written where result.victims.
using RowKernel = RowResult (*)(std::uint8_t* row, unsigned ways, std::uint64_t lines,
                                std::uint8_t entry, std::uint8_t* evicted);

RowKernel row_kernel();  // the fastest on this host
RowKernel row_kernel(
    std::string_view version);  // "scalar", "avx2", "avx512"; null if it cannot run

}  // namespace pagelens
