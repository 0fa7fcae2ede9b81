// A set-associative, write-back, write-allocate LRU cache, line by line: what a program is compiled
// with. (The L2s of a node, for many ranks at a time: lru_bank.hpp. Caches above and below each
// other, and of other replacement: cache_hierarchy.hpp.)
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>

#include "core/machine/cache_rows.hpp"

namespace pagelens {

struct CacheAccess {
    bool hit = false;
    bool victim_valid = false;  // a line was pushed out ...
    bool victim_dirty = false;  // ... and it has to be written to the level below
    std::uint64_t victim = 0;   // its line number, when victim_valid
};

class SetAssociativeCache {
  public:
    // `sets` is a power of two; 1 to CacheRows<false>::most_ways ways.
    SetAssociativeCache(std::uint32_t sets, std::uint32_t ways)
        : set_bits_(static_cast<unsigned>(std::countr_zero(sets))),
          rows_(sets, ways, Replacement::lru, std::array{std::uint64_t{0}}) {
        assert(std::has_single_bit(sets));
    }

    [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << set_bits_; }
    [[nodiscard]] std::uint32_t ways() const { return rows_.ways(); }

    // One access to `line` (an address / 64, virtual or physical as the cache is used).
    // Precondition: line / sets <= CacheRows<false>::most_tag; callers with sparse virtual
    // addresses number their pages densely.
    CacheAccess access(std::uint64_t line, bool write) {
        const std::uint64_t set = set_of(line);
        const auto row = rows_.row(set);
        std::uint32_t way = rows_.find(row, tag_of(line));
        if (way != CacheRows<false>::none) {
            rows_.use(row, way, write);
            return {true, false, false, 0};
        }
        const CacheRows<false>::Entry victim = rows_.fill(row, tag_of(line), write, way);
        return {false, victim.valid != 0, victim.dirty != 0, victim.tag << set_bits_ | set};
    }

    // Makes `line` the most recent of its set, if it is there.
    void renew(std::uint64_t line) {
        const auto row = rows_.row(set_of(line));
        const std::uint32_t way = rows_.find(row, tag_of(line));
        if (way != CacheRows<false>::none) rows_.use(row, way, false);
    }

    // Takes `line` out, if it is there; true if it was dirty.
    bool remove(std::uint64_t line) {
        const auto row = rows_.row(set_of(line));
        const std::uint32_t way = rows_.find(row, tag_of(line));
        return way != CacheRows<false>::none && rows_.remove(row, way);
    }

  private:
    [[nodiscard]] std::uint64_t set_of(std::uint64_t line) const { return line & (sets() - 1); }
    [[nodiscard]] std::uint32_t tag_of(std::uint64_t line) const {
        assert(line >> set_bits_ <= CacheRows<false>::most_tag);
        return static_cast<std::uint32_t>(line >> set_bits_);
    }

    unsigned set_bits_;
    CacheRows<false> rows_;
};

}  // namespace pagelens
