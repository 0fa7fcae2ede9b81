// A core's data TLB: two levels of arrays, each for some page sizes, paging-structure caches, and
// the page walk. Says what misses, how many page-table entries the walks read and, given page
// tables, where in memory these lie. docs/tlb.md describes the model.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/address/units.hpp"
#include "core/machine/page_tables.hpp"
#include "core/machine/tlb_array.hpp"

namespace pagelens {

// The shape of an array of a TLB, or of a paging-structure cache. 0 entries mean that there is
// none.
struct TlbShape {
    std::uint32_t entries = 0;
    std::uint32_t ways = 0;  // as many as entries: fully associative
};

struct TlbForm {
    struct Array {
        unsigned level = 1;  // 1 or 2
        TlbShape shape;
        bool folded = false;                    // how the set is found (tlb_array.hpp)
        std::array<bool, page_sizes> holds{};   // translations of pages of these sizes
        std::array<bool, page_sizes> pieces{};  // of these too, each piece as large as the largest
                                                // size that it holds
        bool directory = false;  // level 2: and, instead of translations of 4 KiB pages, the
                                 // page-directory entries above them, so it is their cache
    };
    std::vector<Array> arrays;
    // [level - 1]: of entries of tables of that level, which are not translations: of page
    // directories (2), page-directory-pointer tables (3) and the PML4 (4). [0] is unused.
    std::array<TlbShape, table_levels> structure_caches;
    bool ideal = false;  // the twin that never misses
};

// The counts, and what follows from them. The events of Intel's processors, loads and stores
// together, are in brackets.
struct TlbCounters {
    using BySize = std::array<std::uint64_t, page_sizes>;
    using ByLevel = std::array<std::uint64_t, table_levels>;

    std::uint64_t lookups = 0;
    BySize stlb_hits{};  // missed the first level, found in the second [DTLB_*_MISSES.STLB_HIT]
    // [size][level - 1] the others: walks whose first step read an entry of a table of that level.
    std::array<ByLevel, page_sizes> walks{};

    // Missed the first level: stlb_hits and walks_completed.
    [[nodiscard]] BySize dtlb_misses() const;
    // [DTLB_*_MISSES.WALK_COMPLETED_4K, _2M_4M, _1G]
    [[nodiscard]] BySize walks_completed() const;
    // [level - 1] entries of tables of that level that walks read [PAGE_WALKER_LOADS.*].
    [[nodiscard]] ByLevel walker_loads() const;
    // [level - 1] walks that began below an entry of such a table because that was cached: 2 the
    // PDE cache, 3 the PDPTE cache, 4 the PML4 cache.
    [[nodiscard]] ByLevel structure_hits() const;

    TlbCounters& operator+=(const TlbCounters& other);
    friend bool operator==(const TlbCounters&, const TlbCounters&) = default;
};

// The reads of a batch's walks in their order, each of them one load, to be given to the caches.
struct WalkReads {
    std::vector<std::uint64_t> entries;       // physical byte addresses of page-table entries
    std::vector<std::uint32_t> translations;  // which one of the batch needed it

    void clear() {
        entries.clear();
        translations.clear();
    }
};

class Tlb {
  public:
    // Throws std::invalid_argument, naming what is wrong with the form.
    explicit Tlb(const TlbForm& form);

    // Pages of that size can be used: a first level has room for them.
    [[nodiscard]] bool supports(PageSize size) const { return sizes_[index(size)].first != none; }
    // The first level that pages of that size are looked up in: sets, ways and the size of its page
    // or piece.
    struct FirstLevel {
        std::uint32_t sets, ways;
        PageSize piece;
    };
    [[nodiscard]] FirstLevel first_level(PageSize size) const;

    // Translates virtual addresses, each on a page of sizes[i], or all of them on pages of `size`.
    // Throws std::invalid_argument if pages of that size are not supported, or an address has more
    // than 48 bits.
    void translate(std::span<const std::uint64_t> addresses, PageSize size, TlbCounters& counters);
    void translate(std::span<const std::uint64_t> addresses, std::span<const PageSize> sizes,
                   TlbCounters& counters);
    // The same; `reads` is cleared first and then has what the walks read. Throws
    // std::invalid_argument if a page that is walked for has no tables.
    void translate(std::span<const std::uint64_t> addresses, std::span<const PageSize> sizes,
                   const PageTables& tables, TlbCounters& counters, WalkReads& reads);

    // Makes `accesses` in a row to the page at `address`, in the loop of replays. Calls
    // on_walk(first, last) if a completed walk read the entries of the levels from `first` down to
    // `last`. Preconditions: supports(size), 48 bits.
    template <class OnWalk>
    [[gnu::always_inline]] void access(std::uint64_t address, PageSize size, std::uint64_t accesses,
                                       TlbCounters& counters, OnWalk&& on_walk) {
        counters.lookups += accesses;
        if (!ideal_) look_up(address, size, sizes_[index(size)], counters, on_walk);
    }

    // Pages [first, first + count) of 4 KiB are unmapped (INVLPG and its kin): their translations
    // go, and, as on the processor, whatever the paging-structure caches hold.
    void invalidate(VirtualPage first, std::uint64_t count);
    // Another address space.
    void flush();

  private:
    static constexpr std::uint8_t none = 0xff;
    static constexpr unsigned directory_kind = page_sizes + 1;  // after those of page sizes, 1 to 3

    static constexpr unsigned index(PageSize size) { return static_cast<unsigned>(size); }

    // Where pages of one size are looked up, as places in arrays_.
    struct Way {
        std::uint8_t first = none, second = none;
        std::uint8_t shift = 0;  // of the first level's page or piece
        std::uint8_t kind = 0;   // 1 + its size
    };

    // Where entries of tables of a level are looked up, as a place in arrays_.
    struct StructureCache {
        std::uint8_t at = none;
        std::uint8_t shift = 0;  // of what lies below such an entry
    };

    void place(const TlbForm::Array& array, std::uint8_t at);
    void check(PageSize size) const;
    static void check(std::span<const std::uint64_t> addresses);

    // `way`: of that size, or a loop's copy of it, which stays in registers.
    template <class OnWalk>
    [[gnu::always_inline]] void look_up(std::uint64_t address, PageSize size, const Way& way,
                                        TlbCounters& counters, OnWalk&& on_walk) {
        if (!arrays_[way.first].use(address >> way.shift, way.kind))
            miss(address, size, way, counters, on_walk);
    }
    template <class OnWalk>
    void miss(std::uint64_t address, PageSize size, const Way& way, TlbCounters& counters,
              OnWalk&& on_walk) {
        const unsigned s = index(size);
        if (way.second != none && arrays_[way.second].use(address >> page_shift(size), 1 + s)) {
            ++counters.stlb_hits[s];
            return;
        }
        unsigned first = leaf_level(size);  // the highest level that has to be read
        while (first < table_levels && !structure_cached(address, structure_[first])) ++first;
        ++counters.walks[s][first - 1];
        on_walk(first, leaf_level(size));
    }
    // Returns whether the entry of a table is cached there. Afterwards it is.
    bool structure_cached(std::uint64_t address, StructureCache cache) {
        return cache.at != none && arrays_[cache.at].use(address >> cache.shift, directory_kind);
    }

    std::vector<TlbArray> arrays_;
    std::array<Way, page_sizes> sizes_{};
    std::array<StructureCache, table_levels> structure_{};  // [level - 1], of levels 2 to 4
    bool ideal_;
};

}  // namespace pagelens
