// One zone's buddy system, as mm/page_alloc.c of Linux has it: a free list an order and migrate
// type, taken from the head; a larger block is split and its upper halves go to the heads; a type
// that has run dry steals from another; a freed block merges with its buddies and goes to the head,
// or to the tail where it is likely to merge again soon.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/frames/kernel_rules.hpp"
#include "core/frames/layout.hpp"
#include "core/frames/memmap.hpp"
#include "core/random/philox.hpp"

namespace pagelens {

class Zone {
  public:
    // Where a freed block goes in its list; memory that comes online goes to the tail.
    enum class Place : std::uint8_t { usual, tail };

    // `lists`: the first of the Memmap's lists that are this zone's, list_count in all.
    Zone(const ZoneSpec& spec, const Memmap& map, Memmap::List lists, const KernelRules& kernel);
    static constexpr std::uint32_t list_count = (max_order + 1) * migrate_types;

    [[nodiscard]] const KernelRules& kernel() const { return kernel_; }
    [[nodiscard]] const ZoneSpec& spec() const { return spec_; }
    [[nodiscard]] Unit begin() const { return begin_; }
    [[nodiscard]] Unit end() const { return end_; }
    [[nodiscard]] std::uint32_t free_frames() const { return free_frames_; }
    [[nodiscard]] std::uint32_t free_blocks(unsigned level) const { return free_blocks_[level]; }
    [[nodiscard]] Memmap::List list(unsigned level, MigrateType type) const {
        return first_list_ + level * migrate_types + static_cast<unsigned>(type);
    }
    // The lists of orders below the grain's: units of which some frames are free.
    [[nodiscard]] Memmap::List parts_list(unsigned order, MigrateType type) const {
        return lists_ + order * migrate_types + static_cast<unsigned>(type);
    }

    // A block of this level, or no_unit. `no_fragment`: steal nothing smaller than a pageblock.
    Unit take(Memmap& map, unsigned level, MigrateType type, bool no_fragment);
    // Up to `most` single units, as that many takes of level 0 would give them one by one, but as
    // one run of neighbours, or the free frames of a unit that has some; count 0 if there are none.
    Run take_run(Memmap& map, MigrateType type, std::uint32_t most, bool no_fragment);
    // Gives single pages back, as that many gives of level 0 would one by one.
    void give_run(Memmap& map, Run run, MigrateType type) {
        if (run.parts != map.whole()) return give_parts(map, run.first, run.parts, type);
        give_units(map, run, type);
    }
    // Takes free frames of a unit that is not free as a whole: of those wanted, what it has.
    Parts take_parts(Memmap& map, Unit unit, Parts wanted, MigrateType type);
    // Gives a block back, for allocation as `type`.
    void give(Memmap& map, Unit unit, unsigned level, MigrateType type, Place place = Place::usual);

    // Takes a free block out of its list; the caller answers for its frames from now on.
    void remove(Memmap& map, Unit unit, unsigned level);
    // Puts a block that belongs to nobody at the tail of a list as it is, without merging.
    void append(Memmap& map, Unit unit, unsigned level, MigrateType type);
    // Moves the free blocks of a pageblock to the lists of `type`, as move_freepages() does; the
    // frames moved, and of the others those that are movable.
    struct Moved {
        std::uint32_t free = 0, movable = 0;
    };
    Moved move_free_blocks(Memmap& map, Unit pageblock, MigrateType type);

    // Frees blocks of the largest order to head or tail at random from now on
    // (page_alloc.shuffle=1).
    void shuffle_on_free(const Random& random) { shuffling_ = random; }

  private:
    [[nodiscard]] unsigned smallest(const Memmap& map, unsigned level, MigrateType type) const;
    void give_parts(Memmap& map, Unit unit, Parts parts, MigrateType type);
    void give_units(Memmap& map, Run run, MigrateType type);
    Unit first_parts(const Memmap& map, MigrateType type);
    // The list that a unit with free parts goes to next.
    Memmap::List any_parts_list(const Memmap& map, MigrateType type) {
        const unsigned order = map.small_order(++parts_listed_);
        parts_orders_[static_cast<unsigned>(type)] |= 1u << order;
        return parts_list(order, type);
    }
    Run take_units(Memmap& map, Unit unit, unsigned level, std::uint32_t count, MigrateType type);
    void change_list(Memmap& map, Unit unit, MigrateType type);
    void put_back(Memmap& map, Unit begin, Unit end, MigrateType type);
    // Moves memory of another type to the lists of this one. Returns the block to take next, or
    // no_unit where that is the smallest one; nothing if there is nothing to steal.
    std::optional<Unit> steal(Memmap& map, unsigned level, MigrateType type, bool no_fragment);
    bool steal_parts(Memmap& map, MigrateType type);
    struct Fallback {
        MigrateType type;
        bool whole;  // its pageblock may be claimed whole
    };
    [[nodiscard]] std::optional<Fallback> fallback(const Memmap& map, unsigned level,
                                                   MigrateType type) const;
    void steal_block(Memmap& map, Unit unit, MigrateType type, bool whole);
    [[nodiscard]] bool merge_likely(const Memmap& map, Unit unit, unsigned level) const;
    [[nodiscard]] bool has_free(const Memmap& map, Unit unit, unsigned level) const {
        return unit >= begin_ && unit < end_ && map.is_free(unit, level);
    }

    ZoneSpec spec_;
    KernelRules kernel_;
    Unit begin_, end_;
    Memmap::List lists_, first_list_;  // of order 0, of the grain's order
    std::uint32_t free_frames_ = 0;
    std::uint32_t parts_listed_ = 0;  // so often
    // [type] bit i: the list of parts of order i may have some. Where there are none, none have.
    std::array<std::uint32_t, migrate_types> parts_orders_{};
    std::array<std::uint32_t, max_order + 1> free_blocks_{};  // [level]
    std::optional<Random> shuffling_;
};

}  // namespace pagelens
