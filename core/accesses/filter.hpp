// Stage 2 of the filter: takes a thread's records from its strip (strip.hpp), hides what is a hit
// in every cache that the trace is for, and puts the rest out as events.
//
// The family: LRU, write-back, write-allocate caches whose set index contains address bits 6 ..
// with (1) at least 64 sets and 8 ways, (2) at least 256 sets and 4 ways, or (3) at least 512 sets
// and 2 ways; and LRU TLBs of at least 16 sets and 4 ways; where the strip uses one set of pages,
// all LRU TLBs of 4 ways and more, of pages of any size. A replay of the events through any of them
// has the same fetches and dirty write-backs in the same order as a replay of all accesses, with
// these rules: `touch` and `page_touch` renew the recency of what is there and bring nothing in,
// `first_store` makes a line dirty, `stream_store` drops its line (written back if dirty), `unmap`
// and its kin drop the lines of their pages.
//
// An access is hidden if among the lines of its 64-set used after it there are at most 7, at most 3
// that share its 256-set, and at most one that shares its 512-set: then every member still has the
// line, by LRU's inclusion.
//
// Recency repair. F is the true order of the (up to) 8 latest lines of a set; D is the order that a
// replay sees, that of their last events. F != D alone does no harm: it does when a line falls out
// of what F vouches for. So before an event brings a line into a set, every line that stays and
// that D holds older than the one that falls out gets a `touch`. By induction D then orders a line
// that fell out before all that stayed, and after all that fell out earlier, so every victim is
// right:
// - the 8th line of the 64-set falls out: the seven others must be younger in D;
// - the 4th line of the 256-set falls out: the three others must be younger;
// - the 2nd line of the 512-set falls out: the 1st must be younger.
// A touch makes its line the youngest of D. Lines that were used after it would each need a touch
// of their own before it falls out. So where the 8th line needs any touch, D is made the same as F.
// A line that a stream_store or an unmap dropped keeps its place as a ghost, which is told nothing
// and vouched for by nothing: had it left, the lines behind it would move up and count as resident
// in caches that it pushed them out of.
// The page filter's repair is the same with 4 ways.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "core/accesses/event.hpp"
#include "core/accesses/latest_lines.hpp"
#include "core/accesses/page_states.hpp"
#include "core/accesses/record.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/address/units.hpp"

namespace pagelens {

inline constexpr std::array<CacheShape, 3> filter_exact_for{CacheShape{64, 8}, CacheShape{256, 4},
                                                            CacheShape{512, 2}};
constexpr CacheShape filter_page_shape(unsigned page_sets_used) {
    return {page_sets_used, page_ways};
}

// The second stage for one thread. `Sink` has put(const Event&), stamp(instructions), and
// stamp_now(instructions) for a count that must not be left out.
template <class Sink>
class Filter {
  public:
    explicit Filter(Sink& sink) : sink_(sink) {
        pages_.fill(PageEntry{no_page, 0, 0});
        combining_.fill(no_line);
    }

    // Whole passes of the strip, and whole events.
    void take(std::span<const Record> records) {
        for (std::size_t i = 0; i < records.size(); ++i) {
            const Record record = records[i];
            const std::uint64_t number = record_number(record);
            switch (record_kind(record)) {
                case RecordKind::load:
                    access(number, false, record_slot(record));
                    break;
                case RecordKind::store:
                    access(number, true, record_slot(record));
                    break;
                case RecordKind::stream_store:
                    stream_store(number, record_slot(record));
                    break;
                case RecordKind::recency:
                    recency(number);
                    break;
                case RecordKind::page:
                    page(number, record_slot(record));
                    break;
                case RecordKind::forget:
                    forget(number, records[++i]);
                    break;
                case RecordKind::instructions:
                    sink_.stamp(number);
                    break;
                case RecordKind::shared:
                    shared_ = number;
                    sink_.stamp_now(records[++i]);
                    break;
                case RecordKind::event:
                    event(Event{static_cast<EventKind>(number), records[i + 1], records[i + 2],
                                records[i + 3]});
                    i += event_words - 1;
                    break;
            }
        }
    }

  private:
    static constexpr unsigned ways = LatestLines::ways;
    static constexpr std::uint64_t no_line = ~std::uint64_t{0};
    static constexpr std::uint64_t no_page = ~std::uint64_t{0};

