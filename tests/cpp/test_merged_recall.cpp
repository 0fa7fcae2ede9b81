#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <tuple>
#include <vector>

#include "core/accesses/op.hpp"
#include "core/random/philox.hpp"
#include "core/replay/merged_recall.hpp"

using namespace pagelens;

namespace {

using Line = std::tuple<std::uint32_t, OpKind, unsigned, std::uint16_t>;
using OfPlaces = std::array<std::vector<Line>, lines_per_page>;

// The lines at each place of their pages, in their order.
OfPlaces by_place(const std::vector<Op>& ops) {
    OfPlaces found;
    for (const Op& op : ops) {
        for (std::uint64_t rest = op.lines; rest != 0; rest &= rest - 1)
            found[static_cast<unsigned>(std::countr_zero(rest))].emplace_back(op.page, op.kind(),
                                                                              op.thread, op.object);
    }
    return found;
}

Op recalled(std::uint32_t page, unsigned place) {
    return make_op(OpKind::recall, page, std::uint64_t{1} << place);
}

std::vector<Op> merged(MergedRecall& recall, const std::vector<Op>& ops) {
    for (const Op& op : ops) recall.add(op);
    std::vector<Op> found;
    recall.move_to(found);
    return found;
}

TEST_CASE("merged recall keeps the order of lines at each place of their pages") {
    constexpr std::uint32_t pages = 5;
    Random random(1, 0, 0, Stream::history);
    MergedRecall recall(pages);
    std::size_t before = 0, after = 0;
    for (int round = 0; round < 300; ++round) {
        std::vector<Op> ops;
        std::array<std::uint64_t, pages> used{};
        for (std::uint32_t left = random.below(60); left > 0; --left) {
            const OpKind kind = random.below(8) == 0 ? OpKind::recall_dirty : OpKind::recall;
            const std::uint32_t page = random.below(pages);
            const std::uint64_t lines = (1ull << random.below(64)) | (1ull << random.below(64));
            if ((used[page] & lines) != 0) continue;
            used[page] |= lines;
            ops.push_back(make_op(kind, page, lines, random.below(8) == 0 ? 1 : 0,
                                  random.below(8) == 0 ? 1 : 0));
        }
        const std::vector<Op> fewer = merged(recall, ops);
        REQUIRE(by_place(fewer) == by_place(ops));
        before += ops.size();
        after += fewer.size();
    }
    CHECK(after < before);
}

TEST_CASE("merged recall has one op for each page of arrays that are used line by line in turn") {
    MergedRecall recall(2);
    std::vector<Op> ops;
    for (unsigned place = 0; place < lines_per_page; ++place)
        for (const std::uint32_t page : {0u, 1u}) ops.push_back(recalled(page, place));
    const std::vector<Op> fewer = merged(recall, ops);
    REQUIRE(fewer.size() == 2);
    CHECK(fewer[0].lines == ~0ull);
    CHECK(fewer[1].lines == ~0ull);
}

}  // namespace
