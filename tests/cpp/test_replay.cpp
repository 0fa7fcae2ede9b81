#include <doctest/doctest.h>

#include <atomic>

#include "core/replay/replay.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;
using reference::ListedProgram;
using reference::SlowReplay;

namespace {

const std::atomic<bool> run_on{false};

constexpr std::uint32_t node_frames = 8192;
// L2 of 128 sets: one frame bit in its index. 1024 slots, so eight frames share one.
constexpr Hierarchy small_machine{128, 4, 2, 1024, 1};

// Of the page cache, which several pages of an object may show; 0: none.
std::uint64_t file_page(Random& random, unsigned object) {
    return random.below(4) == 0 ? 0 : 1 + 8 * object + random.below(8);
}

// Pages come, are read and written by several objects, and go, in three phases. The first `whole`
// of its steps move all lines of a page.
ListedProgram some_program(std::uint64_t seed, std::uint32_t pages, unsigned threads, int length,
                           int whole = 0) {
    Random random(seed, 0, 0, Stream::history);
    std::vector<Op> ops;
    for (int i = 0; i < length; ++i) {
        const std::uint32_t page = random.below(pages);
        const auto object = static_cast<std::uint16_t>(1 + page * 4 / pages);
        const unsigned thread = random.below(threads);
        const std::uint64_t lines =
            i < whole || random.below(2) == 0 ? ~0ull : random.bits64() & random.bits64();
        switch (random.below(12)) {
            case 0:
                ops.push_back(
                    make_op(OpKind::unmap, page, std::min(1 + random.below(3), pages - page)));
                break;
            case 1:
                ops.push_back(
                    make_op(OpKind::map_read, page, file_page(random, object), object, thread));
                break;
            case 2:
                if (random.below(20) == 0)
                    ops.push_back(make_op(OpKind::phase, random.below(3), 0));
                break;
            case 3:
            case 4:
                ops.push_back(make_op(OpKind::stream_store, page, lines, object, thread));
                break;
            case 5:
            case 6:
            case 7:
                ops.push_back(make_op(OpKind::write_back, page, lines, object, thread));
                break;
            case 8:
                ops.push_back(make_op(OpKind::touch, page, 0, object, thread));
                break;
            default:
                ops.push_back(make_op(OpKind::map_write, page, 0, object, thread));
                ops.push_back(make_op(OpKind::fetch, page, lines, object, thread));
        }
    }
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < pages; ++p) addresses.emplace_back(0x400 + p);
    return {ops, addresses, 5, 3, threads};
}

ReplayOptions unscaled(std::uint32_t ranks) {
    ReplayOptions options;
    options.ranks = ranks;
    options.scaled = false;
    options.two_way = true;
    options.map_bins = 64;
    return options;
}

// A node without watermarks or per-cpu lists.
NodeState bare(std::uint32_t frames, std::uint32_t grain = 1) {
    return NodeState(bare_layout(frames), grain);
}

std::unique_ptr<Placement> aged_node(std::uint64_t seed) {
    NodeState node = bare(node_frames);
    Random random(seed, 1, 0, Stream::history);
    std::vector<Frame> held;
    while (const auto frame = node.alloc({})) held.push_back(*frame);
    for (auto left = static_cast<std::uint32_t>(held.size()); left > 0; --left) {
        std::swap(held[random.below(left)], held[left - 1]);
        if (left > 64) node.free(0, held[left - 1], small_order);
    }
    return place_by_kernel(node, small_order);
}

// L2s of 128 sets, an L3 and a snoop filter in three slices, of four cores.
HierarchyModel with_l3(std::uint64_t seed) {
    HierarchyModel model;
    model.cores = 4;
    model.l2 = {{128, 4}, 1 + static_cast<std::uint32_t>(seed % 2)};
    model.l3 = HierarchyModel::Shared{
        {128, 8},
        std::array{Inclusion::inclusive, Inclusion::exclusive, Inclusion::victim}[seed % 3]};
    if (seed % 4 != 0) model.snoop_filter = CacheGeometry{128, 3};
    HashForm slices;
    slices.levels.push_back({{}, {}, HashForm::Modulo{13, 3}});
    slices.group_values = 3;
    if (seed % 2 == 0) model.slices = AddressHash(slices);
    return model;
}

}  // namespace

