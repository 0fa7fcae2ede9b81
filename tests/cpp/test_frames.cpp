#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/frames/isolation.hpp"
#include "core/frames/node_state.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t big = 2u << 20;  // 8 GiB: has all three zones

struct Held {
    Frame frame;
    unsigned order;
};

// Whether free lists, counts and states agree, and no frame is free twice.
void check_consistent(const Memory& memory) {
    const Memmap& map = memory.map();
    std::vector<bool> seen(memory.frames());
    std::uint64_t frames = 0;
    for (const FreeBlock& block : memory.free_blocks()) {
        const std::uint32_t first = block.first.raw(), size = 1u << block.order;
        REQUIRE(first % size == 0);
        for (std::uint32_t frame = first; frame < first + size; ++frame) {
            REQUIRE(!seen[frame]);
            seen[frame] = true;
        }
        frames += size;
        const Unit unit = map.unit_of(block.first);
        if (block.order >= map.grain_order()) {
            REQUIRE(map.is_free(unit, map.level_of(block.order)));
        } else {
            const Parts parts = ((Parts{1} << size) - 1) << first % memory.grain();
            REQUIRE((map.free_parts(unit) & parts) == parts);
        }
    }
    REQUIRE(frames == memory.free_frames());
}

// Frames that an allocation of this order takes.
std::uint32_t taken_by(const Memory& memory, unsigned order) {
    return order == small_order ? 1 : std::max(1u << order, memory.grain());
}

Frame take(Memory& memory, unsigned order, MigrateType type = MigrateType::movable) {
    return *memory.alloc({0, order, type}, Memory::Mark::none);
}

}  // namespace

TEST_CASE("no frame is handed out twice, blocks are aligned, and all merge back") {
    for (const std::uint32_t grain : {1u, 16u, 64u}) {
        for (const unsigned numas : {1u, 3u}) {
            CAPTURE(grain);
            CAPTURE(numas);
            Memory memory(linux_layout(24 * 1024, numas, 4), grain);
            const auto fresh = memory.free_blocks();
            Random random(numas, grain, 0, Stream::history);
            std::vector<Held> held;
            std::vector<bool> taken(memory.frames());
            for (int i = 0; i < 30000; ++i) {
                const unsigned cpu = random.below(4);
                if (!held.empty() && random.below(5) < 2) {
                    std::swap(held[random.below(static_cast<std::uint32_t>(held.size()))],
                              held.back());
                    const Held block = held.back();
                    held.pop_back();
                    memory.free(cpu, block.frame, block.order);
                    const std::uint32_t count = taken_by(memory, block.order);
                    for (std::uint32_t f = 0; f < count; ++f) taken[block.frame.raw() + f] = false;
                    continue;
                }
                const unsigned order = random.below(4) == 0 ? random.below(max_order + 1) : 0;
                const auto type = static_cast<MigrateType>(random.below(pcp_types));
                const auto frame = memory.alloc({cpu, order, type}, Memory::Mark::none);
                if (!frame) continue;
                const std::uint32_t count = taken_by(memory, order);
                REQUIRE(frame->raw() % count == 0);
                for (std::uint32_t f = 0; f < count; ++f) {
                    REQUIRE(!taken[frame->raw() + f]);
                    taken[frame->raw() + f] = true;
                }
                held.push_back({*frame, order});
                if (i % 1000 == 0) check_consistent(memory);
            }
            for (const Held& block : held) memory.free(0, block.frame, block.order);
            memory.drain();
            check_consistent(memory);
            CHECK(memory.free_frames() == memory.frames());
            CHECK(memory.free_blocks().size() == fresh.size());
        }
    }
}

TEST_CASE("a fresh node hands out Normal's frames in order of address, then DMA32's") {
    Memory memory(linux_layout(big, 1, 2), 1);
    for (std::uint32_t f = 0; f < 3000; ++f) REQUIRE(take(memory, 0) == Frame((1u << 20) + f));
    MaybeFrame last;
    while (const auto frame = memory.alloc({0, 10}, Memory::Mark::low)) last = frame;
    CHECK(last->raw() < 1u << 20);
    CHECK(memory.below_high(~0ull));
    CHECK(memory.alloc({0, 0}, Memory::Mark::min));
}

