// A cache in which any line may lie anywhere: the ideal twin of a set-associative one. (A
// memory-side cache knows its pages beforehand; its ideal twin is in fully_associative.hpp.)
//
// Lines lie in slots, which a hash table finds. Under LRU, a list orders the used slots by recency.
// For any other replacement policy, the cache is one set and a slot is a way.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "core/machine/line_table.hpp"
#include "core/machine/replacement/policies.hpp"

namespace pagelens {

class FullyAssociativeLines {
  public:
    static constexpr std::uint32_t none = ~std::uint32_t{0};  // no slot

    struct Entry {
        std::uint64_t line = 0, valid = 0, dirty = 0;  // words, as CacheRows::Entry
    };

    // Has room for `capacity` > 0 lines. The policy is one that serves_fully_associative().
    FullyAssociativeLines(std::uint32_t capacity, Replacement replacement, std::uint64_t seed)
        : table_(capacity),
          slots_(capacity + 1),
          end_(capacity),
          lru_(replacement == replacement_by<Lru>),
          policy_(make_policy(replacement, capacity)) {
        assert(serves_fully_associative(replacement));
        if (!lru_)
            state_ = with_policy(policy_,
                                 [&](const auto& policy) { return policy.first_state(seed, 0); });
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
        if (lru_) {
            unlink(slot);
            link_after(end_, slot);
        } else {
            with_policy(policy_, [&](const auto& policy) { policy.on_hit(state_, slot); });
        }
    }
    // A word beside a slot. It stays when fill() puts another line into the slot.
    [[nodiscard]] std::uint8_t& beside(std::uint32_t slot) { return slots_[slot].beside; }
    void clean(std::uint32_t slot) { slots_[slot].dirty = false; }

    // Puts in a line that is not there, and pushes out another if the cache is full. Sets `slot` to
    // the line's slot, and returns what was pushed out.
    Entry fill(std::uint64_t line, bool dirty, std::uint32_t& slot) {
        Entry victim;
        if (free_.empty()) {
            const std::uint32_t loser = next_slot();
            victim = {slots_[loser].line, true, slots_[loser].dirty};
            remove(loser);
        }
        slot = put(line, dirty);
        if (lru_) link_after(end_, slot);
        return victim;
    }
    // Puts in a line that is not there, as the one that was used longest ago. Returns its slot, or
    // `none` if the cache is full.
    [[nodiscard]] std::uint32_t append(std::uint64_t line, bool dirty) {
        if (free_.empty()) return none;
        const std::uint32_t slot = put(line, dirty);
        if (lru_) link_after(slots_[end_].before, slot);
        return slot;
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

    [[nodiscard]] std::uint32_t next_slot() {
        if (lru_) return slots_[end_].before;
        return with_policy(policy_, [&](const auto& policy) { return policy.victim(state_); });
    }
    // Returns the slot that the line has from now on. Precondition: one is free.
    std::uint32_t put(std::uint64_t line, bool dirty) {
        const std::uint32_t slot = free_.back();
        free_.pop_back();
        slots_[slot].line = line;
        slots_[slot].dirty = dirty;
        if (!lru_) with_policy(policy_, [&](const auto& policy) { policy.on_fill(state_, slot); });
        table_.at(line) = slot;
        return slot;
    }
    void link_after(std::uint32_t before, std::uint32_t slot) {
        const std::uint32_t after = slots_[before].after;
        slots_[slot].before = before;
        slots_[slot].after = after;
        slots_[before].after = slots_[after].before = slot;
    }
    void unlink(std::uint32_t slot) {
        slots_[slots_[slot].before].after = slots_[slot].after;
        slots_[slots_[slot].after].before = slots_[slot].before;
    }

    LineTable table_;
    HugeVector<Slot> slots_;  // the last one stands for both ends of the list
    std::uint32_t end_;
    bool lru_;
    ReplacementPolicies policy_;
    std::uint64_t state_ = 0;  // of the policy; LRU has none
    std::vector<std::uint32_t> free_;
};

}  // namespace pagelens
