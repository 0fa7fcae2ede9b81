// The latest lines of a set, in a word that a shuffle reorders, equal a plain list of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/accesses/latest_lines.hpp"

using namespace pagelens;

namespace {

struct Plain {
    std::uint64_t line, told = 0;
    bool dirty = false, held = true;
};

// Slow and obvious: a list, used last first.
class PlainLines {
  public:
    static constexpr unsigned ways = LatestLines::ways;
    std::vector<Plain> lines;

    [[nodiscard]] unsigned find(std::uint64_t line) const {
        const auto at = std::ranges::find_if(
            lines, [line](const Plain& known) { return known.held && known.line == line; });
        return at == lines.end() ? ways : static_cast<unsigned>(at - lines.begin());
    }
    [[nodiscard]] unsigned sharing(std::uint64_t line, unsigned times) const {
        unsigned found = 0;
        for (unsigned rank = 0; rank < lines.size(); ++rank)
            if (lines[rank].line / 64 % times == line / 64 % times) found |= 1u << rank;
        return found;
    }
    [[nodiscard]] bool is_told_before(unsigned rank) const {
        return std::ranges::any_of(
            lines, [&](const Plain& other) { return other.held && other.told < lines[rank].told; });
    }
    void use(unsigned rank) {
        std::rotate(lines.begin(), lines.begin() + rank, lines.begin() + rank + 1);
    }
    void enter(std::uint64_t line) {
        if (lines.size() == ways) lines.pop_back();
        lines.insert(lines.begin(), Plain{line});
    }
};

void check_equal(const LatestLines& fast, const PlainLines& plain) {
    for (unsigned rank = 0; rank < PlainLines::ways; ++rank) {
        const bool filled = rank < plain.lines.size();
        REQUIRE(fast.is_held(rank) == (filled && plain.lines[rank].held));
        if (!fast.is_held(rank)) continue;
        REQUIRE(fast.line(rank) == plain.lines[rank].line);
        REQUIRE(fast.told(rank) == plain.lines[rank].told);
        REQUIRE(fast.is_dirty(rank) == plain.lines[rank].dirty);
        REQUIRE(fast.is_told_before(rank) == plain.is_told_before(rank));
    }
}

}  // namespace

TEST_CASE("latest lines equal a plain list") {
    std::mt19937_64 random(7);
    for (int run = 0; run < 20; ++run) {
        LatestLines fast;
        PlainLines plain;
        // So few lines that they come back, and so many that some tags are equal.
        const std::uint64_t few = run % 2 == 0 ? 12 : 4000;
        std::uint64_t time = 0;
        for (int step = 0; step < 500; ++step) {
            const std::uint64_t line = 64 * (random() % few);
            const unsigned rank = plain.find(line);
            REQUIRE(fast.find(line) == rank);
            for (const unsigned times : {2u, 4u, 8u})
                REQUIRE(fast.sharing(line, times) == plain.sharing(line, times));
            if (random() % 16 == 0) {
                fast.drop_if([line](std::uint64_t held) { return held == line; });
                if (rank < PlainLines::ways) plain.lines[rank].held = false;
            } else {
                if (rank == PlainLines::ways) {
                    fast.enter(line);
                    plain.enter(line);
                } else {
                    fast.use(rank);
                    plain.use(rank);
                }
                if (rank == PlainLines::ways || random() % 2 == 0) {
                    plain.lines[0].dirty = random() % 2 == 0;
                    plain.lines[0].told = ++time;
                    fast.set_dirty(0, plain.lines[0].dirty);
                    fast.tell(0, time);
                }
            }
            check_equal(fast, plain);
        }
    }
}
