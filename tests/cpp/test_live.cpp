// The live caches against the obvious ones: physical lines through reference L1, L2 and memory
// side.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "core/replay/live.hpp"
#include "tests/cpp/reference_caches.hpp"
#include "tracer/system/translation_change.hpp"

namespace pagelens {
namespace {

const LiveMachine small{.cores = 2,
                        .l1_ways = 2,
                        .l2_sets = 64,
                        .l2_ways = 4,
                        .l2_shared_by = 2,
                        .slots = 8,
                        .ways = 1,
                        .node_begins = {0, 64},
                        .frames = 128};

std::uint64_t& at(LiveCaches::Counts& counts, Component component) {
    return counts[static_cast<std::size_t>(component)];
}

// The same rules, by physical line throughout.
class Reference {
  public:
    Reference(unsigned l1_ways, bool cached) : l1_{{64, l1_ways}, {64, l1_ways}}, cached_(cached) {}

    LiveCaches::Counts counts{};
    std::vector<NodeLines> nodes = std::vector<NodeLines>(2);

    void access(unsigned core, std::uint64_t line, bool write) {
        const auto here = l1_[core].access(line, write);
        if (here.hit) return;
        at_l2(line, false);
        if (here.victim && here.victim->dirty) at_l2(here.victim->number, true);
    }
    void stream_store(unsigned core, std::uint64_t line) {
        if (l1_[core].remove(line)) at_l2(line, true);
        if (l2_.remove(line)) {
            ++at(counts, Component::l2_write_backs);
            at_memory(line, true);
        }
        at_memory(line, true);
    }

  private:
    void at_l2(std::uint64_t line, bool write) {
        ++at(counts, Component::l2_accesses);
        const auto here = l2_.access(line, write);
        if (!here.hit && !write) {
            ++at(counts, Component::l2_misses);
            at_memory(line, false);
        }
        if (here.victim && here.victim->dirty) {
            ++at(counts, Component::l2_write_backs);
            at_memory(here.victim->number, true);
        }
    }
    void at_memory(std::uint64_t line, bool write) {
        ++at(counts, write ? Component::msc_writes : Component::msc_reads);
        const std::uint64_t frame = line / 64, node = frame < 64 ? 0 : 1;
        if (!cached_) {
            (write ? nodes[node].writes : nodes[node].reads) += 1;
            return;
        }
        const std::uint64_t slot = (node * small.slots + frame % small.slots) * 64 + line % 64;
        const auto held = slots_.find(slot);
        const bool hit = held != slots_.end() && held->second.number == line;
        const bool dirty = held != slots_.end() && held->second.dirty;
        if (!hit) {
            ++at(counts, Component::msc_misses);
            if (!write) ++at(counts, Component::msc_read_misses);
            if (held != slots_.end()) ++at(counts, Component::conflict_evictions);
            if (dirty) ++at(counts, Component::ddr_writes);
            nodes[node] += {1, dirty};
        }
        slots_[slot] = {line, write || (hit && dirty)};
    }

