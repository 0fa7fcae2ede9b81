// The entries of a snoop filter that is far larger than the caches it watches, such as that of a
// whole processor when a guest has a few of its cores. Most of its sets are empty then, and a table
// of the few lines that are held is many times smaller. It stays in the caches of the host.
//
// It stands for the sets as long as none of them is full. Until then, no entry has to go, and all
// that a set under LRU knows beyond its entries is the order of their last requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/machine/huge_array.hpp"
#include "core/machine/line_table.hpp"

namespace pagelens {

class HeldLines {
  public:
    static constexpr std::uint32_t most_holders = 16, most_slices = 256;

    struct Entry {
        std::uint64_t line;
        std::uint32_t slice;
        std::uint64_t holders;
    };

    // Who held a line, and who still does.
    struct Taken {
        std::uint64_t before, after;
    };

    // There are `sets` of so many ways. At most `lines` are held at a time.
    HeldLines(std::size_t sets, std::uint32_t ways, std::size_t lines)
        : ways_(ways), held_in_(sets), table_(lines + 1) {}

    // Does what SnoopFilter::request() does, for a line of this set. Returns nothing, and changes
    // nothing, if another line would have to go.
    std::optional<std::uint64_t> request(std::uint64_t line, std::uint32_t slice, std::size_t set,
                                         std::uint32_t holder, bool alone) {
        std::uint64_t* word = table_.find(line);
        if (word == nullptr) {
            if (held_in_[set] == ways_) return std::nullopt;
            ++held_in_[set];
            word = &table_.at(line);
        }
        const std::uint64_t before = *word & holder_mask;
        *word = ++requests_ << requests_at | std::uint64_t{slice} << slice_at |
                (alone ? 0 : before) | std::uint64_t{1} << holder;
        return before;
    }
    // Takes holders away from a line of this set.
    Taken take(std::uint64_t line, std::size_t set, std::uint64_t holders) {
        std::uint64_t* const word = table_.find(line);
        if (word == nullptr) return {0, 0};
        const std::uint64_t before = *word & holder_mask, after = before & ~holders;
        if (after != 0) {
            *word ^= before ^ after;
        } else {
            table_.remove(line);
            --held_in_[set];
        }
        return {before, after};
    }

    // All entries, in the order of their last requests.
    [[nodiscard]] std::vector<Entry> entries() const {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> by_request;  // word, line
        table_.for_each(
            [&](std::uint64_t line, std::uint64_t word) { by_request.emplace_back(word, line); });
        std::ranges::sort(by_request);
        std::vector<Entry> found;
        for (const auto& [word, line] : by_request) {
            const auto slice = static_cast<std::uint32_t>(word >> slice_at) & (most_slices - 1);
            found.push_back({line, slice, word & holder_mask});
        }
        return found;
    }

    [[gnu::always_inline]] void prefetch(std::uint64_t line) const { table_.prefetch(line); }

  private:
    // A word has the line's holders, its slice, and the number of its last request.
    static constexpr unsigned slice_at = most_holders, requests_at = slice_at + 8;
    static constexpr std::uint64_t holder_mask = (1u << most_holders) - 1;

    std::uint32_t ways_;
    HugeVector<std::uint8_t> held_in_;  // [set] lines
    LineTable table_;
    std::uint64_t requests_ = 0;  // fewer than 2^40: simulating these takes a day
};

}  // namespace pagelens
