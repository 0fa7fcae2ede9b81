// Page tables: every table has a frame of its own, and a walk's addresses are those of the manuals.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>
#include <set>

#include "core/machine/page_tables.hpp"

using namespace pagelens;

namespace {

// Frames 1, 2, 3 ... in the order that they are asked for.
struct Frames {
    std::uint32_t given = 0;
    Frame operator()() { return Frame(++given); }
};

}  // namespace

TEST_CASE("page tables: entries lie where the address's nine bits of each level say") {
    PageTables tables;
    Frames frames;
    const std::uint64_t address = 3ull << 39 | 5ull << 30 | 7ull << 21 | 9ull << 12 | 123;
    tables.map(VirtualAddress(address), PageSize::small, std::ref(frames));
    CHECK(frames.given == 4);  // PML4, PDPT, page directory, page table
    const auto entries = tables.entries(VirtualAddress(address), PageSize::small);
    CHECK(entries == std::array<std::uint64_t, 4>{4 * 4096 + 9 * 8, 3 * 4096 + 7 * 8,
                                                  2 * 4096 + 5 * 8, 1 * 4096 + 3 * 8});
}

TEST_CASE("page tables: large pages need fewer tables") {
    for (const auto& [size, needed] : std::map<PageSize, std::uint32_t>{
             {PageSize::small, 4}, {PageSize::large, 3}, {PageSize::huge, 2}}) {
        PageTables tables;
        Frames frames;
        CHECK_FALSE(tables.maps(VirtualAddress(0), size));
        tables.map(VirtualAddress(0), size, std::ref(frames));
        CHECK(frames.given == needed);
        CHECK(tables.maps(VirtualAddress(0), size));
        CHECK_FALSE(tables.maps(VirtualAddress(1ull << 39), size));
    }
}

TEST_CASE("page tables: a frame a table, and what is mapped stays where it is") {
    std::mt19937_64 random(1);
    PageTables tables;
    Frames frames;
    std::map<std::pair<unsigned, std::uint64_t>, std::uint64_t> frame_of;  // level, number -> frame
    for (int i = 0; i < 3000; ++i) {
        const std::uint64_t address = random() >> 16 & (random() >> 16 | 0xffffffffff);
        const auto size = PageSize{static_cast<std::uint8_t>(random() % 3)};
        tables.map(VirtualAddress(address), size, std::ref(frames));
        const auto entries = tables.entries(VirtualAddress(address), size);
        for (unsigned level = leaf_level(size); level <= table_levels; ++level) {
            const std::uint64_t table = address >> (level_shift(level) + 9);
            const auto [known, added] =
                frame_of.try_emplace({level, table}, entries[level - 1] / page_bytes);
            CHECK(known->second == entries[level - 1] / page_bytes);
            CHECK(entries[level - 1] % page_bytes == (address >> level_shift(level)) % 512 * 8);
        }
    }
    std::set<std::uint64_t> distinct;
    for (const auto& [table, frame] : frame_of) distinct.insert(frame);
    CHECK(distinct.size() == frame_of.size());
    CHECK(frames.given >= frame_of.size());
}

TEST_CASE("page tables: an address beyond 48 bits is refused") {
    PageTables tables;
    Frames frames;
    CHECK_THROWS_AS(tables.map(VirtualAddress(1ull << 48), PageSize::huge, std::ref(frames)),
                    std::invalid_argument);
}
