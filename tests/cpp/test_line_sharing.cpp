// Lines that threads take from each other: against lists of who has which line.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "core/accesses/line_sharing.hpp"
#include "tracer/shared_lines.hpp"

using namespace pagelens;

namespace {

// Slow and obvious: the threads that have a valid copy of each line, and who wrote it last.
class Reference {
  public:
    std::optional<unsigned> use(std::uint64_t line, unsigned thread, bool store) {
        State& state = lines_[line];
        std::optional<unsigned> from;
        if (store) {
            state.holders.erase(thread);
            if (!state.holders.empty())
                from = state.writer && *state.writer != thread ? *state.writer
                                                               : *state.holders.begin();
            state.holders = {thread};
            state.writer = thread;
        } else {
            if (!state.holders.contains(thread) && state.writer && *state.writer != thread)
                from = state.writer;
            state.holders.insert(thread);
        }
        return from;
    }
    void drop(std::uint64_t line) { lines_.erase(line); }

  private:
    struct State {
        std::set<unsigned> holders;
        std::optional<unsigned> writer;
    };
    std::map<std::uint64_t, State> lines_;
};

// What threads do, as a test says.
struct Others {
    bool held = true, resting = false;
    std::uint64_t executed = 0;
    [[nodiscard]] bool holds(unsigned) const { return held; }
    [[nodiscard]] std::uint64_t instructions(unsigned) const { return executed; }
    [[nodiscard]] bool rests(unsigned) const { return resting; }
};

constexpr auto alone = SharedLines::Use::alone, met = SharedLines::Use::met,
               shared = SharedLines::Use::shared;

}  // namespace

TEST_CASE("line sharing: threads take the lines that a list of holders says") {
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
        const unsigned threads = 2 + draw(150);
        const unsigned lines = 1 + draw(100), stores = 1 + draw(5);
        LineSharing sharing(threads);
        Reference reference;
        for (int i = 0; i < 3000; ++i) {
            const unsigned line = draw(lines), thread = i < 200 ? seed % threads : draw(threads);
            if (draw(97) == 0) {
                sharing.drop(line / 64, line % 64);
                reference.drop(line);
                continue;
            }
            const bool store = draw(6) < stores;
            REQUIRE(sharing.use(line / 64, line % 64, thread, store) ==
                    reference.use(line, thread, store));
        }
    }
}

TEST_CASE("line sharing: counts by line where a line is taken often, and all others together") {
    LineSharing sharing(2);
    const auto take = [&](std::uint64_t line, std::uint16_t from, int times) {
        for (int i = 0; i < times; ++i)
            sharing.count({1, 3, from, static_cast<std::uint16_t>(1 - from), line, 1});
    };
    constexpr int half = LineSharing::fewest / 2;
    take(64 + 5, 0, half);
    take(64 + 5, 1, half);  // both ways, it is often enough
    take(7, 0, half);
    take(8, 0, 1);
    const std::vector<std::uint32_t> page_of{9, 4};  // pages are renumbered
    const std::vector<TakenLines> expected{{1, 3, 0, 1, 4 * 64 + 5, half},
                                           {1, 3, 0, 1, TakenLines::no_line, half + 1},
                                           {1, 3, 1, 0, 4 * 64 + 5, half}};
    CHECK(sharing.counted(page_of) == expected);
}

TEST_CASE("shared lines: a line that two threads use in turn is shared if one of them writes") {
    const auto lines = std::make_unique<SharedLines>();
    const Others holds, lost{.held = false};
    CHECK(lines->use(1, 0, false, holds) == alone);
    CHECK(lines->use(1, 1, false, holds) == alone);  // both read
    CHECK(lines->use(1, 0, true, holds) == met);
    CHECK(lines->use(1, 0, true, holds) == shared);
    CHECK(lines->use(2, 0, true, holds) == alone);
    CHECK(lines->use(2, 1, false, lost) == alone);  // thread 0 has long been elsewhere
    CHECK(lines->use(2, 0, false, holds) == alone);
    CHECK(lines->use(3, 5, true, holds) == alone);
    CHECK(lines->is_known(3, 5, true));
    CHECK(lines->is_known(3, 5, false));
    CHECK(!lines->is_known(3, 6, false));
    CHECK(!lines->is_known(1, 0, true));
    CHECK(lines->use(3, 6, false, holds) == met);
}

TEST_CASE("shared lines: a line that one thread goes on to use alone is not shared any more") {
    const auto lines = std::make_unique<SharedLines>();
    Others others;
    lines->use(1, 0, true, others);
    REQUIRE(lines->use(1, 1, true, others) == met);
    constexpr std::uint32_t most = 2 * SharedLines::uses_beside_resting;
    const auto uses_by_1 = [&] {  // until the table says something else
        std::uint32_t uses = 1;
        while (uses < most && lines->use(1, 1, true, others) == shared) ++uses;
        return uses;
    };
    SUBCASE("the other one runs elsewhere") {
        others.executed = SharedLines::most_instructions;
        CHECK(uses_by_1() == SharedLines::uses_per_look);
    }
    SUBCASE("the other one rests") {
        others.resting = true;
        CHECK(uses_by_1() == SharedLines::uses_beside_resting);
    }
    SUBCASE("the other one waits for a processor") {
        others.executed = SharedLines::most_instructions - 1;
        CHECK(uses_by_1() == most);
        CHECK(lines->use(1, 0, true, others) == shared);
        CHECK(uses_by_1() == most);
        return;
    }
    CHECK(lines->is_known(1, 1, true));
    CHECK(lines->use(1, 0, false, others) == met);
}

TEST_CASE("shared lines: a shared line does not keep its place in the table from others") {
    const auto lines = std::make_unique<SharedLines>();
    const Others others;
    constexpr std::uint64_t other = 1 + (1 << 16);
    lines->use(1, 0, true, others);
    REQUIRE(lines->use(1, 1, true, others) == met);
    CHECK(lines->use(other, 0, true, others) == alone);
    CHECK(lines->is_known(other, 0, true));
    CHECK(lines->use(other, 1, true, others) == met);
}
