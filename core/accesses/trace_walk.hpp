// Goes through a trace in merged order and says what each event means: which page (numbered), which
// object, which thread, and when pages come and go. Survey and compilation are its visitors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/accesses/file_mappings.hpp"
#include "core/accesses/intervals.hpp"
#include "core/accesses/merge_ahead.hpp"
#include "core/accesses/object_map.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/address/units.hpp"

namespace pagelens {

// Called now and then during long work; may throw to end it.
using Poll = std::function<void()>;
// The same of a walk, with the share of the run's instructions that it has behind it: 0 if the
// trace does not say how long the run was.
using WalkPoll = std::function<void(float share)>;

// A page's state as the kernel sees it.
enum class PageState : std::uint8_t { unmapped, read, written };

struct TracedPage {
    std::uint64_t first_number;  // virtual page number when first touched
    std::uint64_t number;        // and now: mremap moves a page with its frame
    PageState state;
    // 1 + the index of the page of the page cache that the page shows since it was first read, or
    // written through a shared mapping. 0 means none: a page that is only read is then the zero
    // page.
    std::uint32_t cached = 0;
};

// A Visitor has:
//   line(EventKind, page, index in the page, object, thread)   kinds read .. touch
//   map(PageState, page, object, thread)                       first read, first write
//   unmap(std::span<const std::uint32_t> pages, thread)        ascending; each was mapped
//   phase(phase, thread)
//   birth(object, address, bytes), death(address)
//   blocks_gone(first page, count)                             unmapped, with all blocks in them
//   meet(meeting, thread)                                      so many processes meet here, or
//                                                              some do (a packed Meeting)
//   progress(thread, instructions, clock)                      executed since the last call, but
//                                                              for those of waiting for others,
//                                                              until this time of the merged clock
class TraceWalk {
  public:
    // `touched` as TraceReader::stream has it.
    explicit TraceWalk(const TraceReader& reader, LineSets touched = all_line_sets)
        : reader_(reader),
          merged_(reader, touched),
          objects_(reader.modules(), reader.variables(), reader.regions(), reader.call_sites()) {
        for (const PhaseDefinition& phase : reader.phases())
            if (phases_.try_emplace(phase.id, phase_names_.size()).second)
                phase_names_.push_back(phase.name);
    }

    template <class Visitor>
    void run(Visitor& visitor, const WalkPoll& poll) {
        std::vector<std::uint64_t> reached(reader_.threads().size(), unknown);
        waits_.assign(reader_.threads().size(), false);
        std::uint64_t batches = 0, walked = 0;  // instructions, of all threads
        while (const auto batch = merged_.next()) {
            if (poll && batches++ % 4096 == 0) poll(share_of(walked));
            walked += std::max(batch->until, batch->instructions) - batch->instructions;
            const unsigned thread = batch->thread;
            batch_instructions_ = batch->instructions;
            // A count that goes back is that of another thread, which has the id of one that ended.
            if (reached[thread] > batch->instructions) {
                reached[thread] = batch->instructions;
                waits_[thread] = false;
            }
            claim_for_births(batch->events);
            for (const Event& event : batch->events) {
                // These come last in a batch: what was executed before belongs to the time before.
                if (event.kind == EventKind::phase || event.kind == EventKind::wait)
                    advance(visitor, reached, *batch);
                take(visitor, event, thread);
            }
            advance(visitor, reached, *batch);
        }
    }

    [[nodiscard]] ObjectMap& objects() { return objects_; }
    [[nodiscard]] const ObjectMap& objects() const { return objects_; }
    [[nodiscard]] std::span<const TracedPage> pages() const { return pages_; }
    // The pages of the page cache, by index.
    [[nodiscard]] const std::vector<std::uint64_t>& cached_pages() const { return files_.pages(); }
    // Pages for which the program has asked for large pages, at the end of the walk.
    [[nodiscard]] const Intervals<bool>& advised() const { return advised_; }
    // The last known count of its thread's instructions before the event that is visited.
    [[nodiscard]] std::uint64_t batch_instructions() const { return batch_instructions_; }
    [[nodiscard]] std::uint64_t touches_left_out() const { return touches_left_out_; }
    // Phase 0 is "before any marker" and between regions.
    [[nodiscard]] const std::vector<std::string>& phases() const { return phase_names_; }

    // The faults of the trace, in words for the user.
    [[nodiscard]] std::vector<std::string> warnings() const {
        std::vector<std::string> result;
        for (const TraceFault& fault : merged_.faults())
            result.push_back("a thread's events end early: " + fault.what + " (byte " +
                             std::to_string(fault.position) + ")");
        if (objects_.overflowed())
            result.emplace_back(
                "more call sites than can be told apart: the rest counts as [heap]");
        return result;
    }

