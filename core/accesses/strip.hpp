// Stage 1 of the filter: runs in the callback of every access, so what it costs is the tracer's
// speed.
//
// It keeps, for each of 64 sets, the two lines used last, and, for each of 16 sets of pages, the
// four pages used last. An access to such a line (for a store: one already stored to) is hidden
// here: it is a hit in every cache and TLB of the filter's family (filter.hpp), and all that it
// changes is recency, which is kept: the order of the two lines in their order here, with a bit
// that says which of them stage 2 believes to be the later; the order of pages by their time of
// use. Whoever is told of a new line of a set is told this order first.
//
// Holds always: the page of every line in the strip is in the page filter. So the line decides
// alone, and a page that leaves the filter takes its lines along.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/accesses/record.hpp"
#include "core/address/units.hpp"

namespace pagelens {

class Strip {
  public:
    // Whether an access within the line at `address` is hidden. If not, `pass` has to be called for
    // the same access. Both lines are looked at here: arrays of one size share sets, so a loop over
    // two of them takes turns between the two lines of a set.
    [[gnu::always_inline]] bool hides(std::uint64_t address, bool store) {
        const std::uint64_t set = (address >> line_bits) % sets;
        const std::uint64_t key = key_of(address, store);
        const Entry first = first_[set];
        if (holds(first, key)) [[likely]] {
            used_[slot_of(first)] = ++clock_;
            return true;
        }
        const Entry second = second_[set];
        if (!holds(second, key)) return false;
        first_[set] = second;
        second_[set] = first;
        used_[slot_of(second)] = ++clock_;
        return true;
    }

    // An access that `hides` did not hide: appends its records through `push(Record)`, at most
    // `records_per_pass` of them.
    template <class Push>
    void pass(std::uint64_t address, bool store, Push&& push) {
        const std::uint64_t set = (address >> line_bits) % sets;
        Entry& first = first_[set];
        Entry& second = second_[set];
        const std::uint64_t line = address >> line_bits;
        const unsigned slot = use_page(address >> page_bits, push);
        if (line_of(first) == line) {  // stored to for the first time
            if (second != empty) second &= ~newest;
        } else {
            if (line_of(second) != line && !(first & newest)) {
                push(make_record(RecordKind::recency, line_of(first)));
            }
            second = first == empty ? empty : first & ~newest;
            lines_of_page_[slot] |= std::uint64_t{1} << set;
        }
        first = std::uint64_t{slot} << slot_shift | newest | key_of(address, store);
        push(make_record(store ? RecordKind::store : RecordKind::load, line, slot));
    }

    // A non-temporal store: never hidden, and the line leaves the caches.
    template <class Push>
    void stream_store(std::uint64_t address, Push&& push) {
        const std::uint64_t set = (address >> line_bits) % sets;
        const std::uint64_t line = address >> line_bits;
        const unsigned slot = use_page(address >> page_bits, push);
        if (line_of(first_[set]) == line || line_of(second_[set]) == line) clear_set(set, push);
        push(make_record(RecordKind::stream_store, line, slot));
    }

    // Pages [page, page + count) lost their frames. The filter has to be told next.
    template <class Push>
    void forget(std::uint64_t page, std::uint64_t count, Push&& push) {
        for (unsigned slot = 0; slot < page_slots; ++slot) {
            if (pages_[slot] == no_page || pages_[slot] - page >= count) continue;
            give_up_lines(slot, push);
            pages_[slot] = no_page;
            used_[slot] = 0;
        }
    }

    // The same from another thread: makes accesses to these pages pass, so that the owner comes to
    // call `forget`. The owner may be running; the order of the sets concerned may be lost.
    void revoke(std::uint64_t page, std::uint64_t count) {
        for (std::uint64_t set = 0; set < sets; ++set) {
            const Entry first = __atomic_load_n(&first_[set], __ATOMIC_RELAXED);
            const Entry second = __atomic_load_n(&second_[set], __ATOMIC_RELAXED);
            if (line_of(first) / lines_per_page - page >= count &&
                line_of(second) / lines_per_page - page >= count) {
                continue;
            }
            __atomic_store_n(&first_[set], empty, __ATOMIC_RELAXED);
            __atomic_store_n(&second_[set], empty, __ATOMIC_RELAXED);
        }
    }

