// Caches of a hierarchy, found by physical line: one whose slices a hash of the address selects, or
// those of all cores of one level; set-associative, or fully associative as the ideal twin.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/cache_model.hpp"
#include "core/machine/cache_rows.hpp"
#include "core/machine/fully_associative_lines.hpp"

namespace pagelens {

inline bool is_plain(const CacheGeometry& its) {
    return its.ways <= CacheRows<true>::most_ways && its.replacement == replacement_by<Lru> &&
           !its.fully_associative;
}

template <bool plain>  // as CacheRows, and not fully associative
class PhysicalCache {
    using Rows = CacheRows<plain>;

  public:
    // The place of a line, as long as nothing is filled or removed.
    struct Spot {
        typename Rows::Row row;
        std::uint32_t way = Rows::none;
        std::uint32_t part = 0;
        explicit operator bool() const { return way != Rows::none; }
    };
    using Entry = FullyAssociativeLines::Entry;

    // Has `parts` parts. With one seed they are the slices of one cache, else as many caches as
    // seeds. With `beside`, each line has a word beside it.
    PhysicalCache(const CacheGeometry& geometry, std::uint32_t parts,
                  std::span<const std::uint64_t> seeds, bool beside)
        : set_bits_(static_cast<unsigned>(std::countr_zero(geometry.sets))),
          set_mask_(geometry.sets - 1),
          rows_(geometry.fully_associative ? seeds.size() : std::size_t{geometry.sets} * parts,
                geometry.fully_associative ? 1 : geometry.ways, geometry.replacement, seeds,
                beside ? sizeof(std::uint8_t) : 0) {
        if (!geometry.fully_associative) return;
        for (const std::uint64_t seed : seeds)
            ideals_.emplace_back(
                static_cast<std::uint32_t>(geometry.lines() * parts / seeds.size()),
                geometry.replacement, seed);
    }

    [[nodiscard, gnu::always_inline]] Spot find(std::uint64_t line, std::uint32_t part) const {
        if (is_ideal()) return {{}, ideal(part).find(line), part};
        const auto row = row_of(line, part);
        return {row, rows_.find(row, tag_of(line)), part};
    }
    [[nodiscard]] bool dirty(Spot spot) const {
        return is_ideal() ? ideal(spot.part).dirty(spot.way) : rows_.dirty(spot.row, spot.way);
    }
    [[gnu::always_inline]] void use(Spot spot, bool dirty) {
        if (is_ideal()) return ideal(spot.part).use(spot.way, dirty);
        rows_.use(spot.row, spot.way, dirty);
    }
    void clean(Spot spot) {
        is_ideal() ? ideal(spot.part).clean(spot.way) : rows_.clean(spot.row, spot.way);
    }
    // Removes a line. Returns true if it was dirty.
    bool remove(Spot spot) {
        return is_ideal() ? ideal(spot.part).remove(spot.way) : rows_.remove(spot.row, spot.way);
    }
    // Puts in a line that is not there, where it was not found: `spot` is its own from now on.
    // Returns what it pushed out, whose word is still beside.
    [[gnu::always_inline]] Entry fill(Spot& spot, std::uint64_t line, bool dirty) {
        if (is_ideal()) return ideal(spot.part).fill(line, dirty, spot.way);
        const auto out = rows_.fill(spot.row, tag_of(line), dirty, spot.way);
        return {line_of(out.tag, line), out.valid, out.dirty};
    }
    // Puts in a line that was not found at `spot`, as the one that was used longest ago, if there
    // is room, and sets `spot` to its place. Precondition: nothing else has been done to its set.
    [[gnu::always_inline]] void append(Spot& spot, std::uint64_t line, bool dirty) {
        spot.way = is_ideal() ? ideal(spot.part).append(line, dirty)
                              : rows_.append(spot.row, tag_of(line), dirty);
    }
    // Returns the word beside a line. Whoever fills the line writes it.
    [[nodiscard]] std::uint8_t& beside(Spot spot) {
        return is_ideal() ? ideal(spot.part).beside(spot.way)
                          : rows_.template beside<std::uint8_t>(spot.row, spot.way);
    }

    [[gnu::always_inline]] void prefetch(std::uint64_t line, std::uint32_t part) const {
        is_ideal() ? ideal(part).prefetch(line) : rows_.prefetch(row_of(line, part));
    }
    // Returns what filling a line that was not found at `spot` may push out, and sets `spot` to its
    // place. This is a hint.
    [[nodiscard, gnu::always_inline]] Entry likely_victim(Spot& spot, std::uint64_t line) const {
        if (is_ideal()) return {};
        spot.way = rows_.likely_way(spot.row);
        const auto out = rows_.entry(spot.row, spot.way);
        return {line_of(out.tag, line), out.valid, out.dirty};
    }

  private:
    [[nodiscard]] bool is_ideal() const { return !plain && !ideals_.empty(); }
    [[nodiscard]] const FullyAssociativeLines& ideal(std::uint32_t part) const {
        return ideals_[ideals_.size() == 1 ? 0 : part];
    }
    [[nodiscard]] FullyAssociativeLines& ideal(std::uint32_t part) {
        return ideals_[ideals_.size() == 1 ? 0 : part];
    }
    [[nodiscard]] std::uint64_t set_of(std::uint64_t line) const { return line & set_mask_; }
    [[nodiscard, gnu::always_inline]] typename Rows::Row row_of(std::uint64_t line,
                                                                std::uint32_t part) const {
        return rows_.row(std::size_t{part} << set_bits_ | set_of(line));
    }
    [[nodiscard]] std::uint32_t tag_of(std::uint64_t line) const {
        return static_cast<std::uint32_t>(line >> set_bits_);
    }
    // Returns the line of a tag that lies in the same set as `neighbour`.
    [[nodiscard]] std::uint64_t line_of(std::uint64_t tag, std::uint64_t neighbour) const {
        return tag << set_bits_ | set_of(neighbour);
    }

    unsigned set_bits_;
    std::uint64_t set_mask_;
    Rows rows_;
    std::vector<FullyAssociativeLines> ideals_;  // then `rows_` is not used
};

}  // namespace pagelens
