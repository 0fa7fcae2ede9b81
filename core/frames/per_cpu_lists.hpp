// A zone's per-cpu lists (struct per_cpu_pages): of each CPU a list a migrate type for orders 0 to
// 3 and for 2 MiB blocks (older kernels: for order 0 alone), refilled and emptied in batches.
//
// Single pages are kept as runs of neighbours, which leave and enter the free lists as such: the
// outcome is that of page by page, for a fraction of the work. Counts are in frames; with a grain a
// refill takes whole units and is up to a unit more than a batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/frames/zone.hpp"

namespace pagelens {

class PerCpuLists {
  public:
    static constexpr unsigned costly_order = 3;          // PAGE_ALLOC_COSTLY_ORDER
    static constexpr unsigned kinds = costly_order + 2;  // orders 0 to 3 and 9

    PerCpuLists(const ZoneSpec& spec, unsigned cpus, const KernelRules& kernel);

    // Returns whether blocks of this order pass through the lists.
    [[nodiscard]] bool serves(unsigned order) const {
        return batch_ > 0 &&
               (order == small_order ||
                (kernel_.large_per_cpu_blocks && (order <= costly_order || order == huge_order)));
    }
    // Single pages, up to `most` frames; count 0 if there are none. Precondition: type is one of
    // the first pcp_types.
    Run take_run(Memmap& map, Zone& zone, unsigned cpu_index, MigrateType type, std::uint32_t most,
                 bool no_fragment) {
        Cpu& cpu = cpus_[cpu_index];
        List& list = cpu.list[index_of(small_order, type)];
        if (list.empty() && !refill(map, zone, cpu, list, type, no_fragment)) return {};
        return take_listed(map, cpu_index, type, most);
    }
    // The same, but without a refill.
    Run take_listed(const Memmap& map, unsigned cpu_index, MigrateType type, std::uint32_t most) {
        Cpu& cpu = cpus_[cpu_index];
        List& list = cpu.list[index_of(small_order, type)];
        if (list.empty()) return {};
        const Run run = take_head(map, list, most);
        if (list.empty()) list.drop_tail();
        const std::uint32_t frames = map.frames_of(run);
        cpu.count -= frames;
        cpu.free_factor >>= std::min(frames, 31u);
        return run;
    }
    // Gives single pages back in the run's order. Precondition: it lies in at most two pageblocks.
    void give_run(Memmap& map, Zone& zone, unsigned cpu, Run run, MigrateType type) {
        const unsigned index = index_of(small_order, type);
        if (run.units() > 1) return give_units(map, zone, cpus_[cpu], run, index);
        give_at_once(map, zone, cpus_[cpu], run, index);
    }
    // The same for a block of orders 1 to 3 or 9.
    Unit take(Memmap& map, Zone& zone, unsigned cpu, unsigned order, MigrateType type,
              bool no_fragment);
    void give(Memmap& map, Zone& zone, unsigned cpu, Unit unit, unsigned order, MigrateType type);
    // Puts a block at the tail of a CPU's list (a state that is taken over from a real machine).
    void append(const Memmap& map, unsigned cpu, Unit unit, unsigned order, MigrateType type);
    // Empties all lists of a CPU.
    void drain(Memmap& map, Zone& zone, unsigned cpu);

    [[nodiscard]] std::uint32_t frames(unsigned cpu) const { return cpus_[cpu].count; }
    // Calls visit(first unit, units, parts) for what lies in all lists.
    template <class Visit>
    void for_each(const Memmap& map, Visit&& visit) const {
        for (const Cpu& cpu : cpus_) {
            for (unsigned index = 0; index < lists; ++index) {
                const List& list = cpu.list[index];
                const std::uint32_t block = 1u << map.level_of(order_of(index));
                for (std::size_t i = list.tail; i < list.runs.size(); ++i) {
                    const Run& run = list.runs[i];
                    visit(run.lowest(), run.units() * block, run.parts);
                }
            }
        }
    }
    [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cpus_.size()); }

  private:
    // Runs in the order of the kernel's list, tail first: allocation takes from the back, emptying
    // from the front. Of orders above 0 a run is one block.
    struct List {
        std::vector<Run> runs;  // from `tail` on
        std::size_t tail = 0;
        [[nodiscard]] bool empty() const { return tail == runs.size(); }
        void drop_tail();
    };
    static constexpr unsigned lists = kinds * pcp_types;
    struct Cpu {
        std::uint32_t count = 0;   // frames in all its lists
        unsigned free_factor = 0;  // doublings of the batch while it frees and does not allocate
        std::vector<List> list = std::vector<List>(lists);
    };
    [[nodiscard]] static unsigned index_of(unsigned order, MigrateType type) {
        return (order == huge_order ? kinds - 1 : order) * pcp_types + static_cast<unsigned>(type);
    }
    [[nodiscard]] static unsigned order_of(unsigned index) {
        return index / pcp_types == kinds - 1 ? huge_order : index / pcp_types;
    }
    bool refill(Memmap& map, Zone& zone, Cpu& cpu, List& list, MigrateType type, bool no_fragment);
    // Takes from the head of a list that is not empty. At a coarse grain this mostly is all of it.
    static Run take_head(const Memmap& map, List& list, std::uint32_t most) {
        const Run head = list.runs.back();
        if (head.units() > 1 || most < map.grain()) return take_part(map, list, most);
        list.runs.pop_back();
        return head;
    }
    static Run take_part(const Memmap& map, List& list, std::uint32_t most);
    void give_units(Memmap& map, Zone& zone, Cpu& cpu, Run run, unsigned index);
    // Gives as much as there is room for, or one unit.
    void give_at_once(Memmap& map, Zone& zone, Cpu& cpu, const Run& run, unsigned index) {
        map.prefetch(run.first);                         // for when it leaves the list
        cpu.list[index].runs.push_back(run.reversed());  // the one given last is the head
        cpu.count += map.frames_of(run);
        if (cpu.count >= high_) free_bulk(map, zone, cpu, how_many_to_free(cpu), index);
    }
    void free_bulk(Memmap& map, Zone& zone, Cpu& cpu, std::uint32_t count, unsigned index);
    void free_in_turns(Memmap& map, Zone& zone, Cpu& cpu, std::uint32_t count);
    std::uint32_t free_tail(Memmap& map, Zone& zone, Cpu& cpu, unsigned index, std::uint32_t most);
    std::uint32_t how_many_to_free(Cpu& cpu) const;

    std::uint32_t high_, batch_;  // frames
    KernelRules kernel_;
    std::vector<Cpu> cpus_;
};

}  // namespace pagelens
