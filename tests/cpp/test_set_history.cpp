// What touches are told by is part of the file's format: encoder and decoder would agree on any
// order, so it is held to the one that docs/trace-format.md states.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>

#include "core/accesses/line_predictor.hpp"

using namespace pagelens;

TEST_CASE("set history: places are those of a plain list, latest first") {
    std::mt19937_64 random(1);
    SetHistory history;
    std::array<std::deque<std::uint64_t>, lines_per_page> plain;
    for (auto& list : plain) list.assign(SetHistory::depth, 0);
    const auto move_to_front = [](std::deque<std::uint64_t>& list, auto at) {
        const std::uint64_t line = *at;
        list.erase(at);
        list.push_front(line);
    };
    for (unsigned step = 0; step < 200'000; ++step) {
        // Three sets, with more lines than places.
        const std::uint64_t line = (1 + random() % 12) * lines_per_page + random() % 3;
        auto& list = plain[line % lines_per_page];
        const auto known = std::find(list.begin(), list.end(), line);
        const unsigned place = static_cast<unsigned>(known - list.begin());
        REQUIRE(history.place(line) == place);
        const auto kind = static_cast<EventKind>(random() % line_kinds);
        if (random() % 2 == 0) {
            const unsigned renewed =
                random() % 2 == 0 ? SetHistory::depth - 1 : static_cast<unsigned>(random() % 8);
            REQUIRE(history.at(line, renewed) == list[renewed]);
            history.renew(line, renewed);
            move_to_front(list, list.begin() + renewed);
            continue;
        }
        const bool fetched = kind == EventKind::read || kind == EventKind::write;
        history.use(kind, line);
        if (fetched) {
            list.push_front(line);
            list.pop_back();
        } else if ((kind == EventKind::first_store || kind == EventKind::touch) &&
                   known != list.end()) {
            move_to_front(list, known);
        }
    }
}
