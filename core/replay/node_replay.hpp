// Replays a program's ops on one placement through all that a node's lines meet: TLBs and page
// walks, the caches below L1 with their snoop filter, and the banks of DRAM.
//
// Every copy of the program runs on cores of its own, in lockstep by op, as in replay.hpp; nothing
// is sampled by set, because banks and snoop filter see all sets, but long programs are sampled in
// time (excerpt.hpp). docs/node-replay.md states the model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/accesses/event.hpp"
#include "core/accesses/program.hpp"
#include "core/frames/numa_policy.hpp"
#include "core/frames/placement.hpp"
#include "core/replay/excerpt.hpp"
#include "core/replay/node_counts.hpp"
#include "core/replay/node_model.hpp"
#include "core/replay/under_way.hpp"

namespace pagelens {

struct NodeReplayOptions {
    std::uint32_t ranks = 1;
    std::vector<Excerpt> excerpts;  // [phase]; empty: everything
    // Of the program's lines those that go through the caches. Caches whose index has address bits
    // 6 to 11 do the same to the lines of a set, whatever sets are with it: parts of all sets add
    // up. Where they are not all, TLBs look up what ops touch, and walks move no lines, unless
    // TLBs look up `all_lines`: then walks move the lines that are in these sets.
    LineSets sets = all_line_sets;
    bool all_lines = false;
    bool translating =
        true;             // else TLBs look nothing up; page tables have their frames all the same
    bool caching = true;  // else nothing goes through caches and DRAM: for what TLBs alone count
    // Stretches that recall more lines refill the caches, which is cheaper than to access each
    // (CacheHierarchy::refill()).
    std::uint64_t refilled_above = ~std::uint64_t{0};
    // Where threads run and pages go on a node of several NUMA nodes, which lines are then counted
    // by. Without: thread t of rank r runs on core r * threads + t of the only one.
    std::shared_ptr<const NumaPlacing> numa = nullptr;
};

// Throws std::invalid_argument for sizes that do not fit, OutOfMemory when the node is too small,
// Cancelled if it was cancelled.
NodeCounters replay_node(const Program& program, const Placement& placement, const NodeModel& model,
                         const NodeReplayOptions& options, const UnderWay& under_way);

// The same for machines that differ in their caches and DRAMs alone, each as in a replay of its
// own: what is equal for all of them (ops, pages, TLBs) is done once. One after the other; after a
// model whose caches have an l3_beside, the machine with that L3. Precondition: the models' TLBs
// are equal. Throws std::invalid_argument, too, for models whose cores or groups of cores are not,
// some of which have no DRAM, or for none.
std::vector<NodeCounters> replay_twins(const Program& program, const Placement& placement,
                                       std::span<const NodeModel* const> models,
                                       const NodeReplayOptions& options, const UnderWay& under_way);

}  // namespace pagelens
