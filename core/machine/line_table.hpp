// A hash table from line numbers to a word each, of a fixed number of entries: no allocation after
// construction, whatever comes and goes.
//
// Linear probing over twice the entries; a removal moves later ones up, so there are no tombstones.
// What a search costs depends on how much of the table the host's caches hold. So short words share
// a cell of 64 bits with their line.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "core/machine/huge_array.hpp"

namespace pagelens {

// A word of 64 bits beside the line.
struct WideCell {
    std::uint64_t its_key = 0, word = 0;  // line + 1; 0: empty

    static WideCell of(std::uint64_t key) { return {key, 0}; }
    [[nodiscard]] std::uint64_t key() const { return its_key; }
};

// A word whose low bits are the caller's, and whose others are the line.
struct PackedCell {
    static constexpr unsigned bits = 16;  // the caller's; lines are below 2^48 - 1
    static constexpr std::uint64_t mask = (std::uint64_t{1} << bits) - 1;

    std::uint64_t word = 0;

    static PackedCell of(std::uint64_t key) { return {key << bits}; }
    [[nodiscard]] std::uint64_t key() const { return word >> bits; }
};

template <class Cell>
class LineTableOf {
  public:
    // Has room for `most` lines at a time.
    explicit LineTableOf(std::size_t most)
        : shift_(64 - static_cast<unsigned>(std::countr_zero(std::bit_ceil(2 * most + 2)))),
          cells_(std::size_t{1} << (64 - shift_)) {}

    // Returns the word of `line`, or null. It stays there until a line is added or removed.
    [[nodiscard]] const std::uint64_t* find(std::uint64_t line) const {
        const Cell& cell = cells_[cell_of(line)];
        return cell.key() == 0 ? nullptr : &cell.word;
    }
    [[nodiscard]] std::uint64_t* find(std::uint64_t line) {
        Cell& cell = cells_[cell_of(line)];
        return cell.key() == 0 ? nullptr : &cell.word;
    }
    // Returns the word of `line`; what a caller has of a new one is 0.
    std::uint64_t& at(std::uint64_t line) {
        Cell& cell = cells_[cell_of(line)];
        if (cell.key() == 0) {
            cell = Cell::of(key_of(line));
            ++size_;
            assert(2 * size_ <= cells_.size());
        }
        return cell.word;
    }
    // Takes `line`, which is there, out.
    void remove(std::uint64_t line) {
        std::size_t hole = cell_of(line);
        assert(cells_[hole].key() == key_of(line));
        for (std::size_t next = after(hole); cells_[next].key() != 0; next = after(next)) {
            // An entry that came past the hole when it was put in may fill the hole.
            const std::size_t wanted = first_cell(cells_[next].key() - 1);
            const bool past = ((next - wanted) & last()) >= ((next - hole) & last());
            if (!past) continue;
            cells_[hole] = cells_[next];
            hole = next;
        }
        cells_[hole] = {};
        --size_;
    }
    // Calls visit(line, word) with all that are in, in no order.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Cell& cell : cells_) {
            if (cell.key() != 0) visit(cell.key() - 1, cell.word);
        }
    }
    [[gnu::always_inline]] void prefetch(std::uint64_t line) const {
        __builtin_prefetch(&cells_[first_cell(line)], 1);
    }

  private:
    static constexpr std::uint64_t block_lines = 8;

    static std::uint64_t key_of(std::uint64_t line) { return line + 1; }
    [[nodiscard]] std::size_t last() const { return cells_.size() - 1; }
    [[nodiscard]] std::size_t after(std::size_t cell) const { return (cell + 1) & last(); }
    // Fibonacci hashing (Knuth, TAOCP 6.4) spreads blocks of neighbouring lines. Those of a block
    // have neighbouring cells, because programs often use such lines one after the other.
    [[nodiscard]] std::size_t first_cell(std::uint64_t line) const {
        const std::uint64_t block = (line / block_lines) * 0x9E3779B97F4A7C15ull >> shift_;
        return ((block & ~(block_lines - 1)) | line % block_lines) & last();
    }
    // Returns the cell of the line, or the empty cell where it would be.
    [[nodiscard]] std::size_t cell_of(std::uint64_t line) const {
        std::size_t cell = first_cell(line);
        while (cells_[cell].key() != 0 && cells_[cell].key() != key_of(line)) cell = after(cell);
        return cell;
    }

    unsigned shift_;
    HugeVector<Cell> cells_;
    std::size_t size_ = 0;
};

using LineTable = LineTableOf<WideCell>;

}  // namespace pagelens
