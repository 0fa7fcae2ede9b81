// What Linux keeps in struct page and in the pageblock flags, as plain arrays: list links and a
// state for every unit, a migrate type for every pageblock. Copying it is a snapshot.
//
// Memory is counted in frames but kept in *units* of `grain` frames: 1 is exact. With a coarser
// grain the buddy system's blocks are whole units, a block of 2^level units having order level +
// log2 grain; but a page that stays alone still takes one frame: of a unit that is *shared*, a bit
// a frame says which are free (its `parts`). What is lost is the order of the small blocks: those
// of one unit are handed out together, not the smallest of all units first. The shares of
// conflicting pages stay as they are (a test holds it), because a unit's frames lie in neighbouring
// slots.
//
// Lists are circular and doubly linked, as the kernel's, with the list's head an element of the
// same array behind the units: taking a block out needs no knowledge of the list that it is in.
// Those of shared units, four in five of what a fleet's job gets, are *piles*: arrays, in which the
// units that are taken soon can be seen, and fetched from memory, before they are reached.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/address/units.hpp"
#include "core/frames/migrate_type.hpp"
#include "core/machine/huge_array.hpp"

namespace pagelens {

using Unit = std::uint32_t;
inline constexpr Unit no_unit = ~0u;

// Frames of one unit: bit i is its frame i.
using Parts = std::uint64_t;

inline constexpr std::uint32_t largest_grain = 64;

// Neighbouring units, one after the other, ascending from `first` or descending where count < 0; or
// some frames of one unit.
struct Run {
    Unit first = no_unit;
    std::int32_t count = 0;
    Parts parts = 0;  // of each unit: all, unless the run is some of one

    [[nodiscard]] std::uint32_t units() const {
        return static_cast<std::uint32_t>(count < 0 ? -count : count);
    }
    [[nodiscard]] Unit at(std::uint32_t index) const {
        return count < 0 ? first - index : first + index;
    }
    [[nodiscard]] Unit lowest() const { return count < 0 ? first - (units() - 1) : first; }
    // Returns the same units from the last one to the first.
    [[nodiscard]] Run reversed() const { return {at(units() - 1), -count, parts}; }
    // Takes the first units off, and returns them.
    Run split(std::uint32_t units_taken) {
        const auto taken = static_cast<std::int32_t>(units_taken);
        const Run head{first, count < 0 ? -taken : taken, parts};
        first = at(units_taken);
        count -= head.count;
        return head;
    }
};

class Memmap {
  public:
    using List = std::uint32_t;

    // `frames` frames that belong to nobody, and `lists` empty lists.
    // Throws std::invalid_argument unless grain is a power of two <= 64 that divides frames > 0.
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