TEST_CASE("replay equals the line-by-line reference") {
    for (const std::uint32_t ranks : {1u, 2u, 7u}) {
        for (const unsigned threads : {1u, 3u}) {
            for (const unsigned ways : {1u, 2u, 4u}) {
                for (const bool with_l2 : {true, false}) {
                    CAPTURE(ranks);
                    CAPTURE(threads);
                    CAPTURE(ways);
                    CAPTURE(with_l2);
                    Hierarchy machine = small_machine;
                    machine.ways = ways;
                    if (!with_l2) machine.l2_sets = 0;
                    const ListedProgram program =
                        some_program(ranks * 10 + ways, 200, threads, 1500);
                    const auto placement = aged_node(ranks);
                    const Counters fast =
                        replay(program, *placement, machine, unscaled(ranks), run_on);
                    const Counters slow =
                        SlowReplay(program, *placement, machine, ranks).counters();
                    CHECK(fast.table == slow.table);
                    CHECK(fast.collisions == slow.collisions);
                }
            }
        }
    }
}

// As long as lines of a page move together, one stands for all (replay.cpp).
TEST_CASE(
    "replay equals the reference where the lines of a page move together, and when they part") {
    for (const std::uint32_t ranks : {1u, 3u}) {
        for (const int whole : {700, 1500}) {
            CAPTURE(ranks);
            CAPTURE(whole);
            const ListedProgram program = some_program(ranks, 200, 2, 1500, whole);
            const auto placement = aged_node(ranks);
            const Counters fast =
                replay(program, *placement, small_machine, unscaled(ranks), run_on);
            const Counters slow = SlowReplay(program, *placement, small_machine, ranks).counters();
            CHECK(fast.table == slow.table);
            CHECK(fast.collisions == slow.collisions);
        }
    }
}

// The classes of a sampling partition the slots and lines; that each is exact for its own sets
// shows in their sum, because an error in one cannot be made good by another.
TEST_CASE("set sampling is exact: the classes add up to the full simulation, counter by counter") {
    for (const bool with_l2 : {true, false}) {
        for (const std::uint32_t modulus : {2u, 16u, 64u}) {
            CAPTURE(with_l2);
            CAPTURE(modulus);
            Hierarchy machine = small_machine;
            if (!with_l2) machine.l2_sets = 0;
            const ListedProgram program = some_program(modulus, 300, 2, 2500);
            const auto placement = aged_node(modulus);
            ReplayOptions options = unscaled(5);
            const Counters all = replay(program, *placement, machine, options, run_on);
            std::vector<std::uint64_t> table(all.table.size());
            Collisions collisions;
            const auto of_class = [&](std::uint32_t chosen, std::uint64_t lines) {
                return Sampling::residue(1, modulus, chosen, lines);  // small_machine's L2 colours
            };
            for (std::uint32_t chosen = 0; chosen < modulus; ++chosen) {
                options.sampling = of_class(chosen, ~0ull);
                const Counters part = replay(program, *placement, machine, options, run_on);
                for (std::size_t i = 0; i < table.size(); ++i) table[i] += part.table[i];
                for (const Collision& pair : part.collisions.sorted())
                    collisions.add(pair.object, pair.victim, pair.lines);
                CHECK(part.residency.pages == all.residency.pages);  // never sampled
                CHECK(part.residency.conflicting_pages == all.residency.conflicting_pages);
            }
            CHECK(table == all.table);
            CHECK(collisions == all.collisions);

            // The lines of a page partition each class once more. (By component only: who owns a
            // frame is known from the lines in the sample.)
            const auto by_component = [](const Counters& c) {
                std::vector<std::uint64_t> sums(components);
                for (std::size_t i = 0; i < c.table.size(); ++i) sums[i % components] += c.table[i];
                return sums;
            };
            options.sampling = of_class(1, ~0ull);
            const auto whole = by_component(replay(program, *placement, machine, options, run_on));
            std::vector<std::uint64_t> sums(components);
            for (const std::uint64_t lines :
                 {0x10ull, 0x1111111111111101ull, ~0x1111111111111111ull}) {
                options.sampling = of_class(1, lines);
                const auto part =
                    by_component(replay(program, *placement, machine, options, run_on));
                for (std::size_t i = 0; i < components; ++i) sums[i] += part[i];
            }
            CHECK(sums == whole);
        }
    }
}

