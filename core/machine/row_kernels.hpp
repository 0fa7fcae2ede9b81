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

// Masks of lines: missed, and of these those that pushed out a dirty line.
struct RowResult {
    std::uint64_t missed, dirty;
};

// What the lines missed last pushed out.
struct Evicted {
    alignas(64) std::uint8_t entry[64];  // [line] tag + 1 and row_dirty, for the lines in `lines`
    std::uint64_t lines;                 // of RowResult::missed, those whose place was not empty
};

// `row`: ways x 64 bytes, most recent way first. `lines`: which are accessed. `entry`: tag + 1,
// with row_dirty for a write. `evicted` is written if anything missed.
using RowKernel = RowResult (*)(std::uint8_t* row, unsigned ways, std::uint64_t lines,
                                std::uint8_t entry, Evicted& evicted);

RowKernel row_kernel();  // the fastest on this host
RowKernel row_kernel(
    std::string_view version);  // "scalar", "avx2", "avx512"; null if it cannot run

}  // namespace pagelens
