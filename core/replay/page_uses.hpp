// When each page was used, written and cleared last, in moments of a run.
//
// All pages of a program have their times in a table that each op writes to. Where loops walk
// through whole arrays, the times follow from the blocks that were passed and the page's number.
// There a page has an entry when it is first asked for, or used op by op.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/accesses/sweep_blocks.hpp"
#include "core/machine/huge_array.hpp"

namespace pagelens {

class PageUses {
  public:
    // Moments count ops; 0 is never. After 2^32 - 2 of them all are one.
    struct Use {
        std::uint32_t used = 0, written = 0;  // since it was cleared
        std::uint32_t cleared = 0;
        std::uint64_t lines = 0;  // used since it was cleared, whenever
    };

    // With `walks`, which outlive this, pages come once, and blocks are those of the walks.
    PageUses(std::uint32_t pages, const WholeWalks* walks);

    // A page has come, or gone.
    void forget(std::uint32_t page) {
        if (walks_ != nullptr) return;
        uses_[page] = {};
        cleared_[page] = 0;
    }
    void cleared(std::uint32_t page) {
        const std::uint32_t now = tick();
        if (walks_ != nullptr) {
            entry(page).use = {.cleared = now};
            return;
        }
        uses_[page] = {};
        cleared_[page] = now;
    }
    void used(std::uint32_t page, std::uint64_t lines, bool write) {
        const std::uint32_t now = tick();
        if (walks_ != nullptr) return add(entry(page).use, now, lines, write);
        add(uses_[page], now, lines, write);
    }
    // The page has come in the block that pass() is called for next.
    void comes_within(std::uint32_t page) {
        if (walks_ == nullptr) cleared_[page] = soon;
    }
    // All that a block does has happened. Precondition: fewer than 2^32 - 2 moments pass in all.
    void pass(const SweepBlocks& block);

    [[nodiscard]] Use of(std::uint32_t page) {
        if (walks_ != nullptr) return up_to_date(page);
        const Times& times = uses_[page];
        return {times.used, times.written, cleared_[page], times.lines};
    }
    [[nodiscard]] std::uint32_t now() const { return clock_; }

    [[gnu::always_inline]] void prefetch(std::uint32_t page) const {
        if (walks_ == nullptr)
            __builtin_prefetch(&uses_[page], 1);
        else
            __builtin_prefetch(&entries_[first_place_of(page)], 1);
    }
    void prefetch_to_come(std::uint32_t page) const {
        if (walks_ == nullptr) __builtin_prefetch(&cleared_[page], 1);
    }

  private:
    static constexpr std::uint32_t soon = ~0u;  // a page that has come is cleared in this block

    // In one cache line of the host, which is asked for ahead. When a page was cleared lies apart,
    // as few ops ask for it.
    struct Times {
        std::uint32_t used = 0, written = 0;
        std::uint64_t lines = 0;
    };
    template <class Of>
    static void add(Of& of, std::uint32_t now, std::uint64_t lines, bool write) {
        of.used = now;
        of.lines |= lines;
        if (write) of.written = now;
    }
    std::uint32_t tick() { return clock_ += clock_ < ~0u - 1 ? 1 : 0; }
    void cleared_at(std::uint32_t page, std::uint32_t then) {
        if (cleared_[page] > clock_) cleared_[page] = std::min(cleared_[page], then);
    }

    // Neighbouring blocks of a sweep that were passed.
    struct Passed {
        std::size_t sweep;
        bool maps;                 // its pages, if the sweep is the first that does
        std::uint64_t begin, end;  // turns
        std::uint32_t before;      // the moment before the first turn
        std::uint64_t of_turn;     // moments
    };
    // What is known of a page, from so many passed blocks.
    struct Entry {
        std::uint32_t page_and_1 = 0;  // 0: the entry is free
        std::uint32_t blocks = 0;
        Use use;
    };
    // The entry of a page; it stays there until another page's is asked for.
    Entry& entry(std::uint32_t page);
    [[nodiscard]] std::size_t first_place_of(std::uint32_t page) const {
        return page * 0x9e3779b97f4a7c15 >> shift_;  // Fibonacci hash
    }
    [[nodiscard]] std::size_t place_of(std::uint32_t page) const;
    const Use& up_to_date(std::uint32_t page);

    std::uint32_t clock_ = 0;
    HugeVector<Times> uses_;             // [page]
    HugeVector<std::uint32_t> cleared_;  // [page]
    const WholeWalks* walks_;
    std::vector<Passed> passed_;
    std::uint32_t passed_blocks_ = 0;
    HugeVector<Entry> entries_;  // a hash table, at most half full
    unsigned shift_ = 0;         // of a hash, to an index
    std::size_t entries_used_ = 0;
};

}  // namespace pagelens