TEST_CASE("caches that share an L3: replay equals the line-by-line reference") {
    for (const std::uint32_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
        CAPTURE(seed);
        const HierarchyModel model = with_l3(seed);
        const CacheHierarchy caches(model);
        Hierarchy machine{0, 0, 1, 1024, seed % 2 == 0 ? 1u : 2u, &caches};
        const std::uint32_t ranks = 1 + seed % 3 * 2;
        const ListedProgram program = some_program(seed, 200, 2, 1500);
        const auto placement = aged_node(seed);
        const Counters fast = replay(program, *placement, machine, unscaled(ranks), run_on);
        const Counters slow = SlowReplay(program, *placement, machine, ranks, &model).counters();
        CHECK(fast.table == slow.table);
        CHECK(fast.collisions == slow.collisions);
        CHECK(fast.caches == slow.caches);
    }
}

TEST_CASE("caches that share an L3: the classes of a sampling add up, counter by counter") {
    const std::uint32_t modulus = 16;
    for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
        CAPTURE(seed);
        const CacheHierarchy caches(with_l3(seed));
        const Hierarchy machine{0, 0, 1, 1024, 1, &caches};
        const ListedProgram program = some_program(seed, 300, 2, 2500);
        const auto placement = aged_node(seed);
        ReplayOptions options = unscaled(3);  // six cores: more than a group
        const Counters all = replay(program, *placement, machine, options, run_on);
        std::vector<std::uint64_t> table(all.table.size()), of_caches(all.caches.size());
        for (std::uint32_t chosen = 0; chosen < modulus; ++chosen) {
            options.sampling = Sampling::residue(1, modulus, chosen, ~0ull);
            const Counters part = replay(program, *placement, machine, options, run_on);
            for (std::size_t i = 0; i < table.size(); ++i) table[i] += part.table[i];
            // The caches are run for all frames of a colour, whichever of its slots are watched.
            if (chosen < 2)
                for (std::size_t i = 0; i < of_caches.size(); ++i) of_caches[i] += part.caches[i];
        }
        CHECK(table == all.table);
        CHECK(of_caches == all.caches);
        options.sampling = Sampling::draw(seed, 1, 1, 4, 16);
        options.scaled = true;
        const Counters scaled = replay(program, *placement, machine, options, run_on);
        for (const CacheCounter counter : {CacheCounter::l2_misses, CacheCounter::dram_reads}) {
            const auto total = [counter](const Counters& counted) {
                double sum = 0;
                for (std::size_t i = static_cast<std::size_t>(counter); i < counted.caches.size();
                     i += cache_counters)
                    sum += static_cast<double>(counted.caches[i]);
                return sum;
            };
            CHECK(total(scaled) == doctest::Approx(total(all)).epsilon(0.1));
        }
    }
}

TEST_CASE("scaled samples are near the whole, and exact in the lines moved") {
    const ListedProgram program = some_program(5, 400, 1, 30000);
    const auto placement = place_at_random(node_frames, 1, 1);
    ReplayOptions options = unscaled(4);
    const Counters all = replay(program, *placement, small_machine, options, run_on);
    options.scaled = true;
    options.sampling = Sampling::draw(1, 1, 1, 4, 16);
    const Counters sampled = replay(program, *placement, small_machine, options, run_on);
    const auto total = [](const Counters& c, Component component) {
        double sum = 0;
        for (unsigned phase = 0; phase < c.phases; ++phase) {
            for (unsigned object = 0; object < c.objects; ++object) {
                sum += static_cast<double>(c.at(phase, object, component));
            }
        }
        return sum;
    };
    for (const Component component :
         {Component::l2_accesses, Component::l2_misses, Component::msc_reads, Component::msc_writes,
          Component::msc_misses, Component::ddr_writes, Component::two_way_misses}) {
        CAPTURE(static_cast<int>(component));
        CHECK(total(sampled, component) == doctest::Approx(total(all, component)).epsilon(0.05));
    }
}

