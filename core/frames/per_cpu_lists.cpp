#include "core/frames/per_cpu_lists.hpp"

#include <algorithm>

namespace pagelens {

PerCpuLists::PerCpuLists(const ZoneSpec& spec, const Memmap& map, Memmap::List lists, unsigned cpus)
    : lists_(lists),
      high_((spec.pcp_high + map.grain() - 1) / map.grain()),
      batch_((spec.pcp_batch + map.grain() - 1) / map.grain()),
      cpus_(cpus) {}

Unit PerCpuLists::take(Memmap& map, Zone& zone, unsigned cpu_index, unsigned order,
                       MigrateType type, bool no_fragment) {
    Cpu& cpu = cpus_[cpu_index];
    cpu.free_factor >>= 1;
    const Memmap::List of =
        list(cpu_index, kind_of(order) * pcp_types + static_cast<unsigned>(type));
    const unsigned level = map.level_of(order);
    if (map.empty(of)) {
        std::uint32_t wanted = batch_ > 1 ? std::max(batch_ >> level, 2u) : batch_;
        for (; wanted > 0; --wanted) {
            const Unit unit = zone.take(map, level, type, no_fragment);
            if (unit == no_unit) break;
            map.push_tail(of, unit);
            cpu.count += 1u << level;
        }
        if (map.empty(of)) return no_unit;
    }
    const Unit unit = map.first(of);
    map.unlink(unit);
    cpu.count -= 1u << level;
    return unit;
}

void PerCpuLists::give(Memmap& map, Zone& zone, unsigned cpu_index, Unit unit, unsigned order,
                       MigrateType type) {
    Cpu& cpu = cpus_[cpu_index];
    const unsigned index = kind_of(order) * pcp_types + static_cast<unsigned>(type);
    map.push_head(list(cpu_index, index), unit);
    map.prefetch(unit);  // looked at when the list is emptied
    cpu.count += 1u << map.level_of(order);
    // Blocks of orders 1 to 3 are not kept while a CPU only frees.
    const bool all = cpu.free_factor > 0 && order > 0 && order <= costly_order;
    if (cpu.count < (all ? 0 : high_)) return;
    free_bulk(map, zone, cpu_index, all ? cpu.count : how_many_to_free(cpu), index);
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
void PerCpuLists::free_bulk(Memmap& map, Zone& zone, unsigned cpu_index, std::uint32_t count,
                            unsigned index) {
    Cpu& cpu = cpus_[cpu_index];
    std::uint32_t left = std::min(count, cpu.count);
    for (; left > 0; index = (index + 1) % lists_per_cpu) {
        const Memmap::List of = list(cpu_index, index);
        const unsigned level = map.level_of(order_of(index / pcp_types));
        const auto type = static_cast<MigrateType>(index % pcp_types);
        while (left > 0 && !map.empty(of)) {
            const Unit unit = map.last(of);
            map.unlink(unit);
            // The type that it was freed with, unless its pageblock was isolated since.
            const bool isolated = map.type_of(unit) == MigrateType::isolate;
            zone.give(map, unit, level, isolated ? MigrateType::isolate : type);
            cpu.count -= 1u << level;
            left -= std::min(left, 1u << level);
        }
    }
}

void PerCpuLists::append(Memmap& map, unsigned cpu, Unit unit, unsigned order, MigrateType type) {
    map.push_tail(list(cpu, kind_of(order) * pcp_types + static_cast<unsigned>(type)), unit);
    cpus_[cpu].count += 1u << map.level_of(order);
}

void PerCpuLists::drain(Memmap& map, Zone& zone, unsigned cpu) {
    free_bulk(map, zone, cpu, cpus_[cpu].count, 0);
}

}  // namespace pagelens
