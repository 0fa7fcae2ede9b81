// What a node's caches ask of memory in a replay: it goes to DRAM, and is counted.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/frames/numa_policy.hpp"
#include "core/replay/cache_groups.hpp"
#include "core/replay/dram_sums.hpp"
#include "core/replay/frame_objects.hpp"
#include "core/replay/node_counts.hpp"

namespace pagelens {

class NodeMemory {
  public:
    // `numa`, if given, outlives this: lines are then counted by NUMA nodes.
    NodeMemory(const std::vector<Dram>& drams, const Program& program, std::uint32_t cores,
               const NumaPlacing* numa = nullptr)
        : drams_(drams),
          numa_(numa),
          requests_(drams.empty() ? 0 : cores),
          now_(stock({})),
          phases_(program.phases()) {
        for (NodePhase& phase : phases_) {
            phase.large_drams.resize(drams_.size());
            phase.object_reads.resize(program.objects());
            phase.object_writes.resize(program.objects());
            if (numa_ != nullptr)
                phase.numa_lines.resize(2 * std::size_t{program.objects()} * numa_->nodes() *
                                        numa_->nodes());
        }
    }

    // A batch: what each group of cores asks for, and then, by the caches' `totals` since the
    // beginning, what happened. Only what is `counted` goes to DRAM, which needs no warming up.
    void begin() {
        traffic_.clear();
        from_.clear();
        for (auto& of_core : requests_) of_core.clear();
    }
    void ask(std::uint32_t first_core, std::span<const MemoryAccess> traffic) {
        traffic_.insert(traffic_.end(), traffic.begin(), traffic.end());
        if (numa_ != nullptr) {
            for (const MemoryAccess& access : traffic)
                from_.push_back(numa_->node_of_cpu[first_core + access.core()]);
        }
        if (drams_.empty()) return;
        for (const MemoryAccess& access : traffic) {
            requests_[first_core + access.core()].push_back(access.line() * line_bytes |
                                                            (access.write() ? Dram::write_bit : 0));
        }
    }
    void end(const CacheGroups::Totals& totals, bool counted) {
        if (counted && !drams_.empty()) {
            spans_.assign(requests_.begin(), requests_.end());
            for (Dram& dram : drams_) dram.run(spans_);
        }
        before_ = std::exchange(now_, stock(totals));
    }

    // The batch is counted by a stretch of a phase; `owners` says [frame] whose lines they are.
    void count(std::uint32_t phase, std::uint64_t stretch, const FrameObjects& owners) {
        NodeStretch& sums = this->stretch(phase, stretch);
        for (std::size_t i = 0; i < cache_counters; ++i)
            sums.caches[i] += now_.caches[i] - before_.caches[i];
        for (std::size_t i = 0; i < drams_.size(); ++i)
            sums.drams[i].add(before_.drams[i], now_.drams[i]);
        for (const MemoryAccess& access : traffic_) {
            const std::uint16_t object =
                owners[static_cast<std::uint32_t>(access.line() / lines_per_page)];
            ++(access.write() ? phases_[phase].object_writes : phases_[phase].object_reads)[object];
        }
        for (std::size_t i = 0; i < from_.size(); ++i) {
            const std::uint32_t frame =
                static_cast<std::uint32_t>(traffic_[i].line() / lines_per_page);
            const std::size_t place = place_of(owners[frame], from_[i], frame);
            ++phases_[phase].numa_lines[2 * place + (traffic_[i].write() ? 1 : 0)];
        }
    }
    // The batch is the clearing of large pages.
    void count_large(std::uint32_t phase) {
        for (std::size_t i = 0; i < drams_.size(); ++i)
            phases_[phase].large_drams[i].add(before_.drams[i], now_.drams[i]);
    }
    // Lines of a frame that a core was counted to write for an object are none of its own.
    void take_back(std::uint32_t phase, std::uint16_t object, std::uint32_t frame,
                   std::uint32_t core, std::uint64_t lines) {
        phases_[phase].object_writes[object] -= lines;
        if (numa_ == nullptr) return;
        const std::size_t place = place_of(object, numa_->node_of_cpu[core], frame);
        phases_[phase].numa_lines[2 * place + 1] -= lines;
    }

    // All that was counted, with what all machines of the replay have in common. Called once.
    [[nodiscard]] NodeCounters counters(const NodeCounters& common) && {
        for (std::size_t number = 0; number < phases_.size(); ++number) {
            NodePhase& phase = phases_[number];
            const NodePhase& of_all = common.phases[number];
            phase.lines = of_all.lines;
            phase.cleared = of_all.cleared;
            phase.numa_cleared = of_all.numa_cleared;
            phase.hint_faults = of_all.hint_faults;
            phase.pages_moved = of_all.pages_moved;
            phase.pages_demoted = of_all.pages_demoted;
            phase.cleared_large = of_all.cleared_large;
            phase.simulated_large = of_all.simulated_large;
            for (std::size_t i = 0; i < of_all.stretches.size(); ++i) {
                NodeStretch& sums = stretch(number, i);
                sums.lines = of_all.stretches[i].lines;
                sums.cleared = of_all.stretches[i].cleared;
                sums.tlb = of_all.stretches[i].tlb;
            }
        }
        return {std::move(phases_), common.huge_pages, common.small_fallbacks,
                now_.caches[static_cast<std::size_t>(CacheCounter::sf_evictions)]};
    }

  private:
    struct Stock {
        CacheGroups::Totals caches{};
        std::vector<DramSums> drams;
    };

    [[nodiscard]] Stock stock(const CacheGroups::Totals& caches) const {
        Stock now{caches, {}};
        for (const Dram& dram : drams_) now.drams.push_back(DramSums::of(dram));
        return now;
    }
    [[nodiscard]] std::size_t place_of(std::uint16_t object, unsigned from,
                                       std::uint32_t frame) const {
        return (std::size_t{object} * numa_->nodes() + from) * numa_->nodes() +
               numa_->node_of_frame(frame);
    }
    NodeStretch& stretch(std::size_t phase, std::uint64_t number) {
        auto& stretches = phases_[phase].stretches;
        while (stretches.size() <= number) stretches.emplace_back().drams.resize(drams_.size());
        return stretches[number];
    }

    std::vector<Dram> drams_;
    const NumaPlacing* numa_;
    MemoryTraffic traffic_;                             // of the batch
    std::vector<std::uint8_t> from_;                    // [line of the batch] its core's NUMA node
    std::vector<std::vector<std::uint64_t>> requests_;  // [core] of the batch
    std::vector<std::span<const std::uint64_t>> spans_;
    Stock now_, before_;  // after the batch, and before it
    std::vector<NodePhase> phases_;
};

}  // namespace pagelens
