// The eight lines of a 64-set that were used last, for stage 2 of the filter (filter.hpp).
//
// A line keeps its slot. What moves at a use are one byte of its number and the byte of its slot,
// in a word that a shuffle reorders. A line's *rank* is its place in that word: 0 was used last. So
// no branch depends on the rank at which a line is found.
#pragma once

#include <nmmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace pagelens {

class LatestLines {
  public:
    static constexpr unsigned ways = 8;

    LatestLines() {
        for (unsigned slot = 0; slot < ways; ++slot) {
            order_[ways + slot] = static_cast<std::uint8_t>(slot);
            lines_[slot] = no_line;
        }
    }

    // Returns the line's rank, or `ways` if it is not among them or was dropped.
    [[gnu::always_inline]] [[nodiscard]] unsigned find(std::uint64_t line) const {
        const __m128i tag = _mm_set1_epi8(static_cast<char>(tag_of(line)));
        for (unsigned left = ranks(_mm_cmpeq_epi8(order(), tag)); left != 0; left &= left - 1) {
            const auto rank = static_cast<unsigned>(std::countr_zero(left));
            if (lines_[slot(rank)] == line) [[likely]]
                return rank;
        }
        return ways;
    }

    // Returns the ranks, as bits, of the lines that share a set of a larger cache with `line`: of
    // 2, 4 or 8 times as many sets. Dropped lines are among them.
    [[gnu::always_inline]] [[nodiscard]] unsigned sharing(std::uint64_t line,
                                                          unsigned times) const {
        const __m128i bits = _mm_set1_epi8(static_cast<char>(times - 1));
        const __m128i tag = _mm_set1_epi8(static_cast<char>(tag_of(line)));
        const __m128i apart = _mm_and_si128(_mm_xor_si128(order(), tag), bits);
        return ranks(_mm_cmpeq_epi8(apart, _mm_setzero_si128())) & ((1u << filled_) - 1);
    }

    // Whether, of the lines that are not dropped, one was told of before the one at `rank`.
    [[gnu::always_inline]] [[nodiscard]] bool is_told_before(unsigned rank) const {
        const __m128i time = _mm_set1_epi64x(static_cast<long long>(told(rank)));
        const auto before = [&](unsigned slot) {
            const auto* here = reinterpret_cast<const __m128i*>(told_.data() + slot);
            return _mm_cmpgt_epi64(time, _mm_load_si128(here));
        };
        const __m128i low = _mm_packs_epi32(before(0), before(2));
        const __m128i high = _mm_packs_epi32(before(4), before(6));
        return (ranks(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128())) & held_) !=
               0;
    }

    // Whether there is a line at `rank` that was not dropped.
    [[nodiscard]] bool is_held(unsigned rank) const { return (held_ >> slot(rank) & 1) != 0; }
    [[nodiscard]] std::uint64_t line(unsigned rank) const { return lines_[slot(rank)]; }
    // When the line last had an event.
    [[nodiscard]] std::uint64_t told(unsigned rank) const { return told_[slot(rank)]; }
    void tell(unsigned rank, std::uint64_t time) { told_[slot(rank)] = time; }
    // Every member has the line dirty, if it has it.
    [[nodiscard]] bool is_dirty(unsigned rank) const { return (dirty_ >> slot(rank) & 1) != 0; }
    void set_dirty(unsigned rank, bool is) {
        const unsigned bit = 1u << slot(rank);
        dirty_ = static_cast<std::uint8_t>(is ? dirty_ | bit : dirty_ & ~bit);
    }

    // Lets the line at `rank` be the one used last.
    [[gnu::always_inline]] void use(unsigned rank) { set_order(moved_to_front(rank)); }

    // Lets a line take the place of the last one. It is clean.
    [[gnu::always_inline]] void enter(std::uint64_t line) {
        set_order(_mm_insert_epi8(moved_to_front(ways - 1), static_cast<int>(tag_of(line)), 0));
        const unsigned at = slot(0);
        lines_[at] = line;
        held_ = static_cast<std::uint8_t>(held_ | 1u << at);
        set_dirty(0, false);
        filled_ = static_cast<std::uint8_t>(std::min(filled_ + 1u, ways));
    }

    // Drops the lines for which gone(line). They keep their ranks.
    template <class Gone>
    void drop_if(Gone gone) {
        for (unsigned left = held_; left != 0; left &= left - 1) {
            const auto at = static_cast<unsigned>(std::countr_zero(left));
            if (!gone(lines_[at])) continue;
            lines_[at] = no_line;
            held_ = static_cast<std::uint8_t>(held_ & ~(1u << at));
        }
    }

  private:
    static constexpr std::uint64_t no_line = ~std::uint64_t{0};
    using Order = std::array<std::uint8_t, 2 * ways>;  // tags by rank, then slots by rank

    // What moves the bytes of a rank to the front of both halves.
    alignas(16) static constexpr std::array<Order, ways> moves = [] {
        std::array<Order, ways> made{};
        for (unsigned rank = 0; rank < ways; ++rank) {
            for (unsigned i = 0; i < ways; ++i) {
                const unsigned from = i == 0 ? rank : i <= rank ? i - 1 : i;
                made[rank][i] = static_cast<std::uint8_t>(from);
                made[rank][ways + i] = static_cast<std::uint8_t>(ways + from);
            }
        }
        return made;
    }();

    // The bits that tell the sets of larger caches apart, below a hash of those above.
    static std::uint64_t tag_of(std::uint64_t line) {
        return (line >> 6 & 7) | (line >> 9) * 0x9e37'79b9'7f4a'7c15 >> 59 << 3;
    }
    static unsigned ranks(__m128i bytes) {
        return static_cast<unsigned>(_mm_movemask_epi8(bytes)) & 0xff;
    }
    [[nodiscard]] unsigned slot(unsigned rank) const { return order_[ways + rank]; }
    [[nodiscard]] __m128i order() const {
        return _mm_load_si128(reinterpret_cast<const __m128i*>(order_.data()));
    }
    void set_order(__m128i order) {
        _mm_store_si128(reinterpret_cast<__m128i*>(order_.data()), order);
    }
    [[nodiscard]] __m128i moved_to_front(unsigned rank) const {
        return _mm_shuffle_epi8(
            order(), _mm_load_si128(reinterpret_cast<const __m128i*>(moves[rank].data())));
    }

    alignas(16) Order order_{};
    std::array<std::uint64_t, ways> lines_;  // by slot, as what follows
    alignas(16) std::array<std::uint64_t, ways> told_{};
    std::uint8_t held_ = 0, dirty_ = 0;
    std::uint8_t filled_ = 0;  // ranks
};

}  // namespace pagelens
