// A set-associative, write-back, write-allocate LRU cache: L1, L2, and any cache of few megabytes.
//
// A set is a row of 32-bit entries kept in recency order (most recent first), 16 entries to one
// cache line of the host: a hit moves its entry to the front, a miss pushes the last one out.
// An entry is tag + 1 with the dirty flag in the top bit; 0 is empty. The slow, obvious version
// that this one must equal is in tests/cpp/reference_caches.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/machine/lru_kernels.hpp"

namespace pagelens {

struct CacheAccess {
    bool hit = false;
    bool victim_valid = false;  // a line was pushed out ...
    bool victim_dirty = false;  // ... and it has to be written to the level below
    std::uint64_t victim = 0;   // its line number, when victim_valid
};

class SetAssociativeCache {
  public:
    // `sets` is a power of two; `ways` at least 1.
    SetAssociativeCache(std::uint32_t sets, std::uint32_t ways)
        : set_bits_(static_cast<unsigned>(std::countr_zero(sets))),
          ways_(ways),
          stride_((ways + lru_row - 1) / lru_row * lru_row),
          rows_(std::size_t{sets} * stride_ + lru_row) {
        assert(std::has_single_bit(sets) && ways >= 1);
    }

    [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << set_bits_; }
    [[nodiscard]] std::uint32_t ways() const { return ways_; }

    // One access to `line` (an address / 64, virtual or physical as the cache is used).
    // Precondition: line / sets < 2^31 - 1; callers with sparse virtual addresses number their
    // pages densely.
    CacheAccess access(std::uint64_t line, bool write) {
        assert((line >> set_bits_) < entry_tag);
        const std::uint64_t set = line & (sets() - 1);
        const std::uint32_t entry = entry_of(line);
        std::uint32_t* row = this->row(set);
        std::uint32_t way = find(row, entry);
        CacheAccess result;
        result.hit = way < ways_;
        std::uint32_t dirty = write ? dirty_bit : 0;
        if (result.hit) {
            dirty |= row[way] & dirty_bit;
        } else {
            --way;
            const std::uint32_t victim = row[way];
            result.victim_valid = victim != 0;
            result.victim_dirty = (victim & dirty_bit) != 0;
            if (result.victim_valid) {
                result.victim = (std::uint64_t{(victim & entry_tag) - 1} << set_bits_) | set;
            }
        }
        for (; way > 0; --way) row[way] = row[way - 1];
        row[0] = entry | dirty;
        return result;
    }

    // Makes `line` the most recent of its set, if it is there.
    void renew(std::uint64_t line) {
        std::uint32_t* row = this->row(line & (sets() - 1));
        const std::uint32_t way = find(row, entry_of(line));
        if (way < ways_) std::rotate(row, row + way, row + way + 1);
    }

    // Takes `line` out, if it is there; true if it was dirty.
    bool remove(std::uint64_t line) {
        std::uint32_t* row = this->row(line & (sets() - 1));
        const std::uint32_t way = find(row, entry_of(line));
        if (way == ways_) return false;
        const bool dirty = (row[way] & dirty_bit) != 0;
        std::copy(row + way + 1, row + ways_, row + way);
        row[ways_ - 1] = 0;
        return dirty;
    }

    // Several lines of one page (line = page * 64 + 0..63), as access() in any order of the lines:
    // they lie in different sets. victim_page() tells where a dirty victim came from.
    // Preconditions: at least 64 sets, at most 16 ways.
    LruResult access_page(std::uint64_t page, std::uint64_t lines, bool write) {
        assert(set_bits_ >= 6 && ways_ <= lru_row);
        const std::uint64_t first_set = (page << 6) & (sets() - 1);
        const auto entry = static_cast<std::uint32_t>(page >> (set_bits_ - 6)) + 1;
        return kernel_(row(first_set), ways_, lines, entry | (write ? dirty_bit : 0), evicted_);
    }
    // The page of the dirty victim that `line` of `page` pushed out in the last access_page().
    [[nodiscard]] std::uint64_t victim_page(std::uint64_t page, int line) const {
        const std::uint64_t sets_of_pages = sets() >> 6;
        return ((evicted_[line] & entry_tag) - 1) * sets_of_pages + (page & (sets_of_pages - 1));
    }

  private:
    [[nodiscard]] std::uint32_t entry_of(std::uint64_t line) const {
        return static_cast<std::uint32_t>(line >> set_bits_) + 1;
    }
    std::uint32_t find(const std::uint32_t* row, std::uint32_t entry) const {
        std::uint32_t way = 0;
        while (way < ways_ && (row[way] & entry_tag) != entry) ++way;
        return way;
    }

    // Rows begin one row in: the AVX2 kernel reads the word before a row.
    std::uint32_t* row(std::uint64_t set) { return &rows_[lru_row + set * stride_]; }

    static constexpr std::uint32_t dirty_bit = lru_dirty;
    static constexpr std::uint32_t entry_tag = lru_tag;

    unsigned set_bits_;
    std::uint32_t ways_;
    std::uint32_t stride_;  // entries of a row: ways rounded up to whole cache lines of the host
    std::vector<std::uint32_t> rows_;
    LruKernel kernel_ = lru_kernel();
    std::uint32_t evicted_[64] = {};  // [line] the entry pushed out by the last access_page()
};

}  // namespace pagelens
