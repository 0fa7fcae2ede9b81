// Numbers the pages that a program touches in the order of their first appearance.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagelens {

// Key (a page number, < 2^63) -> small number. Open addressing with linear probing, at most half
// full; in front a direct-mapped table for the pages in use now.
class PageMap {
  public:
    static constexpr std::uint32_t absent = ~std::uint32_t{0};

    PageMap() : slots_(1024) {}

    [[nodiscard]] std::uint32_t find(std::uint64_t key) {
        Slot& recent = recent_[key % recent_.size()];
        if (recent.key == key + 1) return recent.value;
        const Slot& slot = slots_[place(key)];
        if (slot.key == 0) return absent;
        recent = slot;
        return slot.value;
    }

    void set(std::uint64_t key, std::uint32_t value) {
        if (2 * (used_ + 1) > slots_.size()) grow();
        Slot& slot = slots_[place(key)];
        if (slot.key == 0) ++used_;
        slot = recent_[key % recent_.size()] = Slot{key + 1, value};
    }

  private:
    struct Slot {
        std::uint64_t key = 0;  // + 1; 0 is empty
        std::uint32_t value = absent;
    };

    [[nodiscard]] std::size_t place(std::uint64_t key) const {
        std::uint64_t hash = key * 0x9e3779b97f4a7c15u;
        std::size_t at = (hash ^ (hash >> 32)) & (slots_.size() - 1);
        while (slots_[at].key != 0 && slots_[at].key != key + 1)
            at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    void grow() {
        std::vector<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot& slot : old)
            if (slot.key != 0) slots_[place(slot.key - 1)] = slot;
    }

    std::vector<Slot> slots_;  // a power of two
    std::size_t used_ = 0;
    std::array<Slot, 256> recent_{};
};

}  // namespace pagelens