  private:
    static constexpr std::uint32_t absent = ~std::uint32_t{0};
    static constexpr std::size_t claimed_events = 32;                // before a birth
    static constexpr std::uint64_t unknown = ~std::uint64_t{0};      // more than any count
    static constexpr std::uint64_t nowhere = ~std::uint64_t{0} - 1;  // no page has this number

    [[nodiscard]] float share_of(std::uint64_t instructions) const {
        const std::uint64_t all = reader_.summary() ? reader_.summary()->instructions : 0;
        if (all == 0) return 0;
        return std::min(1.0f, static_cast<float>(instructions) / static_cast<float>(all));
    }

    template <class Visitor>
    void advance(Visitor& visitor, std::vector<std::uint64_t>& reached,
                 const MergedAhead::Batch& batch) {
        std::uint64_t& last = reached[batch.thread];
        if (batch.until > last && !waits_[batch.thread])
            visitor.progress(batch.thread, batch.until - last,
                             batch.clock + (batch.until - batch.instructions));
        last = std::max(last, batch.until);
    }

    // While an allocator makes a block it touches the block's header and that of the memory behind
    // it, often as the first of all; only then the block is born. Such lines are the block's, too.
    // (What the filter's own touches name was fetched before.)
    void claim_for_births(std::span<const Event> events) {
        for (std::size_t i = 0; i < events.size(); ++i) {
            if (events[i].kind != EventKind::birth) continue;
            std::uint64_t passed = 0;
            for (std::size_t j = i; j > 0 && passed < claimed_events; --j) {
                const Event& before = events[j - 1];
                if (before.kind == EventKind::birth) break;
                const bool is_line = before.kind <= EventKind::page_touch;
                passed += 1 + (is_line ? before.count : 0);
                if (before.kind < EventKind::touch)
                    objects_.claim(before.address, events[i].address, events[i].count,
                                   events[i].extra);
            }
        }
    }

    template <class Visitor>
    void take(Visitor& visitor, const Event& event, unsigned thread) {
        switch (event.kind) {
            case EventKind::read:
            case EventKind::write:
            case EventKind::first_store:
            case EventKind::stream_store:
            case EventKind::touch: {
                touches_left_out_ += event.count;
                const std::uint32_t place = objects_.place(event.address / lines_per_page);
                if (event.kind == EventKind::touch && !has_frame(place)) {
                    ++touches_left_out_;  // its page is gone
                    break;
                }
                const std::uint32_t page = page_at(place, event.address / lines_per_page);
                const ObjectIndex object = objects_.at(event.address, place);
                // A page that was used before the trace began has no page event, but it has a
                // frame.
                if (pages_[page].state == PageState::unmapped)
                    map(visitor, page, PageState::written, thread);
                visitor.line(event.kind, page,
                             static_cast<unsigned>(event.address % lines_per_page), object, thread);
                break;
            }
            case EventKind::page_touch:
                touches_left_out_ += event.count;
                break;  // for TLBs (core/replay/tlb_replay.hpp)
            case EventKind::page_read:
                map(visitor, page_of(event.address), PageState::read, thread);
                break;
            case EventKind::page_write:
                map(visitor, page_of(event.address), PageState::written, thread);
                break;
            case EventKind::unmap:
                unmap(visitor, event.address, event.count, thread);
                files_.unmap(event.address, event.count);
                blocks_gone(visitor, event.address, event.count);
                break;
            case EventKind::map_file:
                files_.map(event.address, event.count, event.extra);
                break;
            case EventKind::advise:
                advised_.assign(event.address, event.address + event.count, event.extra != 0);
                break;
            case EventKind::discard:
                unmap(visitor, event.address, event.count, thread);
                break;
            case EventKind::remap:
                remap(visitor, event.address, event.count, event.extra, thread);
                break;
            case EventKind::birth:
                objects_.birth(event.address, event.count, event.extra);
                visitor.birth(objects_.object_of_site(event.extra), event.address, event.count);
                break;
            case EventKind::death:
                visitor.death(event.address);
                break;
            case EventKind::phase: {
                const auto found = phases_.find(event.extra);
                visitor.phase(found == phases_.end() ? 0 : found->second, thread);
                break;
            }
            case EventKind::wait:
                waits_[thread] = event.extra != static_cast<std::uint64_t>(WaitKind::ended);
                if (event.extra > static_cast<std::uint64_t>(WaitKind::no_meeting))
                    visitor.meet(event.extra, thread);
                break;
            case EventKind::sync:
                break;  // the merged order has it
        }
    }

