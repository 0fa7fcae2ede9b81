#include "core/frames/memory.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>

namespace pagelens {
namespace {

constexpr std::uint32_t no_limit = ~0u;

std::uint32_t lists_of(const Layout& layout) {
    return static_cast<std::uint32_t>(layout.zones.size() * Zone::list_count);
}

void check(const Layout& layout) {
    std::uint32_t end = 0;
    for (const ZoneSpec& zone : layout.zones) {
        if (zone.begin < end || zone.begin >= zone.end || zone.end > layout.frames ||
            zone.begin % (1u << pageblock_order) != 0) {
            throw std::invalid_argument(
                "zones: [" + std::to_string(zone.begin) + ", " + std::to_string(zone.end) +
                ") overlaps another, is empty, ends past the memory or does not begin on 2 MiB");
        }
        end = zone.end;
    }
    if (layout.zones.empty() || layout.zones.size() > 255 || layout.cpu_numa.empty()) {
        throw std::invalid_argument("zones: needs 1 to 255 zones and at least one CPU");
    }
}

// Returns the first frames of the free blocks of this order in a unit whose frames `free` are free.
Parts blocks_of(Parts free, unsigned order) {
    const auto pairs = [](Parts blocks, unsigned of) {  // that make a block of the next order
        constexpr Parts aligned[] = {0x5555555555555555, 0x1111111111111111, 0x0101010101010101,
                                     0x0001000100010001, 0x0000000100000001, 1};
        return blocks & blocks >> (1u << of) & aligned[of];
    };
    for (unsigned of = 0; of < order; ++of) free = pairs(free, of);
    const Parts larger = pairs(free, order);
    return free & ~(larger | larger << (1u << order));
}

}  // namespace

Memory::Memory(Layout layout, std::uint32_t grain, Empty)
    : layout_((check(layout), std::move(layout))),
      map_(grain == 0 ? layout_.frames : layout_.frames / grain * grain, grain, lists_of(layout_)) {
    Memmap::List lists = 0;
    zone_of_.resize((map_.units() >> map_.pageblock_level()) + 1);
    unsigned numa_count = 0;
    for (ZoneSpec& spec : layout_.zones) {
        spec.end = spec.end / grain * grain;
        const auto index = static_cast<std::uint8_t>(zones_.size());
        zones_.emplace_back(spec, map_, lists, layout_.kernel);
        lists += Zone::list_count;
        per_cpu_.emplace_back(spec, cpus(), layout_.kernel);
        turn_left_.push_back(turn_of(zones_.back()));
        numa_count = std::max(numa_count, spec.numa + 1);
        for (Unit unit = zones_.back().begin(); unit < zones_.back().end();
             unit += map_.pageblock_units()) {
            zone_of_[unit >> map_.pageblock_level()] = index;
        }
    }
    turn_over_.resize(zones_.size());
    for (const auto& order : fallback_orders(numa_count, layout_.cpu_numa, layout_.distances)) {
        auto& zonelist = zonelists_.emplace_back();
        for (const unsigned numa : order) {
            for (std::size_t zone = zones_.size(); zone-- > 0;) {
                if (zones_[zone].spec().numa != numa) continue;
                zonelist.push_back(static_cast<std::uint8_t>(zone));
            }
        }
    }
}

Memory::Memory(Layout layout, std::uint32_t grain) : Memory(std::move(layout), grain, Empty{}) {
    for (Zone& zone : zones_) {
        std::vector<std::pair<Unit, unsigned>> blocks;  // and their levels
        for (Unit unit = zone.begin(); unit < zone.end();) {
            unsigned level = map_.levels() - 1;
            while (unit % (1u << level) != 0 || zone.end() - unit < (1u << level)) --level;
            blocks.emplace_back(unit, level);
            unit += 1u << level;
        }
        if (!layout_.kernel.new_memory_to_tail) std::ranges::reverse(blocks);
        for (const auto& [unit, level] : blocks) {
            for (Unit i = unit; i < unit + (1u << level); ++i) map_.set_inside(i);
            zone.append(map_, unit, level, MigrateType::movable);
        }
    }
}

Memory Memory::taken_over(Layout layout, std::span<const FreeBlock> free,
                          std::span<const CachedBlock> cached, std::span<const FrameUse> use,
                          std::span<const MigrateType> pageblocks) {
    Memory memory(std::move(layout), 1, Empty{});
    Memmap& map = memory.map_;
    if (use.size() != map.units() || pageblocks.size() * map.pageblock_units() < map.units()) {
        throw std::invalid_argument("use: needs an entry for each of " +
                                    std::to_string(map.units()) +
                                    " frames, and pageblocks one for each 512");
    }
    std::vector<bool> in_zone(map.units());
    for (const Zone& zone : memory.zones_) {
        for (Unit unit = zone.begin(); unit < zone.end(); ++unit) {
            in_zone[unit] = true;
            if (unit % map.pageblock_units() == 0) {
                map.set_type(unit, pageblocks[unit / map.pageblock_units()]);
            }
            if (use[unit] == FrameUse::hole) continue;
            map.set_allocated(
                unit, 0,
                use[unit] == FrameUse::movable ? MigrateType::movable : MigrateType::unmovable);
        }
    }
    std::vector<bool> taken(map.units());
    const auto claim = [&](const FreeBlock& block) {
        const std::uint64_t size = 1ull << block.order, first = block.first.raw();
        bool good = block.order <= max_order && first % size == 0 && first + size <= map.units();
        for (std::uint64_t unit = first; good && unit < first + size; ++unit) {
            good = in_zone[unit] && !taken[unit];
            taken[unit] = true;
        }
        if (!good) {
            throw std::invalid_argument("free: the block of order " + std::to_string(block.order) +
                                        " at frame " + std::to_string(first) +
                                        " is misaligned, overlaps another or lies in no zone");
        }
        for (Unit unit = block.first.raw(); unit < first + size; ++unit) map.set_inside(unit);
    };
    for (const FreeBlock& block : free) {
        claim(block);
        memory.zone_of(block.first.raw()).append(map, block.first.raw(), block.order, block.type);
    }
    for (const CachedBlock& of : cached) {
        const std::size_t zone = memory.zone_index(of.block.first.raw());
        if (of.cpu >= memory.cpus() || !memory.per_cpu_[zone].serves(of.block.order)) {
            throw std::invalid_argument("cached: CPU " + std::to_string(of.cpu) +
                                        " has no list of order " + std::to_string(of.block.order));
        }
        claim(of.block);
        map.set_allocated(of.block.first.raw(), of.block.order, of.block.type);
        memory.per_cpu_[zone].append(map, of.cpu, of.block.first.raw(), of.block.order,
                                     of.block.type);
    }
    return memory;
}

template <class Take>
bool Memory::try_zones(const Request& request, std::uint32_t frames, Mark mark, Take&& take) {
    if (layout_.kernel.fair_zones) return try_fair_zones(request, frames, mark, take);
    // Mostly, the nearest zone serves the request.
    const std::uint8_t nearest = zonelists_[home_of(request)].front();
    const ZoneSpec& its = zones_[nearest].spec();
    if ((request.numas >> its.numa & 1) != 0 && above(zones_[nearest], its.kind, frames, mark) &&
        take(nearest, layout_.kernel.no_fragment && its.kind == ZoneKind::normal, no_limit)) {
        return true;
    }
    return try_all_zones(request, frames, mark, no_limit, take);
}

// Asks the zones of the nearest NUMA node that have not had their turn. If all have had it, all
// turns begin again, and one block comes from the first zone that has any (get_page_from_freelist()
// with ALLOC_FAIR). Only requests that leave zones above their low watermarks look at turns.
template <class Take>
bool Memory::try_fair_zones(const Request& request, std::uint32_t frames, Mark mark, Take&& take) {
    if (mark != Mark::low) return try_all_zones(request, frames, mark, no_limit, take);
    const ZoneSpec* first = nullptr;
    bool over = false;
    for (const std::uint8_t zone : zonelists_[home_of(request)]) {
        const ZoneSpec& spec = zones_[zone].spec();
        if ((request.numas >> spec.numa & 1) == 0) continue;
        if (first == nullptr) first = &spec;
        if (spec.numa != first->numa) break;
        if (turn_over_[zone]) {
            over = true;
            continue;
        }
        const auto left = static_cast<std::uint32_t>(std::max<std::int64_t>(turn_left_[zone], 0));
        if (above(zones_[zone], first->kind, frames, mark) &&
            take(zone, false, std::max(left, map_.grain()))) {
            return true;
        }
    }
    if (!over) return try_all_zones(request, frames, mark, no_limit, take);
    for (std::size_t zone = 0; zone < zones_.size(); ++zone) {
        if (zones_[zone].spec().numa != first->numa) continue;
        turn_left_[zone] = turn_of(zones_[zone]);
        turn_over_[zone] = false;
    }
    return try_all_zones(request, frames, mark, map_.grain(), take);
}

template <class Take>
[[gnu::noinline]] bool Memory::try_all_zones(const Request& request, std::uint32_t frames,
                                             Mark mark, std::uint32_t most, Take&& take) {
    const std::span<const std::uint8_t> zonelist = zonelists_[home_of(request)];
    const auto allowed = [&](std::uint8_t zone) {
        return (request.numas >> zones_[zone].spec().numa & 1) != 0;
    };
    const auto preferred = std::find_if(zonelist.begin(), zonelist.end(), allowed);
    if (preferred == zonelist.end()) return false;
    const ZoneSpec& first = zones_[*preferred].spec();
    // While DMA32 has memory, Normal's pageblocks keep their types (alloc_flags_nofragment()).
    for (bool no_fragment = layout_.kernel.no_fragment && first.kind == ZoneKind::normal;;
         no_fragment = false) {
        for (auto at = preferred; at != zonelist.end(); ++at) {
            if (!allowed(*at)) continue;
            if (no_fragment && zones_[*at].spec().numa != first.numa) break;
            if (!above(zones_[*at], first.kind, frames, mark)) continue;
            if (take(*at, no_fragment, most)) return true;
        }
        if (!no_fragment) return false;
    }
}

MaybeFrame Memory::alloc(const Request& request, Mark mark) {
    assert(request.order <= max_order && request.type != MigrateType::isolate);
    if (request.order == small_order) {
        const Run run = alloc_run(request, mark, 1);
        return run.count == 0 ? MaybeFrame() : MaybeFrame(map_.first_frame(run));
    }
    Unit unit = no_unit;
    const unsigned level = map_.level_of(request.order);
    const auto take = [&](std::uint8_t zone, bool no_fragment, std::uint32_t) {
        unit = per_cpu_[zone].serves(request.order)
                   ? per_cpu_[zone].take(map_, zones_[zone], request.cpu, request.order,
                                         request.type, no_fragment)
                   : zones_[zone].take(map_, level, request.type, no_fragment);
        if (unit != no_unit) count_taken(zone, map_.grain() << level);
        return unit != no_unit;
    };
    try_zones(request, map_.grain() << level, mark, take);
    return unit == no_unit ? MaybeFrame() : MaybeFrame(map_.frame_of(unit));
}

Run Memory::alloc_run(const Request& request, Mark mark, std::uint32_t most) {
    Run run;
    const auto take = [&](std::uint8_t zone, bool no_fragment, std::uint32_t limit) {
        const std::uint32_t wanted = std::min(most, limit);
        if (per_cpu_[zone].serves(small_order)) {
            run = per_cpu_[zone].take_run(map_, zones_[zone], request.cpu, request.type, wanted,
                                          no_fragment);
        } else {
            Run rest =
                zones_[zone].take_run(map_, request.type, map_.units_of(wanted), no_fragment);
            if (rest.count == 0) return false;
            run = map_.split(rest, wanted);
            if (rest.count != 0) zones_[zone].give_run(map_, rest, request.type);
        }
        if (run.count != 0) count_taken(zone, map_.frames_of(run));
        return run.count != 0;
    };
    try_zones(request, 1, mark, take);
    return run;
}

Run Memory::alloc_listed(const Request& request, Mark mark, std::uint32_t most) {
    Run run;
    try_zones(request, 1, mark, [&](std::uint8_t zone, bool, std::uint32_t limit) {
        if (per_cpu_[zone].serves(small_order)) {
            run =
                per_cpu_[zone].take_listed(map_, request.cpu, request.type, std::min(most, limit));
            if (run.count != 0) count_taken(zone, map_.frames_of(run));
        }
        return true;
    });
    return run;
}

// Does as zone_watermark_ok(), but does not look whether there are blocks of the level: that shows
// when one is taken.
bool Memory::above(const Zone& zone, ZoneKind preferred, std::uint32_t frames, Mark mark) const {
    if (mark == Mark::none) return true;
    const ZoneSpec& spec = zone.spec();
    const std::uint64_t least = std::uint64_t{mark == Mark::low ? spec.low : spec.min} +
                                (spec.kind < preferred ? spec.protection : 0);
    return zone.free_frames() > least + frames - 1;
}

void Memory::free(unsigned cpu, Frame frame, unsigned order) {
    const Unit unit = map_.unit_of(frame);
    if (order == small_order) return free_run(cpu, map_.run_of(frame));
    assert(unit < map_.units() && !map_.is_free(unit) && !map_.is_hole(unit));
    const std::size_t zone = zone_index(unit);
    const MigrateType type = map_.type_of(unit);
    if (per_cpu_[zone].serves(order) && type != MigrateType::isolate) {
        return per_cpu_[zone].give(map_, zones_[zone], cpu, unit, order, type);
    }
    zones_[zone].give(map_, unit, map_.level_of(order), type);
}

void Memory::free_run(unsigned cpu, Run run) {
    assert(run.lowest() + run.units() <= map_.units() && !map_.is_free(run.first) &&
           !map_.is_hole(run.first));
    const Unit last = run.at(run.units() - 1);
    if (last != run.first && map_.type_of(run.first) != map_.type_of(last)) {
        const Unit border = map_.pageblock_begin(run.count < 0 ? run.first : last);
        free_run(cpu, run.split(run.count < 0 ? run.first - border + 1 : border - run.first));
    }
    const std::size_t zone = zone_index(run.first);
    const MigrateType type = map_.type_of(run.first);
    if (per_cpu_[zone].serves(small_order) && type != MigrateType::isolate) {
        return per_cpu_[zone].give_run(map_, zones_[zone], cpu, run, type);
    }
    zones_[zone].give_run(map_, run, type);
}

void Memory::drain(unsigned cpu) {
    for (std::size_t zone = 0; zone < zones_.size(); ++zone) {
        per_cpu_[zone].drain(map_, zones_[zone], cpu);
    }
}

void Memory::drain() {
    for (unsigned cpu = 0; cpu < cpus(); ++cpu) drain(cpu);
}

bool Memory::below_high(std::uint64_t numas) const {
    return std::all_of(zones_.begin(), zones_.end(), [&](const Zone& zone) {
        const ZoneSpec& spec = zone.spec();
        return (numas >> spec.numa & 1) == 0 ||
               zone.free_frames() <=
                   spec.high + (spec.kind < ZoneKind::normal ? spec.protection : 0);
    });
}

// WMARK_PROMO lies as far above the high watermark as that lies above the low one.
std::int64_t Memory::above_promotion(unsigned numa) const {
    std::int64_t most = -std::int64_t{frames()};
    for (const Zone& zone : zones_) {
        const ZoneSpec& spec = zone.spec();
        if (spec.numa != numa) continue;
        const std::int64_t mark = 2 * std::int64_t{spec.high} - spec.low +
                                  (spec.kind < ZoneKind::normal ? spec.protection : 0);
        most = std::max(most, std::int64_t{zone.free_frames()} - mark);
    }
    return most;
}

std::uint32_t Memory::free_frames() const {
    std::uint32_t frames = 0;
    for (const Zone& zone : zones_) frames += zone.free_frames();
    return frames;
}

std::uint32_t Memory::cached_frames() const {
    std::uint32_t frames = 0;
    for (const PerCpuLists& lists : per_cpu_) {
        for (unsigned cpu = 0; cpu < lists.cpus(); ++cpu) frames += lists.frames(cpu);
    }
    return frames;
}

std::vector<bool> Memory::per_cpu_frames() const {
    std::vector<bool> found(frames());
    for (const PerCpuLists& lists : per_cpu_) {
        lists.for_each(map_, [&](Unit first, std::uint32_t units, Parts parts) {
            for (Unit unit = first; unit < first + units; ++unit) {
                map_.for_parts(unit, parts, [&](Frame frame) { found[frame.raw()] = true; });
            }
        });
    }
    return found;
}

std::vector<Frame> Memory::free_list(std::size_t zone, unsigned order, MigrateType type) const {
    std::vector<Frame> frames;
    if (order < map_.grain_order()) {
        for (unsigned of = 0; of < map_.grain_order(); ++of) {
            for (const Unit unit : map_.elements(zones_[zone].parts_list(of, type))) {
                map_.for_parts(unit, blocks_of(map_.free_parts(unit), order),
                               [&](Frame frame) { frames.push_back(frame); });
            }
        }
        return frames;
    }
    for (const Unit unit : map_.elements(zones_[zone].list(order - map_.grain_order(), type))) {
        frames.push_back(map_.frame_of(unit));
    }
    return frames;
}

std::vector<FreeBlock> Memory::free_blocks() const {
    std::vector<FreeBlock> blocks;
    for (std::size_t zone = 0; zone < zones_.size(); ++zone) {
        for (unsigned order = 0; order <= max_order; ++order) {
            for (unsigned type = 0; type < migrate_types; ++type) {
                const auto of = static_cast<MigrateType>(type);
                for (const Frame first : free_list(zone, order, of)) {
                    blocks.push_back({first, order, of});
                }
            }
        }
    }
    return blocks;
}

}  // namespace pagelens
