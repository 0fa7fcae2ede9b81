// A cache in which any line may lie anywhere: the ideal twin of a set-associative one. (That of a
// memory-side cache, which knows its pages beforehand, is in fully_associative.hpp.)
//
// Lines are in slots, which a hash table finds; under LRU the slots in use are a list by recency.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "core/machine/line_table.hpp"
#include "core/machine/replacement.hpp"

namespace pagelens {

class FullyAssociativeLines {
  public:
    static constexpr std::uint32_t none = ~std::uint32_t{0};  // no slot

    struct Entry {
        std::uint64_t line = 0, valid = 0, dirty = 0;  // words, as CacheRows::Entry
    };

    // For `capacity` > 0 lines. Replacement is lru or random.
    FullyAssociativeLines(std::uint32_t capacity, Replacement replacement, std::uint64_t seed)
        : table_(capacity),
          slots_(capacity + 1),
          end_(capacity),
          lru_(replacement == Replacement::lru),
          draws_(RandomVictims::begin(seed, 0)) {
        assert(replacement != Replacement::tree_plru);
        slots_[end_].before = slots_[end_].after = end_;
        free_.reserve(capacity);
        for (std::uint32_t slot = capacity; slot-- > 0;) free_.push_back(slot);
    }

    // The slot of a line, or `none`.
    [[nodiscard]] std::uint32_t find(std::uint64_t line) const {
        const std::uint64_t* slot = table_.find(line);
        return slot == nullptr ? none : static_cast<std::uint32_t>(*slot);
    }
    [[nodiscard]] bool dirty(std::uint32_t slot) const { return slots_[slot].dirty; }
    void use(std::uint32_t slot, bool dirty) {
        slots_[slot].dirty |= dirty;
        if (!lru_) return;
        unlink(slot);
        link_first(slot);
    }
    // A word beside a slot; it stays when fill() puts another line into it.
    [[nodiscard]] std::uint8_t& beside(std::uint32_t slot) { return slots_[slot].beside; }
    void clean(std::uint32_t slot) { slots_[slot].dirty = false; }

    // Puts in a line that is not there, into the slot of what it pushes out if it does; `slot` says
    // which, the result what was there.
    Entry fill(std::uint64_t line, bool dirty, std::uint32_t& slot) {
        Entry victim;
        if (free_.empty()) {
            const std::uint32_t loser =
                lru_ ? slots_[end_].before : RandomVictims::next(draws_, end_);
            victim = {slots_[loser].line, true, slots_[loser].dirty};
            remove(loser);
        }
        slot = free_.back();
        free_.pop_back();
        slots_[slot].line = line;
        slots_[slot].dirty = dirty;
        if (lru_) link_first(slot);
        table_.at(line) = slot;
        return victim;
    }
    // Empties a slot; true if it was dirty.
    bool remove(std::uint32_t slot) {
        table_.remove(slots_[slot].line);
        if (lru_) unlink(slot);
        free_.push_back(slot);
        return slots_[slot].dirty;
    }
    [[gnu::always_inline]] void prefetch(std::uint64_t line) const { table_.prefetch(line); }

  private:
    struct Slot {
        std::uint64_t line = 0;
        std::uint32_t before = 0, after = 0;  // more and less recently used
        std::uint8_t beside = 0;
        bool dirty = false;
    };

    void link_first(std::uint32_t slot) {
        const std::uint32_t second = slots_[end_].after;
        slots_[slot].before = end_;
        slots_[slot].after = second;
        slots_[end_].after = slots_[second].before = slot;
    }
    void unlink(std::uint32_t slot) {
        slots_[slots_[slot].before].after = slots_[slot].after;
        slots_[slots_[slot].after].before = slots_[slot].before;
    }

    LineTable table_;
    HugeVector<Slot> slots_;  // the last one stands for both ends of the list
    std::uint32_t end_;
    bool lru_;
    std::uint64_t draws_;
    std::vector<std::uint32_t> free_;
};

}  // namespace pagelens