TEST_CASE("a placement's counts do not depend on what ran before") {
    const ListedProgram program = some_program(9, 200, 1, 2000);
    const auto placement = aged_node(3);
    ReplayOptions options = unscaled(3);
    options.ideal = true;
    const Counters first = replay(program, *placement, small_machine, options, run_on);
    const Counters again = replay(program, *placement, small_machine, options, run_on);
    CHECK(first.table == again.table);
    CHECK(first.residency.map == again.residency.map);
}

TEST_CASE("conflicts begin where a second page takes a slot") {
    // n pages in order from frame 0: no conflict while n <= slots, then two pages a slot.
    for (const std::uint32_t pages : {1023u, 1024u, 1025u, 1100u}) {
        std::vector<Op> ops;
        std::vector<VirtualPage> addresses;
        for (std::uint32_t p = 0; p < pages; ++p) {
            ops.push_back(make_op(OpKind::map_write, p, 0, 1));
            addresses.emplace_back(p);
        }
        const ListedProgram program(ops, addresses, 2, 1, 1);
        const auto counters =
            replay(program, *place_contiguously(node_frames), small_machine, unscaled(1), run_on);
        CHECK(counters.residency.pages == pages);
        CHECK(counters.residency.conflicting_pages == (pages > 1024 ? 2 * (pages - 1024) : 0));
    }
}

TEST_CASE("residency is that of the peak, with its map") {
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < 64; ++p) addresses.emplace_back(p);
    for (std::uint32_t p = 0; p < 64; ++p) ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    ops.push_back(make_op(OpKind::unmap, 0, 50));
    for (std::uint32_t p = 0; p < 20; ++p) ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    const ListedProgram program(ops, addresses, 2, 1, 1);
    const auto counters =
        replay(program, *place_contiguously(node_frames), small_machine, unscaled(1), run_on);
    CHECK(counters.residency.pages == 64);
    CHECK(counters.residency.map[0] == 16);  // 64 bins of 16 slots
    CHECK(counters.residency.map[3] == 16);
    CHECK(counters.residency.map[4] == 0);
}

TEST_CASE("frames of temporaries are used again") {
    std::vector<Op> ops;
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < 50; ++p) addresses.emplace_back(p);
    for (int step = 0; step < 500;
         ++step) {  // 25,000 pages a rank in all, on a node of 8192 frames
        for (std::uint32_t p = 0; p < 50; ++p) ops.push_back(make_op(OpKind::map_write, p, 0, 1));
        ops.push_back(make_op(OpKind::unmap, 0, 50));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    for (const auto& placement :
         {place_contiguously(node_frames).release(), place_at_random(node_frames, 1, 1).release(),
          place_by_colour(bare(node_frames).memory(), 1024, small_order).release(),
          place_by_kernel(bare(node_frames, 16), small_order).release(),
          place_by_kernel(bare(node_frames), huge_order).release()}) {
        const std::unique_ptr<Placement> owned(placement);
        const auto counters = replay(program, *owned, small_machine, unscaled(3), run_on);
        CHECK(counters.residency.pages == 150);
    }
}

TEST_CASE("large pages are taken whole at the first touch, for mappings that are worth one") {
    std::vector<VirtualPage> addresses;
    for (std::uint32_t p = 0; p < 512; ++p) addresses.emplace_back(512 * 7 + p);  // one 2 MiB block
    for (std::uint32_t p = 0; p < 63; ++p)
        addresses.emplace_back(512 * 9 + p);  // too little of one
    std::vector<Op> ops = {make_op(OpKind::map_write, 3, 0, 1),
                           make_op(OpKind::map_write, 512, 0, 1)};
    const auto placement = place_by_kernel(bare(node_frames), huge_order);
    const auto program_of = [&](std::vector<Op> all, std::uint32_t written) {
        // Later writes decide, too, whether the block is worth a large page.
        for (std::uint32_t p = 448; p < 448 + written; ++p)
            all.push_back(make_op(OpKind::map_write, p, 0, 1));
        return ListedProgram(all, addresses, 2, 1, 1);
    };
    const ListedProgram hardly_written = program_of(ops, 62);
    CHECK(replay(hardly_written, *placement, small_machine, unscaled(2), run_on).huge_pages == 0);
    const ListedProgram first = program_of(ops, 63);
    const auto counters = replay(first, *placement, small_machine, unscaled(2), run_on);
    CHECK(counters.huge_pages == 2);
    CHECK(counters.residency.pages == 2 * 512 + 2);
    CHECK(counters.at(0, 0, Component::msc_writes) == (2 * 512 + 2) * 64);  // cleared

    ops.push_back(make_op(OpKind::map_write, 4, 0, 1));
    ops.push_back(make_op(OpKind::unmap, 3, 1));  // the other page holds the block
    ops.push_back(make_op(OpKind::fetch, 4, ~0ull, 1));
    ops.push_back(make_op(OpKind::unmap, 4, 1));  // now it goes
    ops.push_back(make_op(OpKind::fetch, 4, ~0ull, 1));
    ops.push_back(make_op(OpKind::map_write, 5, 0, 1));
    const ListedProgram second = program_of(ops, 61);  // and pages 3, 4 and 5
    const auto later = replay(second, *placement, small_machine, unscaled(2), run_on);
    CHECK(later.huge_pages == 4);
    CHECK(later.at(0, 1, Component::l2_accesses) == 2 * 64);
    CHECK(later.residency.pages == 2 * 512 + 2);
}

