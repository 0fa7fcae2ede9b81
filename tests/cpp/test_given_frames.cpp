#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "core/frames/placement.hpp"

using namespace pagelens;

namespace {

std::vector<Frame> frames_of(std::initializer_list<std::uint32_t> numbers) {
    std::vector<Frame> frames;
    for (const std::uint32_t number : numbers) frames.emplace_back(number);
    return frames;
}

}  // namespace

TEST_CASE("given frames are those of their pages, page tables lie elsewhere") {
    const auto placement = place_as_given(frames_of({7, 3, 15, 4}), 16, small_order);
    const auto source = placement->open({1, 8, 0});
    CHECK(source->alloc({.page = 2}) == Frame(15));
    CHECK(source->alloc({.page = 0}) == Frame(7));
    CHECK(source->alloc({.type = MigrateType::unmovable}) == Frame(14));  // 15 is given
    CHECK(source->alloc({.type = MigrateType::unmovable}) == Frame(13));
    CHECK(source->alloc({.page = 3}) == Frame(4));
    CHECK_FALSE(source->alloc({.page = 4}).has_value());  // beyond what was given
}

TEST_CASE("pages count from the first that the program uses") {
    const std::vector<VirtualPage> pages{VirtualPage(100), VirtualPage(101), VirtualPage(103)};
    const auto placement = place_as_given(frames_of({5, 6, 7, 8}), 16, small_order);
    const auto source = placement->open({1, 8, 0, pages});
    CHECK(source->alloc({.page = 1}) == Frame(6));
    CHECK(source->alloc({.page = 2}) == Frame(8));  // the page between has a frame, too
}

TEST_CASE("large pages are given where frames are neighbours") {
    std::vector<Frame> frames;
    for (std::uint32_t at = 0; at < 1024; ++at)
        frames.emplace_back(at < 512 ? 512 + at : 2048 - at);
    const auto placement = place_as_given(frames, 4096, huge_order);
    const auto source = placement->open({1, 2048, 0});
    CHECK(source->alloc({.order = huge_order, .page = 0}) == Frame(512));
    CHECK_FALSE(source->alloc({.order = huge_order, .page = 512}).has_value());
}

TEST_CASE("frames beyond the memory, and more than one rank, are refused") {
    CHECK_THROWS_AS(place_as_given(frames_of({16}), 16, small_order), std::invalid_argument);
    const auto placement = place_as_given(frames_of({1}), 16, small_order);
    CHECK_THROWS_AS((void)placement->open({2, 1, 0}), std::invalid_argument);
}
