// The TLB against the plainest one, over random forms and streams; its edges; what walks read.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/machine/tlb.hpp"
#include "tests/cpp/reference_tlb.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t kib = 1024, mib = kib * kib, gib = mib * kib;
constexpr PageSize all_sizes[] = {PageSize::small, PageSize::large, PageSize::huge};

// Sandy Bridge's, with the paging-structure caches that the test needs.
TlbForm sandy_bridge() {
    TlbForm form;
    form.arrays = {{1, {64, 4}, false, {true, false, false}, {}, false},
                   {1, {32, 4}, false, {false, true, false}, {}, false},
                   {1, {4, 4}, false, {false, false, true}, {}, false},
                   {2, {512, 4}, false, {true, false, false}, {}, false}};
    return form;
}

// First-generation Xeon Phi's: the second level holds page-directory entries.
TlbForm xeon_phi() {
    TlbForm form;
    form.arrays = {{1, {64, 4}, false, {true, false, false}, {}, false},
                   {1, {8, 4}, false, {false, true, false}, {}, false},
                   {2, {64, 4}, false, {false, true, false}, {}, true}};
    form.structure_caches = {{{}, {}, {4, 4}, {4, 4}}};
    return form;
}

TlbCounters sweep(Tlb& tlb, std::uint64_t bytes, std::uint64_t page, PageSize size) {
    std::vector<std::uint64_t> addresses;
    for (std::uint64_t at = 0; at < bytes; at += page) addresses.push_back(at);
    TlbCounters counters;
    tlb.translate(addresses, size, counters);
    return counters;
}
// Of a second sweep over so many bytes.
TlbCounters second_sweep(const TlbForm& form, std::uint64_t bytes, std::uint64_t page,
                         PageSize size) {
    Tlb tlb(form);
    sweep(tlb, bytes, page, size);
    return sweep(tlb, bytes, page, size);
}

class Draw {
  public:
    explicit Draw(std::uint32_t seed) : random_(seed) {}
    std::uint32_t below(std::uint32_t limit) {
        return static_cast<std::uint32_t>(random_() % limit);
    }
    bool one_in(std::uint32_t n) { return below(n) == 0; }
    TlbShape shape() {
        const bool wide = one_in(5);
        const std::uint32_t ways = 1 + below(wide ? 70 : 9);
        return {wide && one_in(2) ? ways : ways << below(5), ways};
    }

  private:
    std::mt19937 random_;
};

// Every valid form is possible: sizes shared or split at either level, pieces, a directory.
TlbForm random_form(Draw& draw) {
    TlbForm form;
    for (unsigned level = 1; level <= 2; ++level) {
        std::array<int, page_sizes> array_of{};
        for (int& array : array_of)  // a second level need not hold pages of every size
            array = static_cast<int>(level == 1 ? 1 + draw.below(3) : draw.below(4));
        std::map<int, TlbForm::Array> arrays;
        for (unsigned size = 0; size < page_sizes; ++size) {
            if (array_of[size] == 0) continue;
            TlbForm::Array& array = arrays[array_of[size]];
            array.level = level;
            array.shape = draw.shape();
            array.folded = draw.one_in(3);
            const bool piece =
                level == 1 && size > 0 && (array.holds[0] || array.holds[1]) && draw.one_in(2);
            (piece ? array.pieces : array.holds)[size] = true;
        }
        if (level == 2 && !arrays.empty() && draw.one_in(3)) {
            TlbForm::Array& array = arrays.begin()->second;
            array.holds[0] = false;
            array.directory = true;
        }
        for (const auto& [number, array] : arrays) form.arrays.push_back(array);
    }
    const bool directory = std::ranges::any_of(form.arrays, &TlbForm::Array::directory);
    for (unsigned level = directory ? 3 : 2; level <= table_levels; ++level)
        if (!draw.one_in(3)) form.structure_caches[level - 1] = draw.shape();
    return form;
}

}  // namespace

