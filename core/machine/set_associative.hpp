// A set-associative, write-back, write-allocate LRU cache, line by line: what a program is compiled
// with. (The L2s of a node, for many ranks at a time: lru_bank.hpp. Caches above and below each
// other, and of other replacement: cache_hierarchy.hpp.)
#pragma once

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
          rows_(sets, ways, Replacement::lru, 0) {
        assert(std::has_single_bit(sets));
    }

    [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << set_bits_; }
    [[nodiscard]] std::uint32_t ways() const { return rows_.ways(); }

    // One access to `line` (an address / 64, virtual or physical as the cache is used).
    // Precondition: line / sets <= CacheRows<false>::most_tag; callers with sparse virtual
    // addresses number their pages densely.
    CacheAccess access(std::uint64_t line, bool write) {
        const std::uint64_t set = line & (sets() - 1);
        std::uint32_t way = rows_.find(set, tag_of(line));
        if (way != CacheRows<false>::none) {
            rows_.use(set, way, write);
            return {true, false, false, 0};
        }
        const CacheRows<false>::Entry victim = rows_.fill(set, tag_of(line), write, way);
        return {false, victim.valid, victim.dirty, std::uint64_t{victim.tag} << set_bits_ | set};
    }

    // Makes `line` the most recent of its set, if it is there.
    void renew(std::uint64_t line) {
        const std::uint64_t set = line & (sets() - 1);
        const std::uint32_t way = rows_.find(set, tag_of(line));
        if (way != CacheRows<false>::none) rows_.use(set, way, false);
    }

    // Takes `line` out, if it is there; true if it was dirty.
    bool remove(std::uint64_t line) {
        const std::uint64_t set = line & (sets() - 1);
        const std::uint32_t way = rows_.find(set, tag_of(line));
        return way != CacheRows<false>::none && rows_.remove(set, way);
    }

  private:
    [[nodiscard]] std::uint32_t tag_of(std::uint64_t line) const {
        assert(line >> set_bits_ <= CacheRows<false>::most_tag);
        return static_cast<std::uint32_t>(line >> set_bits_);
    }

    unsigned set_bits_;
    CacheRows<false> rows_;
};

}  // namespace pagelens
