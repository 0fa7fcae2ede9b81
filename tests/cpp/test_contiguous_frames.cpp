// Contiguous frames: a rank's memory by address, what lies between its pages included.
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "core/frames/placement.hpp"

using namespace pagelens;

namespace {

const std::vector<VirtualPage> pages = {VirtualPage(100), VirtualPage(101), VirtualPage(110),
                                        VirtualPage(110 + 513), VirtualPage(5000)};
constexpr std::uint32_t kernel = 2;

std::optional<std::uint32_t> frame(FrameSource& source, unsigned rank, std::uint32_t page) {
    const auto given = source.alloc({.cpu = rank, .page = page, .rank = rank});
    return given ? std::optional(given->raw()) : std::nullopt;
}

// In an order that is not theirs.
std::vector<std::uint32_t> frames_of(FrameSource& source, unsigned rank) {
    std::vector<std::uint32_t> frames(pages.size());
    for (const std::uint32_t page : {3u, 0u, 4u, 1u, 2u})
        frames[page] = frame(source, rank, page).value();
    return frames;
}

JobShape job(std::uint32_t ranks) {
    return {ranks, static_cast<std::uint32_t>(pages.size()) + kernel, 0, pages};
}

}  // namespace

TEST_CASE("contiguous: a hole has frames but for whole large pages, the kernel's come last") {
    const auto placement = place_contiguously(1u << 16);
    const auto source = placement->open(job(2));
    // 513 pages on there are 512 others between: none are left; 4376 between are 280 and 8 x 512.
    const std::vector<std::uint32_t> expected = {0, 1, 10, 11, 292};
    CHECK(frames_of(*source, 0) == expected);
    const std::uint32_t region = 293 + kernel;
    for (std::uint32_t& at : frames_of(*source, 1)) CHECK(at >= region);
    CHECK(frame(*source, 1, 2) == region + 10);
    for (std::uint32_t i = 0; i < kernel; ++i)
        CHECK(source->alloc({.cpu = 0, .type = MigrateType::unmovable})->raw() == 293 + i);
    CHECK_FALSE(source->alloc({.cpu = 0, .type = MigrateType::unmovable}));
}

TEST_CASE("contiguous: a page that comes back has its frame") {
    const auto source = place_contiguously(1u << 16)->open(job(1));
    CHECK(frame(*source, 0, 2) == 10);
    source->free({.cpu = 0}, Frame(10));
    CHECK(frame(*source, 0, 4) == 292);
    CHECK(frame(*source, 0, 2) == 10);
}

TEST_CASE("contiguous: where memory does not suffice for holes, page follows page") {
    const std::vector<std::uint32_t> dense = {0, 1, 2, 3, 4};
    CHECK(frames_of(*place_contiguously(294)->open(job(1)), 0) == dense);
    CHECK(frames_of(*place_contiguously(295)->open(job(1)), 0)[4] == 292);
    const auto small = place_contiguously(3)->open(job(1));
    CHECK(frame(*small, 0, 2) == 2);
    CHECK_FALSE(frame(*small, 0, 3));
}