TEST_CASE("tlb: counts and walks of the plainest TLB, over random forms and streams") {
    std::uint64_t walked = 0, hit = 0;
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        Draw draw(seed);
        const TlbForm form = random_form(draw);
        Tlb tlb(form);
        ReferenceTlb reference(form);
        PageTables tables;
        std::uint32_t next_frame = 100;
        const auto take = [&next_frame] { return Frame(next_frame++); };
        // Regions of three sizes of pages, walked or drawn from.
        const std::uint64_t pages = 1 + draw.below(1u << draw.below(11));
        TlbCounters counted, expected;
        for (int batch = 0; batch < 6; ++batch) {
            std::vector<std::uint64_t> addresses;
            std::vector<PageSize> sizes;
            std::vector<std::uint64_t> entries;
            std::vector<std::uint32_t> translations;
            std::uint64_t at = 0;
            for (std::uint32_t i = 0; i < 500; ++i) {
                const PageSize size = all_sizes[draw.below(3)];
                at = draw.one_in(3) ? draw.below(static_cast<std::uint32_t>(pages))
                                    : (at + 1) % pages;
                const std::uint64_t address =
                    ((1 + std::uint64_t{static_cast<unsigned>(size)}) << 40) +
                    (at << page_shift(size)) + draw.below(4096);
                tables.map(VirtualAddress(address), size, take);
                for (std::uint32_t times = 1 + draw.below(2); times > 0; --times) {
                    addresses.push_back(address);
                    sizes.push_back(size);
                    const auto path = tables.entries(VirtualAddress(address), size);
                    for (const unsigned level : reference.access(address, size, expected)) {
                        entries.push_back(path[level - 1]);
                        translations.push_back(static_cast<std::uint32_t>(addresses.size() - 1));
                    }
                }
            }
            if (batch % 2 == 0) {
                tlb.translate(addresses, sizes, counted);
            } else {
                WalkReads reads;
                tlb.translate(addresses, sizes, tables, counted, reads);
                CHECK(reads.entries == entries);
                CHECK(reads.translations == translations);
            }
            const PageSize of_all = all_sizes[draw.below(3)];
            addresses.resize(200);
            for (std::uint64_t& address : addresses) {
                address = std::uint64_t{draw.below(2 * static_cast<std::uint32_t>(pages))}
                          << page_shift(of_all);
                reference.access(address, of_all, expected);
            }
            tlb.translate(addresses, of_all, counted);
            CHECK(counted == expected);
            const std::uint64_t first = (std::uint64_t{1 + draw.below(3)} << 28) + draw.below(1500);
            const std::uint64_t count = draw.below(1000);
            tlb.invalidate(VirtualPage(first), count);
            reference.invalidate(first, count);
        }
        for (const std::uint64_t walks : counted.walks_completed()) walked += walks;
        for (const std::uint64_t hits : counted.stlb_hits) hit += hits;
    }
    CHECK(walked > 10000);
    CHECK(hit > 10000);
}

TEST_CASE("tlb: a sweep over as many pages as entries misses once, over one page more again") {
    const TlbForm form = sandy_bridge();
    const struct {
        PageSize size;
        std::uint64_t page, entries;
    } knees[] = {
        {PageSize::small, 4 * kib, 64}, {PageSize::large, 2 * mib, 32}, {PageSize::huge, gib, 4}};
    for (const auto& [size, page, entries] : knees) {
        const auto s = static_cast<unsigned>(size);
        CAPTURE(s);
        CHECK(second_sweep(form, entries * page, page, size).dtlb_misses()[s] == 0);
        CHECK(second_sweep(form, (entries + 1) * page, page, size).dtlb_misses()[s] > 0);
    }
    CHECK(second_sweep(form, 512 * 4 * kib, 4 * kib, PageSize::small).walks_completed()[0] == 0);
    CHECK(second_sweep(form, 513 * 4 * kib, 4 * kib, PageSize::small).walks_completed()[0] > 0);
}

TEST_CASE("tlb: 5, 4 and 3 trips to memory with nothing cached") {
    const struct {
        PageSize size;
        std::uint64_t page;
        std::size_t trips;
    } walks[] = {
        {PageSize::small, 4 * kib, 5}, {PageSize::large, 2 * mib, 4}, {PageSize::huge, gib, 3}};
    for (const auto& [size, page, trips] : walks) {
        TlbForm form;  // a first level of one entry, no second, no paging-structure caches
        form.arrays = {{1, {1, 1}, false, {true, true, true}, {}, false}};
        Tlb tlb(form);
        PageTables tables;
        std::uint32_t frame = 1;
        std::vector<std::uint64_t> addresses;
        for (std::uint64_t i = 0; i < 1000; ++i) {
            addresses.push_back(i * page);
            tables.map(VirtualAddress(i * page), size, [&] { return Frame(frame++); });
        }
        TlbCounters counters;
        WalkReads reads;
        const std::vector<PageSize> sizes(addresses.size(), size);
        tlb.translate(addresses, sizes, tables, counters, reads);
        CHECK(reads.entries.size() + addresses.size() == trips * addresses.size());
    }
}

TEST_CASE("tlb: Xeon Phi reaches 256 KiB without a walk, then walks one step out to 128 MiB") {
    const TlbForm form = xeon_phi();
    const auto loads = [&](std::uint64_t bytes) {
        return second_sweep(form, bytes, 4 * kib, PageSize::small).walker_loads();
    };
    CHECK(loads(256 * kib) == TlbCounters::ByLevel{});
    const std::uint64_t pages = 128 * mib / (4 * kib);
    CHECK(loads(256 * kib + 4 * kib)[0] > 0);
    CHECK(loads(128 * mib) == TlbCounters::ByLevel{pages, 0, 0, 0});  // page-table entries alone
    CHECK(loads(130 * mib)[1] > 0);
    // translations of 2 MiB pages are in the same array
    CHECK(second_sweep(form, 128 * mib, 2 * mib, PageSize::large).walks_completed()[1] == 0);
    CHECK(second_sweep(form, 130 * mib, 2 * mib, PageSize::large).walks_completed()[1] > 0);
}