// A program that writes all pages of three blocks of 2 MiB.
ListedProgram three_written_blocks() {
    std::vector<VirtualPage> addresses;
    std::vector<Op> ops;
    for (std::uint32_t p = 0; p < 3 * 512; ++p) {
        addresses.emplace_back(512 + p);
        ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    }
    return {std::move(ops), std::move(addresses), 2, 1, 1};
}

TEST_CASE("no large page reaches into a file's pages") {
    const auto placement = place_by_kernel(bare(node_frames), huge_order);
    const auto pages_of = [&](std::vector<VirtualRange> of_files) {
        ListedProgram program = three_written_blocks();
        program.set_file_pages(std::move(of_files));
        const auto counters = replay(program, *placement, small_machine, unscaled(2), run_on);
        return std::pair(counters.huge_pages, counters.residency.pages);
    };
    const auto range = [](std::uint64_t begin, std::uint64_t end) {
        return VirtualRange{VirtualPage(begin), VirtualPage(end)};
    };
    CHECK(pages_of({}) == std::pair(6ul, 6ul * 512));
    CHECK(pages_of({range(0, 512)}) == std::pair(6ul, 6ul * 512));
    CHECK(pages_of({range(1024, 1536)}) == std::pair(4ul, 6ul * 512));
    CHECK(pages_of({range(0, 513)}) == std::pair(4ul, 6ul * 512));
    CHECK(pages_of({range(1023, 1025)}) == std::pair(2ul, 6ul * 512));
    CHECK(pages_of({range(2048, 9000)}) == std::pair(6ul, 6ul * 512));
    // Ranges may overlap, and the first may be the longest.
    CHECK(pages_of({range(512, 2048), range(600, 700), range(5000, 6000)}) ==
          std::pair(0ul, 6ul * 512));
}

TEST_CASE("memory for which a program asks for large pages has them under a policy of small ones") {
    const auto large_pages = [&](const Placement& placement, std::uint64_t begin,
                                 std::uint64_t end) {
        ListedProgram program = three_written_blocks();
        program.set_advised_pages({VirtualRange{VirtualPage(begin), VirtualPage(end)}});
        const auto counters = replay(program, placement, small_machine, unscaled(2), run_on);
        CHECK(counters.residency.pages == 6ul * 512);
        return counters.huge_pages;
    };
    const auto small = place_by_kernel(bare(node_frames), small_order);
    CHECK(large_pages(*small, 0, 9000) == 6);
    CHECK(large_pages(*small, 512, 1536) == 4);
    CHECK(large_pages(*small, 513, 2047) == 2);  // the kernel's large pages lie within the range
    CHECK(large_pages(*small, 5000, 6000) == 0);
    CHECK(large_pages(*place_by_kernel(bare(node_frames), huge_order), 512, 1024) == 6);
    CHECK(large_pages(*place_at_random(node_frames, 1, 0), 0, 9000) == 0);
    NodeState pooled = bare(node_frames);  // the pool is for those who ask for it by name
    REQUIRE(pooled.fill_huge_pool(0, 4) == 4);
    CHECK(large_pages(*place_by_kernel(pooled, small_order), 0, 9000) == 6);
}

