// The directory of the lines that private caches hold: which of them hold which line.
//
// As in Intel's processors since Skylake-SP, slices x sets x ways that a line finds as it finds its
// L3 slice. It is inclusive: a line that has no entry is in no private cache, so when an entry goes
// to make room, the line has to leave the caches that hold it (J. D. McCalpin, HPL and DGEMM
// performance variability on Intel Xeon Platinum 8160 processors, SC18). Unlimited, it is the ideal
// twin, and what a processor has that asks all caches on every miss.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/machine/cache_rows.hpp"
#include "core/machine/held_lines.hpp"
#include "core/machine/line_table.hpp"

namespace pagelens {

// A bit for each private cache.
using Holders = std::uint64_t;
inline constexpr std::uint32_t most_holders = 64;

template <bool plain>  // as CacheRows
class SnoopFilter {
  public:
    struct Evicted {
        std::uint64_t line = 0;
        Holders holders = 0;  // none: nothing was evicted
    };

    // `sets`, a power of two, is that of a slice. There are so many private `caches`, which hold at
    // most `lines` together. The replacement policy gets `seed`.
    SnoopFilter(std::uint32_t slices, std::uint32_t sets, std::uint32_t ways,
                Replacement replacement, std::uint64_t seed, std::uint32_t caches,
                std::size_t lines)
        : set_bits_(static_cast<unsigned>(std::countr_zero(sets))),
          set_mask_(sets - 1),
          wide_(caches > 32),
          shape_{std::size_t{slices} * sets, ways, replacement, seed} {
        const bool few_held = shape_.sets * ways >= sparse * lines &&
                              caches <= HeldLines::most_holders && slices <= HeldLines::most_slices;
        if (few_held && replacement == replacement_by<Lru>) {
            few_.emplace(shape_.sets, ways, lines);
        } else {
            make_rows();
        }
    }
    // Unlimited: for the `lines` that so many private `caches` hold together.
    SnoopFilter(std::uint32_t caches, std::size_t lines) : unlimited_(true) {
        if (caches <= PackedCell::bits) {
            packed_.emplace(lines + 1);
        } else {
            table_.emplace(lines + 1);
        }
    }

    // Private cache `holder` gets a line, or writes to it: its entry, a new one if need be, which
    // may evict another. The holders before.
    Holders request(std::uint64_t line, std::uint32_t slice, std::uint32_t holder, bool alone,
                    Evicted& evicted) {
        if (few_) {
            const auto before = few_->request(line, slice, set_of(line, slice), holder, alone);
            if (before) return *before;
            fill_rows();
        }
        const Place place = entry(line, slice, evicted);
        const Holders before = holders_at(place);
        hold(place, (alone ? 0 : before) | bit(holder));
        return before;
    }
    // `holder` no longer has the line; who still has it.
    Holders leave(std::uint64_t line, std::uint32_t slice, std::uint32_t holder) {
        if (few_) return few_->take(line, set_of(line, slice), bit(holder)).after;
        const Place place = find(line, slice);
        if (!place) return 0;
        const Holders left = holders_at(place) & ~bit(holder);
        left == 0 ? remove(line, place) : hold(place, left);
        return left;
    }
    // Forgets a line; who held it.
    Holders remove(std::uint64_t line, std::uint32_t slice) {
        if (few_) return few_->take(line, set_of(line, slice), ~Holders{0}).before;
        const Place place = find(line, slice);
        if (!place) return 0;
        const Holders held = holders_at(place);
        remove(line, place);
        return held;
    }

    [[gnu::always_inline]] void prefetch(std::uint64_t line, std::uint32_t slice) const {
        if (unlimited_) return packed_ ? packed_->prefetch(line) : table_->prefetch(line);
        if (few_) return few_->prefetch(line);
        rows_->prefetch(row_of(line, slice));
    }

