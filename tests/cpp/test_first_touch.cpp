#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <vector>

#include "core/replay/first_touch.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

struct Counted {
    std::uint16_t toucher = 0;
    bool handed_over = false;
    std::map<std::uint16_t, std::uint64_t> lines;  // [thread] once it is handed over
};

Op op(OpKind kind, std::uint32_t page, unsigned thread, std::uint64_t lines = 1,
      std::uint16_t object = 1) {
    return make_op(kind, page, lines, object, thread);
}

reference::ListedProgram program_of(std::vector<Op> ops, std::uint32_t pages, unsigned threads) {
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(page);
    return {std::move(ops), std::move(addresses), 3, 1, threads};
}

}  // namespace

TEST_CASE("a page that one thread initialises and another reads is the reader's") {
    const auto program =
        program_of({op(OpKind::map_write, 0, 0), op(OpKind::fetch, 0, 0, ~0ull),
                    op(OpKind::write_back, 0, 0, ~0ull), op(OpKind::fetch, 0, 1, 1),
                    op(OpKind::map_write, 1, 0), op(OpKind::fetch, 1, 0, ~0ull)},
                   2, 2);
    const std::uint8_t nodes[] = {0, 1};
    const FirstTouch found = first_touch(program, nodes);
    CHECK(found.user[0] == 1);  // though thread 0 moved more lines, before it handed the page over
    CHECK(found.user[1] == 0);
    CHECK(found.object[0] == 1);
    CHECK(found.far_lines[1] == 1);
    CHECK(found.lines == 4 * 64 - 63);
    const std::uint8_t together[] = {1, 1};
    CHECK(first_touch(program, together).far_lines[1] == 0);
}

TEST_CASE("the majority's thread is found as a count of every line finds it") {
    std::mt19937 engine(1);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(engine() % n); };
    for (int round = 0; round < 200; ++round) {
        constexpr std::uint32_t pages = 6, threads = 4;
        std::vector<Op> ops;
        for (int i = 0; i < 120; ++i) {
            const std::uint32_t page = below(pages), thread = below(threads);
            const std::uint64_t lines = ~0ull >> below(64);
            const OpKind kinds[] = {OpKind::map_write, OpKind::fetch, OpKind::write_back,
                                    OpKind::stream_store, OpKind::touch};
            ops.push_back(
                op(kinds[below(5)], page, thread, lines, static_cast<std::uint16_t>(1 + below(2))));
        }
        const auto program = program_of(ops, pages, threads);
        const std::uint8_t nodes[] = {0, 0, 1, 1};
        const FirstTouch found = first_touch(program, nodes);
        std::map<std::uint32_t, Counted> counted;
        std::vector<std::uint64_t> far(3);
        for (const Op& each : ops) {
            const auto lines = static_cast<std::uint64_t>(std::popcount(each.lines));
            if (each.kind() == OpKind::map_write) {
                counted.try_emplace(each.page, Counted{.toucher = each.thread, .lines = {}});
            } else if (each.kind() != OpKind::touch && counted.contains(each.page)) {
                Counted& of = counted[each.page];
                if (nodes[each.thread] != nodes[of.toucher]) far[each.object] += lines;
                of.handed_over |= each.thread != of.toucher;
                if (of.handed_over) of.lines[each.thread] += lines;
            }
        }
        CHECK(far == found.far_lines);
        for (const auto& [page, of] : counted) {
            std::uint64_t all = 0, most = 0;
            std::uint16_t whose = of.toucher;
            for (const auto& [thread, lines] : of.lines) {
                all += lines;
                if (lines > most) most = lines, whose = thread;
            }
            if (2 * most > all || all == 0) CHECK(found.user[page] == whose);
        }
    }
}