TEST_CASE("DMA memory is kept from those that a higher zone could serve") {
    Memory memory(linux_layout(big, 1, 1), 1);
    while (memory.alloc({0, 10}, Memory::Mark::min)) {
    }
    for (const FreeBlock& block : memory.free_blocks()) {
        if (block.first.raw() < 4096) CHECK(block.order == 10);
    }
}

TEST_CASE("a split puts the upper halves at the heads of their lists") {
    Memory memory(bare_layout(2048), 1);
    CHECK(take(memory, 8) == Frame(0));
    CHECK(memory.free_list(0, 8, MigrateType::movable) == std::vector{Frame(256)});
    CHECK(memory.free_list(0, 9, MigrateType::movable) == std::vector{Frame(512)});
    CHECK(memory.free_list(0, 10, MigrateType::movable) == std::vector{Frame(1024)});
}

TEST_CASE("a freed block goes to the head, or to the tail where it may merge twice") {
    Memory memory(bare_layout(4096), 1);
    std::vector<Frame> frames;
    for (int i = 0; i < 4096; ++i) frames.push_back(take(memory, 0));
    memory.free(0, Frame(8), 0);
    memory.free(0, Frame(12), 0);
    CHECK(memory.free_list(0, 0, MigrateType::movable) == std::vector{Frame(12), Frame(8)});
    memory.free(0, Frame(2), 0);
    memory.free(0, Frame(3), 0);  // 2 and 3 are an order-1 block: what is beside it may merge again
    memory.free(0, Frame(0), 0);
    CHECK(memory.free_list(0, 0, MigrateType::movable) ==
          std::vector{Frame(12), Frame(8), Frame(0)});
}

TEST_CASE("a type that has run dry claims a pageblock of another, the largest first") {
    Memory memory(bare_layout(2048), 1);
    const Frame first = take(memory, 0, MigrateType::unmovable);
    CHECK(first == Frame(0));
    CHECK(memory.map().type_of(0) == MigrateType::unmovable);
    CHECK(memory.map().type_of(512) == MigrateType::unmovable);  // an order-10 block has two
    CHECK(take(memory, 0) == Frame(1024));
    CHECK(memory.free_list(0, 9, MigrateType::unmovable) == std::vector{Frame(512)});
}

TEST_CASE("a movable request that cannot claim a pageblock steals the smallest block") {
    Memory memory(bare_layout(1024), 1);
    while (memory.alloc({0, 0, MigrateType::unmovable}, Memory::Mark::none)) {
    }
    memory.free(0, Frame(100), 0);
    for (std::uint32_t f = 200; f < 204; ++f) memory.free(0, Frame(f), 0);
    CHECK(memory.map().type_of(0) == MigrateType::unmovable);
    CHECK(take(memory, 0) == Frame(100));
    CHECK(memory.map().type_of(0) == MigrateType::unmovable);
}

TEST_CASE("per-cpu lists: refilled by a batch in order, kept by their CPU, emptied when too long") {
    Layout layout = linux_layout(big, 1, 2);
    const ZoneSpec normal = layout.zones.back();
    CHECK(normal.pcp_batch == 63);
    Memory memory(layout, 1);
    const Frame first = take(memory, 0);
    CHECK(memory.cached_frames() == 62);
    CHECK(memory.alloc({1, 0}, Memory::Mark::none) == Frame(first.raw() + 63));
    CHECK(take(memory, 0) == Frame(first.raw() + 1));
    std::vector<Frame> frames;
    for (int i = 0; i < 20000; ++i) frames.push_back(take(memory, 0));
    for (const Frame frame : frames) memory.free(0, frame, 0);
    CHECK(memory.cached_frames() < normal.pcp_high + 63);
    CHECK(memory.cached_frames() >= 63);
    CHECK(take(memory, 0) == frames.back());  // freed last, hot
    memory.drain();
    CHECK(memory.cached_frames() == 0);
}