TEST_CASE("tlb: page sizes compete for an array that they share, and not for two") {
    const auto misses = [](bool shared) {
        TlbForm form;
        if (shared) {
            form.arrays = {{1, {8, 8}, false, {true, true, true}, {}, false}};
        } else {
            form.arrays = {{1, {8, 8}, false, {true, false, false}, {}, false},
                           {1, {8, 8}, false, {false, true, true}, {}, false}};
        }
        Tlb tlb(form);
        std::uint64_t sum = 0;
        for (int round = 0; round < 2; ++round) {
            TlbCounters counters;
            sum = 0;
            for (std::uint64_t i = 0; i < 5; ++i) {
                tlb.access(i * 4 * kib, PageSize::small, 1, counters, [](unsigned, unsigned) {});
                tlb.access(gib + i * 2 * mib, PageSize::large, 1, counters,
                           [](unsigned, unsigned) {});
            }
            for (const std::uint64_t count : counters.dtlb_misses()) sum += count;
        }
        return sum;
    };
    CHECK(misses(true) == 10);
    CHECK(misses(false) == 0);
}

TEST_CASE("tlb: the ideal twin never misses") {
    TlbForm form = sandy_bridge();
    form.ideal = true;
    Tlb tlb(form);
    const TlbCounters counters = sweep(tlb, 64 * mib, 4 * kib, PageSize::small);
    CHECK(counters.lookups == 64 * mib / (4 * kib));
    CHECK(counters.dtlb_misses() == TlbCounters::BySize{});
}

TEST_CASE("tlb: a run of accesses to a page is one lookup of the array") {
    Tlb tlb(sandy_bridge());
    TlbCounters counters;
    tlb.access(4096, PageSize::small, 64, counters, [](unsigned, unsigned) {});
    CHECK(counters.lookups == 64);
    CHECK(counters.dtlb_misses()[0] == 1);
}

TEST_CASE("tlb: an unmapped page is walked for again, by way of all levels") {
    TlbForm form = sandy_bridge();
    form.structure_caches = {{{}, {32, 4}, {4, 4}, {4, 4}}};
    Tlb tlb(form);
    sweep(tlb, 8 * 4 * kib, 4 * kib, PageSize::small);
    tlb.invalidate(VirtualPage(3), 0);
    CHECK(sweep(tlb, 8 * 4 * kib, 4 * kib, PageSize::small).dtlb_misses()[0] == 0);
    tlb.invalidate(VirtualPage(3), 2);
    const TlbCounters again = sweep(tlb, 8 * 4 * kib, 4 * kib, PageSize::small);
    CHECK(again.walks_completed()[0] == 2);
    CHECK(again.walker_loads() == TlbCounters::ByLevel{2, 1, 1, 1});
    CHECK(again.structure_hits() == TlbCounters::ByLevel{0, 1, 0, 0});  // the second walk
    tlb.flush();
    CHECK(sweep(tlb, 8 * 4 * kib, 4 * kib, PageSize::small).walks_completed()[0] == 8);
}

TEST_CASE("tlb: an impossible form or stream is refused, in words") {
    const auto message = [](const TlbForm& form) -> std::string {
        try {
            Tlb tlb(form);
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
        return "";
    };
    const auto with = [&](TlbForm::Array array) {
        TlbForm form;
        form.arrays = {array};
        return message(form);
    };
    const std::array<bool, 3> small{true, false, false}, large{false, true, false}, no_size{};
    CHECK(with({1, {64, 4}, false, small, {}, false}).empty());
    CHECK(with({1, {60, 4}, false, small, {}, false}) ==
          "entries / ways must be a power of two, not 60 / 4");
    CHECK(with({1, {64, 0}, false, small, {}, false}).find("64 / 0") != std::string::npos);
    CHECK(with({3, {64, 4}, false, small, {}, false}) == "a level is 1 or 2, not 3");
    CHECK(with({1, {64, 4}, false, no_size, {}, false}) == "an array holds no page size");
    CHECK(with({2, {64, 4}, false, small, {}, false}) == "no first level holds pages of any size");
    CHECK(with({1, {64, 4}, false, large, small, false}).find("larger than") != std::string::npos);
    CHECK(with({1, {64, 4}, false, large, {}, true}).find("instead of 4 KiB") != std::string::npos);
    TlbForm form;
    form.arrays = {{1, {64, 4}, false, small, {}, false}, {1, {32, 4}, false, small, {}, false}};
    CHECK(message(form) == "two arrays of one level hold pages of the same size");
    form = xeon_phi();
    form.structure_caches[1] = {32, 8};
    CHECK(message(form).find("there is no other") != std::string::npos);

    Tlb tlb(sandy_bridge());
    Tlb phi(xeon_phi());
    TlbCounters counters;
    const std::vector<std::uint64_t> beyond{std::uint64_t{1} << 48}, good{0};
    CHECK_THROWS_AS(tlb.translate(beyond, PageSize::small, counters), std::invalid_argument);
    CHECK_THROWS_AS(phi.translate(good, PageSize::huge, counters), std::invalid_argument);
    WalkReads reads;
    const std::vector<PageSize> sizes{PageSize::small};
    CHECK_THROWS_AS(tlb.translate(good, sizes, PageTables(), counters, reads),
                    std::invalid_argument);
}
