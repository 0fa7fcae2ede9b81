#include <doctest/doctest.h>

#include <list>
#include <random>
#include <set>

#include "core/replay/recent_lines.hpp"

namespace pagelens {
namespace {

constexpr std::uint64_t most = 300;
constexpr std::uint32_t pages = 9, lines_of_page = 64;

// The obvious way: a list of lines by their last use.
class ListOfLines {
  public:
    void step(const Op& op) {
        switch (op.kind()) {
            case OpKind::unmap:
                for (std::uint64_t page = op.page; page < op.page + op.lines; ++page)
                    forget(static_cast<std::uint32_t>(page), ~0ull);
                return;
            case OpKind::stream_store:
                return forget(op.page, op.lines);
            default:
                use(op.page, op.lines, op.kind() == OpKind::write_back);
        }
    }
    [[nodiscard]] std::vector<std::uint64_t> newest() const {
        const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(most, order_.size()));
        return {std::prev(order_.end(), count), order_.end()};
    }
    [[nodiscard]] bool written(std::uint64_t line) const { return written_.contains(line); }

  private:
    void forget(std::uint32_t page, std::uint64_t mask) {
        each(page, mask, [&](std::uint64_t line) {
            order_.remove(line);
            written_.erase(line);
        });
    }
    void use(std::uint32_t page, std::uint64_t mask, bool writes) {
        each(page, mask, [&](std::uint64_t line) {
            order_.remove(line);
            order_.push_back(line);
            if (writes) written_.insert(line);
        });
    }
    template <class Visit>
    static void each(std::uint32_t page, std::uint64_t mask, Visit&& visit) {
        for (std::uint32_t at = 0; at < lines_of_page; ++at)
            if ((mask >> at & 1) != 0) visit(std::uint64_t{page} * lines_of_page + at);
    }

    std::list<std::uint64_t> order_;  // oldest first
    std::set<std::uint64_t> written_;
};

TEST_CASE("recent lines are those that a list of all uses ends with") {
    std::mt19937 random(7);
    RecentLines recent(pages, most);
    ListOfLines list;
    for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 5000; ++i) {
            const auto page = static_cast<std::uint32_t>(random() % pages);
            const std::uint64_t mask = std::uint64_t{0b1101} << random() % 60;
            const auto kind = random() % 100;
            const Op op = kind == 0  ? make_op(OpKind::unmap, page, 1 + random() % (pages - page))
                          : kind < 4 ? make_op(OpKind::stream_store, page, mask)
                          : kind < 9 ? make_op(OpKind::write_back, page, mask, 1, 2)
                                     : make_op(OpKind::fetch, page, mask, 3, 1);
            op.kind() == OpKind::unmap          ? recent.forget_pages(op.page, op.lines)
            : op.kind() == OpKind::stream_store ? recent.forget(op)
                                                : recent.use(op);
            list.step(op);
        }
        std::vector<std::uint64_t> found;
        std::size_t dirty = 0;
        recent.for_each([&](const Op& op) {
            for (std::uint32_t at = 0; at < lines_of_page; ++at) {
                if ((op.lines >> at & 1) == 0) continue;
                found.push_back(std::uint64_t{op.page} * lines_of_page + at);
                if (op.kind() != OpKind::write_back) continue;
                CHECK(list.written(found.back()));
                ++dirty;
            }
        });
        // The lines of one op have no order, and the oldest op is whole.
        const std::vector<std::uint64_t> newest = list.newest();
        REQUIRE(found.size() >= newest.size());
        CHECK(found.size() < newest.size() + lines_of_page);
        const std::set<std::uint64_t> all(found.begin(), found.end());
        CHECK(all.size() == found.size());
        for (const std::uint64_t line : newest) CHECK(all.contains(line));
        CHECK(dirty > 0);
    }
}

TEST_CASE("recent lines come in the order of their last use, with its thread and object") {
    RecentLines recent(2, 100);
    recent.use(make_op(OpKind::write_back, 0, 0b111, 1, 1));
    recent.use(make_op(OpKind::fetch, 1, 0b1, 2, 2));
    recent.use(make_op(OpKind::fetch, 0, 0b011, 3, 3));
    recent.forget(make_op(OpKind::stream_store, 0, 0b001));
    std::vector<Op> found;
    recent.for_each([&](const Op& op) { found.push_back(op); });
    REQUIRE(found.size() == 3);
    const auto is = [](const Op& op, OpKind kind, std::uint32_t page, std::uint64_t lines,
                       unsigned thread) {
        return op.kind() == kind && op.page == page && op.lines == lines && op.thread == thread &&
               op.object == thread;
    };
    CHECK(is(found[0], OpKind::write_back, 0, 0b100, 1));
    CHECK(is(found[1], OpKind::fetch, 1, 0b1, 2));
    CHECK(is(found[2], OpKind::write_back, 0, 0b010, 3));  // written by the op before
}

TEST_CASE("recent lines are not dirty in caches that another group of threads wrote through") {
    for (const std::uint32_t other : {0u, 1u}) {
        RecentLines recent(1, 100, {0, other});
        recent.use(make_op(OpKind::write_back, 0, 0b11, 0, 0));
        recent.use(make_op(OpKind::fetch, 0, 0b01, 0, 1));
        recent.use(make_op(OpKind::fetch, 0, 0b10, 0, 1));
        std::uint64_t dirty = 0;
        recent.for_each([&](const Op& op) {
            if (op.kind() == OpKind::write_back) dirty |= op.lines;
        });
        CHECK(dirty == (other == 0 ? 0b11u : 0u));
    }
}

TEST_CASE("recent lines since a mark are those used later, also after older uses are dropped") {
    RecentLines recent(1000, 1000);
    recent.use(make_op(OpKind::fetch, 0, 0b11));
    recent.mark();
    std::vector<std::uint32_t> seen;
    const auto visit = [&](const Op& op) { seen.push_back(op.page); };
    recent.for_each_since_mark(visit);
    CHECK(seen.empty());
    recent.use(make_op(OpKind::fetch, 1, 0b1));
    recent.use(make_op(OpKind::fetch, 0, 0b1));
    recent.for_each_since_mark(visit);
    recent.for_each([](const Op&) {});
    recent.for_each_since_mark(visit);
    CHECK(seen == std::vector<std::uint32_t>{1, 0, 1, 0});
}

TEST_CASE("recent lines are dirty whoever used other lines of their page last") {
    RecentLines recent(1, 100, {0, 1});
    recent.use(make_op(OpKind::write_back, 0, 0b011, 0, 0));
    recent.use(make_op(OpKind::fetch, 0, 0b110, 0, 1));
    std::uint64_t dirty = 0;
    recent.for_each([&](const Op& op) {
        if (op.kind() == OpKind::write_back) dirty |= op.lines;
    });
    CHECK(dirty == 0b001);
}

}  // namespace
}  // namespace pagelens
