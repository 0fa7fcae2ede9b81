// The filter hides accesses, never a fetch, a dirty write-back or a TLB miss: for every member of
// its family, a replay of its events equals a replay of all accesses, step for step.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/accesses/filter.hpp"
#include "tests/cpp/reference_filter.hpp"

using namespace pagelens;

namespace {

void check_exact(const std::vector<Access>& accesses, std::uint64_t shared = 0) {
    const std::vector<Event> events = filtered(accesses, 1, page_sets, shared);
    for (const std::uint64_t group : {2, 3, 7})
        CHECK(filtered(accesses, group, page_sets, shared) == events);
    const struct {
        std::uint64_t sets;
        std::size_t ways;
    } caches[] = {{64, 8},  {64, 12}, {64, 16}, {128, 8},  {256, 4},  {256, 6},
                  {512, 2}, {512, 4}, {512, 8}, {1024, 2}, {1024, 4}, {2048, 16}},
      tlbs[] = {{16, 4}, {16, 6}, {32, 8}, {128, 4}};
    for (const auto& shape : caches) {
        CAPTURE(shape.sets);
        CAPTURE(shape.ways);
        const ReferenceCache cache(shape.sets, shape.ways);
        CHECK(replay_all(accesses, cache, 0) == replay_events(events, cache, 0));
    }
    for (const auto& shape : tlbs) {
        CAPTURE(shape.sets);
        CAPTURE(shape.ways);
        const ReferenceCache tlb(shape.sets, shape.ways);
        CHECK(replay_all(accesses, tlb, page_bits) == replay_events(events, tlb, page_bits));
    }
}

// With one set of pages: every TLB of four ways and more, of pages of 4 KiB, 64 KiB and 2 MiB, and
// still every cache.
void check_exact_for_any_tlb(const std::vector<Access>& accesses) {
    const std::vector<Event> events = filtered(accesses, 1, 1);
    const struct {
        std::uint64_t sets;
        std::size_t ways;
    } tlbs[] = {{1, 4}, {1, 5}, {1, 32}, {2, 4}, {8, 8}, {16, 4}};
    const bool unmaps = std::ranges::any_of(
        accesses, [](const Access& access) { return access.kind == Access::unmap; });
    for (const auto& shape : tlbs) {
        for (const unsigned bits : {12u, 16u, 21u}) {
            if (unmaps && bits > 12) continue;  // no large page loses a part
            CAPTURE(shape.sets);
            CAPTURE(shape.ways);
            CAPTURE(bits);
            const ReferenceCache tlb(shape.sets, shape.ways);
            CHECK(replay_all(accesses, tlb, bits) == replay_events(events, tlb, bits));
        }
    }
    const ReferenceCache cache(64, 8);
    CHECK(replay_all(accesses, cache, 0) == replay_events(events, cache, 0));
}

// Loops over several arrays that meet in few sets, with hot lines between, gathers, non-temporal
// stores and pages given back: `seed` draws how much of each.
std::vector<Access> program(std::uint32_t seed, std::size_t length) {
    std::mt19937 random(seed);
    const auto draw = [&random](std::uint32_t below) { return std::uint32_t(random() % below); };
    const unsigned arrays = 1 + draw(12);
    const std::uint64_t distance = std::uint64_t{page_bytes} << draw(8);  // same sets, or nearly
    const std::uint64_t pages = 1 + draw(24);
    const unsigned stride = 8u << draw(6);
    const unsigned gathers = draw(8), stores = 1 + draw(7), streams = draw(2), unmaps = draw(2);
    std::vector<Access> accesses;
    std::uint64_t at = 0;
    while (accesses.size() < length) {
        for (unsigned array = 0; array < arrays; ++array) {
            const std::uint64_t base = 0x7f0000000000 + array * (distance + pages * page_bytes);
            accesses.push_back({array % 8 < stores ? Access::store : Access::load, base + at});
            if (draw(4) == 0) accesses.push_back({Access::load, base + at});
        }
        for (unsigned hot = 0; hot < 1 + draw(3); ++hot) {
            accesses.push_back({draw(3) ? Access::load : Access::store,
                                0x7ffff0000000u + draw(6) * 4096 + draw(2) * 64});
        }
        for (unsigned gather = 0; gather < gathers; ++gather) {
            accesses.push_back({draw(4) ? Access::load : Access::store,
                                0x400000 + draw(64) * 4096 + draw(4) * 512});
        }
        if (streams) {
            const std::uint64_t line = 0x7f8000000000 + draw(64) * 64 + draw(3) * 4096;
            for (unsigned byte = 0; byte < 64; byte += 16) {
                accesses.push_back({Access::stream, line + byte});
            }
            if (draw(2)) accesses.push_back({Access::load, line});
        }
        if (unmaps && draw(200) == 0) {
            accesses.push_back({Access::unmap, 0x7f0000000u + draw(64), 1 + draw(40)});
        }
        at = (at + stride) % (pages * page_bytes);
    }
    return accesses;
}

}  // namespace

TEST_CASE("filter: every cache and TLB of the family sees the same") {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        check_exact(program(seed, 6000));
    }
}

TEST_CASE("filter: every access to a shared line is told of, and caches and TLBs see the same") {
    for (std::uint32_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        const std::vector<Access> accesses = program(seed, 3000);
        const std::uint64_t shared = 1 + seed % 5;
        check_exact(accesses, shared);
        const auto is_shared = [&](std::uint64_t line) { return line % shared == 0; };
        const auto made = std::ranges::count_if(accesses, [&](const Access& access) {
            return access.kind <= Access::store && is_shared(access.address >> line_bits);
        });
        const auto events = filtered(accesses, 1, page_sets, shared);
        const auto told = std::ranges::count_if(events, [&](const Event& event) {
            return event.kind <= EventKind::first_store && is_shared(event.address);
        });
        CHECK(told == made);
    }
}

