#include "core/frames/per_cpu_lists.hpp"

#include <algorithm>
#include <utility>

namespace pagelens {

PerCpuLists::PerCpuLists(const ZoneSpec& spec, unsigned cpus, const KernelRules& kernel)
    : high_(spec.pcp_high), batch_(spec.pcp_batch), kernel_(kernel), cpus_(cpus) {}

// Refills a list by a batch of frames, in units. Returns false if the zone has none.
bool PerCpuLists::refill(Memmap& map, Zone& zone, Cpu& cpu, List& list, MigrateType type,
                         bool no_fragment) {
    for (std::uint32_t wanted = batch_; wanted > 0;) {
        const Run run = zone.take_run(map, type, map.units_of(wanted), no_fragment);
        if (run.count == 0) break;
        list.runs.push_back(run);
        const std::uint32_t frames = map.frames_of(run);
        cpu.count += frames;
        wanted -= std::min(wanted, frames);
    }
    std::reverse(list.runs.begin(), list.runs.end());  // the first one taken is the head
    return !list.empty();
}

Run PerCpuLists::take_part(const Memmap& map, List& list, std::uint32_t most) {
    if (most < map.grain() && list.runs.back().units() > 1) {  // of its first unit
        const Run unit = list.runs.back().split(1);
        list.runs.push_back(unit);
    }
    Run& head = list.runs.back();
    const Run run = map.split(head, most);
    if (head.count == 0) list.runs.pop_back();
    return run;
}

void PerCpuLists::give_units(Memmap& map, Zone& zone, Cpu& cpu, Run run, unsigned index) {
    while (run.count != 0) {
        const std::uint32_t room = cpu.count < high_ ? high_ - cpu.count : 1;
        give_at_once(map, zone, cpu, run.split(std::min(map.units_of(room), run.units())), index);
    }
}

Unit PerCpuLists::take(Memmap& map, Zone& zone, unsigned cpu_index, unsigned order,
                       MigrateType type, bool no_fragment) {
    Cpu& cpu = cpus_[cpu_index];
    cpu.free_factor >>= 1;
    List& list = cpu.list[index_of(order, type)];
    const unsigned level = map.level_of(order);
    if (list.empty()) {
        // The count is that of rmqueue_bulk(): blocks are kept only where a batch is more than one
        // page.
        std::uint32_t wanted = batch_ > 1 ? std::max(batch_ / (map.grain() << level), 2u) : batch_;
        for (; wanted > 0; --wanted) {
            const Unit unit = zone.take(map, level, type, no_fragment);
            if (unit == no_unit) break;
            list.runs.push_back(map.run_of(unit, 1));
            cpu.count += map.grain() << level;
        }
        if (list.empty()) return no_unit;
        std::reverse(list.runs.begin(), list.runs.end());
    }
    const Unit unit = list.runs.back().first;
    list.runs.pop_back();
    if (list.empty()) list.drop_tail();
    cpu.count -= map.grain() << level;
    return unit;
}

void PerCpuLists::give(Memmap& map, Zone& zone, unsigned cpu_index, Unit unit, unsigned order,
                       MigrateType type) {
    Cpu& cpu = cpus_[cpu_index];
    const unsigned index = index_of(order, type);
    cpu.list[index].runs.push_back(map.run_of(unit, 1));
    cpu.count += map.grain() << map.level_of(order);
    // Blocks of orders 1 to 3 are not kept while a CPU only frees.
    const bool all = cpu.free_factor > 0 && order <= costly_order;
    if (cpu.count < (all ? 0 : high_)) return;
    free_bulk(map, zone, cpu, all ? cpu.count : how_many_to_free(cpu), index);
}

// Returns how many pages go: one batch, and twice as many each time that nothing was allocated in
// between. One batch is kept (nr_pcp_free()).
std::uint32_t PerCpuLists::how_many_to_free(Cpu& cpu) const {
    if (!kernel_.doubles_freed_batch) return batch_;
    if (high_ < batch_) return 1;
    const std::uint32_t most = high_ - batch_;
    const std::uint32_t doubled = batch_ << cpu.free_factor;
    if (doubled < most) ++cpu.free_factor;
    return std::max(batch_, std::min(doubled, most));
}

// Frees from the tails of the lists, beginning with list `index` and going round.
void PerCpuLists::free_bulk(Memmap& map, Zone& zone, Cpu& cpu, std::uint32_t count,
                            unsigned index) {
    std::uint32_t left = std::min(count, cpu.count);
    if (kernel_.frees_in_turns) return free_in_turns(map, zone, cpu, left);
    for (; left > 0; index = (index + 1) % lists) {
        left -= std::min(left, free_tail(map, zone, cpu, index, left));
    }
}

// Frees from the lists of single pages in turn: one page of the first, and one more of each later
// one for every list that was empty. If only one list has any, all come from it.
void PerCpuLists::free_in_turns(Memmap& map, Zone& zone, Cpu& cpu, std::uint32_t count) {
    unsigned type = 0;
    for (std::uint32_t turn = 0; count > 0;) {
        do {
            ++turn;
            type = (type + 1) % pcp_types;
        } while (cpu.list[type].empty());
        if (turn == pcp_types) turn = count;
        const std::uint32_t freed = free_tail(map, zone, cpu, type, std::min(turn, count));
        count -= std::min(count, freed);
        turn -= std::min(turn, freed);
    }
}

// Frees up to `most` frames from the tail of a list, and up to a unit more. Returns how many.
std::uint32_t PerCpuLists::free_tail(Memmap& map, Zone& zone, Cpu& cpu, unsigned index,
                                     std::uint32_t most) {
    List& list = cpu.list[index];
    const std::uint32_t before = cpu.count;
    const unsigned order = order_of(index), level = map.level_of(order);
    const auto type = static_cast<MigrateType>(index % pcp_types);
    // The type that a page was freed with, unless its pageblock was isolated since.
    const auto now = [&](Unit unit) {
        return map.type_of(unit) == MigrateType::isolate ? MigrateType::isolate : type;
    };
    while (before - cpu.count < most && !list.empty()) {
        Run& tail = list.runs[list.tail];
        if (order > small_order) {
            zone.give(map, tail.first, level, now(tail.first));
            cpu.count -= map.grain() << level;
            ++list.tail;
            continue;
        }
        const std::uint32_t left = most - (before - cpu.count);
        Run from_tail = tail.reversed();
        const Run part = tail.units() == 1
                             ? std::exchange(from_tail, Run{})  // mostly, at a coarse grain
                             : from_tail.split(std::min(map.units_of(left), tail.units()));
        const Unit last = part.at(part.units() - 1);
        if (part.first == last || now(part.first) == now(last)) {
            zone.give_run(map, part, now(part.first));
        } else {
            for (std::uint32_t i = 0; i < part.units(); ++i) {
                zone.give(map, part.at(i), 0, now(part.at(i)));
            }
        }
        cpu.count -= map.frames_of(part);
        if (from_tail.count == 0) {
            ++list.tail;
        } else {
            tail = from_tail.reversed();
        }
    }
    list.drop_tail();
    return before - cpu.count;
}

// Forgets what was taken from the tail, once it is more than what is left.
void PerCpuLists::List::drop_tail() {
    if (tail == 0 || tail * 2 < runs.size()) return;
    runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(tail));
    tail = 0;
}

void PerCpuLists::append(const Memmap& map, unsigned cpu, Unit unit, unsigned order,
                         MigrateType type) {
    List& list = cpus_[cpu].list[index_of(order, type)];
    list.runs.insert(list.runs.begin(), map.run_of(unit, 1));
    cpus_[cpu].count += map.grain() << map.level_of(order);
}

void PerCpuLists::drain(Memmap& map, Zone& zone, unsigned cpu) {
    free_bulk(map, zone, cpus_[cpu], cpus_[cpu].count, 0);
}

}  // namespace pagelens
