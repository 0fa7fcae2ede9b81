// A core's L1 looked up by *virtual* line, so that a hit costs no translation.
//
// Its index lies below the page shift, so as long as no page's translation changes this is the
// physical lookup. Where one may have changed, flush() empties it: the price is one access more of
// the level below for each line that is used again.
//
// In front of every set stand its two latest lines, once more, by address. An access to one of them
// (for a store: to a dirty one) changes nothing but their order, so it only leaves its time there;
// the order is settled when the set is looked at next. (As in the tracer's core/accesses/strip.hpp:
// a loop over two arrays takes turns between the two lines of a set.) Lines stay in their ways, and
// those in front in their places: what moves is the set's order, a word.
#pragma once

#include <emmintrin.h>
#include <smmintrin.h>

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>

#include "core/address/units.hpp"

namespace pagelens {

// LRU, 64 sets: one for each line of a page. An entry holds the virtual page (bits 28 to 63: the 36
// bits above the page shift that 4-level paging has), a dirty flag (27) and the frame (0 to 26).
// Aligned, so that the caches of all cores are found without a multiplication.
class alignas(16384) VirtualL1 {
  public:
    static constexpr std::uint32_t most_ways = 16;
    static constexpr std::uint32_t most_frames = 1u << 27;
    static constexpr std::uint64_t none = ~std::uint64_t{0};

    explicit VirtualL1(std::uint32_t ways) : ways_(ways), stride_(ways > 8 ? 16 : 8) {
        assert(ways >= 1 && ways <= most_ways);
        rows_.fill(empty);
    }

    // Returns whether an access meets one of the two latest lines of its set (a dirty one for a
    // store, `write` = 1). The access starts at most `reach` bytes after the start of its line, and
    // so stays within it. If it does, everything is done; if not, call finds().
    [[gnu::always_inline]] bool hides(std::uint64_t address, std::uint64_t reach, unsigned write) {
        Front& front = fronts_[line_of_page(address)];
        const std::array<std::uint64_t, 2>& held = front.line[write];
        const bool second = address - held[1] <= reach;
        std::uint8_t either = second | (address - held[0] <= reach);
        asm("" : "+r"(either));  // one branch, not two: which of the lines it is cannot be foreseen
        if (either == 0) [[unlikely]]
            return false;
        front.used[second] = ++hidden_;
        return true;
    }

    // Accesses hidden so far.
    [[nodiscard]] std::uint64_t hidden() const { return hidden_; }

    // No line is hidden until it is used again.
    void hide_nothing() {
        for (Front& front : fronts_) {
            settle(front);
            front.line = Front{}.line;
        }
    }

    // Returns whether the line is there, which is a hit.
    bool finds(std::uint64_t address, bool write) {
        Front& front = fronts_[line_of_page(address)];
        settle(front);
        Entry* row = this->row(address);
        const std::uint32_t way = find(row, key_of(address));
        if (way == ways_) return false;
        row[way] |= write ? dirty_bit : 0;
        use(front, place_of(front.order, way), address, (row[way] & dirty_bit) != 0);
        return true;
    }

    // Call this after finds() returned false. Returns the physical line to write back, or `none`.
    std::uint64_t insert(std::uint64_t address, std::uint32_t frame, bool write) {
        assert(frame < most_frames);
        Front& front = fronts_[line_of_page(address)];
        Entry& entry = row(address)[way_at(front.order, ways_ - 1)];
        const Entry victim = entry;
        entry = key_of(address) | (write ? dirty_bit : 0) | frame;
        use(front, ways_ - 1, address, write);
        return dirty_line(victim, line_of_page(address));
    }

    // Takes a line out, if it is there; the physical line if it was dirty, or `none`.
    std::uint64_t remove(std::uint64_t address) {
        Front& front = fronts_[line_of_page(address)];
        settle(front);
        Entry* row = this->row(address);
        const std::uint32_t way = find(row, key_of(address));
        if (way == ways_) return none;
        const Entry gone = row[way];
        row[way] = empty;
        for (std::uint32_t place = place_of(front.order, way); place + 1 < ways_; ++place)
            front.order = swapped(front.order, place);
        front.line = Front{}.line;  // what is now in front is seen when it is used again
        return dirty_line(gone, line_of_page(address));
    }

    // Empties it; `write_back(physical line)` is called for each dirty one.
    template <class WriteBack>
    void flush(WriteBack&& write_back) {
        for (std::uint32_t line = 0; line < lines_per_page; ++line) {
            settle(fronts_[line]);
            Entry* row = &rows_[line * stride_];
            for (std::uint32_t place = 0; place < ways_; ++place) {  // the latest first
                Entry& entry = row[way_at(fronts_[line].order, place)];
                if (entry == empty) break;
                if (const auto dirty = dirty_line(entry, line); dirty != none) write_back(dirty);
                entry = empty;
            }
            fronts_[line] = Front{};
        }
    }