TEST_CASE("without large pages left, small ones are taken, and counted") {
    std::vector<VirtualPage> addresses;
    std::vector<Op> ops;
    for (std::uint32_t p = 0; p < 1024; ++p) {
        addresses.emplace_back(p);
        ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    }
    NodeState node = bare(2048);
    for (int i = 0; i < 1024; ++i) static_cast<void>(node.alloc({}));
    const ListedProgram program(ops, addresses, 2, 1, 1);
    const auto placement = place_by_kernel(node, huge_order);
    const auto counters = replay(program, *placement, small_machine, unscaled(1), run_on);
    CHECK(counters.huge_pages == 2);
    CHECK(counters.small_fallbacks == 0);
    for (int i = 0; i < 400; ++i) static_cast<void>(node.alloc({}));
    CHECK_THROWS_AS(
        replay(program, *place_by_kernel(node, huge_order), small_machine, unscaled(1), run_on),
        OutOfMemory);
    NodeState scattered = bare(4096);  // every other frame taken: no block of any size
    std::vector<Frame> held;
    while (const auto frame = scattered.alloc({})) held.push_back(*frame);
    for (std::size_t i = 0; i < held.size(); i += 2) scattered.free(0, held[i], small_order);
    const auto small = replay(program, *place_by_kernel(scattered, huge_order), small_machine,
                              unscaled(1), run_on);
    CHECK(small.huge_pages == 0);
    CHECK(small.small_fallbacks == 2);
    CHECK(small.residency.pages == 1024);
}