    struct alignas(line_bytes) Set {
        LatestLines lines;  // F
        // If 0, the lines were told of in this order: D is F. Else it will be so again for certain
        // when that many lines have entered.
        unsigned disorder = 0;
    };
    struct PageEntry {
        std::uint64_t page;
        std::uint64_t told;  // when the page last had an event
        unsigned state;      // PageStates' bits
    };

    void access(std::uint64_t line, bool store, unsigned slot) {
        first_use(slot, store);
        Set& set = sets_[line % sets_.size()];
        const unsigned rank = set.lines.find(line);
        if (rank < ways && vouched_for(set, line, rank)) {
            set.lines.use(rank);
            if (store && !set.lines.is_dirty(0)) {
                set.lines.set_dirty(0, true);
                set.lines.tell(0, tell(EventKind::first_store, line, slot));
            } else if (line == shared_) {
                // A hit in every cache of the family, unless another thread has taken the line.
                const EventKind kind = store ? EventKind::first_store : EventKind::read;
                set.lines.tell(0, tell(kind, line, slot));
                set.disorder = ways;
            } else {
                if (rank > 0) set.disorder = ways;
                if (slot == entering_) tell(EventKind::page_touch, line, slot);
            }
        } else {
            if (combining_[0] != no_line) {
                leave_combining([line](std::uint64_t combined) { return combined == line; });
            }
            const bool enters = rank == ways;
            if (set.disorder > 0) repair(set, line, rank);
            if (enters) {
                set.lines.enter(line);
                if (set.disorder > 0) --set.disorder;
            } else {
                set.lines.use(rank);
            }
            set.lines.set_dirty(0, store);
            set.lines.tell(0, tell(store ? EventKind::write : EventKind::read, line, slot));
        }
        entering_ = page_slots;
        if (line == shared_) shared_ = no_line;
    }

    // Returns whether the line at `rank` is, in every member, among those that LRU has kept.
    static bool vouched_for(const Set& set, std::uint64_t line, unsigned rank) {
        if (rank <= 1) return true;
        const unsigned since = (1u << rank) - 1;
        return std::popcount(set.lines.sharing(line, 4) & since) <= 3 &&
               std::popcount(set.lines.sharing(line, 8) & since) <= 1;
    }

    // Repairs the order of a set that `line` comes into, or into whose smaller set it comes back
    // from `rank`.
    void repair(Set& set, std::uint64_t line, unsigned rank) {
        const unsigned others = ~(1u << rank);
        repair_among<2>(set, set.lines.sharing(line, 8) & others);
        repair_among<4>(set, set.lines.sharing(line, 4) & others);
        if (rank == ways && set.lines.is_held(ways - 1) && set.lines.is_told_before(ways - 1))
            put_in_order(set);
    }

    // The last of the latest lines of a smaller set falls out. Of the others, touches those that a
    // replay holds older, and all that were used after them.
    template <unsigned latest>
    void repair_among(Set& set, unsigned ranks) {
        std::array<unsigned, latest> found;
        if (std::popcount(ranks) < static_cast<int>(latest)) return;
        for (unsigned& rank : found) {
            rank = static_cast<unsigned>(std::countr_zero(ranks));
            ranks &= ranks - 1;
        }
        if (!set.lines.is_held(found[latest - 1])) return;
        const std::uint64_t told = set.lines.told(found[latest - 1]);
        bool is_wrong = false;
        for (unsigned i = latest - 1; i-- > 0;) {
            if (!set.lines.is_held(found[i])) continue;
            is_wrong = is_wrong || set.lines.told(found[i]) < told;
            if (is_wrong) touch(set, found[i]);
        }
    }

    // Makes D the same as F: touches the oldest line that D holds older than one used before it,
    // and all lines used after it.
    void put_in_order(Set& set) {
        unsigned left = ways;
        for (std::uint64_t latest = 0; left > 0; --left) {
            if (!set.lines.is_held(left - 1)) continue;
            if (set.lines.told(left - 1) < latest) break;
            latest = set.lines.told(left - 1);
        }
        while (left-- > 0)
            if (set.lines.is_held(left)) touch(set, left);
        set.disorder = 0;
    }

    void touch(Set& set, unsigned rank) {
        sink_.put(Event{EventKind::touch, set.lines.line(rank)});
        set.lines.tell(rank, ++time_);
        set.disorder = ways;
    }

    void recency(std::uint64_t line) {
        Set& set = sets_[line % sets_.size()];
        const unsigned rank = set.lines.find(line);
        if (rank == ways) return;
        if (rank > 0) set.disorder = ways;
        set.lines.use(rank);
    }