TEST_CASE("filter: with one set of pages, every TLB of four ways sees the same") {
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        check_exact_for_any_tlb(program(seed, 4000));
        std::mt19937 random(seed);
        std::vector<Access> accesses;  // pages all over the place, few to many
        const std::uint32_t pages = 2u << (seed % 9);
        for (int i = 0; i < 4000; ++i) {
            const std::uint64_t page = random() % pages * (1 + seed % 7 * 37);
            accesses.push_back({random() % 3 ? Access::load : Access::store,
                                0x7f0000000000 + page * page_bytes + random() % 3 * line_bytes});
        }
        check_exact_for_any_tlb(accesses);
    }
}

TEST_CASE("filter: uniformly random accesses") {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        std::vector<Access> accesses;
        const std::uint32_t pages = 1u << (seed % 10);
        const std::uint32_t lines = 1u << (seed % 7);
        for (int i = 0; i < 8000; ++i) {
            const std::uint64_t page = 0x10000 + random() % pages;
            accesses.push_back({random() % 3 ? Access::load : Access::store,
                                page * page_bytes + random() % lines * line_bytes + random() % 64});
        }
        check_exact(accesses);
    }
}

TEST_CASE("filter: lines dropped from sets that others pushed lines out of") {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        std::vector<Access> accesses;
        const auto draw = [&random](std::uint32_t below) {
            return std::uint32_t(random() % below);
        };
        const std::uint32_t pages = 2 + draw(20), streams = draw(20), unmaps = seed % 3;
        for (int i = 0; i < 4000; ++i) {
            const std::uint64_t page = 0x10000 + random() % pages;
            const std::uint64_t address = page * page_bytes + random() % 2 * 21 * line_bytes;
            if (random() % 200 < unmaps) {
                accesses.push_back({Access::unmap, page, 1 + random() % 3});
            } else if (random() % 100 < streams) {
                accesses.push_back({Access::stream, address});
            } else {
                accesses.push_back({random() % 3 ? Access::load : Access::store, address});
            }
        }
        check_exact(accesses);
    }
}

TEST_CASE("filter: a copy loop leaves one event a line") {
    std::vector<Access> accesses;
    const std::uint64_t bytes = 256 * page_bytes;
    for (std::uint64_t at = 0; at < bytes; at += 8) {  // both arrays in the same set
        accesses.push_back({Access::load, 0x7f0000000000 + at});
        accesses.push_back({Access::store, 0x7f1000000000 + at});
    }
    std::uint64_t lines = 0, pages = 0, others = 0;
    for (const Event& event : filtered(accesses)) {
        switch (event.kind) {
            case EventKind::read:
            case EventKind::write:
                ++lines;
                break;
            case EventKind::page_read:
            case EventKind::page_write:
                ++pages;
                break;
            default:
                ++others;
        }
    }
    CHECK(lines == 2 * bytes / line_bytes);
    CHECK(pages == 2 * bytes / page_bytes);
    CHECK(others == 0);
}

// Lines that only pass through a set need no touch, whatever came before them.
TEST_CASE("filter: lines used out of order are touched once, and those after them never") {
    std::vector<Access> accesses;
    const auto use = [&](std::uint64_t number) {  // lines of one set, apart in the sets of 512
        accesses.push_back({Access::load, 0x7f0000000000 + number * page_bytes});
    };
    for (std::uint64_t number = 0; number < 8; ++number) use(number);
    use(2);
    for (std::uint64_t number = 8; number < 1000; ++number) use(number);
    const std::vector<Event> events = filtered(accesses);
    CHECK(std::ranges::count(events, EventKind::touch, &Event::kind) <= 8);
    check_exact(accesses);
}

TEST_CASE("filter: a page has its first read and first write once, and again after it went") {
    const std::uint64_t page = 0x5000;
    const std::uint64_t address = page * page_bytes;
    const std::vector<Event> events = filtered({{Access::load, address},
                                                {Access::load, address + 64},
                                                {Access::store, address + 8},
                                                {Access::store, address + 128},
                                                {Access::unmap, page, 1},
                                                {Access::store, address + 8},
                                                {Access::load, address + 64}});
    std::string kinds;
    for (const Event& event : events) {
        switch (event.kind) {
            case EventKind::page_read:
                kinds += 'r';
                break;
            case EventKind::page_write:
                kinds += 'w';
                break;
            case EventKind::unmap:
                kinds += 'u';
                break;
            default:
                kinds += '.';
        }
    }
    CHECK(kinds == "r..w..uw..");  // a page written to needs no first read
}

TEST_CASE(
    "an access that leaves its line is not hidden, whichever of the set's lines it begins in") {
    Strip strip;
    std::array<Record, Strip::records_per_pass> room;
    const std::uint64_t lines[] = {0x7f0000000040, 0x7f0000001040};  // of one set
    for (const std::uint64_t line : lines) {
        strip.advance(1);
        strip.pass(line, true, 0, room.data());
    }
    for (const std::uint64_t line : lines) {
        for (const unsigned size : {1u, 4u, 8u}) {
            for (std::uint64_t offset = 0; offset < line_bytes; ++offset) {
                const bool inside = offset + size <= line_bytes;
                CHECK(strip.hides(line + offset, true, line_bytes - size, 0) == inside);
            }
        }
    }
}
