#include <doctest/doctest.h>

#include <array>
#include <map>
#include <ranges>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "core/machine/cache_hierarchy.hpp"
#include "core/random/philox.hpp"
#include "tests/cpp/reference_hierarchy.hpp"

using namespace pagelens;

namespace {

// Three slices by the remainder-like rule of Skylake-SP's 24: thresholds and all.
AddressHash three_slices() {
    HashForm form;
    form.levels.push_back(
        {{}, HashForm::High{{0x1040, 0x2080, 0x4100, 0x8200, 0x10400, 0x20800}, 42, 1}});
    form.group_values = 3;
    return AddressHash(form);
}

// `plain`: as nearly all caches are, which have an instance of their own.
CacheGeometry some_cache(Random& random, bool plain, std::uint32_t most_sets,
                         std::uint32_t most_ways) {
    CacheGeometry its;
    its.sets = 1u << random.below(static_cast<std::uint32_t>(std::countr_zero(most_sets)) + 1);
    its.ways = 1 + random.below(plain ? std::min(most_ways, 16u) : most_ways);
    if (plain) return its;
    its.replacement = std::array{replacement_by<Lru>, replacement_by<TreePlru>,
                                 replacement_by<RandomVictim>}[random.below(3)];
    if (serves_fully_associative(its.replacement)) its.fully_associative = random.below(6) == 0;
    return its;
}

HierarchyModel some_model(Random& random) {
    HierarchyModel m;
    // Sometimes more caches than a filter's 32-bit words have holders.
    m.cores = random.below(8) != 0 ? 1 + random.below(6) : 25 + random.below(40);
    m.seed = random.bits64();
    const bool plain = random.below(3) == 0;
    if (random.below(3) != 0) {
        m.l1 = {some_cache(random, plain, 4, 4), 1 + random.below(2)};
        m.l2.shared_by = m.l1->shared_by * (1 + random.below(2));
        m.l2_inclusion = std::array{Inclusion::inclusive, Inclusion::exclusive,
                                    Inclusion::non_inclusive}[random.below(3)];
        if (m.l2_inclusion == Inclusion::exclusive) m.l2.shared_by = m.l1->shared_by;
    } else {
        m.l2.shared_by = 1 + random.below(3);
    }
    m.l2.geometry = some_cache(random, plain, 8, 18);
    if (random.below(4) != 0) {
        m.l3 = {some_cache(random, plain, 8, 20),
                std::array{Inclusion::inclusive, Inclusion::exclusive,
                           Inclusion::victim}[random.below(3)]};
    }
    if (random.below(2) == 0) m.snoop_filter = some_cache(random, plain, 8, 14);
    if (random.below(2) == 0) m.slices = three_slices();
    return m;
}

std::string described(const HierarchyModel& m) {
    std::ostringstream text;
    const auto cache = [&](const char* name, const CacheGeometry& its) {
        text << ' ' << name << ' ' << its.sets << 'x' << its.ways << " policy "
             << static_cast<int>(its.replacement) << (its.fully_associative ? " full" : "");
    };
    text << m.cores << " cores";
    if (m.l1) {
        cache("l1", m.l1->geometry);
        text << " by " << m.l1->shared_by;
    }
    cache("l2", m.l2.geometry);
    text << " by " << m.l2.shared_by << " inclusion " << static_cast<int>(m.l2_inclusion);
    if (m.l3) {
        cache("l3", m.l3->geometry);
        text << " inclusion " << static_cast<int>(m.l3->inclusion);
    }
    if (m.snoop_filter) cache("filter", *m.snoop_filter);
    text << (m.slices ? " 3 slices" : "");
    return text.str();
}

// Lines that several cores use, near each other and far apart.
LineAccess some_access(Random& random, const HierarchyModel& m, std::uint64_t lines) {
    const std::uint32_t core = random.below(m.cores);
    const std::uint64_t far = random.below(16) == 0 ? 1ull << 30 : 0;
    AccessKind kind = AccessKind::read;
    switch (random.below(8)) {
        case 0:
        case 1:
            kind = AccessKind::write;
            break;
        case 2:
            kind = m.l1 ? AccessKind::write : AccessKind::write_back;
            break;
        case 3:
            if (random.below(4) == 0) kind = AccessKind::stream_store;
    }
    return {far + random.below(static_cast<std::uint32_t>(lines)), core, kind};
}

bool same(const MemoryTraffic& a, const MemoryTraffic& b) {
    return std::equal(
        a.begin(), a.end(), b.begin(), b.end(), [](const MemoryAccess& x, const MemoryAccess& y) {
            return x.line() == y.line() && x.core() == y.core() && x.write() == y.write();
        });
}

// What must hold of every state: who has written is alone, the filter sees all, and inclusion.
void check_invariants(const HierarchyModel& m, CacheHierarchy& fast, reference::Hierarchy& slow) {
    const auto held = slow.held();
    for (const auto& [key, dirty] : held) {
        const auto [tile, line] = key;
        REQUIRE(fast.private_holds(tile * m.l2.shared_by, line) + m.l2.shared_by > 1);
        const bool in_l3 = fast.l3_holds(line);
        if (dirty) {
            for (std::uint32_t other = 0; other * m.l2.shared_by < m.cores; ++other)
                REQUIRE((other == tile || !held.contains({other, line})));
            // An L2 that does not look into L1 may give L3 what L1 has written since.
            const bool may_be_old = m.l1 && m.l2_inclusion == Inclusion::non_inclusive && m.l3 &&
                                    m.l3->inclusion == Inclusion::victim;
            if (m.l3 && !may_be_old) REQUIRE(in_l3 == (m.l3->inclusion == Inclusion::inclusive));
        }
        if (m.l3 && m.l3->inclusion == Inclusion::inclusive) REQUIRE(in_l3);
        if (m.l3 && m.l3->inclusion == Inclusion::exclusive) REQUIRE(!in_l3);
        if (m.snoop_filter && !m.snoop_filter->fully_associative) REQUIRE(slow.has_entry(line));
    }
}

void compare(const HierarchyModel& m, Random& random, int accesses) {
    CAPTURE(described(m));
    CacheHierarchy fast(m);
    reference::Hierarchy slow(m);
    MemoryTraffic traffic;
    std::vector<LineAccess> batch;
    const std::uint64_t lines = 16 + random.below(400);
    for (int i = 0; i < accesses; ++i) {
        batch.push_back(some_access(random, m, lines));
        slow.access(batch.back().line, batch.back().core, batch.back().kind);
        if (random.below(50) != 0 && i + 1 < accesses) continue;
        fast.access(batch, traffic);
        batch.clear();
        REQUIRE(same(traffic, slow.traffic));
        REQUIRE(std::equal(slow.counts.begin(), slow.counts.end(), fast.counts().begin()));
        for (std::uint64_t line = 0; line < lines; ++line) {
            REQUIRE(fast.l3_holds(line) == slow.l3_holds(line));
        }
    }
    check_invariants(m, fast, slow);
}

}  // namespace

