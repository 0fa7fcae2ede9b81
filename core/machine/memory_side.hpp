// A memory-side cache: direct-mapped (one way, as on KNL and Xeon Max) or W-way LRU.
//
// One byte holds a line: a 7-bit tag, 0 for empty, and the dirty flag on top. The 64 lines of a
// page lie together in one cache line of the host, its ways one row below the other in order of
// recency, so a run of lines of one page is one vector operation a way (kernels: row_kernels.hpp).
// Lines of different pages never share a byte, so the order *within* a run does not matter.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>

#include "core/machine/huge_array.hpp"
#include "core/machine/row_kernels.hpp"

namespace pagelens {

// The counts of lines. `misses` are also fills.
struct CacheCounts {
    std::uint64_t accesses = 0;
    std::uint64_t misses = 0;
    std::uint64_t write_backs = 0;  // dirty victims

    [[nodiscard]] std::uint64_t hits() const { return accesses - misses; }
    void add(std::uint64_t lines, const RowResult& result) {
        accesses += static_cast<unsigned>(std::popcount(lines));
        if (result.missed == 0) return;
        misses += static_cast<unsigned>(std::popcount(result.missed));
        write_backs += static_cast<unsigned>(std::popcount(result.dirty));
    }
    friend bool operator==(const CacheCounts&, const CacheCounts&) = default;
};

class MemorySideCache {
  public:
    static constexpr unsigned most_tags = 126;  // of one set: tag 0 is "empty", a byte has 7 bits

    // Has `sets` pages' worth of sets: frame f lies in set f mod sets, with tag f / sets. About
    // `touched` frames are going to be used, or any number.
    MemorySideCache(std::uint32_t sets, unsigned ways, std::size_t touched = HugeArray::any)
        : sets_(sets),
          ways_(ways),
          set_bits_(std::has_single_bit(sets) ? static_cast<unsigned>(std::countr_zero(sets)) : 0),
          rows_(std::size_t{sets} * ways * 64, touched) {
        assert(ways >= 1 && ways <= most_ways);
    }

    // The place of a frame. A division takes longer than the rest of access_line().
    struct Place {
        std::uint32_t set;
        unsigned tag;
    };
    [[nodiscard]] Place place_of(std::uint32_t frame) const {
        if (set_bits_ != 0) return {frame & (sets_ - 1), frame >> set_bits_};
        return {frame % sets_, frame / sets_};
    }

    [[nodiscard]] std::uint32_t sets() const { return sets_; }
    [[nodiscard]] unsigned ways() const { return ways_; }

    // Reads or writes some lines of one page; a miss fills (write-allocate). What the missed lines
    // pushed out can be asked for until the next access.
    // Precondition: set < sets(), tag < most_tags.
    RowResult access(std::uint32_t set, unsigned tag, std::uint64_t lines, bool write) {
        assert(set < sets_ && tag < most_tags);
        const auto entry = static_cast<std::uint8_t>((tag + 1) | (write ? row_dirty : 0));
        return kernel_(rows_.data() + std::size_t{set} * ways_ * 64, ways_, lines, entry, evicted_);
    }

    // The result for one line. victims() is not called after it.
    struct LineResult {
        bool missed, victim_valid, victim_dirty;
    };
    // Does the same for one line of the page.
    LineResult access_line(std::uint32_t set, unsigned tag, unsigned line, bool write) {
        if (ways_ > 1) {
            const RowResult result = access(set, tag, 1ull << line, write);
            const bool missed = result.missed != 0;
            return {missed, missed && victims() != 0, missed && result.dirty != 0};
        }
        assert(set < sets_ && tag < most_tags);
        std::uint8_t& held = rows_.data()[std::size_t{set} * 64 + line];
        const unsigned old = held;
        const bool missed = (old & row_tag) != tag + 1;
        const unsigned still_dirty = missed ? 0 : old & row_dirty;
        held = static_cast<std::uint8_t>((tag + 1) | (write ? row_dirty : 0u) | still_dirty);
        return {missed, missed && (old & row_tag) != 0, missed && (old & row_dirty) != 0};
    }

    // Returns which of the lines missed last pushed a line out. Precondition: some missed.
    [[nodiscard]] std::uint64_t victims() const { return evicted_.lines; }
    // Returns the tag of what a line of victims() pushed out.
    [[nodiscard]] unsigned victim_tag(int line) const {
        return (evicted_.entry[line] & row_tag) - 1u;
    }
    // Returns which of the lines in `among` (not empty, a part of victims()) have a victim with the
    // tag of the lowest line's victim.
    [[nodiscard]] std::uint64_t same_victim(std::uint64_t among) const {
        const unsigned first = victim_tag(std::countr_zero(among));
        std::uint64_t same = 0;
        for (std::uint64_t rest = among; rest != 0; rest &= rest - 1) {
            const int line = std::countr_zero(rest);
            if (victim_tag(line) == first) same |= 1ull << line;
        }
        return same;
    }

    void prefetch(std::uint32_t set) const {
        __builtin_prefetch(rows_.data() + std::size_t{set} * ways_ * 64, 1);
    }

    // The bytes, for the line-by-line path.
    [[nodiscard]] std::uint8_t* rows() { return rows_.data(); }

  private:
    std::uint32_t sets_;
    unsigned ways_;
    unsigned set_bits_;  // 0: the sets are no power of two, or one
    HugeArray rows_;
    RowKernel kernel_ = row_kernel();
    Evicted evicted_{};
};

// Takes streams that are not page runs line by line through a direct-mapped cache. Copies of its
// fields live in registers; the counts are read when the pass is over.
class DirectMappedLines {
  public:
    // Precondition: one way, and the number of sets is a power of two.
    explicit DirectMappedLines(MemorySideCache& cache)
        : rows_(cache.rows()),
          mask_(std::uint64_t{cache.sets()} * 64 - 1),
          shift_(static_cast<unsigned>(std::countr_one(mask_))) {
        assert(cache.ways() == 1 && std::has_single_bit(cache.sets()));
    }

    // `line` is a physical address / 64.
    void access(std::uint64_t line, bool write) {
        std::uint8_t& slot = rows_[line & mask_];
        const unsigned old = slot;
        const auto entry = static_cast<unsigned>(line >> shift_) + 1;
        const unsigned hit = (old & row_tag) == entry ? 1 : 0;
        const unsigned old_dirty = old & row_dirty;
        slot = static_cast<std::uint8_t>(entry | (write ? row_dirty : 0u) | (hit ? old_dirty : 0u));
        ++accesses_;
        hits_ += hit;
        write_backs_ += hit ? 0 : old_dirty >> 7;
    }
    void prefetch(std::uint64_t line) const { __builtin_prefetch(rows_ + (line & mask_), 1); }

    [[nodiscard]] CacheCounts counts() const {
        return {accesses_, accesses_ - hits_, write_backs_};
    }

  private:
    std::uint8_t* rows_;
    std::uint64_t mask_;
    unsigned shift_;
    std::uint64_t accesses_ = 0, hits_ = 0, write_backs_ = 0;
};

}  // namespace pagelens