  private:
    using Entry = std::uint64_t;
    // Four bits a way, the latest lowest.
    using Order = std::uint64_t;
    static constexpr Order in_a_row = 0xfedcba9876543210, each = 0x1111111111111111;
    static constexpr unsigned key_shift = 28;
    static constexpr Entry key_unit = Entry{1} << key_shift;
    static constexpr Entry dirty_bit = Entry{1} << 27;
    static constexpr Entry frame_mask = dirty_bit - 1;
    // An entry for the last page of the address space. Linux maps nothing there, since its
    // addresses are errors.
    static constexpr Entry empty = ~dirty_bit;

    // The two latest lines of a set by address, in any order; line[1] if they are dirty. One cache
    // line of the host, found by bits of the address as they are.
    struct alignas(line_bytes) Front {
        static constexpr std::uint64_t no_line = std::uint64_t{1} << 63;  // no address lies there
        std::array<std::array<std::uint64_t, 2>, 2> line{{{no_line, no_line}, {no_line, no_line}}};
        std::array<std::uint64_t, 2> used{};  // when last, in hidden accesses
        Order order = in_a_row;               // of the whole set
        std::uint32_t first = 0;  // which of `line` is that of the order's first way; the other's
                                  // is the second
    };

    // --- the order of a set
    static std::uint32_t way_at(Order order, std::uint32_t place) {
        return static_cast<std::uint32_t>(order >> 4 * place) & 15;
    }
    static std::uint32_t place_of(Order order, std::uint32_t way) {
        const Order other = order ^ each * way;  // four bits are zero where it is
        return static_cast<std::uint32_t>(std::countr_zero((other - each) & ~other & each << 3)) /
               4;
    }
    static Order swapped(Order order, std::uint32_t place) {  // with the next
        const Order both = (order ^ order >> 4) >> 4 * place & 15;
        return order ^ (both | both << 4) << 4 * place;
    }
    static Order with_first(Order order, std::uint32_t place) {
        const Order later = (Order{1} << 4 * place) - 1;  // those used after it
        const Order up_to = later << 4 | 15;
        return (order & ~up_to) | (order & later) << 4 | way_at(order, place);
    }

    // Puts the two ways in front into the order of their use.
    static void settle(Front& front) {
        const std::uint32_t other = front.first ^ 1;
        if (front.used[other] > front.used[front.first]) {
            front.order = swapped(front.order, 0);
            front.first = other;
        }
    }

    // The line at `place` is used. It is in front from now on, instead of the earlier of the two
    // that are there, which is where it may be already.
    void use(Front& front, std::uint32_t place, std::uint64_t address, bool dirty) {
        front.order = with_first(front.order, place);
        front.first ^= place != 0;
        front.line[0][front.first] = line_of(address);
        front.line[1][front.first] = dirty ? line_of(address) : Front::no_line;
        front.used[front.first] = hidden_;
    }

    static Entry key_of(std::uint64_t address) { return address >> page_bits << key_shift; }
    static std::uint64_t line_of(std::uint64_t address) { return address & ~(line_bytes - 1); }
    static std::uint32_t line_of_page(std::uint64_t address) {
        return static_cast<std::uint32_t>(address >> line_bits) % lines_per_page;
    }
    static std::uint64_t dirty_line(Entry entry, std::uint32_t line) {
        return (entry & dirty_bit) != 0 ? (entry & frame_mask) * lines_per_page + line : none;
    }
    Entry* row(std::uint64_t address) { return &rows_[line_of_page(address) * stride_]; }

    // The way of `key`, or ways_. What is behind the ways of a row stays empty.
    [[nodiscard]] std::uint32_t find(const Entry* row, Entry key) const {
        const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(key >> key_shift));
        unsigned found = 1u << ways_ | eight(row, wanted);
        if (stride_ > 8) found |= eight(row + 8, wanted) << 8;
        return static_cast<std::uint32_t>(std::countr_zero(found));
    }
    // Bit i: row[i] holds the `wanted` page.
    static unsigned eight(const Entry* row, __m128i wanted) {
        unsigned found = 0;
        for (unsigned way = 0; way < 8; way += 2) {
            const __m128i two = _mm_load_si128(reinterpret_cast<const __m128i*>(row + way));
            const __m128i same = _mm_cmpeq_epi64(_mm_srli_epi64(two, key_shift), wanted);
            found |= static_cast<unsigned>(_mm_movemask_pd(_mm_castsi128_pd(same))) << way;
        }
        return found;
    }

    std::array<Front, lines_per_page> fronts_;
    alignas(64) std::array<Entry, lines_per_page * most_ways> rows_;
    std::uint64_t hidden_ = 0;
    std::uint32_t ways_;
    std::uint32_t stride_;  // entries of a row
};

}  // namespace pagelens