    reference::LruCache l1_[2];
    reference::LruCache l2_{64, 4};
    bool cached_;
    std::map<std::uint64_t, reference::Line> slots_;
};

// As the plugin does.
bool hides(LiveCaches& caches, unsigned core, std::uint64_t address, unsigned size, bool write) {
    return caches.first_levels()[core].hides(address, line_bytes - size, write);
}

template <class FrameOf>
void access(LiveCaches& caches, unsigned core, std::uint64_t address, unsigned size, bool write,
            FrameOf&& frame_of) {
    if (!hides(caches, core, address, size, write))
        caches.access(core, address, size, write, frame_of);
}

TEST_CASE("live caches count what the obvious ones do, whatever the translation") {
    constexpr std::uint32_t pages = 96, device = 90;  // from there on no page is memory
    std::vector<std::uint32_t> frame_of(pages);       // of each virtual page, no two alike
    for (std::uint32_t page = 0; page < pages; ++page)
        frame_of[page] = page < device ? (page * 5) % 128 : LiveCaches::no_frame;
    for (const std::uint32_t l1_ways : {1u, 2u, 3u, 8u, 12u}) {
        CAPTURE(l1_ways);
        std::mt19937_64 random(l1_ways);
        LiveMachine machine = small;
        machine.l1_ways = l1_ways;
        if (l1_ways == 3) machine.slots = 0;  // no cache before memory
        LiveCaches caches(machine);
        Reference reference(l1_ways, machine.slots != 0);
        std::uint64_t streamed = ~0ull, hidden = 0, passed = 0;
        for (int i = 0; i < 100'000; ++i) {
            // Often one of few pages, so that lines are used again while they are the latest ones.
            const std::uint64_t page = random() % (random() % 4 == 0 ? pages : 3);
            const std::uint64_t at = random() % 4 * 64 + random() % 64;
            const std::uint64_t base = page % 2 == 0 ? 0x7f0000000000 : 0xffff888000000000;
            const std::uint64_t address = base + page * 4096 + at;
            const std::uint64_t line = frame_of[page] * 64ull + at / 64;
            const unsigned size = 1u << random() % 5;
            const auto core = static_cast<unsigned>(random() % 2);
            const bool write = random() % 3 == 0;
            const auto frame = [&] { return frame_of[page]; };
            if (random() % 16 == 0) {
                if (page >= device || line == streamed) continue;
                caches.stream_store(core, address, frame);
                reference.stream_store(core, line);
                streamed = line;
                ++passed;
                continue;
            }
            ++passed;
            hidden += hides(caches, core, address, 1, write);  // changes nothing
            access(caches, core, address, size, write, frame);
            if (random() % 64 == 0) caches.hide_nothing();
            if (page >= device) continue;
            reference.access(core, line, write);
            if (at % 64 + size > 64) reference.access(core, line + 1, write);
        }
        CHECK(caches.counts() == reference.counts);
        CHECK(caches.nodes() == reference.nodes);
        CHECK(std::min(caches.nodes()[0].writes, caches.nodes()[1].writes) > 1000);
        CHECK(hidden > passed / 20);
        CHECK(caches.accesses() == passed + hidden);
    }
}

TEST_CASE("after a flush a page may have another frame, and dirty lines have gone to the old one") {
    LiveCaches caches(small);
    access(caches, 0, 0x5000, 8, true, [] { return 3u; });
    caches.flush(0);
    auto counts = caches.counts();
    CHECK(at(counts, Component::l2_accesses) == 2);  // the fetch, and the line written back
    access(caches, 0, 0x5000, 8, false, [] { return 4u; });
    counts = caches.counts();
    CHECK(at(counts, Component::l2_misses) == 2);
    caches.access(0, 0x5000, 8, false, []() -> std::uint32_t { throw 0; });  // a hit asks nobody
}

TEST_CASE("devices are not memory") {
    LiveCaches caches(small);
    access(caches, 0, 0x5000, 8, true, [] { return LiveCaches::no_frame; });
    CHECK(caches.counts() == LiveCaches::Counts{});
}

TEST_CASE("the two latest lines of a set are hidden, as far as an access lies in them") {
    LiveCaches caches(small);
    const auto frame = [] { return 3u; };
    access(caches, 0, 0x5000, 8, true, frame);
    access(caches, 0, 0x6000, 8, false, frame);
    CHECK(hides(caches, 0, 0x5038, 8, 0));
    CHECK(hides(caches, 0, 0x5038, 8, 1));
    CHECK_FALSE(hides(caches, 0, 0x5039, 8, 0));  // crosses into the next line
    CHECK(hides(caches, 0, 0x6000, 8, 0));
    CHECK_FALSE(hides(caches, 0, 0x6000, 8, 1));  // its first store
    CHECK_FALSE(hides(caches, 1, 0x5000, 8, 0));  // the other core's
    caches.hide_nothing();
    CHECK_FALSE(hides(caches, 0, 0x5000, 8, 0));
}

TEST_CASE("machines that cannot be are refused") {
    LiveMachine machine = small;
    machine.frames = 8 * 200;
    CHECK_THROWS_AS(LiveCaches{machine}, std::invalid_argument);
    machine = small;
    machine.l1_ways = 17;
    CHECK_THROWS_AS(LiveCaches{machine}, std::invalid_argument);
}

TEST_CASE("instructions that change translations are told from others") {
    const auto changes = [](std::vector<std::uint8_t> bytes) { return changes_translation(bytes); };
    CHECK(changes({0x0f, 0x22, 0xd8}));              // mov %rax, %cr3
    CHECK(changes({0x41, 0x0f, 0x22, 0xdf}));        // mov %r15, %cr3
    CHECK(changes({0x0f, 0x22, 0xe0}));              // mov %rax, %cr4
    CHECK(changes({0x0f, 0x01, 0x38}));              // invlpg (%rax)
    CHECK(changes({0x66, 0x0f, 0x38, 0x82, 0x08}));  // invpcid (%rax), %rcx
    CHECK_FALSE(changes({0x0f, 0x22, 0xd0}));        // mov %rax, %cr2
    CHECK_FALSE(changes({0x0f, 0x01, 0xf8}));        // swapgs
    CHECK_FALSE(changes({0x0f, 0x20, 0xd8}));        // mov %cr3, %rax
    CHECK_FALSE(changes({0x48, 0x89, 0x08}));
}

}  // namespace
}  // namespace pagelens
