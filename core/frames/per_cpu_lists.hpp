// A zone's per-cpu lists (struct per_cpu_pages of Linux 6.1): of each CPU a list a migrate type for
// orders 0 to 3 and for 2 MiB blocks, refilled and emptied in batches.
//
// With a grain the sizes scale: counts are in units, and the orders below the grain share units of
// one size but keep lists of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/frames/zone.hpp"

namespace pagelens {

class PerCpuLists {
  public:
    static constexpr unsigned costly_order = 3;          // PAGE_ALLOC_COSTLY_ORDER
    static constexpr unsigned kinds = costly_order + 2;  // orders 0 to 3 and 9
    static constexpr std::uint32_t lists_per_cpu = kinds * pcp_types;

    // `lists`: the first of the Memmap's lists that are these, cpus * lists_per_cpu in all.
    PerCpuLists(const ZoneSpec& spec, const Memmap& map, Memmap::List lists, unsigned cpus);

    // Whether blocks of this order pass through the lists.
    [[nodiscard]] bool serves(unsigned order) const {
        return batch_ > 0 && (order <= costly_order || order == huge_order);
    }
    // Preconditions: serves(order); type is one of the first pcp_types.
    Unit take(Memmap& map, Zone& zone, unsigned cpu, unsigned order, MigrateType type,
              bool no_fragment);
    void give(Memmap& map, Zone& zone, unsigned cpu, Unit unit, unsigned order, MigrateType type);
    // Puts a block at the tail of a CPU's list (a state that is taken over from a real machine).
    void append(Memmap& map, unsigned cpu, Unit unit, unsigned order, MigrateType type);
    // Empties all lists of a CPU.
    void drain(Memmap& map, Zone& zone, unsigned cpu);

    [[nodiscard]] std::uint32_t units(unsigned cpu) const { return cpus_[cpu].count; }
    [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cpus_.size()); }

  private:
    struct Cpu {
        std::uint32_t count = 0;   // units in all its lists
        unsigned free_factor = 0;  // doublings of the batch while it frees and does not allocate
    };
    [[nodiscard]] static unsigned kind_of(unsigned order) {
        return order == huge_order ? kinds - 1 : order;
    }
    [[nodiscard]] static unsigned order_of(unsigned kind) {
        return kind == kinds - 1 ? huge_order : kind;
    }
    [[nodiscard]] Memmap::List list(unsigned cpu, unsigned index) const {
        return lists_ + cpu * lists_per_cpu + index;
    }
    void free_bulk(Memmap& map, Zone& zone, unsigned cpu, std::uint32_t count, unsigned index);
    std::uint32_t how_many_to_free(Cpu& cpu) const;

    Memmap::List lists_;
    std::uint32_t high_, batch_;  // units
    std::vector<Cpu> cpus_;
};

}  // namespace pagelens
