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

#include <emmintrin.h>
#include <smmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/accesses/record.hpp"
#include "core/address/units.hpp"

namespace pagelens {

struct StripLayout;

class Strip {
  public:
    // `page_sets_used` is page_sets or 1. If it is 1, only the four pages used last of all are
    // hidden. They are hits in every TLB of four ways and more, whatever its sets and its pages'
    // size.
    explicit Strip(unsigned page_sets_used = page_sets) : page_set_mask_(page_sets_used - 1) {
        pages_.fill(no_page);
        for (auto& way : slots_) way.fill(no_slot);
    }

    // Time passes by so many accesses. The callbacks of a block of instructions do this once, for
    // all accesses that the block is certain to make: each of these then states its `later`, how
    // many of them come after it. Of two accesses the later one has the greater time.
    void advance(std::uint64_t accesses) { clock_ += accesses; }

    // Returns whether an access is hidden. The access starts at most `reach` bytes after the start
    // of its line, and so stays within it (`store`: 0 or 1). If it is not hidden, `pass` has to be
    // called for the same access, or for its parts. Lines keep their places, because a loop over
    // two arrays of one size uses the two lines of a set in turn.
    [[gnu::always_inline]] bool hides(std::uint64_t address, unsigned store, std::uint64_t reach,
                                      std::uint64_t later) {
        Set& set = sets_[index_of(address)];
        const Ways<std::uint64_t>& held = set.line[store];
        const bool second = address - held[1] <= reach;
        std::uint8_t either = second | (address - held[0] <= reach);
        asm("" : "+r"(either));  // one branch, not two: which of the lines it is cannot be foreseen
        if (either == 0) [[unlikely]]
            return false;
        set.used[second] = clock_ - later;
        return true;
    }

