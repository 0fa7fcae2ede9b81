// Stage 1 of the filter: runs in the callback of every access, so what it costs is the tracer's
// speed.
//
// It keeps, for each of 64 sets, the two lines used last, and, for each of 16 sets of pages, the
// four pages used last. An access to such a line (for a store: one already stored to) is hidden
// here: it is a hit in every cache and TLB of the filter's family (filter.hpp), and all that it
// changes is recency. So a hidden access only leaves its time at the line; the order of the two
// lines of a set, and that of the pages, are seen from these times when one of them has to go.
// Stage 2 believes the line that it was told of last to be the later one of its set; if it is not,
// that is told first.
//
// Holds always: the page of every line in the strip is in the page filter. So the line decides
// alone, and a page that leaves the filter takes its lines along.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "core/accesses/record.hpp"
#include "core/address/units.hpp"

namespace pagelens {

class Strip {
  public:
    // `page_sets_used`: page_sets, or 1: then only the four pages used last of all are hidden,
    // which are hits in every TLB of four ways and more, whatever its sets and its pages' size.
    explicit Strip(unsigned page_sets_used = page_sets) : page_set_mask_(page_sets_used - 1) {
        pages_.fill(no_page);
    }

    // Time passes by so many accesses. The callbacks of a block of instructions do this once, for
    // all accesses that the block is certain to make: each of these then states its `later`, how
    // many of them come after it. Of two accesses the later one has the greater time.
    void advance(std::uint64_t accesses) { clock_ += accesses; }

    // Whether an access is hidden that starts at most `reach` bytes after the start of its line,
    // so that it does not leave it (`store`: 0 or 1). If not, `pass` has to be called for the same
    // access, or for its parts. Lines keep their places: arrays of one size share sets, so a loop
    // over two of them takes turns between the two lines of a set.
    [[gnu::always_inline]] bool hides(std::uint64_t address, unsigned store, std::uint64_t reach,
                                      std::uint64_t later) {
        Set& set = set_of(address);
        const Ways<std::uint64_t>& held = set.line[store];
        const bool second = address - held[1] <= reach;
        std::uint8_t either = second | (address - held[0] <= reach);
        asm("" : "+r"(either));  // one branch, not two: which of the lines it is cannot be foreseen
        if (either == 0) [[unlikely]]
            return false;
        set.used[second] = clock_ - later;
        return true;
    }

    // An access that `hides` did not hide: appends its records at `at`, at most `records_per_pass`
    // of them, and returns where they end.
    [[gnu::always_inline]] Record* pass(std::uint64_t address, bool store, std::uint64_t later,
                                        Record* at) {
        const std::uint64_t line = address & ~(line_bytes - 1);
        const std::uint64_t now = clock_ - later;
        const unsigned slot = use_page(address >> page_bits, now, at);
        Set& set = set_of(address);
        unsigned way = set.line[0][1] == line;
        if (set.line[0][way] != line) {  // else it is stored to for the first time
            const unsigned later_way = set.later();
            at = tell_order(set, later_way, at);
            way = 1 - later_way;
            leave(set, way);
            set.line[0][way] = line;
            set.slot[way] = static_cast<std::uint8_t>(slot);
            lines_of_page_[slot] |= bit_of(set);
        }
        set.line[1][way] = store ? line : empty;
        set.used[way] = now;
        set.told = static_cast<std::uint8_t>(way);
        *at++ = make_record(store ? RecordKind::store : RecordKind::load, line >> line_bits, slot);
        return at;
    }

    // A non-temporal store: never hidden, and the line leaves the caches.
    Record* stream_store(std::uint64_t address, std::uint64_t later, Record* at) {
        const std::uint64_t line = address & ~(line_bytes - 1);
        const unsigned slot = use_page(address >> page_bits, clock_ - later, at);
        Set& set = set_of(address);
        if (set.line[0][0] == line || set.line[0][1] == line) at = clear(set, at);
        *at++ = make_record(RecordKind::stream_store, line >> line_bits, slot);
        return at;
    }

    // Pages [page, page + count) lost their frames. The filter has to be told next.
    Record* forget(std::uint64_t page, std::uint64_t count, Record* at) {
        for (unsigned slot = 0; slot < page_slots; ++slot) {
            if (pages_[slot] == no_page || pages_[slot] - page >= count) continue;
            at = give_up_lines(slot, at);
            pages_[slot] = no_page;
            page_used_[slot] = 0;
        }
        return at;
    }

    // The same from another thread: makes accesses to these pages pass, so that the owner comes to
    // call `forget`. The owner may be running; the order of the sets concerned may be lost.
    void revoke(std::uint64_t page, std::uint64_t count) {
        for (Set& set : sets_) {
            for (const unsigned way : {0u, 1u}) {
                if ((__atomic_load_n(&set.line[0][way], __ATOMIC_RELAXED) >> page_bits) - page <
                    count) {
                    __atomic_store_n(&set.line[0][way], empty, __ATOMIC_RELAXED);
                    __atomic_store_n(&set.line[1][way], empty, __ATOMIC_RELAXED);
                }
            }
        }
    }

