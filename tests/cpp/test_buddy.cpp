#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/frames/buddy.hpp"
#include "core/frames/philox.hpp"
#include "core/frames/single_frames.hpp"

using namespace pagelens;

namespace {

struct Block {
    Frame frame;
    unsigned order;
};

std::uint32_t frames_of(unsigned order, const Buddy& buddy) {
    return std::max(1u << order, buddy.grain());
}

std::vector<Frame> every_free_block(const Buddy& buddy, unsigned order) {
    return buddy.free_list(order);
}

}  // namespace

TEST_CASE("no frame is handed out twice, blocks are aligned, and all merge back") {
    for (const std::uint32_t grain : {1u, 16u}) {
        for (const std::uint32_t frames : {1024u, 8192u, 5 * 1024u + 48u}) {
            CAPTURE(grain);
            CAPTURE(frames);
            Buddy buddy(frames, grain);
            const Buddy fresh = buddy;
            Random random(frames, grain, 0, Stream::history);
            std::vector<Block> held;
            std::vector<bool> taken(frames);
            for (int i = 0; i < 20000; ++i) {
                if (!held.empty() && random.below(5) < 2) {
                    std::swap(held[random.below(static_cast<std::uint32_t>(held.size()))],
                              held.back());
                    const Block block = held.back();
                    held.pop_back();
                    buddy.free(block.frame, block.order);
                    for (std::uint32_t f = 0; f < frames_of(block.order, buddy); ++f) {
                        taken[block.frame.raw() + f] = false;
                    }
                    continue;
                }
                const unsigned order = random.below(4) == 0 ? random.below(max_order + 1) : 0;
                const auto frame = buddy.alloc(order);
                if (!frame) continue;
                const std::uint32_t count = frames_of(order, buddy);
                REQUIRE(frame->raw() % count == 0);
                REQUIRE(frame->raw() + count <= frames);
                for (std::uint32_t f = 0; f < count; ++f) {
                    REQUIRE(!taken[frame->raw() + f]);
                    taken[frame->raw() + f] = true;
                }
                held.push_back({*frame, order});
                REQUIRE(buddy.free_frames() ==
                        static_cast<std::uint32_t>(std::count(taken.begin(), taken.end(), false)));
            }
            for (const Block& block : held) buddy.free(block.frame, block.order);
            buddy.sort();
            CHECK(buddy.free_frames() == frames);
            for (unsigned order = 0; order <= max_order; ++order) {
                CHECK(every_free_block(buddy, order) == every_free_block(fresh, order));
            }
        }
    }
}

TEST_CASE("a fresh node hands out frames in order of address") {
    Buddy buddy(4096, 1);
    for (std::uint32_t f = 0; f < 4096; ++f) REQUIRE(buddy.alloc(0) == Frame(f));
    CHECK(!buddy.alloc(0));
}

TEST_CASE("what is freed last is handed out first, and sorting ends that") {
    Buddy buddy(4 * 1024, 1);
    std::vector<Frame> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(*buddy.alloc(max_order));
    for (const int i : {2, 0, 3}) buddy.free(blocks[static_cast<unsigned>(i)], max_order);
    CHECK(buddy.free_list(max_order) == std::vector{blocks[3], blocks[0], blocks[2]});
    buddy.sort();
    CHECK(buddy.free_list(max_order) == std::vector{blocks[0], blocks[2], blocks[3]});
}

TEST_CASE("a split puts the upper halves at the heads of their lists") {
    Buddy buddy(2 * 1024, 1);
    CHECK(buddy.alloc(8) == Frame(0));
    CHECK(buddy.free_list(8) == std::vector{Frame(256)});
    CHECK(buddy.free_list(9) == std::vector{Frame(512)});
    CHECK(buddy.free_list(10) == std::vector{Frame(1024)});
}

TEST_CASE("a copy is a snapshot") {
    Buddy buddy(2048, 16);
    const auto frame = buddy.alloc(4);
    Buddy branch = buddy;
    branch.free(*frame, 4);
    CHECK(buddy.free_frames() == 2048 - 16);
    CHECK(branch.free_frames() == 2048);
}

TEST_CASE("reserved memory is never handed out") {
    Buddy buddy(8 * 1024, 1);
    buddy.reserve(Frame(2048), Frame(4096));
    CHECK(buddy.free_frames() == 6 * 1024);
    while (const auto frame = buddy.alloc(0)) {
        REQUIRE((frame->raw() < 2048 || frame->raw() >= 4096));
    }
}

TEST_CASE("sizes that do not fit are refused by name") {
    CHECK_THROWS_AS(Buddy(1024, 3), std::invalid_argument);
    CHECK_THROWS_AS(Buddy(1024, 2048), std::invalid_argument);
    CHECK_THROWS_AS(Buddy(0, 1), std::invalid_argument);
    CHECK_THROWS_AS(Buddy(1000, 16), std::invalid_argument);
    CHECK_THROWS_AS(SingleFrames(Buddy(1024, 32)), std::invalid_argument);
}

TEST_CASE("single frames out of units: none twice, and a unit merges when its last frame is back") {
    for (const std::uint32_t grain : {1u, 4u, 16u}) {
        CAPTURE(grain);
        SingleFrames frames{Buddy(4096, grain)};
        Random random(grain, 7, 0, Stream::history);
        std::vector<Frame> held;
        std::vector<bool> taken(4096);
        for (int i = 0; i < 3000; ++i) {
            if (random.below(5) < 2) {
                for (std::uint32_t n = random.below(40); n > 0 && !held.empty(); --n) {
                    std::swap(held[random.below(static_cast<std::uint32_t>(held.size()))],
                              held.back());
                    taken[held.back().raw()] = false;
                    frames.put(held.back());
                    held.pop_back();
                }
                continue;
            }
            Frame batch[16];
            const unsigned count = frames.take(std::span<Frame>(batch, 1 + random.below(16)));
            for (unsigned k = 0; k < count; ++k) {
                REQUIRE(!taken[batch[k].raw()]);
                taken[batch[k].raw()] = true;
                held.push_back(batch[k]);
            }
            REQUIRE(count + (4096 - held.size()) > 0);
        }
        for (const Frame frame : held) frames.put(frame);
        CHECK(frames.buddy().free_frames() == 4096);
        CHECK(frames.buddy().free_list(max_order).size() == 4);
    }
}
