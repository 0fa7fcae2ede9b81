#include "core/replay/rows_behind.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace pagelens {
namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
// Requests that cores make freely against each other before they wait for each other: as
// NodeReplay's. Stretches of a phase follow each other without a pause.
constexpr std::uint64_t batch_requests = 1u << 15;
// Lines that wait for the caches at most: their accesses stay in the host's first cache.
constexpr std::uint64_t most_waiting = 512;

// The place of a phase of `from` lines that corresponds to a place of its `to` lines.
std::uint64_t scaled(std::uint64_t place, std::uint64_t from, std::uint64_t to) {
    if (from == to || from == 0) return place;
    return static_cast<std::uint64_t>(static_cast<double>(place) * static_cast<double>(to) /
                                      static_cast<double>(from));
}

}  // namespace

RowsBehind::RowsBehind(const RowModel& model, const RankPages& pages, std::uint32_t page_count,
                       std::uint32_t ranks, std::uint32_t threads, std::uint32_t sets,
                       std::uint32_t ways, const WholeWalks* walks, Counters& counters)
    : pages_(pages),
      lines_(model.lines),
      stretches_(*model.stretches),
      page_count_(page_count),
      ranks_(ranks),
      threads_(threads),
      tenants_(page_count, ranks, sets, ways, walks),
      runs_(model.caches != nullptr ? model.caches->cores() : 1, ranks * threads),
      drams_(model.drams),
      counters_(counters),
      place_(stretches_.phases()),
      cursors_(stretches_.phases()),
      reached_(ranks),
      requests_(std::size_t{ranks} * threads) {
    const std::uint32_t cores = ranks * threads;
    if (model.caches != nullptr) {
        caches_.emplace(*model.caches, cores);
        of_group_.resize(runs_.groups());
        traffic_.resize(runs_.groups());
        ends_.resize(runs_.groups());
    }
    for (const Dram& dram : drams_) before_.push_back(DramSums::of(dram));
    counters_.drams.resize(stretches_.phases() * drams_.size());
    enter(0);
}

void RowsBehind::enter(unsigned phase) {
    phase_ = phase;
    advance();
}

void RowsBehind::pass(const SweepBlocks& block) {
    tenants_.pass(block);
    place_[phase_] += block.most_lines();
}

void RowsBehind::unmapping(std::uint32_t first, std::uint64_t count) {
    for (std::uint32_t page = first; page < first + count; ++page)
        if (pages_.mapped(page)) tenants_.go(pages_, page);
}

void RowsBehind::gone() {
    for (std::uint32_t page = 0; page < page_count_; ++page)
        if (pages_.mapped(page)) tenants_.leave(pages_, page);
}

void RowsBehind::back() {
    for (std::uint32_t page = 0; page < page_count_; ++page)
        if (pages_.mapped(page)) tenants_.join(pages_, page);
}

// Does what the stretches have up to where the replay is.
void RowsBehind::advance() {
    const std::uint64_t whole = lines_[phase_], of_stretches = stretches_.lines(phase_);
    const std::uint64_t now = scaled(place_[phase_], whole, of_stretches);
    Cursor& cursor = cursors_[phase_];
    const auto stretches = stretches_.of(phase_);
    for (; cursor.stretch < stretches.size(); ++cursor.stretch, cursor.op = 0) {
        const RowStretch& stretch = stretches[cursor.stretch];
        if (cursor.op == 0) cursor.place = stretch.begin;
        active_ = now >= stretch.begin;
        if (!active_) {
            flush();
            due_ = scaled(stretch.begin, of_stretches, whole);
            return;
        }
        due_ = 0;
        for (; cursor.op < stretch.ops.size(); ++cursor.op) {
            const Op& op = stretch.ops[cursor.op];
            const std::uint64_t after = cursor.place + most_lines(op);
            if (after > now) return flush();
            run(op, cursor.place >= stretch.counted_from);
            cursor.place = after;
        }
    }
    flush();
    active_ = false;
    due_ = never;
}

void RowsBehind::run(const Op& op, bool counted) {
    if (!pages_.mapped(op.page)) return;  // the zero page, or one that the replay has not come to
    const bool clears = op.kind() == OpKind::map_write;
    if (clears) flush();
    if (clears && tenants_.was_cleared(op.page)) return;  // it had its frames
    const std::uint64_t lines = clears ? ~0ull : op.lines;
    if (caches_) {
        wait_for_caches(op, lines, counted);
        if (clears) flush();
        return;
    }
    const bool write = op.kind() != OpKind::fetch;
    std::fill(reached_.begin(), reached_.end(), 0);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        for (std::uint64_t rest = lines; rest != 0; rest &= rest - 1)
            meet(op, rank, static_cast<unsigned>(std::countr_zero(rest)), write, counted);
    }
    done_by_all(op, write);
}