    // Accesses so far, hidden ones included.
    [[nodiscard]] std::uint64_t accesses() const { return clock_; }

    static constexpr std::uint64_t sets = 64;
    // The lines of a page that leaves may each tell their order; then page, order of the set, line.
    static constexpr std::size_t records_per_pass = sets + 3;
    static constexpr std::size_t records_per_forget = sets;

  private:
    template <class T>
    using Ways = std::array<T, 2>;
    static constexpr std::uint64_t empty = std::uint64_t{1} << 63;  // no program has lines there
    static constexpr std::uint64_t no_page = ~std::uint64_t{0};
    static constexpr std::uint8_t no_slot = page_slots;

    // One cache line of the host, found by bits of the address as they are.
    struct alignas(line_bytes) Set {
        std::array<Ways<std::uint64_t>, 2> line{{{empty, empty}, {empty, empty}}};
        Ways<std::uint64_t> used{};                 // the time (in accesses) of the last use
        Ways<std::uint8_t> slot{no_slot, no_slot};  // of the line's page
        std::uint8_t told = 0;  // the way that stage 2 believes to be the later one

        [[nodiscard]] unsigned later() const { return used[1] > used[0]; }
    };

    Set& set_of(std::uint64_t address) { return sets_[(address >> line_bits) % sets]; }
    [[nodiscard]] std::uint64_t bit_of(const Set& set) const {
        return std::uint64_t{1} << (&set - sets_.data());
    }

    static Record* tell_order(const Set& set, unsigned later, Record* at) {
        const std::uint64_t line = set.line[0][later];
        const bool tell = (set.told != later) & (line != empty);
        *at = make_record(RecordKind::recency, line >> line_bits);
        return at + tell;
    }

    // The line goes; its page keeps the time of its use.
    void leave(const Set& set, unsigned way) {
        const unsigned slot = set.slot[way];
        page_used_[slot] = std::max(page_used_[slot], set.used[way]);
        lines_of_page_[slot] &= ~bit_of(set);
    }

    Record* clear(Set& set, Record* at) {
        at = tell_order(set, set.later(), at);
        for (const unsigned way : {0u, 1u}) leave(set, way);
        set = Set{};
        return at;
    }

    // The slot of `page`, which may have to be made free; the page is now the latest.
    unsigned use_page(std::uint64_t page, std::uint64_t now, Record*& at) {
        const std::uint64_t set = (page & page_set_mask_) * page_ways;
        unsigned way = 0;
        for (unsigned other = 1; other < page_ways; ++other) {
            way = pages_[set + other] == page ? other : way;
        }
        auto slot = static_cast<unsigned>(set + way);
        if (pages_[slot] != page) [[unlikely]]
            slot = replace_page(static_cast<unsigned>(set), page, at);
        page_used_[slot] = now;
        return slot;
    }

    // The page used longest ago makes room.
    [[gnu::noinline]] unsigned replace_page(unsigned set, std::uint64_t page, Record*& at) {
        unsigned slot = set;
        for (unsigned other = set; other < set + page_ways; ++other) {
            for_lines(other, [&](const Set& held, unsigned way) {
                page_used_[other] = std::max(page_used_[other], held.used[way]);
            });
            if (page_used_[other] < page_used_[slot]) slot = other;
        }
        at = give_up_lines(slot, at);
        pages_[slot] = page;
        *at++ = make_record(RecordKind::page, page, slot);
        return slot;
    }

    Record* give_up_lines(unsigned slot, Record* at) {
        for_lines(slot, [&](Set& set, unsigned) { at = clear(set, at); });
        return at;
    }

    // do_with(set, way) for the lines of a page.
    template <class Do>
    void for_lines(unsigned slot, Do&& do_with) {
        for (std::uint64_t left = lines_of_page_[slot]; left != 0; left &= left - 1) {
            Set& set = sets_[static_cast<unsigned>(std::countr_zero(left))];
            do_with(set, set.slot[1] == slot);
        }
    }

    std::array<Set, sets> sets_;
    // Pages, by slot; the last entry is for places without a line.
    std::array<std::uint64_t, page_slots> pages_;
    std::array<std::uint64_t, page_slots + 1> page_used_{};      // but for its lines in the strip
    std::array<std::uint64_t, page_slots + 1> lines_of_page_{};  // bit s: of set s
    std::uint64_t clock_ = 0;
    std::uint64_t page_set_mask_;  // to divide would cost a sixth of `pass`
};

}  // namespace pagelens
