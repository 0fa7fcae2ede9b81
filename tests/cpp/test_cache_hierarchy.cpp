#include <doctest/doctest.h>

#include <sstream>
#include <stdexcept>

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
