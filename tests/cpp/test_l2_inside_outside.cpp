// With large pages the L2 is run when a program is compiled, with small ones when it is replayed
// (design decision 1). On the same frames both must count the same.
#include <doctest/doctest.h>

#include <atomic>
#include <random>

#include "core/accesses/compile.hpp"
#include "core/accesses/trace_writer.hpp"
#include "core/replay/replay.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t pages = 512, first_page = 512 * 3;  // one page of 2 MiB
constexpr CacheShape l1{64, 2}, l2{256, 4};

// Four objects of whole pages, written once and then walked and jumped about in, in three phases.
void write_trace(const std::string& path, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    TraceWriter writer(path, {});
    const auto put = [&](Event event) { writer.thread(0).put(event); };
    for (std::uint64_t id = 1; id <= 2; ++id)
        writer.define(PhaseDefinition{id, "phase " + std::to_string(id)});
    for (std::uint64_t site = 1; site <= 4; ++site) {
        writer.define(CallSiteDefinition{site, {}});
        const std::uint64_t first = first_page + (site - 1) * pages / 4;
        put({EventKind::birth, first * 4096, pages / 4 * 4096, site});
    }
    for (std::uint64_t page = 0; page < pages; ++page)
        put({EventKind::page_write, first_page + page, 1, 0});
    std::uint64_t walk = 0;
    for (int i = 0; i < 60'000; ++i) {
        if (i % 20'000 == 10'000) put({EventKind::phase, 0, 0, random() % 3});
        walk = random() % 50 == 0 ? random() % (pages * 64) : (walk + 1) % (pages * 64);
        constexpr EventKind kinds[] = {EventKind::read, EventKind::write, EventKind::read,
                                       EventKind::first_store, EventKind::stream_store};
        const EventKind kind = kinds[random() % 40 == 0 ? 4 : random() % 4];
        put({kind, first_page * 64 + walk, 0, 0});
    }
    writer.finish({});
}

}  // namespace

TEST_CASE("an L2 inside the program equals the L2 of the replay, on the same large pages") {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const TemporaryFile file;
        write_trace(file.path, seed);
        const TraceReader reader(file.path);
        const auto outside = compile(reader, {{{l1, 1}}, 12});
        const auto inside = compile(reader, {{{l1, 1}, {l2, 1}}, 21});
        // 128 slots: four pages of the job share each.
        const auto placement = place_by_kernel(NodeState(bare_layout(1024), 1), huge_order);
        ReplayOptions options;
        options.scaled = false;
        options.two_way = true;
        options.map_bins = 64;
        const std::atomic<bool> run_on{false};
        const Counters a =
            replay(*outside, *placement, {l2.sets, l2.ways, 1, 128, 1}, options, run_on);
        const Counters b = replay(*inside, *placement, {0, 0, 1, 128, 1}, options, run_on);
        REQUIRE(a.huge_pages == 1);
        REQUIRE(a.phases == b.phases);
        REQUIRE(a.objects == b.objects);
        for (unsigned phase = 0; phase < a.phases; ++phase) {
            for (unsigned object = 0; object < a.objects; ++object) {
                for (const Component component :
                     {Component::msc_reads, Component::msc_writes, Component::msc_misses,
                      Component::msc_read_misses, Component::ddr_writes,
                      Component::conflict_evictions, Component::two_way_misses,
                      Component::two_way_ddr_writes}) {
                    CAPTURE(phase);
                    CAPTURE(object);
                    CAPTURE(component_names[static_cast<std::size_t>(component)]);
                    CHECK(a.at(phase, object, component) == b.at(phase, object, component));
                }
            }
        }
        CHECK(a.collisions == b.collisions);
        CHECK(a.at(0, 4, Component::l2_misses) < a.at(0, 4, Component::l2_accesses));
        CHECK(a.at(0, 4, Component::l2_misses) > 1000);
    }
}
