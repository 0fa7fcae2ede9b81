// The filter, beside caches and TLBs that see all accesses: what tests and fuzzing compare.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <stdexcept>
#include <vector>

#include "core/accesses/filter.hpp"
#include "core/accesses/strip.hpp"

namespace pagelens {

// What a cache or TLB says to the level below: 'F'etch, 'W'rite-back, 'N'on-temporal store.
struct Step {
    char what;
    std::uint64_t line;
    friend bool operator==(const Step&, const Step&) = default;
};

// Slow and obvious: a list a set, most recently used first.
class ReferenceCache {
  public:
    ReferenceCache(std::uint64_t sets, std::size_t ways) : sets_(sets), ways_(ways) {}

    void access(std::uint64_t line, bool store) {
        std::list<Entry>& set = sets_[line % sets_.size()];
        const auto found = find(set, line);
        Entry entry{line, store};
        if (found != set.end()) {
            entry.dirty |= found->dirty;
            set.erase(found);
        } else {
            if (set.size() == ways_) {
                if (set.back().dirty) steps.push_back({'W', set.back().line});
                set.pop_back();
            }
            steps.push_back({'F', line});
        }
        set.push_front(entry);
    }
    void touch(std::uint64_t line) {
        std::list<Entry>& set = sets_[line % sets_.size()];
        const auto found = find(set, line);
        if (found != set.end()) set.splice(set.begin(), set, found);
    }
    void stream_store(std::uint64_t line) {
        std::list<Entry>& set = sets_[line % sets_.size()];
        const auto found = find(set, line);
        if (found != set.end()) {
            if (found->dirty) steps.push_back({'W', line});
            set.erase(found);
        }
        steps.push_back({'N', line});
    }
    void drop(std::uint64_t first, std::uint64_t count) {
        for (std::list<Entry>& set : sets_) {
            set.remove_if([=](const Entry& entry) { return entry.line - first < count; });
        }
    }

    std::vector<Step> steps;

  private:
    struct Entry {
        std::uint64_t line;
        bool dirty;
    };
    static std::list<Entry>::iterator find(std::list<Entry>& set, std::uint64_t line) {
        auto at = set.begin();
        while (at != set.end() && at->line != line) ++at;
        return at;
    }
    std::vector<std::list<Entry>> sets_;
    std::size_t ways_;
};

struct Sink {
    std::vector<Event> events;
    void put(const Event& event) { events.push_back(event); }
    void stamp(std::uint64_t) {}
    void stamp_now(std::uint64_t) {}
};

struct Access {
    enum Kind { load, store, stream, unmap } kind;
    std::uint64_t address;    // unmap: first page
    std::uint64_t count = 0;  // unmap: pages
};

// Loads and stores come in groups, as of blocks of instructions: time advances at the first access
// of a group for all of them.
// One in `shared` lines is shared by threads: each access to it is told of.
inline std::vector<Event> filtered(const std::vector<Access>& accesses, std::uint64_t group = 1,
                                   unsigned sets_of_pages = page_sets, std::uint64_t shared = 0) {
    Sink sink;
    Strip strip(sets_of_pages);
    Filter filter(sink);
    std::vector<Record> records;
    std::array<Record, Strip::records_per_pass> room;
    const auto keep = [&](Record* end) { records.insert(records.end(), room.data(), end); };
    std::uint64_t later = 0;
    for (const Access& access : accesses) {
        const bool store = access.kind == Access::store;
        switch (access.kind) {
            case Access::load:
            case Access::store:
                if (later == 0) strip.advance(later = group);
                if (--later; !strip.hides(access.address, store, line_bytes - 1, later)) {
                    const std::uint64_t line = access.address >> line_bits;
                    const bool told = shared != 0 && line % shared == 0;
                    if (told) {
                        records.push_back(make_record(RecordKind::shared, line));
                        records.push_back(0);
                    }
                    Record* const end = strip.pass(access.address, store, later, room.data());
                    if (end > room.data() + room.size())
                        throw std::logic_error("a pass makes too many records");
                    keep(end);
                    if (told) strip.reveal(line);
                }
                break;
            case Access::stream:
                strip.advance(1);  // not one of the group
                keep(strip.stream_store(access.address, later, room.data()));
                break;
            case Access::unmap:
                keep(strip.forget(access.address, access.count, room.data()));
                records.push_back(
                    make_record(RecordKind::event, static_cast<std::uint64_t>(EventKind::unmap)));
                records.insert(records.end(), {access.address, access.count, 0});
                break;
        }
    }
    filter.take(records);
    return sink.events;
}

// `tlb_bits` below a page of a TLB; 0: a cache.
inline std::vector<Step> replay_all(const std::vector<Access>& accesses, ReferenceCache cache,
                                    unsigned tlb_bits) {
    const bool tlb = tlb_bits != 0;
    const unsigned bits = tlb ? tlb_bits : line_bits;
    const std::uint64_t per_page = tlb ? 1 : lines_per_page;
    std::list<std::uint64_t> combining;  // the latest 8 lines stored to non-temporally
    for (const Access& access : accesses) {
        const std::uint64_t unit = access.address >> bits;
        const bool combined = std::ranges::find(combining, unit) != combining.end();
        if (access.kind != Access::unmap) combining.remove(unit);
        switch (access.kind) {
            case Access::load:
                cache.access(unit, false);
                break;
            case Access::store:
                cache.access(unit, !tlb);
                break;
            case Access::stream:
                if (tlb) {
                    cache.access(unit, false);
                } else {
                    if (!combined) cache.stream_store(unit);
                    combining.push_front(unit);
                    if (combining.size() > 8) combining.pop_back();
                }
                break;
            case Access::unmap:
                cache.drop(access.address * per_page, access.count * per_page);
                combining.remove_if([&](std::uint64_t held) {
                    return held - access.address * per_page < access.count * per_page;
                });
                break;
        }
    }
    return cache.steps;
}

inline std::vector<Step> replay_events(const std::vector<Event>& events, ReferenceCache cache,
                                       unsigned tlb_bits) {
    const bool tlb = tlb_bits != 0;
    const std::uint64_t per_page = tlb ? 1 : lines_per_page;
    const auto unit = [=](std::uint64_t line) {
        return tlb ? line << line_bits >> tlb_bits : line;
    };
    for (const Event& event : events) {
        switch (event.kind) {
            case EventKind::read:
                cache.access(unit(event.address), false);
                break;
            case EventKind::write:
            case EventKind::first_store:
                cache.access(unit(event.address), !tlb);
                break;
            case EventKind::touch:
                if (!tlb) cache.touch(event.address);
                break;
            case EventKind::page_touch:
                if (tlb) cache.access(unit(event.address), false);
                break;
            case EventKind::stream_store:
                if (tlb) {
                    cache.access(unit(event.address), false);
                } else {
                    cache.stream_store(event.address);
                }
                break;
            case EventKind::unmap:
                cache.drop(event.address * per_page, event.count * per_page);
                break;
            default:
                break;
        }
    }
    return cache.steps;
}

}  // namespace pagelens
