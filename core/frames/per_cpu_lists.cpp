#include "core/frames/per_cpu_lists.hpp"

#include <algorithm>

namespace pagelens {

PerCpuLists::PerCpuLists(const ZoneSpec& spec, const Memmap& map, unsigned cpus)
    : high_((spec.pcp_high + map.grain() - 1) / map.grain()),
      batch_((spec.pcp_batch + map.grain() - 1) / map.grain()),
      cpus_(cpus) {}

// rmqueue_bulk()'s count: pages are kept in the lists only where a batch is more than one.
std::uint32_t PerCpuLists::batch_of(unsigned level) const {
    return batch_ > 1 ? std::max(batch_ >> level, 2u) : batch_;
}

Run PerCpuLists::take_run(Memmap& map, Zone& zone, unsigned cpu_index, MigrateType type,
                          std::uint32_t most, bool no_fragment) {
    Cpu& cpu = cpus_[cpu_index];
    List& list = cpu.list[index_of(small_order, type)];
    if (list.empty()) {
        for (std::uint32_t wanted = batch_of(0); wanted > 0;) {
            const Run run = zone.take_run(map, type, wanted, no_fragment);
            if (run.count == 0) break;
            list.runs.push_back(run);
            cpu.count += run.units();
            wanted -= run.units();
        }
        if (list.empty()) return {};
        std::reverse(list.runs.begin(), list.runs.end());  // the first one taken is the head
    }
    Run& head = list.runs.back();
    const Run run = head.split(std::min(most, head.units()));
    if (head.count == 0) list.runs.pop_back();
    if (list.empty()) list.drop_tail();
    cpu.count -= run.units();
    cpu.free_factor >>= std::min(run.units(), 31u);
    return run;
}

void PerCpuLists::give_run(Memmap& map, Zone& zone, unsigned cpu_index, Run run, MigrateType type) {
    Cpu& cpu = cpus_[cpu_index];
    const unsigned index = index_of(small_order, type);
    while (run.count != 0) {
        const std::uint32_t room = cpu.count < high_ ? high_ - cpu.count : 1;
        const Run part = run.split(std::min(room, run.units()));
        cpu.list[index].runs.push_back(part.reversed());  // the one given last is the head
        cpu.count += part.units();
        if (cpu.count >= high_) free_bulk(map, zone, cpu, how_many_to_free(cpu), index);
    }
}

Unit PerCpuLists::take(Memmap& map, Zone& zone, unsigned cpu_index, unsigned order,
                       MigrateType type, bool no_fragment) {
    Cpu& cpu = cpus_[cpu_index];
    cpu.free_factor >>= 1;
    List& list = cpu.list[index_of(order, type)];
    const unsigned level = map.level_of(order);
    if (list.empty()) {
        for (std::uint32_t wanted = batch_of(level); wanted > 0; --wanted) {
            const Unit unit = zone.take(map, level, type, no_fragment);
            if (unit == no_unit) break;
            list.runs.push_back({unit, 1});
            cpu.count += 1u << level;
        }
        if (list.empty()) return no_unit;
        std::reverse(list.runs.begin(), list.runs.end());
    }
    const Unit unit = list.runs.back().first;
    list.runs.pop_back();
    if (list.empty()) list.drop_tail();
    cpu.count -= 1u << level;
    return unit;
}

void PerCpuLists::give(Memmap& map, Zone& zone, unsigned cpu_index, Unit unit, unsigned order,
                       MigrateType type) {
    Cpu& cpu = cpus_[cpu_index];
    const unsigned index = index_of(order, type);
    cpu.list[index].runs.push_back({unit, 1});
    cpu.count += 1u << map.level_of(order);
    // Blocks of orders 1 to 3 are not kept while a CPU only frees.
    const bool all = cpu.free_factor > 0 && order <= costly_order;
    if (cpu.count < (all ? 0 : high_)) return;
    free_bulk(map, zone, cpu, all ? cpu.count : how_many_to_free(cpu), index);
}

// A batch is kept; each time that nothing was allocated in between, twice as many go
// (nr_pcp_free()).
std::uint32_t PerCpuLists::how_many_to_free(Cpu& cpu) const {
    if (high_ < batch_) return 1;
    const std::uint32_t most = high_ - batch_;
    const std::uint32_t doubled = batch_ << cpu.free_factor;
    if (doubled < most) ++cpu.free_factor;
    return std::max(batch_, std::min(doubled, most));
}

// From the tails of the lists, beginning with list `index` and going round.
void PerCpuLists::free_bulk(Memmap& map, Zone& zone, Cpu& cpu, std::uint32_t count,
                            unsigned index) {
    std::uint32_t left = std::min(count, cpu.count);
    for (; left > 0; index = (index + 1) % lists) {
        List& list = cpu.list[index];
        const unsigned order = order_of(index), level = map.level_of(order);
        const auto type = static_cast<MigrateType>(index % pcp_types);
        while (left > 0 && !list.empty()) {
            Run& tail = list.runs[list.tail];
            // The type that a page was freed with, unless its pageblock was isolated since.
            const auto now = [&](Unit unit) {
                return map.type_of(unit) == MigrateType::isolate ? MigrateType::isolate : type;
            };
            if (order > small_order) {
                zone.give(map, tail.first, level, now(tail.first));
                cpu.count -= 1u << level;
                left -= std::min(left, 1u << level);
                ++list.tail;
                continue;
            }
            Run from_tail = tail.reversed();
            const Run part = from_tail.split(std::min(left, tail.units()));
            if (now(part.first) == now(part.at(part.units() - 1))) {
                zone.give_run(map, part, now(part.first));
            } else {
                for (std::uint32_t i = 0; i < part.units(); ++i) {
                    zone.give(map, part.at(i), 0, now(part.at(i)));
                }
            }
            cpu.count -= part.units();
            left -= part.units();
            if (from_tail.count == 0) {
                ++list.tail;
            } else {
                tail = from_tail.reversed();
            }
        }
        list.drop_tail();
    }
}

// Forgets what was taken from the tail, once it is more than what is left.
void PerCpuLists::List::drop_tail() {
    if (tail * 2 < runs.size()) return;
    runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(tail));
    tail = 0;
}

void PerCpuLists::append(const Memmap& map, unsigned cpu, Unit unit, unsigned order,
                         MigrateType type) {
    List& list = cpus_[cpu].list[index_of(order, type)];
    list.runs.insert(list.runs.begin(), {unit, 1});
    cpus_[cpu].count += 1u << map.level_of(order);
}

void PerCpuLists::drain(Memmap& map, Zone& zone, unsigned cpu) {
    free_bulk(map, zone, cpus_[cpu], cpus_[cpu].count, 0);
}

}  // namespace pagelens
