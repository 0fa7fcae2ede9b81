// Replays a program's ops on one placement through all that a node's lines meet: TLBs and page
// walks, the caches below L1 with their snoop filter, and the banks of DRAM.
//
// Every copy of the program runs on cores of its own, in lockstep by op, as in replay.hpp; nothing
// is sampled by set, because banks and snoop filter see all sets, but long programs are sampled in
// time (excerpt.hpp). docs/node-replay.md states the model.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/accesses/event.hpp"
#include "core/accesses/program.hpp"
#include "core/frames/placement.hpp"
#include "core/machine/cache_hierarchy.hpp"
#include "core/machine/dram.hpp"
#include "core/machine/tlb.hpp"
#include "core/replay/dram_sums.hpp"
#include "core/replay/excerpt.hpp"

namespace pagelens {

// The parts as they are in the beginning: every replay has copies of its own.
struct NodeModel {
    std::uint32_t cores = 1;
    // Of caches.cores() neighbouring cores, as often as the node needs; without L1, which has run
    // with the program's compilation.
    CacheHierarchy caches;
    std::optional<Tlb> tlb;  // every core's; walks go through the caches
    // Each is fed all of memory's traffic: the machine's own, and twins of it.
    std::vector<Dram> drams;
};

struct NodeReplayOptions {
    std::uint32_t ranks = 1;
    std::vector<Excerpt> excerpts;  // [phase]; empty: everything
    // Of the program's lines those that go through the caches. Caches whose index has address bits
    // 6 to 11 do the same to the lines of a set, whatever sets are with it: parts of all sets add
    // up. Where they are not all, TLBs look up what ops touch, and walks move no lines.
    LineSets sets = all_line_sets;
    bool translating =
        true;             // else TLBs look nothing up; page tables have their frames all the same
    bool caching = true;  // else nothing goes through caches and DRAM: for what TLBs alone count
};

// What was counted while one stretch of a phase went through the machine.
struct NodeStretch {
    std::uint64_t lines = 0;  // moved by all ranks, without cleared ones
    std::uint64_t cleared =
        0;  // pages of 4 KiB, by the kernel, where that changes more than counts
    std::array<std::uint64_t, cache_counters> caches{};  // of all cores
    TlbCounters tlb;
    std::vector<DramSums> drams;
};

// Page clearing is rare and comes in bursts, which stretches meet or miss by chance. So its lines
// are counted in the whole phase; each is a line written to memory. What DRAM takes for them is
// counted with a stretch's other lines, but for large pages: some of these are simulated apart.
struct NodePhase {
    std::uint64_t lines = 0;            // moved by all ranks, without cleared ones
    std::uint64_t cleared = 0;          // by the kernel; of sampled sets where sets are sampled
    std::uint64_t cleared_large = 0;    // of these, in large pages
    std::uint64_t simulated_large = 0;  // of these, through DRAM: `large_drams`
    std::vector<DramSums> large_drams;
    std::vector<NodeStretch> stretches;  // one where all of the phase is simulated
    // [object] lines of memory while stretches were counted, without cleared ones
    std::vector<std::uint64_t> object_reads, object_writes;
};

struct NodeCounters {
    std::vector<NodePhase> phases;
    std::uint64_t huge_pages = 0;       // 2 MiB or 1 GiB pages handed out
    std::uint64_t small_fallbacks = 0;  // times when one was wanted and there was none
    // Of all that went through the caches, counted or not. 0: without the filter all is the same.
    std::uint64_t sf_evictions = 0;
};

// Thread t of rank r runs on core r * program.threads() + t.
// Throws std::invalid_argument for sizes that do not fit, OutOfMemory when the node is too small,
// Cancelled soon after `cancel` became true.
NodeCounters replay_node(const Program& program, const Placement& placement, const NodeModel& model,
                         const NodeReplayOptions& options, const std::atomic<bool>& cancel);

// The same for machines that differ in their caches and DRAMs alone, each as in a replay of its
// own: what is equal for all of them (ops, pages, TLBs) is done once. One after the other; after a
// model whose caches have an l3_beside, the machine with that L3. Precondition: the models' TLBs
// are equal. Throws std::invalid_argument, too, for models whose cores or groups of cores are not,
// some of which have no DRAM, or for none.
std::vector<NodeCounters> replay_twins(const Program& program, const Placement& placement,
                                       std::span<const NodeModel* const> models,
                                       const NodeReplayOptions& options,
                                       const std::atomic<bool>& cancel);

}  // namespace pagelens
