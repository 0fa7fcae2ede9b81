// The rows of a set-associative LRU cache, up to 16 ways, for several lines of one page at a time.
// The versions give equal results (a test holds it); the best one that the host runs is chosen
// once.
#pragma once

#include <cstdint>
#include <string_view>

namespace pagelens {

inline constexpr std::uint32_t lru_row = 16;  // entries of a row: one cache line of the host
inline constexpr std::uint32_t lru_dirty = 1u << 31;
inline constexpr std::uint32_t lru_tag = lru_dirty - 1;

struct LruResult {
    std::uint64_t missed;  // mask of lines
    std::uint64_t dirty;   // of these, those whose victim was dirty
};

// `rows`: 64 rows, one a line of the page, entries in order of recency. `entry`: tag + 1, with
// lru_dirty for a write. `evicted`: 64 entries, written where result.dirty. The word before the
// first row must be readable.
using LruKernel = LruResult (*)(std::uint32_t* rows, unsigned ways, std::uint64_t lines,
                                std::uint32_t entry, std::uint32_t* evicted);

LruKernel lru_kernel();  // the fastest on this host
LruKernel lru_kernel(
    std::string_view version);  // "scalar", "avx2", "avx512"; null if it cannot run

}  // namespace pagelens
