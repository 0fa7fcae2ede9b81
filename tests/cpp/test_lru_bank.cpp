#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/machine/lru_bank.hpp"
#include "core/random/philox.hpp"
#include "tests/cpp/reference_caches.hpp"

using namespace pagelens;
using reference::LruCache;

namespace {

constexpr std::uint32_t ranks = 6, caches = 3;
constexpr std::uint16_t cache_of[ranks] = {0, 0, 1, 1, 2, 2};

struct Batch {
    std::vector<RankPage> pages;
    std::uint64_t lines;
    bool write;
};

// Few frames a set, so that rows fill and hits happen; a frame is always watched or never.
Batch some_batch(Random& random, std::uint32_t frames) {
    Batch batch{{}, random.below(3) == 0 ? ~0ull : random.bits64() & random.bits64(), false};
    batch.lines |= 1ull << random.below(64);
    batch.write = random.below(3) == 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint32_t frame = random.below(frames);
        if (random.below(4) == 0) continue;
        batch.pages.push_back(
            {frame, static_cast<std::uint16_t>(rank), static_cast<std::uint16_t>(frame % 3 == 0)});
    }
    return batch;
}

bool same(const LruEvent& a, const LruEvent& b) {
    return a.page == b.page && a.line == b.line && a.missed == b.missed && a.victim == b.victim;
}

}  // namespace

TEST_CASE("a bank of caches equals one list in order of recency for each set") {
    for (const std::uint32_t ways : {1u, 4u, 12u, 16u}) {
        for (const std::uint32_t sets : {64u, 256u}) {
            CAPTURE(ways);
            CAPTURE(sets);
            Random random(ways, sets, 0, Stream::history);
            LruBank bank(sets, ways, caches);
            std::vector<LruCache> slow(caches, LruCache(sets, ways));
            int victims = 0;
            for (int i = 0; i < 2000; ++i) {
                const Batch batch = some_batch(random, 2 * ways * sets / 64);
                std::vector<LruEvent> want;
                std::vector<std::uint32_t> victim_frames;
                for (std::uint32_t p = 0; p < batch.pages.size(); ++p) {
                    const auto [frame, rank, watched] = batch.pages[p];
                    for (unsigned line = 0; line < 64; ++line) {
                        if ((batch.lines >> line & 1) == 0) continue;
                        const auto outcome = slow[cache_of[rank]].access(
                            std::uint64_t{frame} * 64 + line, batch.write);
                        const bool left = outcome.victim && outcome.victim->dirty &&
                                          outcome.victim->number / 64 % 3 == 0;
                        if (watched == 0 && !left) continue;
                        want.push_back({p, static_cast<std::uint16_t>(line),
                                        static_cast<std::uint16_t>(outcome.hit ? 0 : 1), left});
                        victim_frames.push_back(
                            left ? static_cast<std::uint32_t>(outcome.victim->number / 64) : 0);
                    }
                }
                const auto got = bank.access(batch.pages, cache_of, batch.lines, batch.write);
                REQUIRE(got.size() == want.size());
                for (std::size_t e = 0; e < got.size(); ++e) {
                    REQUIRE(got[e].page == want[e].page);
                    REQUIRE(got[e].line == want[e].line);
                    REQUIRE(got[e].missed == want[e].missed);
                    REQUIRE((got[e].victim != 0) == (want[e].victim != 0));
                    if (got[e].victim == 0) continue;
                    ++victims;
                    REQUIRE(bank.victim_frame(batch.pages[got[e].page].frame, got[e].victim) ==
                            victim_frames[e]);
                }
                if (batch.pages.empty()) continue;
                const RankPage gone =
                    batch.pages[random.below(static_cast<std::uint32_t>(batch.pages.size()))];
                const unsigned line = random.below(64);
                REQUIRE(bank.remove(cache_of[gone.rank], gone.frame, line) ==
                        slow[cache_of[gone.rank]].remove(std::uint64_t{gone.frame} * 64 + line));
            }
            CHECK(victims > 1000);
        }
    }
}

TEST_CASE("the largest frame numbers keep their tags apart") {
    LruBank bank(64, 2, 1);
    const std::uint16_t only = 0;
    const auto missed = [&](std::uint32_t frame, bool write) {
        const RankPage page{frame, 0, 1};
        return bank.access({&page, 1}, &only, 1, write)[0];
    };
    const std::uint32_t top = (1u << 30) - 2;
    CHECK(missed(top, true).missed == 1);
    CHECK(missed(0, false).missed == 1);
    CHECK(missed(top, false).missed == 0);
    missed(1, false);  // pushes 0 out
    CHECK(bank.victim_frame(2, missed(2, false).victim) == top);
}

TEST_CASE("every version of the LRU kernel gives the same rows and events") {
    for (const char* version : {"avx2", "avx512"}) {
        const LruKernel fast = lru_kernel(version);
        if (fast == nullptr) continue;  // this host cannot run it
        CAPTURE(version);
        const LruKernel slow = lru_kernel("scalar");
        for (unsigned ways = 1; ways <= lru_row; ++ways) {
            Random random(ways, 2, 0, Stream::history);
            constexpr unsigned page_set_bits = 1;
            std::vector<std::uint32_t> a(lru_row * (1 + 128 * caches)), b(a);
            std::vector<LruEvent> events_a(64 * ranks), events_b(64 * ranks);
            for (int i = 0; i < 1000; ++i) {
                const Batch batch = some_batch(random, 4 * ways);
                const auto on = [&](std::vector<std::uint32_t>& rows) {
                    return LruBatch{rows.data() + lru_row, caches,   page_set_bits, ways,
                                    batch.pages,           cache_of, batch.lines,   batch.write};
                };
                const std::size_t x = fast(on(a), events_a.data());
                const std::size_t y = slow(on(b), events_b.data());
                REQUIRE(x == y);
                REQUIRE(a == b);
                REQUIRE(std::equal(events_a.data(), events_a.data() + x, events_b.data(), same));
            }
        }
    }
}
