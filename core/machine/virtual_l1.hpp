// A core's L1 looked up by *virtual* line, so that a hit costs no translation.
//
// Its index lies below the page shift, so as long as no page's translation changes this is the
// physical lookup. Where one may have changed, flush() empties it: the price is one access more of
// the level below for each line that is used again.
//
// In front of every set stand its two latest lines, once more, by address. An access to one of them
// (for a store: to a dirty one) changes nothing but their order, so it only leaves its time there;
// the order is settled when the set is looked at next. (As in the tracer's core/accesses/strip.hpp:
// a loop over two arrays takes turns between the two lines of a set.)
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <utility>

#include "core/address/units.hpp"

namespace pagelens {

// LRU, 64 sets: one for each line of a page. An entry holds the virtual page (bits 28 to 63: the 36
// bits above the page shift that 4-level paging has), a dirty flag (27) and the frame (0 to 26).
class VirtualL1 {
  public:
    static constexpr std::uint32_t most_ways = 16;
    static constexpr std::uint32_t most_frames = 1u << 27;
    static constexpr std::uint64_t none = ~std::uint64_t{0};

    explicit VirtualL1(std::uint32_t ways) : ways_(ways), stride_(ways > 8 ? 16 : 8) {
        assert(ways >= 1 && ways <= most_ways);
        rows_.fill(empty);
    }

    // Whether `size` bytes at `address` lie in one line, one of the two latest of its set (for a
    // store, `write` = 1: a dirty one). Then all is done. If not, finds() is to be asked.
    [[gnu::always_inline]] bool hides(std::uint64_t address, unsigned size, unsigned write) {
        Front& front = fronts_[line_of_page(address)];
        const std::array<std::uint64_t, 2>& held = front.line[write];
        const std::uint64_t line = line_of(address);
        const bool second = held[1] == line;
        std::uint8_t hit = second | (held[0] == line);
        hit &= (address - line) + size <= line_bytes;
        asm("" : "+r"(hit));  // one branch, not three: which of the lines it is cannot be foreseen
        if (hit == 0) [[unlikely]]
            return false;
        front.used[second] = ++hidden_;
        return true;
    }

    // Accesses hidden so far.
    [[nodiscard]] std::uint64_t hidden() const { return hidden_; }

    // No line is hidden until it is used again.
    void hide_nothing() {
        for (std::uint32_t line = 0; line < lines_per_page; ++line) {
            settle(line);
            fronts_[line] = Front{};
        }
    }

    // Whether the line is there: a hit.
    bool finds(std::uint64_t address, bool write) {
        settle(line_of_page(address));
        Entry* row = this->row(address);
        Entry* const at = find(row, key_of(address));
        if (at == row + ways_) return false;
        std::rotate(row, at, at + 1);
        row[0] |= write ? dirty_bit : 0;
        expose(line_of_page(address));
        return true;
    }

    // After finds() said no. The physical line that has to be written back, or `none`.
    std::uint64_t insert(std::uint64_t address, std::uint32_t frame, bool write) {
        assert(frame < most_frames);
        Entry* row = this->row(address);
        const Entry victim = row[ways_ - 1];
        std::copy_backward(row, row + ways_ - 1, row + ways_);
        row[0] = key_of(address) | (write ? dirty_bit : 0) | frame;
        expose(line_of_page(address));
        return dirty_line(victim, line_of_page(address));
    }

    // Takes a line out, if it is there; the physical line if it was dirty, or `none`.
    std::uint64_t remove(std::uint64_t address) {
        settle(line_of_page(address));
        Entry* row = this->row(address);
        Entry* const at = find(row, key_of(address));
        if (at == row + ways_) return none;
        const Entry gone = *at;
        std::copy(at + 1, row + ways_, at);
        row[ways_ - 1] = empty;
        expose(line_of_page(address));
        return dirty_line(gone, line_of_page(address));
    }

    // Empties it; `write_back(physical line)` is called for each dirty one.
    template <class WriteBack>
    void flush(WriteBack&& write_back) {
        hide_nothing();
        for (std::uint32_t line = 0; line < lines_per_page; ++line) {
            Entry* row = &rows_[line * stride_];
            for (std::uint32_t way = 0; way < ways_ && row[way] != empty; ++way) {
                if (const auto dirty = dirty_line(row[way], line); dirty != none) write_back(dirty);
                row[way] = empty;
            }
        }
    }

  private:
    using Entry = std::uint64_t;
    static constexpr unsigned key_shift = 28;
    static constexpr Entry key_unit = Entry{1} << key_shift;
    static constexpr Entry dirty_bit = Entry{1} << 27;
    static constexpr Entry frame_mask = dirty_bit - 1;
    // Of the last page of the address space, where Linux maps nothing: its addresses are errors.
    static constexpr Entry empty = ~dirty_bit;

    // A set's first two entries by address: line[1] if they are dirty. One cache line of the host,
    // found by bits of the address as they are.
    struct alignas(line_bytes) Front {
        static constexpr std::uint64_t no_line = ~std::uint64_t{0};
        std::array<std::array<std::uint64_t, 2>, 2> line{{{no_line, no_line}, {no_line, no_line}}};
        std::array<std::uint64_t, 2> used{};  // when last, in hidden accesses; 0: not since
    };

    // Puts a set's first two entries into the order of their use.
    void settle(std::uint32_t line) {
        Front& front = fronts_[line];
        if (front.used[1] > front.used[0]) {
            Entry* row = &rows_[line * stride_];
            std::swap(row[0], row[1]);
            for (auto& held : front.line) std::swap(held[0], held[1]);
        }
        front.used = {};
    }
    void expose(std::uint32_t line) {
        Front& front = fronts_[line];
        const Entry* row = &rows_[line * stride_];
        for (const unsigned way : {0u, 1u}) {
            const std::uint64_t address = page_of(row[way]) | std::uint64_t{line} << line_bits;
            front.line[0][way] = address;
            front.line[1][way] = (row[way] & dirty_bit) != 0 ? address : Front::no_line;
        }
    }

    static Entry key_of(std::uint64_t address) { return address >> page_bits << key_shift; }
    // Its address, with the sign of 48 bits.
    static std::uint64_t page_of(Entry entry) {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(entry & ~(key_unit - 1)) >>
                                          (key_shift - page_bits));
    }
    static std::uint64_t line_of(std::uint64_t address) { return address & ~(line_bytes - 1); }
    static std::uint32_t line_of_page(std::uint64_t address) {
        return static_cast<std::uint32_t>(address >> line_bits) % lines_per_page;
    }
    static std::uint64_t dirty_line(Entry entry, std::uint32_t line) {
        return (entry & dirty_bit) != 0 ? (entry & frame_mask) * lines_per_page + line : none;
    }
    Entry* row(std::uint64_t address) { return &rows_[line_of_page(address) * stride_]; }
    Entry* find(Entry* row, Entry key) const {
        return std::find_if(row, row + ways_, [key](Entry e) { return (e ^ key) < key_unit; });
    }

    std::uint32_t ways_;
    std::uint32_t stride_;  // entries of a row; a one-way cache's second one stays empty
    std::uint64_t hidden_ = 0;
    std::array<Front, lines_per_page> fronts_;
    alignas(64) std::array<Entry, lines_per_page * most_ways> rows_;
};

}  // namespace pagelens
