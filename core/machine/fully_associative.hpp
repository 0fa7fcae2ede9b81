// The ideal twin of a memory-side cache: any line may lie anywhere, so nothing conflicts.
//
// Replacement is random: LRU would lose every line of a cyclic sweep that is a little larger than
// the cache, which no conflict-free cache of that size has to (docs/decisions/ideal-twin.md). While
// the footprint fits, nothing is ever replaced.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/machine/huge_array.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

class FullyAssociativeCache {
  public:
    struct Result {
        std::uint64_t missed;
        unsigned write_backs;
    };

    // Takes pages numbered 0 .. pages-1 (at most 2^26), and has room for `lines` > 0 lines. About
    // `touched` pages are going to be used, or any number.
    FullyAssociativeCache(std::uint32_t pages, std::uint32_t lines, Random random,
                          std::size_t touched = HugeArray::any)
        : state_(pages, touched), capacity_(lines), random_(random) {}

    Result access(std::uint32_t page, std::uint64_t lines, bool write) {
        Result result{lines & ~state_[page].resident, 0};
        if (write) state_[page].dirty |= lines & state_[page].resident;
        for (std::uint64_t rest = result.missed; rest != 0; rest &= rest - 1) {
            const auto line = static_cast<std::uint32_t>(std::countr_zero(rest));
            result.write_backs += fill(page << 6 | line, write);
        }
        return result;
    }

    void prefetch(std::uint32_t page) const { __builtin_prefetch(&state_[page], 1); }

  private:
    struct Page {
        std::uint64_t resident = 0, dirty = 0;  // masks of lines
    };

    // Brings a line in. Returns 1 if that pushed out a dirty one, which may be one of the same run.
    unsigned fill(std::uint32_t line, bool write) {
        state_[line >> 6].resident |= 1ull << (line & 63);
        if (write) state_[line >> 6].dirty |= 1ull << (line & 63);
        if (held_.size() < capacity_) {
            held_.push_back(line);
            return 0;
        }
        std::uint32_t& place = held_[random_.below(capacity_)];
        Page& loser = state_[place >> 6];
        const std::uint64_t bit = 1ull << (place & 63);
        const unsigned dirty = (loser.dirty & bit) != 0 ? 1 : 0;
        loser.resident &= ~bit;
        loser.dirty &= ~bit;
        place = line;
        return dirty;
    }

    ZeroedArray<Page> state_;          // [page]
    std::vector<std::uint32_t> held_;  // page * 64 + line of every resident line
    std::uint32_t capacity_;
    Random random_;
};

}  // namespace pagelens
