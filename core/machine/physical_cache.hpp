// A cache of a hierarchy, found by physical line: one of its own, or slices that a hash of the
// address selects; set-associative, or fully associative as the ideal twin.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/machine/cache_model.hpp"
#include "core/machine/cache_rows.hpp"
#include "core/machine/fully_associative_lines.hpp"

namespace pagelens {

inline bool is_plain(const CacheGeometry& its) {
    return its.ways <= CacheRows<true>::most_ways && its.replacement == Replacement::lru &&
           !its.fully_associative;
}

template <bool plain>  // as CacheRows, and not fully associative
class PhysicalCache {
  public:
    // Where a line lies, as long as nothing is filled or removed.
    struct Spot {
        std::size_t row = 0;
        std::uint32_t way = CacheRows<plain>::none;
        explicit operator bool() const { return way != CacheRows<plain>::none; }
    };
    using Victim = FullyAssociativeLines::Entry;

    PhysicalCache(const CacheGeometry& geometry, std::uint32_t slices, std::uint64_t seed)
        : set_bits_(static_cast<unsigned>(std::countr_zero(geometry.sets))),
          set_mask_(geometry.sets - 1),
          rows_(geometry.fully_associative ? 1 : std::size_t{geometry.sets} * slices,
                geometry.fully_associative ? 1 : geometry.ways, geometry.replacement, seed) {
        if (geometry.fully_associative) {
            ideal_.emplace(static_cast<std::uint32_t>(geometry.lines() * slices),
                           geometry.replacement, seed);
        }
    }

    [[nodiscard, gnu::always_inline]] Spot find(std::uint64_t line, std::uint32_t slice) const {
        if (is_ideal()) return {0, ideal_->find(line)};
        const std::size_t row = row_of(line, slice);
        return {row, rows_.find(row, tag_of(line))};
    }
    [[nodiscard]] bool dirty(Spot spot) const {
        return is_ideal() ? ideal_->dirty(spot.way) : rows_.dirty(spot.row, spot.way);
    }
    void use(Spot spot, bool dirty) {
        if (is_ideal()) return ideal_->use(spot.way, dirty);
        rows_.use(spot.row, spot.way, dirty);
    }
    void clean(Spot spot) {
        is_ideal() ? ideal_->clean(spot.way) : rows_.clean(spot.row, spot.way);
    }
    // True if it was dirty.
    bool remove(Spot spot) {
        return is_ideal() ? ideal_->remove(spot.way) : rows_.remove(spot.row, spot.way);
    }
    // Puts in a line that is not there, at the spot where it was not found; what it pushed out.
    [[gnu::always_inline]] Victim fill(Spot spot, std::uint64_t line, bool dirty) {
        if (is_ideal()) return ideal_->fill(line, dirty);
        const auto out = rows_.fill(spot.row, tag_of(line), dirty, spot.way);
        return {line_of(out.tag, line), out.valid, out.dirty};
    }

    [[gnu::always_inline]] void prefetch(std::uint64_t line, std::uint32_t slice) const {
        is_ideal() ? ideal_->prefetch(line) : rows_.prefetch(row_of(line, slice));
    }
    // What filling `line` may push out: a hint.
    [[nodiscard]] Victim likely_victim(std::uint64_t line, std::uint32_t slice) const {
        const auto out = rows_.likely_victim(is_ideal() ? 0 : row_of(line, slice));
        return {line_of(out.tag, line), out.valid, out.dirty};
    }

  private:
    [[nodiscard]] bool is_ideal() const { return !plain && ideal_.has_value(); }
    [[nodiscard]] std::uint64_t set_of(std::uint64_t line) const { return line & set_mask_; }
    [[nodiscard]] std::size_t row_of(std::uint64_t line, std::uint32_t slice) const {
        return std::size_t{slice} << set_bits_ | set_of(line);
    }
    [[nodiscard]] std::uint32_t tag_of(std::uint64_t line) const {
        return static_cast<std::uint32_t>(line >> set_bits_);
    }
    // The line of a tag that lies in the same set as `neighbour`.
    [[nodiscard]] std::uint64_t line_of(std::uint32_t tag, std::uint64_t neighbour) const {
        return std::uint64_t{tag} << set_bits_ | set_of(neighbour);
    }

    unsigned set_bits_;
    std::uint64_t set_mask_;
    CacheRows<plain> rows_;
    std::optional<FullyAssociativeLines> ideal_;  // then `rows_` is not used
};

}  // namespace pagelens