TEST_CASE("hierarchy: a line's slice is kept in a byte") {
    HashForm form;
    for (unsigned bit = 6; bit < 14; ++bit) form.group.push_back(1ull << bit);
    form.levels.push_back({});
    HierarchyModel m;
    m.slices = AddressHash(form);
    CHECK(m.slices->values() == 256);
    CacheHierarchy most(m);
    form.group.push_back(1ull << 14);
    m.slices = AddressHash(form);
    CHECK_THROWS_WITH_AS(CacheHierarchy{m}, "slices: at most 256, not 512", std::invalid_argument);
}

TEST_CASE("hierarchy of any shape equals one that looks into every cache") {
    for (std::uint32_t run = 0; run < 1500; ++run) {
        CAPTURE(run);
        Random random(1, run, 0, Stream::history);
        compare(some_model(random), random, 600);
    }
}

// It begins with a table of few lines. Fewer ways than private caches can fill end that.
TEST_CASE("hierarchy whose filter is far larger than its private caches equals the same one") {
    for (std::uint32_t run = 0; run < 500; ++run) {
        CAPTURE(run);
        Random random(4, run, 0, Stream::history);
        HierarchyModel m = some_model(random);
        m.cores = 1 + random.below(6);
        m.l1.reset();
        m.l2 = {CacheGeometry{1, 1 + random.below(2)}, 1};
        m.l2_inclusion = Inclusion::inclusive;
        m.slices = three_slices();
        m.snoop_filter = CacheGeometry{16, 2 + random.below(3)};
        compare(m, random, 600);
    }
}

