// DRAM behind a memory-side cache: its rows and banks, timed for stretches of the program.
//
// A replay that samples slots (replay.hpp) does not see what neighbouring pages ask of DRAM at the
// same time. So beside it stretches of the program, all lines of all ranks in their order, go
// through caches of their own, meet the memory-side cache as its tenants' last uses have it
// (slot_tenants.hpp), and what misses goes to DRAM: a read for each miss, a write for each dirty
// line that had to go. The replay's ops say what was used when, outside of the stretches; within,
// the stretches' own do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/accesses/sweep_blocks.hpp"
#include "core/machine/dram.hpp"
#include "core/replay/cache_groups.hpp"
#include "core/replay/counters.hpp"
#include "core/replay/rank_pages.hpp"
#include "core/replay/row_stretches.hpp"
#include "core/replay/slot_tenants.hpp"

namespace pagelens {

struct RowModel {
    // Of the program that is replayed, and as its cursor goes; outlives the replay.
    const RowStretches* stretches = nullptr;
    // [phase] most_lines() of one copy of the program that is replayed.
    std::vector<std::uint64_t> lines;
    // Of a group of cores, before the memory-side cache, as in the beginning; null: none. A line
    // should be written when it becomes dirty: what leaves during a stretch was there before it.
    const CacheHierarchy* caches = nullptr;
    // Each is fed all of DRAM's traffic: the machine's own, and twins of it.
    std::vector<Dram> drams;
};

class RowsBehind {
  public:
    // `walks` are those of the program if it is replayed block by block and has them.
    // Preconditions: model.stretches has the program's phases and pages; `sets` is a power of two.
    RowsBehind(const RowModel& model, const RankPages& pages, std::uint32_t page_count,
               std::uint32_t ranks, std::uint32_t threads, std::uint32_t sets, std::uint32_t ways,
               const WholeWalks* walks, Counters& counters);

    // What the replay does, op by op: a page has got frames that were cleared, has got that of a
    // file, is about to lose them; an op has been done; a phase begins; it is over.
    void mapped(std::uint32_t page) {
        tenants_.come(pages_, page);
        if (!active_) tenants_.cleared(page);
    }
    void shows_file(std::uint32_t page) { tenants_.come(pages_, page); }
    void unmapping(std::uint32_t first, std::uint64_t count);
    void done(const Op& op) {
        if (!active_ && op.kind() != OpKind::map_write && pages_.mapped(op.page))
            tenants_.used(op.page, op.lines, op.kind() != OpKind::fetch);
        place_[phase_] += most_lines(op);
        if (place_[phase_] >= due_) advance();
    }
    // What the replay does block by block, if it can: passes() says whether a block may be passed
    // at once, because no stretch reaches into it; then pages get frames; pass() ends the block.
    [[nodiscard]] static bool can_pass(const SweepBlocks& blocks, std::uint32_t ranks) {
        return ranks == 1 && blocks.moments_of_all() < 1u << 31;
    }
    [[nodiscard]] bool passes(const SweepBlocks& block) const {
        return !active_ && place_[phase_] + block.most_lines() < due_;
    }
    void maps_within(std::uint32_t page) { tenants_.come_within(pages_, page); }
    void pass(const SweepBlocks& block);
    void enter(unsigned phase);
    void finish() { to_dram(); }
    // Frames change: call `gone` before, `back` after.
    void gone();
    void back();

    [[gnu::always_inline]] void prefetch(std::uint32_t page) const { tenants_.prefetch(page); }
    void prefetch_to_map(std::uint32_t page) const { tenants_.prefetch_to_come(page); }

  private:
    // Where a phase's stretches stand.
    struct Cursor {
        std::size_t stretch = 0, op = 0;
        std::uint64_t place = 0;  // of that op
    };

    void advance();
    void run(const Op& op, bool counted);
    void wait_for_caches(const Op& op, std::uint64_t lines, bool counted);
    void flush();
    void done_by_all(const Op& op, bool write);
    void meet(const Op& op, std::uint32_t first_core, const MemoryAccess& access, bool counted);
    void meet(const Op& op, std::uint32_t rank, unsigned line, bool write, bool counted);
    void request(std::uint32_t core, std::uint32_t frame, unsigned line, bool write);
    void to_dram();

    const RankPages& pages_;
    std::span<const std::uint64_t> lines_;
    const RowStretches& stretches_;
    std::uint32_t page_count_, ranks_, threads_;
    SlotTenants tenants_;
    PendingRuns runs_;  // through the caches, if there are any
    std::optional<CacheGroups> caches_;
    std::vector<Dram> drams_;
    std::vector<DramSums> before_;
    Counters& counters_;

    unsigned phase_ = 0;
    std::vector<std::uint64_t> place_;    // [phase] of the replay
    std::vector<Cursor> cursors_;         // [phase]
    bool active_ = false;                 // in a stretch
    std::uint64_t due_ = 0;               // the place of the phase where there is something to do
    std::vector<std::uint64_t> reached_;  // [rank] lines of the op's page
    // Ops that wait for the caches, which are faster with many accesses at a time.
    struct Waiting {
        Op op;
        std::uint64_t lines;
        bool counted;
    };
    std::vector<Waiting> waiting_;
    // What the caches asked of memory for these.
    struct OfGroup {
        std::size_t accesses = 0, entries = 0;  // of the ops before, and what these asked for
    };
    std::vector<OfGroup> of_group_;
    std::vector<MemoryTraffic> traffic_;                // [group]
    std::vector<std::vector<std::size_t>> ends_;        // [group] as CacheGroups::access()
    std::vector<std::vector<std::uint64_t>> requests_;  // [core] for DRAM
    std::vector<std::span<const std::uint64_t>> spans_;
    std::uint64_t pending_ = 0;  // requests
    unsigned pending_phase_ = 0;
};

}  // namespace pagelens
