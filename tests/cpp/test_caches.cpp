#include <doctest/doctest.h>

#include <bit>
#include <set>

#include "core/machine/fully_associative.hpp"
#include "core/machine/memory_side.hpp"
#include "core/machine/set_associative.hpp"
#include "core/random/philox.hpp"
#include "tests/cpp/reference_caches.hpp"

using namespace pagelens;

namespace {

// Masks as programs make them: whole pages, runs, scattered lines, single ones.
std::uint64_t some_lines(Random& random) {
    switch (random.below(4)) {
        case 0:
            return ~0ull;
        case 1:
            return 0xffull << random.below(57);
        case 2:
            return random.bits64() & random.bits64();
        default:
            return 1ull << random.below(64);
    }
}

}  // namespace

TEST_CASE("set-associative cache equals lists in order of recency") {
    for (const unsigned ways : {1u, 2u, 8u, 12u, 16u, 20u}) {
        for (const unsigned sets : {1u, 8u, 64u}) {
            CAPTURE(ways);
            CAPTURE(sets);
            Random random(ways, sets, 0, Stream::history);
            SetAssociativeCache fast(sets, ways);
            reference::LruCache slow(sets, ways);
            for (int i = 0; i < 20000; ++i) {
                const std::uint64_t line = random.below(2 * sets * ways);
                const bool write = random.below(3) == 0;
                const CacheAccess got = fast.access(line, write);
                const auto want = slow.access(line, write);
                REQUIRE(got.hit == want.hit);
                REQUIRE(got.victim_valid == want.victim.has_value());
                if (!want.victim) continue;
                REQUIRE(got.victim == want.victim->number);
                REQUIRE(got.victim_dirty == want.victim->dirty);
            }
        }
    }
}

TEST_CASE("set-associative cache: the largest line numbers keep their tags apart") {
    SetAssociativeCache cache(64, 2);
    const std::uint64_t top = ((1ull << 31) - 2) * 64;
    CHECK(!cache.access(top, true).hit);
    CHECK(!cache.access(0, false).hit);
    CHECK(cache.access(top, false).hit);
    cache.access(64, false);  // pushes 0 out
    const CacheAccess last = cache.access(128, false);
    CHECK(last.victim == top);
    CHECK(last.victim_dirty);
}

TEST_CASE("every version of the memory-side kernel gives the same rows and results") {
    for (const char* version : {"avx2", "avx512"}) {
        const RowKernel fast = row_kernel(version);
        if (fast == nullptr) continue;  // this host cannot run it
        CAPTURE(version);
        const RowKernel slow = row_kernel("scalar");
        for (unsigned ways = 1; ways <= most_ways; ++ways) {
            Random random(ways, 3, 0, Stream::history);
            alignas(64) std::uint8_t a[64 * most_ways] = {}, b[64 * most_ways] = {};
            Evicted evicted_a{}, evicted_b{};
            for (int i = 0; i < 2000; ++i) {
                const auto entry =
                    static_cast<std::uint8_t>(1 + random.below(2 * ways) + (random.below(2) << 7));
                const std::uint64_t lines = some_lines(random);
                const RowResult x = fast(a, ways, lines, entry, evicted_a);
                const RowResult y = slow(b, ways, lines, entry, evicted_b);
                REQUIRE(x.missed == y.missed);
                REQUIRE(x.dirty == y.dirty);
                REQUIRE(evicted_a.lines == evicted_b.lines);
                REQUIRE(std::equal(std::begin(a), std::end(a), std::begin(b)));
                for (std::uint64_t rest = evicted_a.lines; rest != 0; rest &= rest - 1) {
                    const int line = std::countr_zero(rest);
                    REQUIRE(evicted_a.entry[line] == evicted_b.entry[line]);
                }
            }
        }
    }
}

TEST_CASE("memory-side cache of any associativity equals lists in order of recency") {
    for (const unsigned ways : {1u, 2u, 4u, 16u}) {
        CAPTURE(ways);
        const std::uint32_t sets = 8;
        Random random(ways, 4, 0, Stream::history);
        MemorySideCache fast(sets, ways);
        reference::LruCache slow(std::uint64_t{sets} * 64, ways);
        CacheCounts counts, expected;
        for (int i = 0; i < 4000; ++i) {
            const std::uint32_t frame = random.below(sets * ways * 3);
            const std::uint64_t lines = some_lines(random);
            const bool write = random.below(3) == 0;
            const RowResult got = fast.access(frame % sets, frame / sets, lines, write);
            counts.add(lines, got);
            const std::uint64_t victims = got.missed != 0 ? fast.victims() : 0;
            for (int line = 0; line < 64; ++line) {
                if ((lines >> line & 1) == 0) continue;
                const auto want =
                    slow.access(std::uint64_t{frame} * 64 + static_cast<unsigned>(line), write);
                ++expected.accesses;
                expected.misses += want.hit ? 0 : 1;
                expected.write_backs += want.victim && want.victim->dirty ? 1 : 0;
                REQUIRE((got.missed >> line & 1) == (want.hit ? 0 : 1));
                REQUIRE((victims >> line & 1) == (want.victim ? 1 : 0));
                REQUIRE((got.dirty >> line & 1) == (want.victim && want.victim->dirty ? 1 : 0));
                if (want.victim) {
                    REQUIRE(std::uint64_t{fast.victim_tag(line)} * sets + frame % sets ==
                            want.victim->number / 64);
                }
            }
            for (std::uint64_t rest = victims; rest != 0;) {  // groups by victim, each line once
                const std::uint64_t same = fast.same_victim(rest);
                REQUIRE((same & ~rest) == 0);
                for (int line = 0; line < 64; ++line) {
                    if ((rest >> line & 1) == 0) continue;
                    const bool alike =
                        fast.victim_tag(line) == fast.victim_tag(std::countr_zero(rest));
                    REQUIRE((same >> line & 1) == (alike ? 1 : 0));
                }
                rest &= ~same;
            }
        }
        CHECK(counts == expected);
    }
}

