// Counts how many lines fall to each set of a sliced cache or snoop filter. These conflicts can be
// told from addresses alone: if more lines fall to a set than it has ways, they cannot all be held
// at once, whatever the order of accesses and the replacement.
//
// The slow, obvious version that this one must equal is in tests/cpp/test_set_counts.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/address/address_hash.hpp"

namespace pagelens {

// Pieces of physical memory: the i-th is the lines[i] lines from addresses[i] on.
struct Extents {
    std::span<const std::uint64_t> addresses;
    std::span<const std::uint32_t> lines;  // as many
};

class SetCounts {
  public:
    // `sets` of each slice, a power of two, indexed by the address bits from 6 up. A cache of one
    // piece has a hash of one value. Throws std::invalid_argument.
    SetCounts(AddressHash slices, std::uint32_t sets, std::uint32_t ways);

    void add(Extents extents);
    // Precondition: they have been added.
    void remove(Extents extents);
    void clear();

    // Lines beyond the ways of their sets: what cannot be held.
    [[nodiscard]] std::uint64_t excess() const { return excess_; }
    // Returns the excess if the lines of `other` were added, which has the same slices, sets and
    // ways. This is much faster than adding them, for trying out many pages in one place. Throws
    // std::invalid_argument if the numbers of sets differ.
    [[nodiscard]] std::uint64_t excess_with(const SetCounts& other) const;

    // [n]: sets that n lines fall to.
    [[nodiscard]] std::vector<std::uint64_t> histogram() const;
    // Sets crowded[i] to the lines of extent i in sets that more lines fall to than they have ways.
    void crowded(Extents extents, std::span<std::uint32_t> crowded) const;
    // Returns the addresses of the crowded lines, one extent after the other.
    [[nodiscard]] std::vector<std::uint64_t> crowded_lines(Extents extents) const;

    // Lines of each set, slice after slice.
    [[nodiscard]] std::span<const std::uint32_t> counts() const { return counts_; }
    [[nodiscard]] std::uint32_t sets() const { return sets_; }
    [[nodiscard]] std::uint32_t ways() const { return ways_; }

  private:
    [[nodiscard]] std::size_t index(std::uint64_t address) const;
    // Both return the change of the number of lines beyond the ways.
    std::uint64_t put(std::uint64_t address, std::uint32_t lines);
    std::uint64_t take(std::uint64_t address, std::uint32_t lines);

    AddressHash slices_;
    std::uint32_t sets_, ways_;
    std::uint64_t excess_ = 0;
    std::vector<std::uint32_t> counts_;
};

}  // namespace pagelens
