// A set-associative, write-back, write-allocate LRU cache, line by line: what a program is compiled
// with. (The L2s of a node, for many ranks at a time: lru_bank.hpp.)
//
// A set is a row of 32-bit entries kept in recency order (most recent first): a hit moves its entry
// to the front, a miss pushes the last one out. An entry is tag + 1 with the dirty flag in the top
// bit; 0 is empty. The slow, obvious version that this one must equal is in
// tests/cpp/reference_caches.hpp.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

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
          stride_((ways + 3) / 4 * 4),
          rows_((std::size_t{sets} * stride_ + host_line - 1) / host_line) {
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
        for (; way >= 4; way -= 4) store(row + way - 3, load(row + way - 4));
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

  private:
    [[nodiscard]] std::uint32_t entry_of(std::uint64_t line) const {
        return static_cast<std::uint32_t>(line >> set_bits_) + 1;
    }
    // Four entries at a time; those beyond the ways are empty, as no line's entry is.
    std::uint32_t find(const std::uint32_t* row, std::uint32_t entry) const {
        const __m128i wanted = _mm_set1_epi32(static_cast<int>(entry));
        const __m128i tag_bits = _mm_set1_epi32(static_cast<int>(entry_tag));
        for (std::uint32_t way = 0; way < stride_; way += 4) {
            const __m128i same = _mm_cmpeq_epi32(_mm_and_si128(load(row + way), tag_bits), wanted);
            const auto found = static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(same)));
            if (found != 0) return way + static_cast<unsigned>(std::countr_zero(found));
        }
        return ways_;
    }
    static __m128i load(const std::uint32_t* from) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    }
    static void store(std::uint32_t* to, __m128i entries) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), entries);
    }

    std::uint32_t* row(std::uint64_t set) { return rows_.data()->data() + set * stride_; }

    static constexpr std::uint32_t dirty_bit = 1u << 31;
    static constexpr std::uint32_t entry_tag = dirty_bit - 1;

    // So that a row of 16 ways does not straddle two cache lines of the host.
    static constexpr std::size_t host_line = 16;  // entries
    struct alignas(64) HostLine : std::array<std::uint32_t, host_line> {};

    unsigned set_bits_;
    std::uint32_t ways_;
    std::uint32_t stride_;  // entries of a row: a multiple of 4
    std::vector<HostLine> rows_;
};

}  // namespace pagelens
