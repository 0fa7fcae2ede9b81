#include "core/frames/isolation.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

namespace pagelens {
namespace {

template <class Visit>
void for_pageblocks(const Memmap& map, UnitRange range, Visit&& visit) {
    for (Unit unit = range.begin; unit < range.end; unit += map.pageblock_units()) visit(unit);
}

// Returns the allocated pages of the range, or nothing at all if some of them cannot be moved.
std::optional<std::vector<Frame>> movable_pages(const Memmap& map, UnitRange range) {
    std::vector<Frame> found;
    for (Unit unit = range.begin; unit < range.end; ++unit) {
        if (map.is_free(unit)) {
            unit += (1u << map.free_level(unit)) - 1;
            continue;
        }
        const Parts parts = map.movable_parts(unit);
        if (map.is_hole(unit) || parts != map.allocated_parts(unit)) return std::nullopt;
        map.for_parts(unit, parts, [&](Frame page) { found.push_back(page); });
    }
    return found;
}

void set_types(Memory& memory, UnitRange range, MigrateType type) {
    Memmap& map = memory.map();
    Zone& zone = memory.zone_of(range.begin);
    for_pageblocks(map, range, [&](Unit block) {
        map.set_type(block, type);
        zone.move_free_blocks(map, block, type);
    });
}

bool isolate_and_empty(Memory& memory, UnitRange range, unsigned cpu, std::vector<Move>& moves) {
    const Memmap& map = memory.map();
    const auto pages = movable_pages(map, range);
    if (!pages) return false;
    set_types(memory, range, MigrateType::isolate);
    for (const Frame page : *pages) {
        const auto target = memory.alloc({cpu, small_order}, Memory::Mark::min);
        if (!target) return false;
        moves.push_back({page, *target});
        memory.free(cpu, page, small_order);
    }
    return true;
}

UnitRange range_of(const Memory& memory, Frame begin, Frame end) {
    constexpr std::uint32_t block = 1u << max_order;
    if (begin.raw() % block != 0 || end.raw() % block != 0 || begin >= end) {
        throw std::invalid_argument("range: [" + std::to_string(begin.raw()) + ", " +
                                    std::to_string(end.raw()) +
                                    ") must be multiples of 1024 frames");
    }
    return {memory.map().unit_of(begin), memory.map().unit_of(end)};
}

bool lies_in_one_zone(const Memory& memory, UnitRange range) {
    return std::ranges::any_of(memory.zones(), [&](const Zone& zone) {
        return range.begin >= zone.begin() && range.end <= zone.end();
    });
}

}  // namespace

bool evacuate(Memory& memory, UnitRange range, unsigned cpu, std::vector<Move>& moves) {
    memory.drain(cpu);  // of what the move before this one left
    const bool empty = isolate_and_empty(memory, range, cpu, moves);
    set_types(memory, range, MigrateType::movable);
    return empty;
}

bool take_offline(Memory& memory, Frame begin, Frame end, unsigned cpu, std::vector<Move>& moves) {
    const UnitRange range = range_of(memory, begin, end);
    if (!lies_in_one_zone(memory, range)) return false;
    Memmap& map = memory.map();
    Zone& zone = memory.zone_of(range.begin);
    memory.drain();
    if (!isolate_and_empty(memory, range, cpu, moves)) {
        set_types(memory, range, MigrateType::movable);
        return false;
    }
    memory.drain();
    for (Unit unit = range.begin; unit < range.end;) {
        const unsigned level = map.free_level(unit);
        zone.remove(map, unit, level);
        for (const Unit stop = unit + (1u << level); unit < stop; ++unit) map.set_hole(unit);
    }
    return true;
}

void bring_online(Memory& memory, Frame begin, Frame end) {
    const UnitRange range = range_of(memory, begin, end);
    if (!lies_in_one_zone(memory, range)) throw std::invalid_argument("range: is not offline");
    Memmap& map = memory.map();
    Zone& zone = memory.zone_of(range.begin);
    const unsigned top = map.levels() - 1;
    for (Unit unit = range.begin; unit < range.end; unit += 1u << top) {
        for (Unit i = unit; i < unit + (1u << top); ++i) {
            if (!map.is_hole(i)) throw std::invalid_argument("range: is not offline");
        }
        for (Unit i = unit; i < unit + (1u << top); ++i) map.set_inside(i);
        for_pageblocks(map, {unit, unit + (1u << top)},
                       [&](Unit block) { map.set_type(block, MigrateType::movable); });
        zone.give(map, unit, top, MigrateType::movable,
                  memory.kernel().new_memory_to_tail ? Zone::Place::tail : Zone::Place::usual);
    }
}

}  // namespace pagelens