TEST_CASE("one line of a memory-side cache at a time equals page runs of one line") {
    for (const auto& [its_sets, its_ways] : {std::pair{8u, 1u}, {12u, 1u}, {1u, 1u}, {12u, 2u}}) {
        const unsigned sets = its_sets, ways = its_ways;  // clang captures no parts of a pair
        CAPTURE(sets);
        CAPTURE(ways);
        Random random(sets, 5, ways, Stream::history);
        MemorySideCache fast(sets, ways), slow(sets, ways);
        unsigned misses = 0, victims = 0, dirty = 0;
        for (int i = 0; i < 20000; ++i) {
            const std::uint32_t frame = random.below(sets * ways * 3);
            const unsigned line = random.below(64);
            const bool write = random.below(3) == 0;
            const auto [set, tag] = fast.place_of(frame);
            REQUIRE(set == frame % sets);
            REQUIRE(tag == frame / sets);
            const auto got = fast.access_line(set, tag, line, write);
            const RowResult want = slow.access(set, tag, 1ull << line, write);
            const bool missed = want.missed != 0;
            REQUIRE(got.missed == missed);
            REQUIRE(got.victim_valid == (missed && slow.victims() != 0));
            REQUIRE(got.victim_dirty == (missed && want.dirty != 0));
            misses += got.missed;
            victims += got.victim_valid;
            dirty += got.victim_dirty;
        }
        CHECK(misses > victims);
        CHECK(victims > dirty);
        CHECK(dirty > 1000);
    }
}

TEST_CASE("line by line equals page runs in a direct-mapped cache") {
    const std::uint32_t sets = 16;
    Random random(1, 5, 0, Stream::history);
    MemorySideCache paged(sets, 1), single(sets, 1);
    DirectMappedLines pass(single);
    CacheCounts counts;
    for (int i = 0; i < 20000; ++i) {
        const std::uint32_t frame = random.below(sets * 126);
        const std::uint64_t lines = some_lines(random);
        const bool write = random.below(3) == 0;
        counts.add(lines, paged.access(frame % sets, frame / sets, lines, write));
        for (std::uint64_t rest = lines; rest != 0; rest &= rest - 1) {
            pass.access(std::uint64_t{frame} * 64 + static_cast<unsigned>(std::countr_zero(rest)),
                        write);
        }
    }
    CHECK(counts == pass.counts());
    CHECK(counts.misses > 0);
    CHECK(counts.hits() > 0);
}

TEST_CASE("fully associative cache never loses a line while the footprint fits") {
    Random random(1, 6, 0, Stream::history);
    FullyAssociativeCache cache(32, 32 * 64, Random(1, 6, 0, Stream::ideal_twin));
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 5000; ++i) {
        const std::uint32_t page = random.below(32);
        const std::uint64_t lines = some_lines(random);
        const auto got = cache.access(page, lines, true);
        CHECK(got.write_backs == 0);
        for (int line = 0; line < 64; ++line) {
            if ((lines >> line & 1) == 0) continue;
            const bool fresh = seen.insert(page * 64 + static_cast<unsigned>(line)).second;
            REQUIRE((got.missed >> line & 1) == (fresh ? 1 : 0));
        }
    }
}

TEST_CASE("fully associative cache: what is lost is missed, what was written is written back") {
    // Every line misses as often as it was pushed out, plus once; all writes come back in the end.
    const std::uint32_t capacity = 100;
    FullyAssociativeCache cache(8, capacity, Random(2, 6, 0, Stream::ideal_twin));
    Random random(2, 6, 0, Stream::history);
    std::uint64_t misses = 0, write_backs = 0;
    for (int i = 0; i < 20000; ++i) {
        const auto got = cache.access(random.below(8), some_lines(random), true);
        misses += static_cast<unsigned>(std::popcount(got.missed));
        write_backs += got.write_backs;
    }
    CHECK(misses - write_backs == capacity);  // every fill was written; the rest is still inside
}

TEST_CASE("a cyclic sweep over twice the capacity still hits under random replacement") {
    FullyAssociativeCache cache(64, 32 * 64, Random(3, 6, 0, Stream::ideal_twin));
    std::uint64_t misses = 0;
    for (int sweep = 0; sweep < 20; ++sweep) {
        for (std::uint32_t page = 0; page < 64; ++page) {
            const auto missed = cache.access(page, ~0ull, false).missed;
            if (sweep >= 10) misses += static_cast<unsigned>(std::popcount(missed));
        }
    }
    const double rate = static_cast<double>(misses) / (10 * 64 * 64);
    CHECK(rate > 0.6);  // the capacity bound of any policy is 0.5
    CHECK(rate < 0.9);  // LRU: 1
}
