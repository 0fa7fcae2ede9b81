// The order of lines, given back to ops that had lost it.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "core/accesses/line_order.hpp"

using namespace pagelens;

namespace {

using Line = std::tuple<OpKind, std::uint32_t, unsigned, unsigned>;  // page, index, thread

// Ops in batches of a few.
class Listed final : public Cursor {
  public:
    explicit Listed(std::vector<Op> ops) : ops_(std::move(ops)) {}
    std::span<const Op> next() override {
        const std::size_t count = std::min<std::size_t>(7, ops_.size() - at_);
        at_ += count;
        return std::span(ops_).subspan(at_ - count, count);
    }

  private:
    std::vector<Op> ops_;
    std::size_t at_ = 0;
};

// Ops that are not of lines have index 0.
std::vector<Line> lines_of(Cursor& cursor) {
    std::vector<Line> lines;
    for (auto ops = cursor.next(); !ops.empty(); ops = cursor.next()) {
        for (const Op& op : ops) {
            if (!is_of_lines(op.kind())) lines.emplace_back(op.kind(), op.page, 0, op.thread);
            for (unsigned i = 0; is_of_lines(op.kind()) && i < lines_per_page; ++i)
                if ((op.lines >> i & 1) != 0) lines.emplace_back(op.kind(), op.page, i, op.thread);
        }
    }
    return lines;
}

std::vector<Line> lines_of(const std::vector<Op>& ops) {
    Listed listed(ops);
    return lines_of(listed);
}

std::vector<Line> in_order(const std::vector<Op>& ops) {
    LineOrder order(std::make_unique<Listed>(ops));
    return lines_of(order);
}

std::vector<Op> merged(const std::vector<Line>& lines) {
    std::vector<Op> ops;
    PageRuns<std::vector<Op>> runs(ops);
    for (const auto& [kind, page, index, thread] : lines) {
        if (is_of_lines(kind))
            runs.line(kind, page, index, 0, thread);
        else
            runs.barrier(make_op(kind, page, 1, 0, thread));
    }
    return ops;
}

}  // namespace

TEST_CASE("line order: loops over arrays have it back, wherever the arrays begin") {
    struct Array {
        OpKind kind;
        std::uint64_t first_line;
    };
    constexpr std::uint64_t page = lines_per_page;
    for (const std::uint64_t shift : {0u, 1u, 17u, 32u, 63u}) {
        const std::vector<std::vector<Array>> loops = {
            {{OpKind::fetch, 0}, {OpKind::stream_store, 100 * page + shift}},
            {{OpKind::fetch, 5}, {OpKind::fetch, 100 * page + shift}, {OpKind::fetch, 200 * page}},
            // a stencil's planes in one array, and what it writes
            {{OpKind::fetch, 30 * page},
             {OpKind::fetch, 40 * page},
             {OpKind::fetch, 50 * page},
             {OpKind::write_back, 300 * page + shift}}};
        for (const auto& arrays : loops) {
            std::vector<Line> lines;
            for (std::uint64_t i = 0; i < 9 * page; ++i) {
                for (const auto& [kind, first] : arrays) {
                    const std::uint64_t line = first + i;
                    lines.emplace_back(kind, line / page, line % page, 0);
                }
            }
            const std::vector<Op> ops = merged(lines);
            CHECK(lines_of(ops) != lines);
            CHECK(in_order(ops) == lines);
        }
    }
}

TEST_CASE("line order: an array alone stays in whole pages") {
    std::vector<Op> ops;
    for (std::uint32_t page = 0; page < 10; ++page)
        ops.push_back(make_op(OpKind::fetch, page, ~0ull));
    LineOrder order(std::make_unique<Listed>(ops));
    std::size_t pieces = 0;
    for (auto batch = order.next(); !batch.empty(); batch = order.next()) pieces += batch.size();
    CHECK(pieces == ops.size());
}

TEST_CASE(
    "line order: lines of one index, and all beside an op that is not of lines, keep theirs") {
    std::mt19937_64 random(6);
    for (int round = 0; round < 200; ++round) {
        const std::uint64_t pages = 1 + random() % 300;
        std::vector<Op> ops;
        for (int i = 0; i < 1000; ++i) {
            const auto page = static_cast<std::uint32_t>(random() % pages);
            const auto thread = static_cast<unsigned>(random() % 3);
            const std::uint64_t lines = random() & random();
            if (random() % 100 == 0)
                ops.push_back(make_op(OpKind::map_write, page, 0, 0, thread));
            else
                ops.push_back(make_op(static_cast<OpKind>(random() % 4), page,
                                      random() % 3 == 0 ? lines & -lines : lines, 0, thread));
        }
        std::vector<Line> before = lines_of(ops), after = in_order(ops);
        REQUIRE(before.size() == after.size());
        for (auto* lines : {&before, &after}) {
            auto begin = lines->begin();
            const auto sort = [&](auto end) {
                std::stable_sort(begin, end, [](const Line& a, const Line& b) {
                    return std::get<2>(a) < std::get<2>(b);
                });
            };
            for (auto at = lines->begin(); at != lines->end(); ++at) {
                if (is_of_lines(std::get<0>(*at))) continue;
                sort(at);
                begin = at + 1;
            }
            sort(lines->end());
        }
        CHECK(before == after);
    }
}