// Every line that was made dirty is written once, whether then or when it leaves, as a line does
// that is overwritten as a whole.
TEST_CASE("hierarchy that writes at once writes as often in the end, and reads as ever") {
    for (std::uint32_t run = 0; run < 600; ++run) {
        CAPTURE(run);
        Random random(2, run, 0, Stream::history);
        HierarchyModel m = some_model(random);
        m.l1.reset();
        if (m.l2_inclusion == Inclusion::exclusive) m.l2_inclusion = Inclusion::inclusive;
        // An inclusive L3 whose victim is what the filter evicts at that moment writes both copies.
        if (m.l3 && m.l3->inclusion == Inclusion::inclusive) m.snoop_filter.reset();
        CAPTURE(described(m));
        CacheHierarchy late(m);
        m.writes_at_once = true;
        CacheHierarchy at_once(m);
        const std::uint64_t lines = 16 + random.below(400);
        std::vector<LineAccess> batch;
        for (int i = 0; i < 600; ++i) batch.push_back(some_access(random, m, lines));
        for (const std::uint64_t far : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
            for (std::uint64_t line = 0; line < lines; ++line)
                batch.push_back({far + line, 0, AccessKind::stream_store});
        }
        MemoryTraffic a, b;
        late.access(batch, a);
        at_once.access(batch, b);
        for (std::size_t i = 0; i < cache_counters; ++i) {
            const auto counter = static_cast<CacheCounter>(i);
            REQUIRE(late.total(counter) == at_once.total(counter));
        }
    }
}

TEST_CASE("hierarchy with an L3 beside counts for it what it would count with that one") {
    for (std::uint32_t run = 0; run < 600; ++run) {
        CAPTURE(run);
        Random random(3, run, 0, Stream::history);
        HierarchyModel m = some_model(random);
        m.l1.reset();
        if (m.l2_inclusion == Inclusion::exclusive) m.l2_inclusion = Inclusion::inclusive;
        m.l3 = {some_cache(random, true, 8, 16), Inclusion::victim};
        m.writes_at_once = random.below(2) == 0;
        HierarchyModel other = m;
        other.l3->geometry = some_cache(random, false, 8, 16);
        CAPTURE(described(m));
        CAPTURE(described(other));
        CacheHierarchy alone(m), alike(other);
        m.l3_beside = other.l3->geometry;
        CacheHierarchy both(m);
        const std::uint64_t lines = 16 + random.below(400);
        for (int part = 0; part < 6; ++part) {
            std::vector<LineAccess> batch;
            for (int i = 0; i < 100; ++i) batch.push_back(some_access(random, m, lines));
            MemoryTraffic expected, of_other, found;
            alone.access(batch, expected);
            alike.access(batch, of_other);
            both.access(batch, found);
            REQUIRE(same(found, expected));
            REQUIRE(same(both.traffic_beside(), of_other));
        }
        for (std::size_t i = 0; i < cache_counters; ++i) {
            const auto counter = static_cast<CacheCounter>(i);
            REQUIRE(both.total(counter) == alone.total(counter));
            REQUIRE(both.total_beside(counter) == alike.total(counter));
        }
    }
}

