#include "core/frames/zone.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace pagelens {
namespace {

// The types from which a type that has run dry takes, in this order (Linux 6.1, `fallbacks`).
constexpr std::array<std::array<MigrateType, 2>, pcp_types> fallbacks = {{
    {MigrateType::reclaimable, MigrateType::movable},    // unmovable
    {MigrateType::reclaimable, MigrateType::unmovable},  // movable
    {MigrateType::unmovable, MigrateType::movable},      // reclaimable
}};

}  // namespace

Zone::Zone(const ZoneSpec& spec, const Memmap& map, Memmap::List lists, const KernelRules& kernel)
    : spec_(spec),
      kernel_(kernel),
      begin_(map.unit_of(Frame(spec.begin))),
      end_(map.unit_of(Frame(spec.end))),
      lists_(lists),
      first_list_(lists + map.grain_order() * migrate_types) {}

Unit Zone::take(Memmap& map, unsigned wanted, MigrateType type, bool no_fragment) {
    Unit unit = no_unit;
    while (unit == no_unit) {
        if (const unsigned level = smallest(map, wanted, type); level < map.levels()) {
            unit = map.first(list(level, type));
        } else if (const auto stolen = steal(map, wanted, type, no_fragment)) {
            unit = *stolen;
        } else {
            return no_unit;
        }
    }
    const unsigned level = map.free_level(unit);
    remove(map, unit, level);
    put_back(map, unit + (1u << wanted), unit + (1u << level), type);
    map.set_allocated(unit, wanted, type);
    return unit;
}

// The smallest block is used up before the next one is looked at, its units in order of address.
Run Zone::take_run(Memmap& map, MigrateType type, std::uint32_t most, bool no_fragment) {
    for (;;) {
        if (const Unit unit = first_parts(map, type); unit != no_unit) {
            return {unit, 1, take_parts(map, unit, map.whole(), type)};
        }
        if (const unsigned level = smallest(map, 0, type); level < map.levels()) {
            const Unit unit = map.first(list(level, type));
            const Run run = take_units(map, unit, level, std::min(most, 1u << level), type);
            map.prefetch_second(list(level, type));
            return run;
        }
        const auto stolen = steal(map, 0, type, no_fragment);
        if (!stolen) return {};
        // The pages after its first one may be others than its neighbours.
        if (*stolen != no_unit) {
            return take_units(map, *stolen, map.free_level(*stolen), 1, type);
        }
    }
}

// Takes the first `count` units of a free block as single pages.
Run Zone::take_units(Memmap& map, Unit unit, unsigned level, std::uint32_t count,
                     MigrateType type) {
    remove(map, unit, level);
    if (count < 1u << level) put_back(map, unit + count, unit + (1u << level), type);
    map.set_pages(unit, count, type);
    return map.run_of(unit, count);
}

// Returns the first unit of the smallest order that has some.
Unit Zone::first_parts(const Memmap& map, MigrateType type) {
    std::uint32_t& orders = parts_orders_[static_cast<unsigned>(type)];
    for (; orders != 0; orders &= orders - 1) {
        const Memmap::List parts =
            parts_list(static_cast<unsigned>(std::countr_zero(orders)), type);
        const Unit unit = map.first_shared(parts);
        if (unit == no_unit) continue;
        map.prefetch_shared(parts);
        return unit;
    }
    return no_unit;
}

// The smallest level from this one upwards of which the type has a block; levels() if there is
// none.
unsigned Zone::smallest(const Memmap& map, unsigned level, MigrateType type) const {
    while (level < map.levels() && map.empty(list(level, type))) ++level;
    return level;
}

// Puts back the end of a split block: the largest aligned blocks, at the heads of their lists
// (expand()).
void Zone::put_back(Memmap& map, Unit begin, Unit end, MigrateType type) {
    for (Unit unit = begin; unit < end;) {
        const auto level = static_cast<unsigned>(std::countr_zero(unit));
        map.set_free(unit, level);
        map.push_head(list(level, type), unit);
        ++free_blocks_[level];
        free_frames_ += map.grain() << level;
        unit += 1u << level;
    }
}

