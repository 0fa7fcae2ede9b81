#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/frames/placement.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t huge_frames = 1u << huge_order;
constexpr std::uint32_t colours = 4;

}  // namespace

TEST_CASE("a large page goes where fewest are, also when others were freed since") {
    const Memory memory(bare_layout(16 * huge_frames), 1);
    const auto placement = place_by_colour(memory, colours * huge_frames, huge_order);
    const auto source = placement->open({1, 0, 0});
    const Request request{0, huge_order};
    const auto colour_of = [](Frame frame) { return frame.raw() / huge_frames % colours; };
    std::vector<std::vector<Frame>> held(colours);
    for (int i = 0; i < 12; ++i) {
        const Frame frame = *source->alloc(request);
        held[colour_of(frame)].push_back(frame);
    }
    const auto give_back = [&](std::uint32_t colour) {
        source->free(request, held[colour].back());
        held[colour].pop_back();
    };
    for (const auto& of : held) REQUIRE(of.size() == 3);
    for (const std::uint32_t colour : {1u, 1u, 2u}) give_back(colour);
    for (int i = 0; i < 7; ++i) {
        const Frame frame = *source->alloc(request);
        std::size_t least = 4;
        for (const auto& of : held) least = std::min(least, of.size());
        CHECK(held[colour_of(frame)].size() == least);
        held[colour_of(frame)].push_back(frame);
    }
    CHECK(!source->alloc(request));
}

TEST_CASE("beside large pages of one colour each, small ones take what lies in smaller blocks") {
    Memory memory(bare_layout(16 * huge_frames), 1);
    // Every second 2 MiB is held by one page: 8 large pages are left.
    std::vector<Frame> held;
    while (const auto frame = memory.alloc({0, small_order}, Memory::Mark::none)) {
        held.push_back(*frame);
    }
    for (const Frame frame : held) {
        if (frame.raw() % (2 * huge_frames) != 0) memory.free(0, frame, small_order);
    }
    const std::uint32_t free = memory.free_frames();
    const auto placement = place_by_colour(memory, colours * huge_frames, huge_order);
    const auto source = placement->open({1, 0, 0});
    std::set<std::uint32_t> seen;
    std::uint32_t large = 0;
    for (std::uint32_t i = 0; i < 8 * (huge_frames - 1); ++i) {
        const Frame frame = *source->alloc({});
        large += frame.raw() / huge_frames % 2;
        CHECK(seen.insert(frame.raw()).second);
    }
    CHECK(large == 0);
    // They are used up, which a job learns when it has all that is free.
    while (const auto frame = source->alloc({0, small_order})) {
        CHECK(seen.insert(frame->raw()).second);
    }
    CHECK(seen.size() == free);
}