TEST_CASE("a copy is a snapshot") {
    Memory memory(linux_layout(4096, 1, 1), 16);
    const Frame frame = take(memory, 4);
    Memory branch = memory;
    branch.free(0, frame, 4);
    branch.drain();
    CHECK(branch.free_frames() == 4096);
    CHECK(memory.free_frames() == 4096 - 16);
    check_consistent(memory);
}

TEST_CASE("sizes that do not fit are refused by name") {
    CHECK_THROWS_AS(Memory(bare_layout(1024), 3), std::invalid_argument);
    CHECK_THROWS_AS(Memory(bare_layout(1024), 0), std::invalid_argument);
    CHECK_THROWS_AS(Memory(bare_layout(1024), 1024), std::invalid_argument);
    CHECK_THROWS_AS(linux_layout(1024, 2, 1), std::invalid_argument);
    CHECK_THROWS_AS(linux_layout(4096, 1, 0), std::invalid_argument);
    CHECK_THROWS_AS(Memory(bare_layout(1024), 128), std::invalid_argument);
}

TEST_CASE("a kernel's state is taken over block by block, list order kept") {
    Memory memory(linux_layout(8192, 1, 2), 1);
    std::vector<Frame> frames;
    for (int i = 0; i < 3000; ++i) frames.push_back(take(memory, 0));
    for (std::size_t i = 0; i < frames.size(); i += 3) memory.free(1, frames[i], 0);
    memory.drain();
    const auto blocks = memory.free_blocks();
    std::vector<FrameUse> use(8192, FrameUse::movable);
    const std::vector<MigrateType> types(16, MigrateType::movable);
    Memory copy = Memory::taken_over(linux_layout(8192, 1, 2), blocks, {}, use, types);
    CHECK(copy.free_blocks() == blocks);
    for (int i = 0; i < 4000; ++i) REQUIRE(take(copy, 0) == take(memory, 0));
    auto twice = blocks;
    twice.push_back(blocks.front());
    CHECK_THROWS_AS(Memory::taken_over(linux_layout(8192, 1, 2), twice, {}, use, types),
                    std::invalid_argument);
}

TEST_CASE("single frames out of units: none twice, and a unit merges when its last frame is back") {
    for (const std::uint32_t grain : {1u, 4u, 64u}) {
        CAPTURE(grain);
        NodeState node(linux_layout(8192, 1, 3), grain);
        Random random(grain, 7, 0, Stream::history);
        std::vector<Frame> held;
        std::vector<bool> taken(8192);
        for (int i = 0; i < 20000; ++i) {
            const unsigned cpu = random.below(3);
            if (random.below(5) < 2 && !held.empty()) {
                std::swap(held[random.below(static_cast<std::uint32_t>(held.size()))], held.back());
                taken[held.back().raw()] = false;
                node.free(cpu, held.back(), small_order);
                held.pop_back();
                continue;
            }
            const auto frame = node.alloc({cpu, small_order});
            REQUIRE((frame || held.size() == 8192));
            if (!frame) continue;
            REQUIRE(!taken[frame->raw()]);
            taken[frame->raw()] = true;
            held.push_back(*frame);
            if (i % 1000 == 0) check_consistent(node.memory());
        }
        for (const Frame frame : held) node.free(0, frame, small_order);
        node.memory().drain();
        CHECK(node.memory().free_frames() == 8192);
        CHECK(node.memory().free_list(0, max_order, MigrateType::movable).size() == 4);
    }
}

TEST_CASE("a page that stays keeps one frame of its unit; the others are used before whole units") {
    Memory memory(bare_layout(4096), 64);
    std::vector<Frame> frames;
    for (int i = 0; i < 64; ++i) frames.push_back(take(memory, 0));
    for (std::size_t i = 1; i < 64; ++i) memory.free(0, frames[i], 0);
    CHECK(memory.free_frames() == 4095);
    CHECK(memory.free_list(0, 6, MigrateType::movable) == std::vector{Frame(64)});
    std::vector<bool> seen(64);
    for (int i = 1; i < 64; ++i) {
        const Frame frame = take(memory, 0);
        REQUIRE(frame.raw() < 64);
        REQUIRE((frame != frames[0] && !seen[frame.raw()]));
        seen[frame.raw()] = true;
    }
    CHECK(take(memory, 0).raw() / 64 == 1);
    memory.map().pin(frames[0]);
    CHECK(memory.map().movable_parts(0) ==
          (memory.map().whole() & ~memory.map().run_of(frames[0]).parts));
}

