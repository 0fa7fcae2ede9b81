// Blocks of huge pages that a thread keeps for its next replay.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/machine/huge_array.hpp"

using namespace pagelens;

namespace {

constexpr std::size_t bytes = 3 * HugeBlock::page;

void forget_kept_blocks() {
    CHECK_THROWS_AS(static_cast<void>(HugeBlock::take(std::size_t{1} << 62)), std::bad_alloc);
}

}  // namespace

TEST_CASE("an array in a block that was in use is zeroed") {
    forget_kept_blocks();
    std::uint8_t* before = nullptr;
    {
        HugeArray array(bytes);
        before = array.data();
        std::fill_n(array.data(), bytes, std::uint8_t{7});
    }
    HugeArray array(bytes);
    CHECK(array.data() == before);
    CHECK(std::ranges::count(std::span(array.data(), bytes), 0) == bytes);
}

TEST_CASE("a block of another size is not taken") {
    HugeBlock::give_back(HugeBlock::take(bytes));
    CHECK(HugeBlock::take(2 * bytes).fresh);
}

TEST_CASE("of many blocks the latest are kept") {
    forget_kept_blocks();
    std::vector<HugeBlock> blocks;
    for (int i = 0; i < 40; ++i) blocks.push_back(HugeBlock::take(bytes));
    for (const HugeBlock& block : blocks) HugeBlock::give_back(block);
    std::size_t kept = 0;
    for (HugeBlock block = HugeBlock::take(bytes); !block.fresh; block = HugeBlock::take(bytes)) {
        CHECK(std::ranges::count(blocks, block.memory, &HugeBlock::memory) == 1);
        CHECK(block.memory != blocks.front().memory);
        ++kept;
    }
    CHECK(kept == 32);
}

TEST_CASE("what is kept is given up before memory is said not to suffice") {
    HugeBlock::give_back(HugeBlock::take(bytes));
    forget_kept_blocks();
    CHECK(HugeBlock::take(bytes).fresh);
}

TEST_CASE("pages that nobody touched of a block that was in use are left alone") {
    forget_kept_blocks();
    constexpr std::size_t large = 64 * HugeBlock::page;
    const std::size_t touched[] = {0, 5 * HugeBlock::page + 4096 * 511, large - 1};
    {
        HugeArray array(large);
        for (const std::size_t at : touched) array.data()[at] = 7;
    }
    HugeArray array(large);
    std::vector<unsigned char> resident(large / 4096);
    REQUIRE(mincore(array.data(), large, resident.data()) == 0);
    CHECK(std::ranges::count_if(resident, [](unsigned char page) { return (page & 1) != 0; }) <=
          3 * 512);
    for (const std::size_t at : touched) CHECK(array.data()[at] == 0);
    CHECK(std::ranges::count(std::span(array.data(), large), 0) == large);
}

TEST_CASE("a zeroed array takes memory only where somebody writes") {
    forget_kept_blocks();
    constexpr std::size_t large = 64 * HugeBlock::page;
    ZeroedArray<std::uint64_t> array(large / 8);
    array[large / 16] = 7;
    std::vector<unsigned char> resident(large / 4096);
    REQUIRE(mincore(&array[0], large, resident.data()) == 0);
    CHECK(std::ranges::count_if(resident, [](unsigned char page) { return (page & 1) != 0; }) <=
          512);
    CHECK(std::ranges::count(std::span(&array[0], large / 8), 0) == large / 8 - 1);
}

TEST_CASE("an array of which few places are used takes a small page for each, and is cleared") {
    forget_kept_blocks();
    constexpr std::size_t large = 64 * HugeBlock::page;
    const auto resident = [](HugeArray& array) {
        std::vector<unsigned char> pages(large / 4096);
        REQUIRE(mincore(array.data(), large, pages.data()) == 0);
        return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
    };
    {
        HugeArray array(large, 64);
        for (std::size_t at = 0; at < large; at += HugeBlock::page) array.data()[at] = 7;
        CHECK(resident(array) == 64);
    }
    CHECK(HugeBlock::take(large).fresh);  // no block of huge pages was given back
    HugeArray array(large, 64);
    CHECK(resident(array) == 64);  // it is the one from before
    CHECK(std::ranges::count(std::span(array.data(), large), 0) == large);
}