// Gives each aligned block of the run as a whole. That leaves the same lists as giving its units in
// the run's order: they merge within the block before they merge with others.
void Zone::give_units(Memmap& map, Run run, MigrateType type) {
    if (run.units() == 1) return give(map, run.first, 0, type);
    const auto top = static_cast<int>(map.levels()) - 1;
    Unit begin = run.lowest(), end = begin + run.units();
    while (begin < end) {
        const Unit border = run.count < 0 ? end : begin;
        const int level = std::min(
            {top, std::countr_zero(border), static_cast<int>(std::bit_width(end - begin)) - 1});
        const std::uint32_t size = 1u << level;
        give(map, run.count < 0 ? end - size : begin, static_cast<unsigned>(level), type);
        (run.count < 0 ? end : begin) += run.count < 0 ? -size : size;
    }
}

Parts Zone::take_parts(Memmap& map, Unit unit, Parts wanted, MigrateType type) {
    const Parts free = map.free_parts(unit), parts = free & wanted;
    if (parts == 0) return 0;
    if (parts == free) map.unlink_shared(unit);
    map.set_parts(unit, parts, type);
    free_frames_ -= Memmap::count_of(parts);
    return parts;
}

// Frames freed last are used first, as in the small orders' lists. A unit that is whole again
// merges.
void Zone::give_parts(Memmap& map, Unit unit, Parts parts, MigrateType type) {
    const Parts before = map.free_parts(unit);
    assert((before & parts) == 0);
    if (before != 0) map.unlink_shared(unit);
    if ((before | parts) == map.whole()) {
        free_frames_ -= Memmap::count_of(before);
        return give(map, unit, 0, type);
    }
    free_frames_ += Memmap::count_of(parts);
    map.set_free_parts(unit, before | parts);
    map.push_shared_head(any_parts_list(map, type), unit);
}

void Zone::give(Memmap& map, Unit unit, unsigned level, MigrateType type, Place place) {
    const unsigned top = map.levels() - 1;
    free_frames_ += map.grain() << level;
    map.set_inside(unit, 1u << level);
    for (; level < top; ++level) {
        const Unit buddy = unit ^ (1u << level);
        if (!has_free(map, buddy, level)) break;
        if (level >= map.pageblock_level()) {  // an isolated pageblock merges with its like only
            const MigrateType other = map.type_of(buddy);
            if (other != type && (other == MigrateType::isolate || type == MigrateType::isolate)) {
                break;
            }
        }
        map.unlink(buddy);
        --free_blocks_[level];
        map.set_inside(buddy);
        unit &= ~(1u << level);
    }
    map.set_free(unit, level);
    ++free_blocks_[level];
    bool to_tail = place == Place::tail;
    if (!to_tail) {
        to_tail = shuffling_ && level == top ? (shuffling_->bits32() & 1) != 0
                                             : merge_likely(map, unit, level);
    }
    if (to_tail) {
        map.push_tail(list(level, type), unit);
    } else {
        map.push_head(list(level, type), unit);
    }
}

// Returns whether the block would merge twice if its buddy came back now (buddy_merge_likely()).
bool Zone::merge_likely(const Memmap& map, Unit unit, unsigned level) const {
    if (level >= map.pageblock_level()) return false;
    const Unit parent = unit & ~(1u << level);
    return has_free(map, parent ^ (2u << level), level + 1);
}

void Zone::remove(Memmap& map, Unit unit, unsigned level) {
    map.unlink(unit);
    map.set_inside(unit);
    --free_blocks_[level];
    free_frames_ -= map.grain() << level;
}

void Zone::append(Memmap& map, Unit unit, unsigned level, MigrateType type) {
    map.set_free(unit, level);
    map.push_tail(list(level, type), unit);
    ++free_blocks_[level];
    free_frames_ += map.grain() << level;
}

