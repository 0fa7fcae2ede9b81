// Which object a line is: births, the allocator's headers between them, mappings.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/accesses/object_map.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t heap_start = 0x10000, heap_size = 1 << 20, elsewhere = 0x7f0000000000;
constexpr ObjectIndex heap = 1, mapping = 3;

// Sites 1 and 2, in a heap.
ObjectMap two_sites() {
    const std::vector<RegionDefinition> regions{{RegionKind::heap, heap_start, heap_size}};
    const std::vector<CallSiteDefinition> sites{{1, {}}, {2, {}}};
    return ObjectMap({}, {}, regions, sites);
}

std::uint64_t line(std::uint64_t address) { return address / line_bytes; }

}  // namespace

TEST_CASE("The header in front of a block goes with the block") {
    ObjectMap map = two_sites();
    const ObjectIndex one = map.object_of_site(1), two = map.object_of_site(2);
    const std::uint64_t block = heap_start + 8 * line_bytes;
    map.birth(block, 100, 1);
    CHECK(map.at(line(block) - 2) == heap);
    CHECK(map.at(line(block) - 1) == one);
    CHECK(map.at(line(block) + 1) == one);
    CHECK(map.at(line(block) + 2) == heap);

    SUBCASE("not where its line is another block's") {
        map.birth(block + 2 * line_bytes, 100, 2);
        CHECK(map.at(line(block) + 1) == one);
        CHECK(map.at(line(block) + 2) == two);
    }
    SUBCASE("until another block takes the line") {
        map.birth(block - 2 * line_bytes, 2 * line_bytes - 8, 2);
        CHECK(map.at(line(block) - 1) == two);
        CHECK(map.at(line(block)) == one);
    }
    SUBCASE("a block that does not start a line has its header in its own first line") {
        map.birth(block + 4 * line_bytes + 16, 100, 2);
        CHECK(map.at(line(block) + 3) == heap);
        CHECK(map.at(line(block) + 4) == two);
    }
    SUBCASE("of large blocks too") {
        map.birth(block + 16 * line_bytes, 1 << 18, 2);
        CHECK(map.at(line(block) + 15) == two);
        CHECK(map.at(line(block) + 14) == heap);
    }
}

TEST_CASE("What an allocator touches for a block goes with it where it is nobody's") {
    ObjectMap map = two_sites();
    const ObjectIndex one = map.object_of_site(1), two = map.object_of_site(2);
    const std::uint64_t block = heap_start + 8 * line_bytes + 16, bytes = 2 * line_bytes;
    for (std::uint64_t at = line(block) - 2; at < line(block) + 6; ++at)
        map.claim(at, block, bytes, 1);
    CHECK(map.at(line(block) - 1) == heap);
    for (std::uint64_t at = 0; at < 3; ++at) CHECK(map.at(line(block) + at) == one);
    CHECK(map.at(line(block) + 3) == heap);

    map.claim(line(block) + 2, block + bytes + 16, bytes, 2);
    CHECK(map.at(line(block) + 2) == one);  // it has an owner
    map.birth(block + bytes + 16, bytes, 2);
    CHECK(map.at(line(block) + 2) == two);
}

TEST_CASE("What lies before a mapping is not its header") {
    ObjectMap map = two_sites();
    map.birth(elsewhere, page_bytes, 1);  // as mmap gives it
    CHECK(map.at(line(elsewhere) - 1) == mapping);
    CHECK(map.at(line(elsewhere)) == map.object_of_site(1));
    map.birth(elsewhere + page_bytes + 2 * line_bytes, 100,
              2);  // aligned, in a mapping of malloc's
    CHECK(map.at(line(elsewhere + page_bytes) + 1) == map.object_of_site(2));
    const std::uint64_t page_in_heap = heap_start + page_bytes;
    map.birth(page_in_heap, 100, 2);
    CHECK(map.at(line(page_in_heap) - 1) == map.object_of_site(2));
}
