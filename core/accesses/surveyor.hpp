// Sums up what a walk through a trace tells: the visitor behind survey().
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/accesses/survey_result.hpp"
#include "core/accesses/thread_load.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/accesses/trace_walk.hpp"

namespace pagelens::detail {

class Surveyor {
  public:
    // The reader must outlive it, and the walk its visits. `moment_instructions` as survey() has
    // it.
    Surveyor(const TraceReader& reader, const TraceWalk& walk, std::uint64_t moment_instructions)
        : walk_(walk),
          thread_load_(reader.threads().size()),
          first_writers_(reader.first_writes(), reader.threads().size()),
          lines_of_thread_(reader.threads().size()),
          moment_(moment_instructions) {
        result_.instructions.resize(reader.threads().size());
        result_.phases = walk.phases();
        result_.phase_instructions.resize(result_.phases.size());
        result_.phase_lines.resize(result_.phases.size());
        for (const ObjectOrigin& origin : walk.objects().origins())
            result_.objects.push_back({.origin = origin});
        result_.live = LiveCourse(result_.objects.size());
        for (const StaticVariable& variable : reader.variables())
            keep_large(variable.start, variable.size);
    }

    // Call this once, when the walk has ended.
    Survey finish() {
        if (moment_ != 0) result_.live.end_moment();
        end_round(0);
        thread_load_.end_phase(phase_);
        result_.thread_loads = thread_load_.finish();
        result_.first_writers = first_writers_.found();
        for (const auto& [begin, end] : large_blocks_ever_)
            result_.large_blocks.push_back(
                {begin / page_bytes, (end - 1) / page_bytes + 1 - begin / page_bytes});
        result_.line_events += walk_.touches_left_out();
        for (const SurveyedObject& object : result_.objects) {
            result_.lines_fetched += object.lines_fetched;
            result_.lines_stored += object.lines_stored;
        }
        result_.warnings = walk_.warnings();
        result_.cached_pages = walk_.cached_pages();
        return std::move(result_);
    }

    void line(EventKind kind, std::uint32_t page, unsigned, ObjectIndex object, unsigned thread) {
        ++result_.line_events;
        if (kind == EventKind::touch) return;  // of caches; nobody has to give the walk any
        SurveyedObject& its = result_.objects[object];
        if (owner(page) != unowned && is_site(object)) disown(page);
        const bool fetched = kind == EventKind::read || kind == EventKind::write;
        const bool stored = kind == EventKind::write || kind == EventKind::first_store ||
                            kind == EventKind::stream_store;
        its.lines_fetched += fetched;
        lines_ += fetched || kind == EventKind::stream_store;
        lines_of_thread_[thread] += fetched || kind == EventKind::stream_store;
        const TracedPage& its_page = walk_.pages()[page];
        if (fetched && its_page.state != PageState::written && its_page.cached == 0)
            ++result_.lines_of_zero_page;
        its.lines_stored += stored;
    }

    void map(PageState state, std::uint32_t page, ObjectIndex object, unsigned thread) {
        if (owner(page) == unowned && !is_site(object)) {
            if (page >= owners_.size()) owners_.resize(walk_.pages().size(), unowned);
            owners_[page] = object;
            grow(object, page_bytes);
        }
        if (state != PageState::written) return read_file(walk_.pages()[page].cached);
        result_.peak_pages = std::max(result_.peak_pages, ++resident_);
        const std::uint64_t number = walk_.pages()[page].number;
        first_writers_.write(thread, walk_.batch_instructions(), number, object);
        auto& ranges = result_.first_writes;
        if (!ranges.empty() && ranges.back().first + ranges.back().count == number)
            ++ranges.back().count;
        else
            ranges.push_back({number, 1});
    }

    void unmap(std::span<const std::uint32_t> pages, unsigned) {
        for (const std::uint32_t page : pages) {
            resident_ -= walk_.pages()[page].state == PageState::written;
            if (owner(page) != unowned) disown(page);
        }
    }

    void phase(unsigned phase, unsigned) {
        end_round(0);
        thread_load_.end_phase(phase_);
        phase_ = phase;
        result_.phase_order.push_back(phase);
    }

    void meet(std::uint64_t meeting, unsigned) { end_round(meeting); }

    void birth(ObjectIndex object, std::uint64_t address, std::uint64_t bytes) {
        death(address);
        keep_large(address, bytes);
        ++result_.objects[object].births;
        if (!is_site(object)) return;
        if (bytes < page_bytes)
            small_blocks_[address] = {bytes, object};
        else
            large_blocks_[address] = {bytes, object};
        grow(object, bytes);
    }

    void death(std::uint64_t address) {
        const auto end = [&](auto& blocks) {
            const auto block = blocks.find(address);
            if (block == blocks.end()) return;
            result_.live.shrink(block->second.object, block->second.bytes);
            blocks.erase(block);
        };
        end(small_blocks_);
        end(large_blocks_);
    }