TEST_CASE("hierarchy has an L3 beside a victim L3 only, and without an L1") {
    HierarchyModel m;
    m.l3_beside = CacheGeometry{};
    CHECK_THROWS_WITH_AS(CacheHierarchy{m}, doctest::Contains("l3_beside: only beside a victim l3"),
                         std::invalid_argument);
    m.l3 = {CacheGeometry{}, Inclusion::victim};
    CHECK(CacheHierarchy(m).has_beside());
    m.l3->inclusion = Inclusion::inclusive;
    CHECK_THROWS_AS(CacheHierarchy{m}, std::invalid_argument);
    m.l3->inclusion = Inclusion::victim;
    m.l1 = HierarchyModel::Private{};
    CHECK_THROWS_AS(CacheHierarchy{m}, std::invalid_argument);
}

// Reads and write-backs of lines of 64 pages, each line once, by any core.
static std::vector<PageRun> uses_of_lines(Random& random, std::uint32_t cores, std::size_t lines) {
    std::vector<PageRun> uses;
    std::set<std::uint64_t> used;
    while (used.size() < lines) {
        const std::uint64_t line = random.below(64 * 64);
        if (!used.insert(line).second) continue;
        const AccessKind kind = random.below(3) == 0 ? AccessKind::write_back : AccessKind::read;
        uses.push_back({1ull << line % 64, static_cast<std::uint32_t>(line / 64),
                        static_cast<std::uint16_t>(random.below(cores)), kind});
    }
    return uses;
}

TEST_CASE("hierarchy that is refilled goes on as one that had every access") {
    Random random(1, 0, 0, Stream::history);
    for (int round = 0; round < 200; ++round) {
        HierarchyModel m;
        m.cores = m.l2.shared_by = 1 + random.below(2);
        m.l2.geometry = {1u << random.below(4), 1 + random.below(8)};
        if (random.below(4) != 0) {
            m.l3 = {{8u << random.below(2), 1 + random.below(random.below(4) == 0 ? 40 : 16)},
                    random.below(2) == 0 ? Inclusion::victim : Inclusion::exclusive};
            // One set of L2 and one of L3: L3 gets its lines in their order.
            m.l3->geometry.fully_associative = m.l2.geometry.sets == 1 && random.below(2) == 0;
            if (m.l3->inclusion == Inclusion::victim && m.l2.geometry.sets == 1 &&
                random.below(2) == 0)
                m.l3_beside = CacheGeometry{8, 4, replacement_by<Lru>, true};
        }
        if (random.below(2) == 0) m.slices = three_slices();
        CAPTURE(described(m));
        const std::vector<PageRun> uses = uses_of_lines(random, m.cores, random.below(800));
        CacheHierarchy slow(m), fast(m);
        MemoryTraffic traffic, other;
        slow.access(uses, traffic);
        const CacheHierarchy as_new(m);
        fast.access(uses_of_lines(random, m.cores, 500), other);  // an earlier stretch
        fast.become(as_new);
        fast.refill(uses);
        slow.reset_counts();
        fast.reset_counts();
        traffic.clear();
        other.clear();
        MemoryTraffic beside, other_beside;
        for (int i = 0; i < 1500; ++i) {
            const LineAccess its{random.below(64 * 64), random.below(m.cores),
                                 static_cast<AccessKind>(random.below(4))};
            slow.access(std::span(&its, 1), traffic);
            fast.access(std::span(&its, 1), other);
            if (!m.l3_beside) continue;
            for (const auto& [from, to] : {std::pair(&slow, &beside), {&fast, &other_beside}})
                to->insert(to->end(), from->traffic_beside().begin(), from->traffic_beside().end());
        }
        REQUIRE(same(traffic, other));
        REQUIRE(same(beside, other_beside));
        REQUIRE(std::ranges::equal(slow.counts(), fast.counts()));
    }
}