    // Accesses so far, hidden ones included.
    [[nodiscard]] std::uint64_t accesses() const { return clock_; }

    static constexpr std::uint64_t sets = 64;
    // The lines of a page that leaves may each tell their order; then page, order of the set, line.
    static constexpr std::size_t records_per_pass = sets + 3;
    static constexpr std::size_t records_per_forget = sets;

  private:
    // The address of the line, the slot of its page in the top bits, two flags. Keys are the lower
    // bits: in a test they come first, as it has the fewest instructions so.
    using Entry = std::uint64_t;
    static constexpr unsigned slot_shift = 58;
    static constexpr Entry newest = Entry{1} << 57;  // stage 2 was told of this one of the two last
    static constexpr Entry stored = 1;
    static constexpr unsigned key_bits = 57;   // all of an address that user space has
    static constexpr Entry empty = ~Entry{0};  // its key is no line's, its line no line
    static constexpr std::uint64_t no_page = ~std::uint64_t{0};
    static_assert(page_slots == 1 << (64 - slot_shift));

    static std::uint64_t key_of(std::uint64_t address, bool store) {
        return (address & ~(line_bytes - 1)) | (store ? stored : 0);
    }
    static std::uint64_t slot_of(Entry entry) { return entry >> slot_shift; }
    static std::uint64_t line_of(Entry entry) {
        return entry << (64 - key_bits) >> (64 - key_bits + line_bits);
    }

    // The same line, stored to if `key` is a store: the keys differ by 0 or 1, and by neither for
    // any other line.
    static bool holds(Entry entry, std::uint64_t key) {
        return (entry - key) << (64 - key_bits) <= stored << (64 - key_bits);
    }

    // The slot of `page`, which may have to be made free; the page is now the latest.
    template <class Push>
    unsigned use_page(std::uint64_t page, Push&& push) {
        const auto set = static_cast<unsigned>(page % page_sets) * page_ways;
        unsigned slot = set;
        while (slot < set + page_ways && pages_[slot] != page) ++slot;
        if (slot == set + page_ways) {
            slot = set;
            for (unsigned other = set + 1; other < set + page_ways; ++other) {
                if (used_[other] < used_[slot]) slot = other;
            }
            give_up_lines(slot, push);
            pages_[slot] = page;
            push(make_record(RecordKind::page, page, slot));
        }
        used_[slot] = ++clock_;
        return slot;
    }

    template <class Push>
    void give_up_lines(unsigned slot, Push&& push) {
        const std::uint64_t page = pages_[slot];
        for (std::uint64_t left = lines_of_page_[slot]; left != 0; left &= left - 1) {
            const auto set = static_cast<std::uint64_t>(std::countr_zero(left));
            if (line_of(first_[set]) / lines_per_page == page ||
                line_of(second_[set]) / lines_per_page == page) {
                clear_set(set, push);
            }
        }
        lines_of_page_[slot] = 0;
    }

    template <class Push>
    void clear_set(std::uint64_t set, Push&& push) {
        if (!(first_[set] & newest)) push(make_record(RecordKind::recency, line_of(first_[set])));
        first_[set] = second_[set] = empty;
    }

    static constexpr std::array<std::uint64_t, sets> filled(std::uint64_t value) {
        std::array<std::uint64_t, sets> all{};
        all.fill(value);
        return all;
    }

    std::array<Entry, sets> first_ = filled(empty);   // the line used last
    std::array<Entry, sets> second_ = filled(empty);  // the one used before it
    std::array<std::uint64_t, page_slots> used_{};    // the time (accesses) of a page's last use
    std::array<std::uint64_t, page_slots> pages_ = filled(no_page);
    // Bit s: a line of the page came into set s (it may have left since).
    std::array<std::uint64_t, page_slots> lines_of_page_{};
    std::uint64_t clock_ = 0;
};

}  // namespace pagelens
