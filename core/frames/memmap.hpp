// What Linux keeps in struct page and in the pageblock flags, as plain arrays: list links and a
// state for every unit, a migrate type for every pageblock. Copying it is a snapshot.
//
// Memory is counted in frames but kept in *units* of `grain` frames: 1 is exact; a coarser grain
// makes a history that many times faster and leaves the shares of conflicting pages as they are (a
// test holds it), because a unit's frames lie in neighbouring slots. A block of 2^level units has
// order level + log2 grain; requests for less than a unit get one.
//
// Lists are circular and doubly linked, as the kernel's, with the list's head an element of the
// same array behind the units: taking a block out needs no knowledge of the list that it is in.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "core/address/units.hpp"
#include "core/frames/migrate_type.hpp"
#include "core/machine/huge_array.hpp"

namespace pagelens {

using Unit = std::uint32_t;
inline constexpr Unit no_unit = ~0u;

// Neighbouring units, one after the other: ascending from `first`, or descending where count < 0.
struct Run {
    Unit first = no_unit;
    std::int32_t count = 0;

    [[nodiscard]] std::uint32_t units() const {
        return static_cast<std::uint32_t>(count < 0 ? -count : count);
    }
    [[nodiscard]] Unit at(std::uint32_t index) const {
        return count < 0 ? first - index : first + index;
    }
    [[nodiscard]] Unit lowest() const { return count < 0 ? first - (units() - 1) : first; }
    // The same units from the last one to the first.
    [[nodiscard]] Run reversed() const { return {at(units() - 1), -count}; }
    // Takes the first units off.
    Run split(std::uint32_t units_taken) {
        const auto taken = static_cast<std::int32_t>(units_taken);
        const Run head{first, count < 0 ? -taken : taken};
        first = at(units_taken);
        count -= head.count;
        return head;
    }
};

class Memmap {
  public:
    using List = std::uint32_t;

    // `frames` frames that belong to nobody, and `lists` empty lists.
    // Throws std::invalid_argument unless grain is a power of two <= 512 that divides frames > 0.
    Memmap(std::uint32_t frames, std::uint32_t grain, std::uint32_t lists);

    [[nodiscard]] std::uint32_t units() const { return static_cast<std::uint32_t>(state_.size()); }
    [[nodiscard]] std::uint32_t frames() const { return units() << grain_order_; }
    [[nodiscard]] unsigned grain_order() const { return grain_order_; }
    [[nodiscard]] std::uint32_t grain() const { return 1u << grain_order_; }
    [[nodiscard]] unsigned levels() const { return max_order - grain_order_ + 1; }
    [[nodiscard]] unsigned pageblock_level() const { return pageblock_order - grain_order_; }
    [[nodiscard]] unsigned level_of(unsigned order) const {
        return order > grain_order_ ? order - grain_order_ : 0;
    }
    [[nodiscard]] Unit unit_of(Frame frame) const { return frame.raw() >> grain_order_; }
    [[nodiscard]] Frame frame_of(Unit unit) const { return Frame(unit << grain_order_); }

    // Lists, by number. An element is in one list at most.
    [[nodiscard]] bool empty(List list) const {
        return links_[head_of(list)].next == head_of(list);
    }
    // The first or last element, or, if there is none, something for which ends() holds.
    [[nodiscard]] Unit first(List list) const { return links_[head_of(list)].next; }
    [[nodiscard]] Unit last(List list) const { return links_[head_of(list)].previous; }
    [[nodiscard]] Unit next(Unit unit) const { return links_[unit].next; }
    [[nodiscard]] bool ends(Unit unit) const { return unit >= units(); }
    void push_head(List list, Unit unit) { insert(unit, head_of(list), first(list)); }
    void push_tail(List list, Unit unit) { insert(unit, last(list), head_of(list)); }
    void unlink(Unit unit) {
        const Link link = links_[unit];
        links_[link.previous].next = link.next;
        links_[link.next].previous = link.previous;
    }
    // The elements, first to last.
    [[nodiscard]] std::vector<Unit> elements(List list) const;
    // Puts the elements of a list into this order. Precondition: the same elements.
    void reorder(List list, const std::vector<Unit>& order);

    // States. Of a free block only the first unit's is kept up to date.
    [[nodiscard]] bool is_free(Unit unit, unsigned level) const { return state_[unit] == level; }
    [[nodiscard]] bool is_free(Unit unit) const { return state_[unit] <= max_order; }
    [[nodiscard]] unsigned free_level(Unit unit) const { return state_[unit]; }
    [[nodiscard]] bool is_hole(Unit unit) const { return state_[unit] == hole; }
    // Allocated, and page migration may move it: a single page on an LRU list.
    [[nodiscard]] bool is_movable(Unit unit) const { return state_[unit] == movable_page; }
    void set_free(Unit unit, unsigned level) { state_[unit] = static_cast<std::uint8_t>(level); }
    void set_inside(Unit unit) { state_[unit] = inside; }
    void set_hole(Unit unit) { state_[unit] = hole; }
    void set_inside(Unit unit, std::uint32_t count) { std::fill_n(&state_[unit], count, inside); }
    // A block handed out. Only single movable pages migrate: compaction skips compound pages.
    void set_allocated(Unit unit, unsigned level, MigrateType type) {
        if (level == 0) return set_pages(unit, 1, type);
        std::fill_n(&state_[unit], 1u << level,
                    type == MigrateType::movable ? compound_page : pinned_page);
    }
    // Single pages handed out.
    void set_pages(Unit unit, std::uint32_t count, MigrateType type) {
        std::fill_n(&state_[unit], count,
                    type == MigrateType::movable ? movable_page : pinned_page);
    }

    // The first unit of the free block that covers this one, if there is one.
    [[nodiscard]] Unit free_block_at(Unit unit) const;

    // Pageblocks.
    [[nodiscard]] MigrateType type_of(Unit unit) const { return types_[unit >> pageblock_level()]; }
    void set_type(Unit unit, MigrateType type) { types_[unit >> pageblock_level()] = type; }
    [[nodiscard]] Unit pageblock_begin(Unit unit) const {
        return unit & ~((1u << pageblock_level()) - 1);
    }
    [[nodiscard]] std::uint32_t pageblock_units() const { return 1u << pageblock_level(); }

  private:
    // After the levels of free blocks.
    static constexpr std::uint8_t inside = 16;  // of a free block, not its first unit
    static constexpr std::uint8_t movable_page = 17, compound_page = 18, pinned_page = 19;
    static constexpr std::uint8_t hole = 20;  // no memory, or offline

    struct Link {
        std::uint32_t next, previous;
    };
    [[nodiscard]] std::uint32_t head_of(List list) const { return units() + list; }
    void insert(Unit unit, std::uint32_t before, std::uint32_t after) {
        links_[unit] = {after, before};
        links_[before].next = unit;
        links_[after].previous = unit;
    }

    unsigned grain_order_;
    HugeVector<Link> links_;  // units, then the heads of the lists
    HugeVector<std::uint8_t> state_;
    std::vector<MigrateType> types_;  // of each pageblock
};

}  // namespace pagelens