    // The functions for runs follow. A part of a unit is what take_parts() of a zone or split()
    // took of it.
    [[nodiscard]] Parts whole() const { return whole_; }
    [[nodiscard]] Run run_of(Unit unit, std::uint32_t count) const {
        return {unit, static_cast<std::int32_t>(count), whole()};
    }
    [[nodiscard]] Run run_of(Frame frame) const {
        return {unit_of(frame), 1, Parts{1} << (frame.raw() & (grain() - 1))};
    }
    [[nodiscard]] Frame first_frame(const Run& run) const {
        return Frame(frame_of(run.first).raw() +
                     static_cast<std::uint32_t>(std::countr_zero(run.parts)));
    }
    [[nodiscard]] std::uint32_t units_of(std::uint32_t frame_count) const {
        return (frame_count + grain() - 1) >> grain_order_;
    }
    [[nodiscard]] std::uint32_t frames_of(const Run& run) const {
        return run.units() * count_of(run.parts);
    }
    [[nodiscard]] static std::uint32_t count_of(Parts parts) {
        return static_cast<std::uint32_t>(std::popcount(parts));
    }
    // Takes the first frames off and returns them, up to `most` > 0: whole units, or some frames of
    // the only one. Precondition: most >= grain, or the run is one unit.
    Run split(Run& run, std::uint32_t most) const {
        if (most >= grain()) return run.split(std::min(most >> grain_order_, run.units()));
        if (most >= count_of(run.parts)) return run.split(1);
        Parts taken = 0;
        for (; most > 0; --most) {
            const Parts behind = run.parts & first_parts(run.first);
            const Parts next = behind != 0 ? behind : run.parts;
            taken |= next & -next;
            run.parts &= ~(next & -next);
        }
        return {run.first, 1, taken};
    }
    // Calls visit(frame) for the frames of a run, in the order in which split() takes them one by
    // one.
    template <class Visit>
    void for_frames(const Run& run, Visit&& visit) const {
        for (std::uint32_t i = 0; i < run.units(); ++i) {
            const Unit unit = run.at(i);
            const Parts first = run.parts & first_parts(unit);
            for_parts(unit, first, visit);
            for_parts(unit, run.parts & ~first, visit);
        }
    }
    // Returns those frames of a unit that are taken first where single frames are asked for. Pages
    // that stay lie anywhere in their units. If it were always the lowest frame, the lowest slots
    // would stay empty.
    [[nodiscard]] Parts first_parts(Unit unit) const {
        return whole() << (scattered(unit) & (grain() - 1));
    }
    // Returns the order, below the grain's, in which the free frames of a shared unit are listed,
    // the n-th time that some are. Half of them are listed as a block of the largest such order and
    // a quarter as one of the next, because the blocks around a page that stays have these parts of
    // its unit.
    [[nodiscard]] unsigned small_order(std::uint32_t n) const {
        const auto zeros = static_cast<unsigned>(std::countl_zero(scattered(n)));
        return grain_order_ - 1 - std::min(zeros, grain_order_ - 1);
    }
    // Calls visit(frame) for the frames of a unit that are in `parts`.
    template <class Visit>
    void for_parts(Unit unit, Parts parts, Visit&& visit) const {
        for (; parts != 0; parts &= parts - 1) {
            visit(
                Frame(frame_of(unit).raw() + static_cast<std::uint32_t>(std::countr_zero(parts))));
        }
    }

    // Lists, by number. An element is in one list at most.
    [[nodiscard]] bool empty(List list) const { return link(head_of(list)).next == head_of(list); }
    // Returns the first or last element, or, if there is none, something for which ends() holds.
    [[nodiscard]] Unit first(List list) const { return link(head_of(list)).next; }
    [[nodiscard]] Unit last(List list) const { return link(head_of(list)).previous; }
    [[nodiscard]] Unit next(Unit unit) const { return link(unit).next; }  // or a list's head
    // Fetches a unit that will be looked at soon. (Inlined by force, because GCC takes a call of a
    // function that does nothing but this to have no effect.)
    [[gnu::always_inline]] void prefetch(Unit unit) const {
        if (ends(unit)) return;
        __builtin_prefetch(&state_[unit], 1);
        __builtin_prefetch(&link(unit), 1);
    }
    [[nodiscard]] bool ends(Unit unit) const { return unit >= units(); }
    // Fetches the list's second element, which will be its first one soon.
    [[gnu::always_inline]] void prefetch_second(List list) const { prefetch(next(first(list))); }
    void push_head(List list, Unit unit) { insert(unit, head_of(list), first(list)); }
    void push_tail(List list, Unit unit) { insert(unit, last(list), head_of(list)); }
    void unlink(Unit unit) {
        const Link of = link(unit);
        link(of.previous).next = of.next;
        link(of.next).previous = of.previous;
    }
    // Piles: lists of shared units, by the same numbers.
    [[nodiscard]] Unit first_shared(List list) const { return piles_[list].first(); }
    void push_shared_head(List list, Unit unit) {
        std::vector<Unit>& head = piles_[list].head;
        link(unit) = place(list, head.size(), false);
        head.push_back(unit);
    }
    void push_shared_tail(List list, Unit unit) {
        std::vector<Unit>& tail = piles_[list].tail;
        link(unit) = place(list, tail.size(), true);
        tail.push_back(unit);
    }
    void unlink_shared(Unit unit);
    // Fetches the unit that comes some steps after the first one; it will be looked at soon.
    [[gnu::always_inline]] void prefetch_shared(List list) const {
        constexpr std::size_t ahead = 4;  // so many takes last longer than memory does
        const std::vector<Unit>& head = piles_[list].head;
        if (head.size() > ahead) prefetch(head[head.size() - 1 - ahead]);
    }
    // Returns the elements of a list or pile, first to last.
    [[nodiscard]] std::vector<Unit> elements(List list) const;
    // Puts the elements of a list or pile into this order. Precondition: the same elements.
    void reorder(List list, const std::vector<Unit>& order);

