// A core's L1 looked up by *virtual* line, so that a hit costs no translation.
//
// Its index lies below the page shift, so as long as no page's translation changes this is the
// physical lookup. Where one may have changed, flush() empties it: the price is one access more of
// the level below for each line that is used again.
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

    // Whether the line is the most recent one of its set or the one before: then all is done.
    [[gnu::always_inline]] bool hits(std::uint64_t address, bool write) {
        Entry* row = this->row(address);
        const Entry key = key_of(address);
        const Entry dirty = write ? dirty_bit : 0;
        if ((row[0] ^ key) < key_unit) [[likely]] {
            row[0] |= dirty;
            return true;
        }
        if ((row[1] ^ key) >= key_unit) return false;
        std::swap(row[0], row[1]);
        row[0] |= dirty;
        return true;
    }

    // After hits() said no: true if the line is there after all.
    bool finds(std::uint64_t address, bool write) {
        Entry* row = this->row(address);
        Entry* const at = find(row, key_of(address));
        if (at == row + ways_) return false;
        std::rotate(row, at, at + 1);
        row[0] |= write ? dirty_bit : 0;
        return true;
    }

    // After finds() said no. The physical line that has to be written back, or `none`.
    std::uint64_t insert(std::uint64_t address, std::uint32_t frame, bool write) {
        assert(frame < most_frames);
        Entry* row = this->row(address);
        const Entry victim = row[ways_ - 1];
        std::copy_backward(row, row + ways_ - 1, row + ways_);
        row[0] = key_of(address) | (write ? dirty_bit : 0) | frame;
        return dirty_line(victim, line_of_page(address));
    }

    // Takes a line out, if it is there; the physical line if it was dirty, or `none`.
    std::uint64_t remove(std::uint64_t address) {
        Entry* row = this->row(address);
        Entry* const at = find(row, key_of(address));
        if (at == row + ways_) return none;
        const Entry gone = *at;
        std::copy(at + 1, row + ways_, at);
        row[ways_ - 1] = empty;
        return dirty_line(gone, line_of_page(address));
    }

    // Empties it; `write_back(physical line)` is called for each dirty one.
    template <class WriteBack>
    void flush(WriteBack&& write_back) {
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

    static Entry key_of(std::uint64_t address) { return address >> page_bits << key_shift; }
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
    alignas(64) std::array<Entry, lines_per_page * most_ways> rows_;
};

}  // namespace pagelens