    std::uint32_t page_of(std::uint64_t number) { return page_at(objects_.place(number), number); }
    std::uint32_t page_at(std::uint32_t place, std::uint64_t number) {
        if (place < here_.size() && here_[place] != absent) return here_[place];
        return add_page(place, number);
    }
    [[nodiscard]] bool has_frame(std::uint32_t place) const {
        return place < here_.size() && here_[place] != absent &&
               pages_[here_[place]].state != PageState::unmapped;
    }
    [[gnu::noinline]] std::uint32_t add_page(std::uint32_t place, std::uint64_t number) {
        const auto page = static_cast<std::uint32_t>(pages_.size());
        pages_.push_back({number, number, PageState::unmapped});
        put(page, place);
        return page;
    }
    // Is absent if no page was ever touched there.
    std::uint32_t known_page(std::uint64_t number) {
        const std::uint32_t place = objects_.known_place(number);
        return place < here_.size() ? here_[place] : absent;
    }
    void put(std::uint32_t page, std::uint32_t place) {
        if (place >= here_.size()) here_.resize(std::size_t{place} + 1, absent);
        here_[place] = page;
    }

    // Every thread tells of its own first read and write of a page: only the first of all counts.
    template <class Visitor>
    void map(Visitor& visitor, std::uint32_t page, PageState state, unsigned thread) {
        if (pages_[page].state >= state) return;
        pages_[page].state = state;
        pages_[page].cached = files_.index_at(pages_[page].number, state == PageState::written);
        visitor.map(state, page, objects_.at(pages_[page].number * lines_per_page), thread);
    }

    // The known pages among [first, first + count), ascending. A range may be huge, so it looks at
    // the range or at all pages, whichever are fewer.
    std::span<const std::uint32_t> known(std::uint64_t first, std::uint64_t count) {
        known_.clear();
        if (count > pages_.size()) {
            for (std::uint32_t page = 0; page < pages_.size(); ++page)
                if (pages_[page].number - first < count && pages_[page].number >= first)
                    known_.push_back(page);
            std::sort(known_.begin(), known_.end(), [this](std::uint32_t a, std::uint32_t b) {
                return pages_[a].number < pages_[b].number;
            });
        } else {
            for (std::uint64_t number = first; number < first + count; ++number)
                if (const auto page = known_page(number); page != absent) known_.push_back(page);
        }
        return known_;
    }

    template <class Visitor>
    void unmap(Visitor& visitor, std::uint64_t first, std::uint64_t count, unsigned thread) {
        known(first, count);
        std::erase_if(known_, [this](std::uint32_t page) {
            return pages_[page].state == PageState::unmapped;
        });
        if (known_.empty()) return;
        visitor.unmap(std::span<const std::uint32_t>(known_), thread);
        for (const std::uint32_t page : known_) pages_[page].state = PageState::unmapped;
    }

    template <class Visitor>
    void remap(Visitor& visitor, std::uint64_t from, std::uint64_t count, std::uint64_t to,
               unsigned thread) {
        unmap(visitor, to, count, thread);
        for (const std::uint32_t page : known(to, count)) leave(page);
        for (const std::uint32_t page : known(from, count)) {
            const std::uint64_t number = pages_[page].number - from + to;
            leave(page);
            pages_[page].number = number;
            put(page, objects_.place(number));
        }
        files_.remap(from, count, to);
        blocks_gone(visitor, from, count);
        blocks_gone(visitor, to, count);
    }

    template <class Visitor>
    void blocks_gone(Visitor& visitor, std::uint64_t first, std::uint64_t count) {
        objects_.unmap(first, count);
        visitor.blocks_gone(first, count);
    }

    void leave(std::uint32_t page) {
        put(absent, objects_.place(pages_[page].number));
        pages_[page].number = nowhere;
    }

    const TraceReader& reader_;
    MergedAhead merged_;
    ObjectMap objects_;
    FileMappings files_;
    Intervals<bool> advised_;  // an unmap leaves it: most programs end so
    std::vector<TracedPage> pages_;
    // [place of the virtual page, as objects_ has them] index into pages_ of the page that is there
    // now, or absent.
    std::vector<std::uint32_t> here_;
    std::vector<std::uint32_t> known_;
    std::vector<bool> waits_;  // [thread] for other processes
    std::uint64_t batch_instructions_ = 0;
    std::uint64_t touches_left_out_ = 0;                  // so far
    std::unordered_map<std::uint64_t, unsigned> phases_;  // id -> index
    std::vector<std::string> phase_names_{"(outside regions)"};
};

}  // namespace pagelens