    // States. Of a free block only the first unit's is kept up to date.
    [[nodiscard]] bool is_free(Unit unit, unsigned level) const { return state_[unit] == level; }
    [[nodiscard]] bool is_free(Unit unit) const { return state_[unit] <= max_order; }
    [[nodiscard]] unsigned free_level(Unit unit) const { return state_[unit]; }
    [[nodiscard]] bool is_hole(Unit unit) const { return state_[unit] == hole; }
    // Returns the frames that are free in a unit that is not free itself.
    [[nodiscard]] Parts free_parts(Unit unit) const {
        return is_shared(unit) ? std::bit_cast<Parts>(beside(unit)) : 0;
    }
    // Returns the frames that are allocated and that page migration may move: single pages on an
    // LRU list.
    [[nodiscard]] Parts movable_parts(Unit unit) const {
        if (is_shared(unit)) {
            return (state_[unit] == mixed ? movable_[unit] : whole()) & ~free_parts(unit);
        }
        return state_[unit] == movable_page ? whole() : 0;
    }
    // Returns the frames that are allocated. Precondition: the unit does not lie in a free block.
    [[nodiscard]] Parts allocated_parts(Unit unit) const {
        return is_hole(unit) ? 0 : whole() & ~free_parts(unit);
    }
    // Returns the number of free frames of a free block, or of a unit that has some.
    [[nodiscard]] std::uint32_t free_frames(Unit unit) const {
        return is_free(unit) ? grain() << free_level(unit) : count_of(free_parts(unit));
    }
    void set_free(Unit unit, unsigned level) { state_[unit] = static_cast<std::uint8_t>(level); }
    void set_inside(Unit unit) { state_[unit] = inside; }
    void set_hole(Unit unit) { state_[unit] = hole; }
    void set_inside(Unit unit, std::uint32_t count) { fill(unit, count, inside); }
    // Notes that a block is handed out. Only single movable pages migrate: compaction skips
    // compound pages.
    void set_allocated(Unit unit, unsigned level, MigrateType type) {
        if (level == 0) return set_pages(unit, 1, type);
        fill(unit, 1u << level, type == MigrateType::movable ? compound_page : pinned_page);
    }
    // Notes that single pages are handed out.
    void set_pages(Unit unit, std::uint32_t count, MigrateType type) {
        fill(unit, count, type == MigrateType::movable ? movable_page : pinned_page);
    }
    // Marks exactly these frames of the unit as free. The unit must be allocated or shared.
    void set_free_parts(Unit unit, Parts free) {
        share(unit);
        beside(unit) = std::bit_cast<Link>(free);
    }
    // Makes page migration leave this page alone from now on.
    void pin(Frame page) { set_parts(unit_of(page), run_of(page).parts, MigrateType::unmovable); }
    // Notes that frames of a unit are handed out.
    void set_parts(Unit unit, Parts parts, MigrateType type) {
        if (parts == whole()) return set_pages(unit, 1, type);
        set_free_parts(unit, free_parts(unit) & ~parts);
        if (type == MigrateType::movable) {
            if (state_[unit] == mixed) movable_[unit] |= parts;
        } else {
            if (state_[unit] != mixed) movable_[unit] = whole();
            state_[unit] = mixed;
            movable_[unit] &= ~parts;
        }
    }

    // Returns the first unit of the free block that covers this one, if there is one.
    [[nodiscard]] Unit free_block_at(Unit unit) const;
    // Returns the order of the free block that begins at this frame, if one does. The free frames
    // of a shared unit count as the blocks that they would be in the small orders' lists.
    [[nodiscard]] std::optional<unsigned> free_order_at(Frame frame) const;