TEST_CASE("free frames of a shared unit are the blocks that the buddy system would have of them") {
    Memory memory(bare_layout(1024), 64);
    Memmap& map = memory.map();
    while (memory.alloc({0, 0}, Memory::Mark::none)) {
    }
    Random random(1, 2, 3, Stream::history);
    for (int round = 0; round < 1000; ++round) {
        Parts free = 0;
        const std::uint32_t likely = 1 + random.below(99);
        for (unsigned frame = 0; frame < 64; ++frame) {
            free |= Parts{random.below(100) < likely} << frame;
        }
        if (free == map.whole()) continue;  // no shared unit
        map.set_free_parts(5, free);
        std::vector<unsigned> order(64, 64);  // of the block that begins there
        for (unsigned level = 0; level < 6; ++level) {
            for (unsigned first = 0; first < 64; first += 1u << level) {
                bool merged = true;
                for (unsigned i = first; i < first + (1u << level); ++i) {
                    merged = merged && (free >> i & 1) != 0;
                }
                if (!merged) continue;
                std::fill_n(order.begin() + first, 1u << level, 64);
                order[first] = level;
            }
        }
        for (unsigned frame = 0; frame < 64; ++frame) {
            CHECK(map.free_order_at(Frame(5 * 64 + frame)).value_or(64) == order[frame]);
        }
    }
}

TEST_CASE("compaction gathers movable pages at the top and leaves pinned ones") {
    for (const std::uint32_t grain : {1u, 64u}) {
        Memory memory(bare_layout(64 * 1024), grain);
        std::vector<Frame> frames;
        while (const auto frame = memory.alloc({0, 0}, Memory::Mark::none))
            frames.push_back(*frame);
        Random random(grain, 1, 0, Stream::history);
        std::vector<Frame> left;
        for (const Frame frame : frames) {
            if (random.below(100) < 3) {
                left.push_back(frame);
            } else {
                memory.free(0, frame, 0);
            }
        }
        memory.map().pin(left[0]);
        const std::size_t large = memory.free_list(0, 10, MigrateType::movable).size();
        const auto moves = compact(memory, 0);
        check_consistent(memory);
        CHECK(memory.free_frames() == 64 * 1024 - left.size());
        CHECK(memory.free_list(0, 10, MigrateType::movable).size() >= 60);
        CHECK(large < 40);
        for (const Move& move : moves) {
            CHECK(std::find(left.begin(), left.end(), move.from) != left.end());
            CHECK(move.to > move.from);
            CHECK(move.from != left[0]);
        }
    }
}

TEST_CASE("compaction leaves the pages of per-cpu lists where they are") {
    for (const std::uint32_t grain : {1u, 64u}) {
        Memory memory(linux_layout(64 * 1024, 1, 4), grain);
        std::vector<Frame> frames;
        while (const auto frame = memory.alloc({0, 0}, Memory::Mark::none))
            frames.push_back(*frame);
        Random random(grain, 2, 0, Stream::history);
        shuffle_items(frames, random);
        std::vector<bool> used(memory.frames());
        for (const Frame frame : frames) {
            used[frame.raw()] = random.below(100) < 3;
            if (!used[frame.raw()]) memory.free(1 + random.below(3), frame, 0);
        }
        const std::uint32_t free = memory.free_frames() + memory.cached_frames();
        const std::vector<bool> listed = memory.per_cpu_frames();
        CHECK(std::count(listed.begin(), listed.end(), true) == memory.cached_frames());
        REQUIRE(memory.cached_frames() > 400);
        for (const Move& move : compact(memory, 0)) {
            CHECK(used[move.from.raw()]);
            CHECK(!listed[move.from.raw()]);
            used[move.from.raw()] = false;
            used[move.to.raw()] = true;
        }
        check_consistent(memory);
        CHECK(memory.free_frames() + memory.cached_frames() == free);
        const std::vector<bool> after = memory.per_cpu_frames();
        for (std::uint32_t frame = 0; frame < memory.frames(); ++frame) {
            CHECK(!(used[frame] && after[frame]));
            CHECK((!listed[frame] || after[frame]));  // none of them were the CPU's that compacts
        }
    }
}