    // Mappings end this way, because no event tells of the end of memory from mmap. What is left on
    // either side stays alive.
    void blocks_gone(std::uint64_t first_page, std::uint64_t pages) {
        const std::uint64_t begin = first_page * page_bytes, end = begin + pages * page_bytes;
        auto next = large_blocks_.lower_bound(begin);
        if (next != large_blocks_.begin()) {
            const auto before = std::prev(next);
            if (before->first + before->second.bytes > begin) next = before;
        }
        while (next != large_blocks_.end() && next->first < end) {
            const auto [start, block] = *next;
            next = large_blocks_.erase(next);
            result_.live.shrink(block.object, block.bytes);
            const auto keep = [&, of = block.object](std::uint64_t from, std::uint64_t to) {
                if (from >= to) return;
                large_blocks_[from] = {to - from, of};
                result_.live.grow(of, to - from);
            };
            keep(start, std::min(begin, start + block.bytes));
            keep(end, start + block.bytes);
        }
    }

    void progress(unsigned thread, std::uint64_t instructions, std::uint64_t clock) {
        thread_load_.execute(thread, instructions, clock,
                             std::exchange(lines_of_thread_[thread], 0));
        result_.instructions[thread] += instructions;
        instructions_ += instructions;
        executed_ += instructions;
        if (moment_ == 0 || executed_ < moment_) return;
        result_.live.end_moment();
        executed_ = 0;
    }

  private:
    void end_round(std::uint64_t meeting) {
        Rounds& rounds = result_.rounds;
        rounds.phases.push_back(phase_);
        rounds.meeting.push_back(meeting);
        rounds.instructions.push_back(instructions_);
        rounds.lines.push_back(lines_);
        result_.phase_instructions[phase_] += std::exchange(instructions_, 0);
        result_.phase_lines[phase_] += std::exchange(lines_, 0);
    }

    // Counts a page of the page cache once. 0: it is none.
    void read_file(std::uint32_t cached) {
        if (cached >= files_read_.size()) files_read_.resize(std::size_t{cached} + 1);
        if (cached == 0 || files_read_[cached]) return;
        files_read_[cached] = true;
        ++result_.file_pages;
    }

    static constexpr ObjectIndex unowned = 0;

    struct Block {
        std::uint64_t bytes;
        ObjectIndex object;
    };

    [[nodiscard]] bool is_site(ObjectIndex object) const {
        return result_.objects[object].origin.kind == ObjectOrigin::Kind::call_site;
    }

    [[nodiscard]] ObjectIndex owner(std::uint32_t page) const {
        return page < owners_.size() ? owners_[page] : unowned;
    }

    // The page's frame is gone, or it holds a block now. Often the block did not exist yet when the
    // allocator first touched the page.
    void disown(std::uint32_t page) {
        result_.live.shrink(owners_[page], page_bytes);
        owners_[page] = unowned;
    }

    // Blocks that had the same memory one after the other are one.
    void keep_large(std::uint64_t begin, std::uint64_t bytes) {
        if (bytes < large_block_bytes) return;
        std::uint64_t end = begin + bytes;
        auto next = large_blocks_ever_.lower_bound(begin);
        if (next != large_blocks_ever_.begin() && std::prev(next)->second > begin) --next;
        while (next != large_blocks_ever_.end() && next->first < end) {
            begin = std::min(begin, next->first);
            end = std::max(end, next->second);
            next = large_blocks_ever_.erase(next);
        }
        large_blocks_ever_.emplace(begin, end);
    }

    void grow(ObjectIndex object, std::uint64_t bytes) {
        SurveyedObject& its = result_.objects[object];
        its.peak_bytes = std::max(its.peak_bytes, result_.live.grow(object, bytes));
    }

    const TraceWalk& walk_;
    Survey result_;
    ThreadLoad thread_load_;
    FirstWriters first_writers_;
    std::vector<std::uint64_t> lines_of_thread_;  // since its last progress
    std::uint64_t resident_ = 0;                  // pages
    std::vector<bool> files_read_;
    unsigned phase_ = 0;
    std::uint64_t instructions_ = 0, lines_ = 0;  // of this round
    const std::uint64_t moment_;
    std::uint64_t executed_ = 0;       // instructions of this moment
    std::vector<ObjectIndex> owners_;  // of each resident page without a block
    std::unordered_map<std::uint64_t, Block> small_blocks_;  // live ones of call sites, by address
    std::map<std::uint64_t, Block> large_blocks_;            // these can be mappings of their own
    std::map<std::uint64_t, std::uint64_t> large_blocks_ever_;  // of large_block_bytes; begin, end
};

}  // namespace pagelens::detail