  private:
    using Rows = CacheRows<plain>;
    // The place of an entry: a way of a row, or a word of the table.
    struct Place {
        typename Rows::Row row;
        std::uint32_t way = Rows::none;
        std::uint64_t* in_table = nullptr;
        explicit operator bool() const { return way != Rows::none || in_table != nullptr; }
    };
    struct Shape {
        std::size_t sets = 0;  // of all slices
        std::uint32_t ways = 0;
        Replacement replacement = replacement_by<Lru>;
        std::uint64_t seed = 0;
    };
    static constexpr std::size_t sparse = 8;  // entries for each line that can be held

    static Holders bit(std::uint32_t holder) { return Holders{1} << holder; }
    [[nodiscard, gnu::always_inline]] std::size_t set_of(std::uint64_t line,
                                                         std::uint32_t slice) const {
        return std::size_t{slice} << set_bits_ | (line & set_mask_);
    }
    [[nodiscard, gnu::always_inline]] typename Rows::Row row_of(std::uint64_t line,
                                                                std::uint32_t slice) const {
        return rows_->row(set_of(line, slice));
    }
    [[nodiscard]] Holders holders_at(const Place& place) const {
        if (place.in_table != nullptr)
            return *place.in_table & (packed_ ? PackedCell::mask : ~0ull);
        return wide_ ? rows_->template beside<std::uint64_t>(place.row, place.way)
                     : rows_->template beside<std::uint32_t>(place.row, place.way);
    }
    void hold(const Place& place, Holders holders) {
        if (place.in_table != nullptr) {
            *place.in_table ^= holders_at(place) ^ holders;
        } else if (wide_) {
            rows_->template beside<std::uint64_t>(place.row, place.way) = holders;
        } else {
            rows_->template beside<std::uint32_t>(place.row, place.way) =
                static_cast<std::uint32_t>(holders);
        }
    }
    [[nodiscard]] std::uint32_t tag_of(std::uint64_t line) const {
        return static_cast<std::uint32_t>(line >> set_bits_);
    }

    // Up to 32 caches fit words of 32 bits, and rows of 12 ways are then two cache lines of the
    // host instead of three.
    void make_rows() {
        rows_.emplace(shape_.sets, shape_.ways, shape_.replacement, std::array{shape_.seed},
                      wide_ ? sizeof(std::uint64_t) : sizeof(std::uint32_t));
    }
    // A set is full: from now on there are rows. Under LRU, they need to know no more than the
    // order of the last requests.
    [[gnu::noinline]] void fill_rows() {
        const auto entries = few_->entries();
        few_.reset();
        make_rows();
        for (const auto& [line, slice, holders] : entries) {
            Evicted none;
            hold(entry(line, slice, none), holders);
        }
    }
    Place entry(std::uint64_t line, std::uint32_t slice, Evicted& evicted) {
        if (unlimited_) return {{}, Rows::none, packed_ ? &packed_->at(line) : &table_->at(line)};
        Place place = find(line, slice);
        if (place) {
            rows_->use(place.row, place.way, false);
            return place;
        }
        const auto out = rows_->fill(place.row, tag_of(line), false, place.way);
        if (out.valid) evicted = {out.tag << set_bits_ | (line & set_mask_), holders_at(place)};
        hold(place, 0);
        return place;
    }
    [[nodiscard]] Place find(std::uint64_t line, std::uint32_t slice) {
        if (unlimited_) return {{}, Rows::none, packed_ ? packed_->find(line) : table_->find(line)};
        const auto row = row_of(line, slice);
        return {row, rows_->find(row, tag_of(line))};
    }
    void remove(std::uint64_t line, const Place& place) {
        if (unlimited_) {
            packed_ ? packed_->remove(line) : table_->remove(line);
        } else {
            rows_->remove(place.row, place.way);
        }
    }

    unsigned set_bits_ = 0;
    std::uint64_t set_mask_ = 0;
    bool wide_ = false;  // words of 64 bits
    Shape shape_;
    std::optional<HeldLines> few_;  // then there are no rows
    std::optional<Rows> rows_;
    bool unlimited_ = false;
    // One of these, of an unlimited one: the holders of each line.
    std::optional<LineTableOf<PackedCell>> packed_;
    std::optional<LineTable> table_;
};

}  // namespace pagelens