    // Stores to a line are one event while the line is among the latest of the combining buffers.
    void stream_store(std::uint64_t line, unsigned slot) {
        first_use(slot, true);
        unsigned buffer = 0;
        while (buffer < combining_.size() && combining_[buffer] != line) ++buffer;
        const bool combined = buffer < combining_.size();
        if (!combined) {
            --buffer;
            drop_line(line);
            tell(EventKind::stream_store, line, slot);
        } else if (slot == entering_) {
            tell(EventKind::page_touch, line, slot);
        }
        for (; buffer > 0; --buffer) combining_[buffer] = combining_[buffer - 1];
        combining_[0] = line;
        entering_ = page_slots;
    }

    template <class Gone>
    void leave_combining(Gone gone) {
        std::fill(std::remove_if(combining_.begin(), combining_.end(), gone), combining_.end(),
                  no_line);
    }

    void drop_line(std::uint64_t line) {
        sets_[line % sets_.size()].lines.drop_if(
            [line](std::uint64_t held) { return held == line; });
    }

    // Tells of `line`, whose page is in `slot`, in an event; returns the event's time.
    std::uint64_t tell(EventKind kind, std::uint64_t line, unsigned slot) {
        sink_.put(Event{kind, line});
        return pages_[slot].told = ++time_;
    }

    // Lets page `number` take the place of the page used longest ago in its set.
    void page(std::uint64_t number, unsigned slot) {
        PageEntry& entry = pages_[slot];
        const unsigned set = slot - slot % page_ways;
        if (entry.page != no_page) {
            for (unsigned other = set; other < set + page_ways; ++other) {
                PageEntry& stays = pages_[other];
                if (stays.page == no_page || stays.told >= entry.told) continue;
                sink_.put(Event{EventKind::page_touch, stays.page * lines_per_page});
                stays.told = ++time_;
            }
        }
        entry = PageEntry{number, 0, states_.get(number)};
        entering_ = slot;
    }

    void first_use(unsigned slot, bool store) {
        PageEntry& entry = pages_[slot];
        const unsigned bit = store ? PageStates::written : PageStates::read;
        if (entry.state >= bit) return;  // a page written to needs no first read
        entry.state |= bit;
        states_.add(entry.page, bit);
        sink_.put(Event{store ? EventKind::page_write : EventKind::page_read, entry.page});
    }

    void event(const Event& event) {
        switch (event.kind) {
            case EventKind::page_write:  // by the kernel, `count` pages
            case EventKind::page_read:
                kernel_use(event);
                return;
            case EventKind::remap:
                forget(event.extra, event.count);
                [[fallthrough]];
            case EventKind::unmap:
            case EventKind::discard:
                forget(event.address, event.count);
                break;
            default:
                break;
        }
        sink_.put(event);
    }

    // Takes note that the kernel wrote (read, recv ...) or read `count` pages for the program.
    void kernel_use(const Event& event) {
        const bool store = event.kind == EventKind::page_write;
        const unsigned bit = store ? PageStates::written : PageStates::read;
        for (std::uint64_t page = event.address; page < event.address + event.count; ++page) {
            if (states_.get(page) >= bit) continue;
            states_.add(page, bit);
            for (PageEntry& entry : pages_) {
                if (entry.page == page) entry.state |= bit;
            }
            sink_.put(Event{event.kind, page});
        }
    }

    // Pages [first, first + count) lost their frames.
    void forget(std::uint64_t first, std::uint64_t count) {
        const auto gone = [first, count](std::uint64_t line) {
            return line / lines_per_page - first < count && line != no_line;
        };
        for (Set& set : sets_) set.lines.drop_if(gone);
        for (PageEntry& entry : pages_) {
            if (entry.page - first < count) entry = PageEntry{no_page, 0, 0};
        }
        leave_combining(gone);
        states_.forget(first, count);
    }

    Sink& sink_;
    std::array<Set, 64> sets_{};
    std::array<PageEntry, page_slots> pages_{};
    std::array<std::uint64_t, 8> combining_{};  // write-combining buffers, latest first
    PageStates states_;
    std::uint64_t time_ = 0;          // counts events of lines and pages
    std::uint64_t shared_ = no_line;  // a line whose next access is told of in any case
    unsigned entering_ = page_slots;  // slot of the page that the next record brings in
};

}  // namespace pagelens