Zone::Moved Zone::move_free_blocks(Memmap& map, Unit pageblock, MigrateType type) {
    Moved moved;
    const Unit stop = std::min(pageblock + map.pageblock_units(), end_);
    for (Unit unit = std::max(pageblock, begin_); unit < stop;) {
        moved.movable += Memmap::count_of(map.movable_parts(unit));
        moved.free += map.free_frames(unit);
        if (map.is_free(unit)) {
            const unsigned level = map.free_level(unit);
            change_list(map, unit, type);
            unit += 1u << level;
            continue;
        }
        if (map.free_parts(unit) != 0) change_list(map, unit, type);
        ++unit;
    }
    return moved;
}

// Moves a free block, or a unit with free frames, to the lists of another type.
void Zone::change_list(Memmap& map, Unit unit, MigrateType type) {
    if (map.is_free(unit)) {
        const Memmap::List to = list(map.free_level(unit), type);
        map.unlink(unit);
        kernel_.moved_to_tail ? map.push_tail(to, unit) : map.push_head(to, unit);
    } else {
        const Memmap::List to = any_parts_list(map, type);
        map.unlink_shared(unit);
        kernel_.moved_to_tail ? map.push_shared_tail(to, unit) : map.push_shared_head(to, unit);
    }
}

std::optional<Zone::Fallback> Zone::fallback(const Memmap& map, unsigned level,
                                             MigrateType type) const {
    if (free_blocks_[level] == 0) return std::nullopt;
    for (const MigrateType other : fallbacks[static_cast<unsigned>(type)]) {
        if (map.empty(list(level, other))) continue;
        return Fallback{other, level + map.grain_order() >= pageblock_order / 2 ||
                                   type != MigrateType::movable};
    }
    return std::nullopt;
}

// The largest block of another type; but where its pageblock cannot be claimed whole, the smallest
// (newer kernels).
std::optional<Unit> Zone::steal(Memmap& map, unsigned wanted, MigrateType type, bool no_fragment) {
    const unsigned least = no_fragment ? std::max(wanted, map.pageblock_level()) : wanted;
    std::optional<Fallback> found;
    unsigned level = map.levels();
    while (!found && level-- > least) found = fallback(map, level, type);
    if (!found) {
        const bool any = wanted == 0 && !no_fragment && steal_parts(map, type);
        return any ? std::optional(no_unit) : std::nullopt;
    }
    if (!found->whole && level > wanted && kernel_.steals_smallest) {
        found.reset();
        for (level = wanted; !found; ++level) found = fallback(map, level, type);
        --level;
    }
    const Unit block = map.first(list(level, found->type));
    steal_block(map, block, type, found->whole);
    return kernel_.takes_smallest_stolen ? no_unit : block;
}

// Takes small blocks, if there is nothing else. Movable pages take them without the pageblock.
bool Zone::steal_parts(Memmap& map, MigrateType type) {
    for (const MigrateType other : fallbacks[static_cast<unsigned>(type)]) {
        const Unit unit = first_parts(map, other);
        if (unit == no_unit) continue;
        steal_block(map, unit, type, type != MigrateType::movable);
        return true;
    }
    return false;
}

void Zone::steal_block(Memmap& map, Unit unit, MigrateType type, bool whole) {
    const bool is_block = map.is_free(unit);
    const unsigned level = is_block ? map.free_level(unit) : 0;
    if (is_block && level >= map.pageblock_level()) {
        for (Unit at = unit; at < unit + (1u << level); at += map.pageblock_units()) {
            map.set_type(at, type);
        }
        return change_list(map, unit, type);
    }
    if (!whole) return change_list(map, unit, type);
    const Unit pageblock = map.pageblock_begin(unit);
    const MigrateType old_type = map.type_of(unit);
    const Moved moved = move_free_blocks(map, pageblock, type);
    std::uint32_t alike = 0;  // allocated frames that suit the type
    if (!kernel_.claims_alike) {
        alike = 0;
    } else if (type == MigrateType::movable) {
        alike = moved.movable;
    } else if (old_type == MigrateType::movable) {
        alike = pageblock_frames - moved.free - moved.movable;
    }
    if (moved.free + alike >= pageblock_frames / 2) map.set_type(unit, type);
}

}  // namespace pagelens