TEST_CASE("colouring leaves no slot with two pages while another has none") {
    std::vector<VirtualPage> addresses;
    std::vector<Op> ops;
    for (std::uint32_t p = 0; p < 1024; ++p) {
        addresses.emplace_back(p);
        ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    const auto placement = place_by_colour(bare(node_frames).memory(), 1024, small_order);
    CHECK(replay(program, *placement, small_machine, unscaled(1), run_on)
              .residency.conflicting_pages == 0);
    const auto two = replay(program, *placement, small_machine, unscaled(2), run_on);
    CHECK(two.residency.conflicting_pages == 2048);
    CHECK(*std::max_element(two.residency.map.begin(), two.residency.map.end()) == 32);
}

TEST_CASE("the ideal twin never misses a resident line that fits") {
    std::vector<VirtualPage> addresses;
    std::vector<Op> ops;
    for (std::uint32_t p = 0; p < 512; ++p) {
        addresses.emplace_back(p);
        ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    }
    for (int sweep = 0; sweep < 4; ++sweep) {
        for (std::uint32_t p = 0; p < 512; ++p) ops.push_back(make_op(OpKind::fetch, p, ~0ull, 1));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    ReplayOptions options = unscaled(1);
    options.ideal = true;
    const auto counters =
        replay(program, *place_at_random(node_frames, 1, 1), small_machine, options, run_on);
    CHECK(counters.at(0, 1, Component::ideal_misses) == 0);
    CHECK(counters.at(0, 1, Component::msc_misses) > 0);
    CHECK(counters.at(0, 0, Component::ideal_misses) == 512 * 64);
    CHECK(counters.at(0, 0, Component::first_misses) == 512 * 64);  // nothing else is a first use
    CHECK(counters.at(0, 1, Component::first_misses) == 0);
}

TEST_CASE("what cannot be replayed is refused") {
    const ListedProgram program = some_program(1, 100, 1, 200);
    const auto placement = place_contiguously(node_frames);
    const auto run = [&](const Hierarchy& h, const ReplayOptions& o) {
        return replay(program, *placement, h, o, run_on);
    };
    CHECK_THROWS_AS(run(small_machine, unscaled(0)), std::invalid_argument);
    CHECK_THROWS_AS(run(small_machine, unscaled(400)), OutOfMemory);
    Hierarchy odd = small_machine;
    odd.slots = 1000;
    CHECK_THROWS_AS(run(odd, unscaled(1)), std::invalid_argument);
    odd = small_machine;
    odd.slots = 64;
    CHECK_THROWS_AS(run(odd, unscaled(1)), std::invalid_argument);
    std::atomic<bool> stop{true};
    CHECK_THROWS_AS(replay(program, *placement, small_machine, unscaled(1), stop), Cancelled);
}

// Arrays first touched in turn, page by page, take every n-th frame of a run of frames each. A
// sample of one residue would see one of them and miss the others.
TEST_CASE("a sample sees all arrays that were first touched in turn") {
    for (const std::uint32_t arrays : {2u, 4u, 8u}) {
        CAPTURE(arrays);
        std::vector<Op> ops;
        constexpr std::uint32_t pages = 8192;
        for (std::uint32_t page = 0; page < pages; ++page) {
            ops.push_back(make_op(OpKind::map_write, page, ~0ull));
            ops.push_back(
                make_op(OpKind::fetch, page, ~0ull, static_cast<std::uint16_t>(1 + page % arrays)));
        }
        std::vector<VirtualPage> addresses;
        for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(page);
        const ListedProgram program{ops, addresses, arrays + 1, 1, 1};
        const auto placement = place_contiguously(1u << 16);
        ReplayOptions options = unscaled(1);
        options.scaled = true;
        options.sampling = Sampling::draw(arrays, 0, 4, 64, 2);
        const Counters counters =
            replay(program, *placement, Hierarchy{1024, 16, 2, 1u << 14, 1}, options, run_on);
        for (unsigned object = 1; object <= arrays; ++object) {
            CHECK(counters.at(0, object, Component::l2_accesses) == pages / arrays * 64);
        }
    }
}

TEST_CASE("adaptive mapping moves the pages when they conflict, and then leaves them") {
    // Every frame that is free at first lies in one of 64 slots: the kernel's pages all conflict.
    NodeState node = bare(node_frames);
    std::vector<Frame> held;
    while (const auto frame = node.alloc({})) held.push_back(*frame);
    for (const Frame frame : held) {
        if (frame.raw() % 1024 < 64) node.free(0, frame, small_order);
    }
    std::vector<VirtualPage> addresses;
    std::vector<Op> ops;
    constexpr std::uint32_t pages = 200;
    for (std::uint32_t p = 0; p < pages; ++p) {
        addresses.emplace_back(p);
        ops.push_back(make_op(OpKind::map_write, p, 0, 1));
    }
    for (int sweep = 0; sweep < 40; ++sweep) {
        for (std::uint32_t p = 0; p < pages; ++p)
            ops.push_back(make_op(OpKind::fetch, p, ~0ull, 1));
    }
    const ListedProgram program(ops, addresses, 2, 1, 1);
    const Hierarchy cache_alone{0, 0, 1, 1024, 1};
    const auto misses = [&](double shuffle_above) {
        const auto placement = place_adaptively(node, shuffle_above, 1, 1);
        return replay(program, *placement, cache_alone, unscaled(1), run_on);
    };
    const auto never = misses(1), sometimes = misses(0.5);
    CHECK(never.residency.conflicting_pages == pages);
    CHECK(sometimes.residency.pages == pages);
    // There is nowhere better to go here: it shuffles once, sees that, and stops.
    CHECK(sometimes.at(0, 0, Component::msc_reads) == pages * 64);
    CHECK(never.at(0, 0, Component::msc_reads) == 0);

    // Where larger blocks, which the kernel uses last, lie in other slots, it is better off.
    for (const Frame frame : held) {
        if (frame.raw() % 1024 >= 512) node.free(0, frame, small_order);
    }
    const auto stays = misses(1), moves = misses(0.5);
    CHECK(stays.residency.conflicting_pages == pages);
    CHECK(moves.residency.conflicting_pages < pages / 2);
    CHECK(moves.at(0, 0, Component::msc_reads) == pages * 64);
    CHECK(moves.at(0, 1, Component::msc_misses) < stays.at(0, 1, Component::msc_misses) / 2);

    // The copies pass by caches that cores share, which see what the program moves and no more.
    const CacheHierarchy caches(with_l3(1));
    const Hierarchy behind_l3{0, 0, 1, 1024, 1, &caches};
    const auto placement = place_adaptively(node, 0.1, 1, 1);
    ReplayOptions whole = unscaled(1);
    const Counters counted = replay(program, *placement, behind_l3, whole, run_on);
    CHECK(counted.at(0, 0, Component::msc_reads) == pages * 64);
    whole.scaled = true;
    CHECK(replay(program, *placement, behind_l3, whole, run_on).caches == counted.caches);
}