TEST_CASE("memory goes offline with its pages moved out, and comes back at the tail") {
    Memory memory(bare_layout(16 * 1024), 1);
    std::vector<Frame> frames;
    for (int i = 0; i < 4000; ++i) frames.push_back(take(memory, 0));
    for (std::size_t i = 0; i < frames.size(); i += 2) memory.free(0, frames[i], 0);
    std::vector<Move> moves;
    const std::uint32_t free = memory.free_frames();
    CHECK(take_offline(memory, Frame(1024), Frame(3072), 0, moves));
    CHECK(moves.size() == 1024);
    CHECK(memory.free_frames() == free - 2048);
    check_consistent(memory);
    for (const Move& move : moves) {
        CHECK((move.to.raw() < 1024 || move.to.raw() >= 3072));
    }
    bring_online(memory, Frame(1024), Frame(3072));
    CHECK(memory.free_frames() == free);
    const auto list = memory.free_list(0, 10, MigrateType::movable);
    CHECK(std::vector(list.end() - 2, list.end()) == std::vector{Frame(1024), Frame(2048)});
    CHECK_THROWS_AS(bring_online(memory, Frame(1024), Frame(2048)), std::invalid_argument);
    CHECK_THROWS_AS(take_offline(memory, Frame(1000), Frame(2048), 0, moves),
                    std::invalid_argument);
    memory.map().set_allocated(memory.map().unit_of(frames[1]), 0, MigrateType::unmovable);
    CHECK(!take_offline(memory, Frame(0), Frame(1024), 0, moves));
    CHECK(memory.free_frames() == free);
    check_consistent(memory);
}

TEST_CASE("page cache goes when memory runs short, the oldest first") {
    NodeState node(linux_layout(64 * 1024, 1, 1), 1);
    node.buffered_io(60 * 1024);
    CHECK(node.page_cache_frames() > 50 * 1024);
    std::uint32_t got = 0;
    while (got < 60 * 1024 && node.alloc({0, 0})) ++got;
    CHECK(got == 60 * 1024);
    CHECK(node.page_cache_frames() < 4 * 1024);
}

TEST_CASE("devices below 4 GiB shorten zone DMA32, and the rest of memory is Normal") {
    const std::uint32_t low = 3 << 18;  // 3 GiB
    const Layout layout = linux_layout(1 << 21, 1, 1, low);
    REQUIRE(layout.zones.size() == 3);
    CHECK(layout.zones[1].end == low);
    CHECK(layout.zones[2].begin == low);
    CHECK(linux_layout(1 << 21, 1, 1).zones[1].end == dma32_end);
    CHECK_THROWS_AS(linux_layout(1 << 21, 1, 1, low + 1), std::invalid_argument);
    CHECK_THROWS_AS(linux_layout(1 << 21, 1, 1, 2 * dma32_end), std::invalid_argument);
}

TEST_CASE("a pinned page stays where it is when caches are dropped again") {
    NodeState node(bare_layout(16 * 1024), 1);
    Random random(1, 0, 0, Stream::history);
    node.buffered_io(4000);
    node.drop_caches(10, 6, random);
    CHECK(node.memory().free_frames() + node.memory().cached_frames() ==
          16 * 1024 - 11);  // ten and a slab
    node.buffered_io(4000);
    node.drop_caches(0, 0, random);
    CHECK(node.memory().free_frames() + node.memory().cached_frames() == 16 * 1024 - 6);
}
