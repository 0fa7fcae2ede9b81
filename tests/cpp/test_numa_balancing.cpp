#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "core/replay/numa_balancing.hpp"
#include "tests/cpp/reference_balancing.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

std::shared_ptr<const Program> program_of(std::vector<Op> ops, std::vector<VirtualPage> pages,
                                          unsigned threads) {
    return std::make_shared<reference::ListedProgram>(std::move(ops), std::move(pages), 3, 1,
                                                      threads);
}

std::vector<VirtualPage> neighbours(std::uint32_t pages) {
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(100 + page);
    return addresses;
}

struct Fault {
    std::size_t before;  // the op of the program
    std::uint32_t page;
    unsigned thread;
    bool moves;
    bool operator==(const Fault&) const = default;
};

std::vector<Fault> faults_of(std::shared_ptr<const Program> program, NumaBalancing rules) {
    std::vector<Fault> faults;
    std::size_t at = 0;
    const auto balanced = with_numa_balancing(std::move(program), std::move(rules));
    for_each_op(*balanced, [&](const Op& op) {
        if (op.kind() == OpKind::hint_fault)
            faults.push_back({at, op.page, op.thread, op.lines != 0});
        else
            ++at;
    });
    return faults;
}

// Each line takes a second; a scan a second has one page.
NumaBalancing slow(std::vector<std::uint8_t> node_of_thread) {
    return {.node_of_thread = std::move(node_of_thread), .line_s = {1}, .scan_pages = 1};
}

Op fetch(std::uint32_t page, unsigned thread) { return make_op(OpKind::fetch, page, 1, 1, thread); }

}  // namespace

TEST_CASE("a page moves at the first fault to the node of the thread that uses it alone") {
    const auto program = program_of({make_op(OpKind::map_write, 0, 0, 1, 0), fetch(0, 0),
                                     fetch(0, 1), fetch(0, 1), fetch(0, 1)},
                                    neighbours(1), 2);
    // The first scan finds a process of one thread, whose pages are all near.
    const std::vector<Fault> faults = faults_of(program, slow({0, 1}));
    REQUIRE(faults.size() >= 2);
    CHECK(faults[0] == Fault{2, 0, 1, true});
    CHECK(std::ranges::count_if(faults, &Fault::moves) == 1);
}

TEST_CASE("a page that threads of two nodes use in turn stays where it is after its first fault") {
    std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 1, 0)};
    for (int i = 0; i < 200; ++i) ops.push_back(fetch(0, i % 2));
    NumaBalancing rules = slow({0, 1});
    rules.line_s = {5};  // so that a scan lies between any two of them
    rules.most_period_s = 4;
    const std::vector<Fault> faults = faults_of(program_of(ops, neighbours(1), 2), rules);
    CHECK(faults.size() > 100);
    CHECK(std::ranges::count_if(faults, &Fault::moves) <= 1);
}

TEST_CASE("nothing happens in the second before the first scan, and nothing moves on one node") {
    std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 1, 0)};
    for (int i = 0; i < 50; ++i) ops.push_back(fetch(0, 1));
    NumaBalancing rules = slow({0, 1});
    rules.line_s = {1.0 / 51};
    CHECK(faults_of(program_of(ops, neighbours(1), 2), rules).empty());
    rules.line_s = {1.0 / 50};
    CHECK(faults_of(program_of(ops, neighbours(1), 2), rules).size() == 1);
    CHECK(std::ranges::none_of(faults_of(program_of(ops, neighbours(1), 2), slow({1, 1})),
                               &Fault::moves));
}

TEST_CASE("a thread that is alone meets no faults on pages of its node") {
    std::vector<Op> ops{make_op(OpKind::map_write, 0, 0, 1, 0)};
    for (int i = 0; i < 20; ++i) ops.push_back(fetch(0, 0));
    CHECK(faults_of(program_of(ops, neighbours(1), 1), slow({1})).empty());
}

TEST_CASE("balancing is the kernel's, fault for fault, and leaves the program as it is") {
    std::mt19937 engine(7);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(engine() % n); };
    std::size_t faults = 0, moves = 0;
    for (int round = 0; round < 80; ++round) {
        const unsigned threads = 1 + below(5), pages = 1 + below(30);
        std::vector<VirtualPage> addresses;
        for (unsigned page = 0; page < pages; ++page) addresses.emplace_back(200 + page * 3);
        std::ranges::shuffle(addresses, engine);
        NumaBalancing rules{.node_of_thread = std::vector<std::uint8_t>(threads),
                            .line_s = {0.002 + 0.01 * below(4)},
                            .least_period_s = below(2) == 0 ? 1 : 0.01,
                            .scan_pages = 1 + below(pages + 3)};
        for (auto& node : rules.node_of_thread) node = static_cast<std::uint8_t>(below(3));
        std::vector<Op> ops;
        for (int i = 0; i < 3000; ++i) {
            const unsigned page = below(pages), thread = below(threads);
            const unsigned what = below(40);
            // Most accesses are by the thread that has the page, so that both kinds occur.
            const unsigned user = below(3) == 0 ? thread : page % threads;
            if (what < 3)
                ops.push_back(make_op(OpKind::map_write, page, 0, 1, thread));
            else if (what == 3)
                ops.push_back(make_op(OpKind::unmap, page, 1 + below(std::min(2u, pages - page))));
            else if (what == 4)
                ops.push_back(make_op(OpKind::write_back, page, 3, 1, user));
            else if (what == 5)
                ops.push_back(make_op(OpKind::touch, page, 1, 1, user));
            else
                ops.push_back(make_op(OpKind::fetch, page, engine() | 1, 1, user));
        }
        reference::Balancing slow(rules);
        std::vector<Fault> expected;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            const Op& op = ops[i];
            const std::uint64_t address = addresses[op.page].raw();
            const double seconds = rules.line_s[0] * std::popcount(op.lines);
            if (op.kind() == OpKind::map_write) slow.map(address, op.thread);
            if (op.kind() == OpKind::unmap)
                for (std::uint64_t page = op.page; page < op.page + op.lines; ++page)
                    slow.unmap(addresses[page].raw());
            if (op.kind() == OpKind::fetch || op.kind() == OpKind::write_back) slow.pass(seconds);
            if (op.kind() != OpKind::fetch && op.kind() != OpKind::touch) continue;
            const int met = slow.use(address, op.thread);
            if (met >= 0) expected.push_back({i, op.page, op.thread, met == 1});
        }
        faults += expected.size();
        moves += static_cast<std::size_t>(std::ranges::count_if(expected, &Fault::moves));
        const auto program = program_of(ops, addresses, threads);
        CHECK(faults_of(program, rules) == expected);
        std::vector<Op> left;
        for_each_op(*with_numa_balancing(program, rules), [&](const Op& op) {
            if (op.kind() != OpKind::hint_fault) left.push_back(op);
        });
        CHECK(std::ranges::equal(left, ops, [](const Op& a, const Op& b) {
            return a.kind() == b.kind() && a.page == b.page && a.lines == b.lines;
        }));
    }
    CHECK(faults > 10000);
    CHECK(moves > 1000);
}
