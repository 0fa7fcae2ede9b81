// One machine of a node's replay behind its TLBs: the caches that the cores' accesses meet, and the
// memory behind them. Where the caches have an L3 beside their own, they have two memories. A
// replay can feed several machines, which differ in these parts alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/accesses/program.hpp"
#include "core/replay/cache_groups.hpp"
#include "core/replay/node_memory.hpp"
#include "core/replay/node_model.hpp"

namespace pagelens {

class NodeTwin {
  public:
    // Precondition: `model` outlives this.
    NodeTwin(const NodeModel& model, const Program& program, std::uint32_t cores,
             const NumaPlacing* numa)
        : as_new_(&model.caches),
          caches_(model.caches, cores),
          memories_{NodeMemory(model.drams, program, cores, numa)} {
        if (model.caches.has_beside()) memories_.emplace_back(model.drams, program, cores, numa);
    }

    // One for the machine as it is; a second one with the L3 beside in place of its own.
    [[nodiscard]] std::span<NodeMemory> memories() { return memories_; }

    // A batch goes through the caches and, if it is `counted`, through DRAM.
    void run(const PendingRuns& runs, bool counted) {
        for (NodeMemory& memory : memories_) memory.begin();
        if (!counted) {
            caches_.warm_up(runs);
            return end(counted);
        }
        traffic_.clear();
        caches_.access(runs, traffic_,
                       [&](std::uint32_t first_core, const auto& its, const auto& beside) {
                           memories_[0].ask(first_core, its);
                           if (memories_.size() > 1) memories_[1].ask(first_core, beside);
                       });
        end(counted);
    }

    // The caches hold what a run left of which this batch is the end, and nothing else.
    void refill(const PendingRuns& runs) {
        for (NodeMemory& memory : memories_) memory.begin();
        caches_.refill(runs, *as_new_);
        end(false);
    }

  private:
    void end(bool counted) {
        memories_[0].end(caches_.totals(), counted);
        if (memories_.size() > 1) memories_[1].end(caches_.totals_beside(), counted);
    }

    const CacheHierarchy* as_new_;
    CacheGroups caches_;
    MemoryTraffic traffic_;
    std::vector<NodeMemory> memories_;
};

}  // namespace pagelens
