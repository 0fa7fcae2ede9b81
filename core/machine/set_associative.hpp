// A set-associative, write-back, write-allocate LRU cache, which is accessed line by line. Programs
// are compiled with it. lru_bank.hpp has the L2s of a node for many ranks at a time, and
// cache_hierarchy.hpp has several levels of caches and other replacement policies.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <variant>

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
    static constexpr std::uint32_t most_ways = CacheRows<false>::most_ways;
    static constexpr std::uint32_t most_tag = CacheRows<false>::most_tag;

    // `sets` is a power of two; 1 to most_ways ways.
    SetAssociativeCache(std::uint32_t sets, std::uint32_t ways)
        : set_bits_(static_cast<unsigned>(std::countr_zero(sets))), rows_(make(sets, ways)) {
        assert(std::has_single_bit(sets));
    }

    [[nodiscard]] std::uint32_t sets() const { return std::uint32_t{1} << set_bits_; }
    [[nodiscard]] std::uint32_t ways() const {
        return std::visit([](const auto& rows) { return rows.ways(); }, rows_);
    }

    // One access to `line` (an address / 64, virtual or physical as the cache is used).
    // Precondition: line / sets <= most_tag; callers with sparse virtual addresses number their
    // pages densely.
    CacheAccess access(std::uint64_t line, bool write) {
        const auto in = [&]<class Rows>(Rows& rows) __attribute__((always_inline)) {
            const std::uint64_t set = set_of(line);
            const auto row = rows.row(set);
            std::uint32_t way = rows.find(row, tag_of(line));
            if (way != Rows::none) {
                rows.use(row, way, write);
                return CacheAccess{true, false, false, 0};
            }
            const auto victim = rows.fill(row, tag_of(line), write, way);
            return CacheAccess{false, victim.valid != 0, victim.dirty != 0,
                               victim.tag << set_bits_ | set};
        };
        if (Plain* const plain = std::get_if<Plain>(&rows_)) [[likely]]
            return in(*plain);
        return in(std::get<Other>(rows_));
    }

    // Fetches the line's set ahead of an access() that follows soon.
    void prefetch(std::uint64_t line) const {
        std::visit([&](const auto& rows) { rows.prefetch(rows.row(set_of(line))); }, rows_);
    }

    // Makes `line` the most recent of its set, if it is there.
    void renew(std::uint64_t line) {
        find_and(line, [](auto& rows, auto row, std::uint32_t way) {
            rows.use(row, way, false);
            return true;
        });
    }

    // Takes `line` out, if it is there; true if it was dirty.
    bool remove(std::uint64_t line) {
        return find_and(
            line, [](auto& rows, auto row, std::uint32_t way) { return rows.remove(row, way); });
    }

  private:
    using Plain = CacheRows<true>;
    using Other = CacheRows<false>;
    using Rows = std::variant<Plain, Other>;

    static Rows make(std::uint32_t sets, std::uint32_t ways) {
        const std::array no_draws{std::uint64_t{0}};
        if (ways <= Plain::most_ways) return Plain(sets, ways, replacement_by<Lru>, no_draws);
        return Other(sets, ways, replacement_by<Lru>, no_draws);
    }

    // Calls do_with(rows, row, way) for a line that is there; returns false if it is not.
    template <class Do>
    bool find_and(std::uint64_t line, Do&& do_with) {
        return std::visit(
            [&]<class Rows>(Rows& rows) {
                const auto row = rows.row(set_of(line));
                const std::uint32_t way = rows.find(row, tag_of(line));
                return way != Rows::none && do_with(rows, row, way);
            },
            rows_);
    }

    [[nodiscard]] std::uint64_t set_of(std::uint64_t line) const { return line & (sets() - 1); }
    [[nodiscard]] std::uint32_t tag_of(std::uint64_t line) const {
        assert(line >> set_bits_ <= most_tag);
        return static_cast<std::uint32_t>(line >> set_bits_);
    }

    unsigned set_bits_;
    Rows rows_;
};

}  // namespace pagelens