    // Returns the slot of the page filter that holds `page`, or no_slot.
    [[gnu::always_inline]] [[nodiscard]] unsigned slot_of(std::uint64_t page) const {
        const unsigned set = page_set(page);
        const auto* here = reinterpret_cast<const __m128i*>(pages_.data() + set);
        const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(page));
        const __m128i low = _mm_cmpeq_epi64(_mm_load_si128(here), wanted);
        const __m128i high = _mm_cmpeq_epi64(_mm_load_si128(here + 1), wanted);
        const auto same =
            static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(_mm_packs_epi32(low, high))));
        if (same == 0) [[unlikely]]
            return no_slot;
        return set + static_cast<unsigned>(std::countr_zero(same));
    }
    static constexpr unsigned no_slot = page_slots;

    // Passes an access that `hides` did not hide: appends its records at `at`, at most
    // `records_per_pass` of them, and returns where they end.
    Record* pass(std::uint64_t address, bool store, std::uint64_t later, Record* at) {
        const unsigned slot = use_page(address >> page_bits, at);
        return store ? pass_in<true>(slot, address, later, at)
                     : pass_in<false>(slot, address, later, at);
    }

    // Does the same where `slot` holds the page. It calls nothing and needs few registers, so that
    // its caller has none to save.
    template <bool store>
    [[gnu::always_inline]] Record* pass_in(unsigned slot, std::uint64_t address,
                                           std::uint64_t later, Record* at) {
        const std::uint64_t line = address & ~(line_bytes - 1);
        const std::uint64_t now = clock_ - later;
        page_used_[slot] = now;
        const unsigned index = index_of(address);
        Set& set = sets_[index];
        unsigned way = set.line[0][1] == line;
        // A load's line is not there. A store's line may be there, and is stored to for the first
        // time.
        if (!store || set.line[0][way] != line) {
            const unsigned later_way = set.later();
            at = tell_order(set, later_way, at);
            way = 1 - later_way;
            leave(index, way);
            set.line[0][way] = line;
            slots_[way][index] = static_cast<std::uint8_t>(slot);
        }
        set.line[1][way] = store ? line : empty;
        set.used[way] = now;
        set.told = static_cast<std::uint8_t>(way);
        *at++ = make_record(store ? RecordKind::store : RecordKind::load, line >> line_bits, slot);
        return at;
    }

    // Passes a non-temporal store. It is never hidden, and the line leaves the caches.
    Record* stream_store(std::uint64_t address, std::uint64_t later, Record* at) {
        const std::uint64_t line = address & ~(line_bytes - 1);
        const unsigned slot = use_page(address >> page_bits, at);
        page_used_[slot] = clock_ - later;
        const unsigned index = index_of(address);
        const Set& set = sets_[index];
        if (set.line[0][0] == line || set.line[0][1] == line) at = clear(index, at);
        *at++ = make_record(RecordKind::stream_store, line >> line_bits, slot);
        return at;
    }

    // Forgets the pages [page, page + count), which lost their frames. The filter has to be told
    // next.
    Record* forget(std::uint64_t page, std::uint64_t count, Record* at) {
        for (unsigned slot = 0; slot < page_slots; ++slot) {
            if (pages_[slot] == no_page || pages_[slot] - page >= count) continue;
            at = give_up_lines(slot, at);
            pages_[slot] = no_page;
            page_used_[slot] = 0;
        }
        return at;
    }

    // Does so from another thread: makes accesses to these pages pass, so that the owner comes to
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

    // Returns whether the strip hides loads of a line. Another thread may ask; the owner may be
    // running.
    [[nodiscard]] bool holds(std::uint64_t line) const {
        const std::uint64_t address = line << line_bits;
        const Set& set = sets_[index_of(address)];
        return __atomic_load_n(&set.line[0][0], __ATOMIC_RELAXED) == address ||
               __atomic_load_n(&set.line[0][1], __ATOMIC_RELAXED) == address;
    }

    // Hides a line no longer. If another thread than the owner calls this, the order of the set may
    // be lost once.
    void reveal(std::uint64_t line) {
        const std::uint64_t address = line << line_bits;
        Set& set = sets_[index_of(address)];
        for (const unsigned way : {0u, 1u}) {
            if (__atomic_load_n(&set.line[0][way], __ATOMIC_RELAXED) != address) continue;
            __atomic_store_n(&set.line[0][way], empty, __ATOMIC_RELAXED);
            __atomic_store_n(&set.line[1][way], empty, __ATOMIC_RELAXED);
        }
    }

    // Returns where the line is that its set passed last, from StripLayout::sets on, in bytes. Code
    // that tests this place alone adds StripLayout::line(store, 0) and StripLayout::used to it.
    [[nodiscard]] std::uint64_t place_of(std::uint64_t address) const {
        const unsigned index = index_of(address);
        return index * sizeof(Set) + sets_[index].told * sizeof(std::uint64_t);
    }

    // Returns the number of accesses so far, hidden ones included.
    [[nodiscard]] std::uint64_t accesses() const { return clock_; }

    static constexpr std::uint64_t sets = 64;
    // The lines of a page that leaves may each tell their order; then page, order of the set, line.
    static constexpr std::size_t records_per_pass = sets + 3;
    static constexpr std::size_t records_per_forget = sets;

  private:
    friend struct StripLayout;
    template <class T>
    using Ways = std::array<T, 2>;
    static constexpr std::uint64_t empty = std::uint64_t{1} << 63;  // no program has lines there
    static constexpr std::uint64_t no_page = ~std::uint64_t{0};

    // One cache line of the host, found by bits of the address as they are.
    struct alignas(line_bytes) Set {
        std::array<Ways<std::uint64_t>, 2> line{{{empty, empty}, {empty, empty}}};
        Ways<std::uint64_t> used{};  // the time (in accesses) of the last use
        std::uint8_t told = 0;       // the way that stage 2 believes to be the later one

        [[nodiscard]] unsigned later() const { return used[1] > used[0]; }
    };

    static unsigned index_of(std::uint64_t address) {
        return static_cast<unsigned>(address >> line_bits) % sets;
    }
    // The first slot of the set that a page belongs to.
    [[nodiscard]] unsigned page_set(std::uint64_t page) const {
        return static_cast<unsigned>(page & page_set_mask_) * page_ways;
    }

    static Record* tell_order(const Set& set, unsigned later, Record* at) {
        const std::uint64_t line = set.line[0][later];
        const bool tell = (set.told != later) & (line != empty);
        *at = make_record(RecordKind::recency, line >> line_bits);
        return at + tell;
    }

    // The line goes; its page keeps the time of its use.
    void leave(unsigned index, unsigned way) {
        std::uint64_t& page_used = page_used_[slots_[way][index]];
        page_used = std::max(page_used, sets_[index].used[way]);
    }

    Record* clear(unsigned index, Record* at) {
        Set& set = sets_[index];
        at = tell_order(set, set.later(), at);
        for (const unsigned way : {0u, 1u}) {
            leave(index, way);
            slots_[way][index] = no_slot;
        }
        set = Set{};
        return at;
    }

    // The slot of `page`, which may have to be made free.
    unsigned use_page(std::uint64_t page, Record*& at) {
        const unsigned slot = slot_of(page);
        return slot != no_slot ? slot : replace_page(page_set(page), page, at);
    }

    // The page used longest ago makes room.
    [[gnu::noinline]] unsigned replace_page(unsigned set, std::uint64_t page, Record*& at) {
        unsigned slot = set;
        for (unsigned other = set; other < set + page_ways; ++other) {
            for_lines(other, [&](unsigned index, unsigned way) {
                page_used_[other] = std::max(page_used_[other], sets_[index].used[way]);
            });
            if (page_used_[other] < page_used_[slot]) slot = other;
        }
        at = give_up_lines(slot, at);
        pages_[slot] = page;
        *at++ = make_record(RecordKind::page, page, slot);
        return slot;
    }

    Record* give_up_lines(unsigned slot, Record* at) {
        for_lines(slot, [&](unsigned index, unsigned) { at = clear(index, at); });
        return at;
    }

    // Calls do_with(set, way) for the lines of a page, of which each set has one at most.
    template <class Do>
    void for_lines(unsigned slot, Do&& do_with) {
        const std::uint64_t second = lines_in(slots_[1], slot);
        for (std::uint64_t left = lines_in(slots_[0], slot) | second; left != 0; left &= left - 1) {
            const auto index = static_cast<unsigned>(std::countr_zero(left));
            do_with(index, static_cast<unsigned>(second >> index & 1));
        }
    }
    // Bit s: set s has a line of the page in this way.
    static std::uint64_t lines_in(const std::array<std::uint8_t, sets>& way, unsigned slot) {
        const __m128i wanted = _mm_set1_epi8(static_cast<char>(slot));
        std::uint64_t found = 0;
        for (unsigned index = 0; index < sets; index += 16) {
            const auto* here = reinterpret_cast<const __m128i*>(way.data() + index);
            const int same = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(here), wanted));
            found |= std::uint64_t{static_cast<unsigned>(same)} << index;
        }
        return found;
    }

    std::array<Set, sets> sets_;
    alignas(16) Ways<std::array<std::uint8_t, sets>> slots_;  // of the lines' pages, by way and set
    alignas(16) std::array<std::uint64_t, page_slots> pages_;  // by slot
    // Times of use of pages, without those of the page's lines in the strip. The last entry is for
    // places without a line.
    std::array<std::uint64_t, page_slots + 1> page_used_{};
    std::uint64_t clock_ = 0;
    std::uint64_t page_set_mask_;  // to divide would cost a sixth of `pass`
};

// Where generated code that does what `hides` does finds the strip's fields, in bytes from its
// beginning. A set begins at `sets` + (address & set_mask).
struct StripLayout {
    static constexpr std::size_t clock = offsetof(Strip, clock_);
    static constexpr std::size_t sets = offsetof(Strip, sets_);
    static constexpr std::size_t set_mask = (Strip::sets - 1) * sizeof(Strip::Set);
    static_assert(sizeof(Strip::Set) == line_bytes);
    // Within a set.
    static constexpr std::size_t used = offsetof(Strip::Set, used);
    static constexpr std::size_t line(unsigned store, unsigned way) {
        return offsetof(Strip::Set, line) + (2 * store + way) * sizeof(std::uint64_t);
    }
};

}  // namespace pagelens