void RowsBehind::wait_for_caches(const Op& op, std::uint64_t lines, bool counted) {
    const AccessKind kind = op.kind() == OpKind::fetch        ? AccessKind::read
                            : op.kind() == OpKind::write_back ? AccessKind::write_back
                                                              : AccessKind::stream_store;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
        runs_.push(lines, pages_.frame(op.page, rank), rank * threads_ + op.thread, kind);
    waiting_.push_back({op, lines, counted});
    if (runs_.lines() >= most_waiting) flush();
}

// The ops that wait go through the caches, and then meet the memory-side cache one by one.
void RowsBehind::flush() {
    if (waiting_.empty()) return;
    caches_->access(runs_, traffic_, ends_);
    runs_.clear();
    std::fill(of_group_.begin(), of_group_.end(), OfGroup{});
    for (const auto& [op, lines, counted] : waiting_) {
        std::fill(reached_.begin(), reached_.end(), 0);
        const auto of_rank = static_cast<std::size_t>(std::popcount(lines));
        for (std::uint32_t rank = 0; rank < ranks_;) {
            const std::uint32_t group = (rank * threads_ + op.thread) / runs_.cores_of_group();
            OfGroup& its = of_group_[group];
            for (; rank < ranks_ && (rank * threads_ + op.thread) / runs_.cores_of_group() == group;
                 ++rank)
                its.accesses += of_rank;
            for (; its.entries < ends_[group][its.accesses - 1]; ++its.entries)
                meet(op, group * runs_.cores_of_group(), traffic_[group][its.entries], counted);
        }
        done_by_all(op, op.kind() != OpKind::fetch);
    }
    waiting_.clear();
    for (MemoryTraffic& of_group : traffic_) of_group.clear();
    for (auto& of_group : ends_) of_group.clear();
}

// What the caches of a group, whose first core is given, ask of memory for an op.
void RowsBehind::meet(const Op& op, std::uint32_t first_core, const MemoryAccess& access,
                      bool counted) {
    const std::uint32_t rank = (first_core + access.core()) / threads_;
    // The line is of another page only where caches write what they made room for.
    if (access.line() / lines_per_page != pages_.frame(op.page, rank)) return;
    meet(op, rank, static_cast<unsigned>(access.line() % lines_per_page), access.write(), counted);
}

// All ranks have done an op.
void RowsBehind::done_by_all(const Op& op, bool write) {
    if (op.kind() == OpKind::map_write) return tenants_.cleared(op.page);
    std::uint64_t reached = 0;
    for (const std::uint64_t of_rank : reached_) reached |= of_rank;
    if (reached != 0) tenants_.used(op.page, reached, write);
}

// A line of the op's page comes to the memory-side cache.
void RowsBehind::meet(const Op& op, std::uint32_t rank, unsigned line, bool write, bool counted) {
    if (counted) {
        const auto found = tenants_.look(pages_, op.page, pages_.holder(op.page, rank), line,
                                         reached_.data(), write);
        const std::uint32_t core = rank * threads_ + op.thread;
        if (found.missed) request(core, pages_.frame(op.page, rank), line, false);
        if (found.dirty_victim != SlotTenants::none) request(core, found.dirty_victim, line, true);
    }
    reached_[pages_.holder(op.page, rank)] |= 1ull << line;
}

void RowsBehind::request(std::uint32_t core, std::uint32_t frame, unsigned line, bool write) {
    if (pending_ == batch_requests || (pending_ != 0 && pending_phase_ != phase_)) to_dram();
    pending_phase_ = phase_;
    ++pending_;
    requests_[core].push_back((std::uint64_t{frame} * lines_per_page + line) * line_bytes |
                              (write ? Dram::write_bit : 0));
}

void RowsBehind::to_dram() {
    if (pending_ == 0) return;
    spans_.assign(requests_.begin(), requests_.end());
    for (std::size_t i = 0; i < drams_.size(); ++i) {
        drams_[i].run(spans_);
        const DramSums now = DramSums::of(drams_[i]);
        counters_.drams[pending_phase_ * drams_.size() + i].add(before_[i], now);
        before_[i] = now;
    }
    for (auto& of_core : requests_) of_core.clear();
    pending_ = 0;
}

}  // namespace pagelens