TEST_CASE("hierarchy that is refilled has the lines used last, where there is room") {
    Random random(2, 0, 0, Stream::history);
    const AddressHash slice_of = three_slices();
    for (int round = 0; round < 200; ++round) {
        HierarchyModel m;
        m.cores = 1 + random.below(8);
        m.l2 = {{1u << random.below(3), 1 + random.below(4)}, 1 + random.below(2)};
        m.l3 = {{1u << random.below(4), 1 + random.below(20)},
                std::array{Inclusion::inclusive, Inclusion::exclusive,
                           Inclusion::victim}[random.below(3)]};
        m.slices = slice_of;
        CAPTURE(described(m));
        std::vector<PageRun> uses = uses_of_lines(random, m.cores, random.below(1500));
        for (PageRun& its : uses) its.kind = AccessKind::read;
        for (const PageRun& again : uses_of_lines(random, m.cores, 100))
            uses.push_back({again.lines, again.frame, again.core, AccessKind::read});
        CacheHierarchy fast(m);
        fast.refill(uses);
        using Lines = std::set<std::uint64_t>;
        std::map<std::pair<std::uint32_t, std::uint64_t>, Lines> l2;  // [tile, set]
        std::map<std::pair<std::uint32_t, std::uint64_t>, Lines> l3;  // [slice, set]
        for (const PageRun& its : std::views::reverse(uses)) {
            const std::uint64_t line =
                its.frame * 64 + static_cast<unsigned>(std::countr_zero(its.lines));
            Lines& upper = l2[{its.core / m.l2.shared_by, line % m.l2.geometry.sets}];
            Lines& lower = l3[{slice_of(line << line_bits), line % m.l3->geometry.sets}];
            if (upper.contains(line)) continue;
            const auto to_l3 = [&] {
                if (lower.size() < m.l3->geometry.ways) lower.insert(line);
                return lower.contains(line);
            };
            const bool may = m.l3->inclusion != Inclusion::inclusive || to_l3();
            if (may && upper.size() < m.l2.geometry.ways) {
                upper.insert(line);
            } else if (m.l3->inclusion != Inclusion::inclusive) {
                to_l3();
            }
        }
        for (std::uint64_t line = 0; line < 64 * 64; ++line) {
            for (std::uint32_t core = 0; core < m.cores; ++core)
                REQUIRE(fast.private_holds(core, line) ==
                        l2[{core / m.l2.shared_by, line % m.l2.geometry.sets}].contains(line));
            // An L3 that keeps no line of an L2 loses those that another core reads.
            if (m.l3->inclusion == Inclusion::exclusive) continue;
            REQUIRE(fast.l3_holds(line) ==
                    l3[{slice_of(line << line_bits), line % m.l3->geometry.sets}].contains(line));
        }
    }
}

TEST_CASE("hierarchy that is refilled has no more lines in L2s than its snoop filter knows") {
    Random random(3, 0, 0, Stream::history);
    HierarchyModel m;
    m.cores = 2;
    m.l2.geometry = {4, 4};
    m.l3 = HierarchyModel::Shared{{4, 16}, Inclusion::victim};
    m.snoop_filter = CacheGeometry{4, 3};
    CacheHierarchy fast(m);
    const std::vector<PageRun> uses = uses_of_lines(random, m.cores, 60);
    fast.refill(uses);
    unsigned in_l2 = 0, in_none = 0;
    for (const PageRun& its : uses) {
        const std::uint64_t line =
            its.frame * 64 + static_cast<unsigned>(std::countr_zero(its.lines));
        const bool here = fast.private_holds(its.core, line);
        in_l2 += here;
        in_none += !here && !fast.l3_holds(line);
    }
    CHECK(in_l2 == 12);
    CHECK(in_none == 0);
    CHECK(fast.total(CacheCounter::sf_evictions) > 0);
}