    // Pageblocks.
    [[nodiscard]] MigrateType type_of(Unit unit) const { return types_[unit >> pageblock_level()]; }
    void set_type(Unit unit, MigrateType type) { types_[unit >> pageblock_level()] = type; }
    [[nodiscard]] Unit pageblock_begin(Unit unit) const {
        return unit & ~((1u << pageblock_level()) - 1);
    }
    [[nodiscard]] std::uint32_t pageblock_units() const { return 1u << pageblock_level(); }

  private:
    // These states follow the levels of free blocks.
    static constexpr std::uint8_t inside = 16;  // of a free block, not its first unit
    static constexpr std::uint8_t movable_page = 17, compound_page = 18, pinned_page = 19;
    static constexpr std::uint8_t hole = 20;  // no memory, or offline
    // In a shared or mixed unit, each frame has an owner of its own, or none. Those that have one
    // are movable, or, in a mixed unit, those that movable_ has.
    static constexpr std::uint8_t shared = 21, mixed = 22;

    void fill(Unit unit, std::uint32_t count, std::uint8_t state) {
        state_[unit] = state;  // most often it is but one
        if (count > 1) std::fill_n(&state_[unit], count, state);
    }
    void share(Unit unit) {
        if (is_shared(unit)) return;
        if (state_[unit] != movable_page) movable_[unit] = 0;
        state_[unit] = state_[unit] == movable_page ? shared : mixed;
        beside(unit) = {};
    }
    [[nodiscard]] bool is_shared(Unit unit) const { return state_[unit] >= shared; }

    // Chance that is the unit's own: lowbias32 of Chris Wellons' Hash Prospector.
    [[nodiscard]] static std::uint32_t scattered(std::uint32_t bits) {
        bits = (bits ^ bits >> 16) * 0x7feb352du;
        bits = (bits ^ bits >> 15) * 0x846ca68bu;
        return bits ^ bits >> 16;
    }
    struct Link {
        std::uint32_t next, previous;
    };
    // A pile grows at both ends, as two stacks do: `head`, whose last element is the pile's first
    // one, and behind it `tail` in its order. Taking an element out leaves a gap, but never where
    // first() looks.
    struct Pile {
        static constexpr Unit gap = no_unit;
        std::vector<Unit> head, tail;
        std::size_t tail_begin = 0;  // elements before it are gaps
        std::size_t gaps = 0;
        [[nodiscard]] Unit first() const {
            if (!head.empty()) return head.back();
            return tail_begin < tail.size() ? tail[tail_begin] : no_unit;
        }
    };
    // The place of a shared unit in its pile, in the form of its link.
    static Link place(List list, std::size_t index, bool in_tail) {
        return {static_cast<std::uint32_t>(index), list << 1 | (in_tail ? 1u : 0u)};
    }
    [[nodiscard]] std::uint32_t head_of(List list) const { return units() + list; }
    [[nodiscard]] const Link& link(std::uint32_t element) const {
        return links_[std::size_t{element} << has_parts_];
    }
    [[nodiscard]] Link& link(std::uint32_t element) {
        return links_[std::size_t{element} << has_parts_];
    }
    // The free parts of a shared unit, in the bits of a link.
    [[nodiscard]] const Link& beside(Unit unit) const { return links_[2 * std::size_t{unit} + 1]; }
    [[nodiscard]] Link& beside(Unit unit) { return links_[2 * std::size_t{unit} + 1]; }
    void insert(Unit unit, std::uint32_t before, std::uint32_t after) {
        link(unit) = {after, before};
        link(before).next = unit;
        link(after).previous = unit;
    }

    unsigned grain_order_;
    unsigned has_parts_;  // 1 above grain 1
    Parts whole_;
    // The links of the units, then those of the lists' heads. Above grain 1 each has its free parts
    // beside it.
    HugeVector<Link> links_;
    std::vector<Pile> piles_;
    HugeVector<std::uint8_t> state_;
    HugeVector<Parts> movable_;       // of mixed units; none at grain 1
    std::vector<MigrateType> types_;  // of each pageblock
};

}  // namespace pagelens
