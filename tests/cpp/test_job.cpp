#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <tuple>
#include <vector>

#include "core/accesses/job.hpp"
#include "tests/cpp/reference_replay.hpp"

using namespace pagelens;

namespace {

constexpr std::uint32_t files = 4;  // pages of the page cache that drawn processes know

std::shared_ptr<const Program> listed(std::vector<Op> ops, std::uint32_t pages, unsigned phases = 1,
                                      unsigned threads = 1) {
    std::vector<VirtualPage> addresses;
    for (std::uint32_t page = 0; page < pages; ++page) addresses.emplace_back(100 + page);
    return std::make_shared<reference::ListedProgram>(std::move(ops), std::move(addresses), 3,
                                                      phases, threads);
}

Process process_of(std::shared_ptr<const Program> program) {
    const unsigned phases = program->phases();
    std::vector<std::uint32_t> of_job(phases);
    for (unsigned phase = 0; phase < phases; ++phase) of_job[phase] = phase;
    return {std::move(program), {0, 1, 2}, std::move(of_job), {0, 1, 2, 3}};
}

std::vector<Op> ops_of(const Program& program) {
    std::vector<Op> ops;
    for_each_op(program, [&](const Op& op) { ops.push_back(op); });
    return ops;
}

// A program that maps, uses and unmaps some pages. The first `files` of them show a file at times.
std::shared_ptr<const Program> drawn(std::mt19937& engine, unsigned threads) {
    constexpr std::uint32_t pages = 10;
    const auto below = [&](unsigned n) { return static_cast<unsigned>(engine() % n); };
    std::vector<Op> ops;
    for (int i = 0; i < 200; ++i) {
        const std::uint32_t page = below(pages);
        switch (below(6)) {
            case 0:
                ops.push_back(make_op(OpKind::map_write, page, 0, 1, below(threads)));
                break;
            case 1:
                ops.push_back(
                    make_op(OpKind::map_read, page % files, 1 + page % files, 1, below(threads)));
                break;
            case 2:
                ops.push_back(make_op(OpKind::unmap, page, 1 + below(pages - page)));
                break;
            default:
                ops.push_back(make_op(OpKind::fetch, page, engine() | 1, 2, below(threads)));
        }
    }
    return listed(std::move(ops), pages, 1, threads);
}

}  // namespace

TEST_CASE("equal processes of a job run in lockstep, as copies do") {
    const auto program = listed({make_op(OpKind::map_write, 0, 0), make_op(OpKind::fetch, 0, 7),
                                 make_op(OpKind::unmap, 0, 1), make_op(OpKind::fetch, 1, 1)},
                                2);
    const auto job = job_of({process_of(program), process_of(program)}, 3, 1);
    std::vector<std::pair<OpKind, unsigned>> found;
    for (const Op& op : ops_of(*job)) found.emplace_back(op.kind(), unsigned{op.thread});
    const std::vector<std::pair<OpKind, unsigned>> expected{
        {OpKind::map_write, 0}, {OpKind::map_write, 1}, {OpKind::fetch, 0}, {OpKind::fetch, 1},
        {OpKind::unmap, 0},     {OpKind::unmap, 1},     {OpKind::fetch, 0}, {OpKind::fetch, 1}};
    CHECK(found == expected);
    CHECK(job->threads() == 2);
    CHECK(job->pages().size() == 4);
    CHECK(job->spaces() == 2);
    CHECK(job->pages()[2].raw() == (std::uint64_t{1} << space_shift) + 100);
}

TEST_CASE("the process that has moved the fewest lines goes on") {
    const auto wide = listed({make_op(OpKind::fetch, 0, ~0ull), make_op(OpKind::fetch, 0, 1)}, 1);
    const auto narrow = listed(std::vector<Op>(70, make_op(OpKind::fetch, 0, 1)), 1);
    const auto job = job_of({process_of(wide), process_of(narrow)}, 3, 1);
    std::vector<unsigned> threads;
    for (const Op& op : ops_of(*job)) threads.push_back(op.thread);
    REQUIRE(threads.size() == 72);
    CHECK(threads[0] == 0);
    // 64 lines of the other process, and the first process comes first where both have moved 64
    CHECK(std::count(threads.begin() + 1, threads.begin() + 65, 1u) == 64);
    CHECK(threads[65] == 0);
}

TEST_CASE("processes meet where a phase begins, unless one has ended") {
    const auto phase = [](std::uint32_t number) { return make_op(OpKind::phase, number, 0); };
    const auto slow =
        listed({phase(1), make_op(OpKind::fetch, 0, ~0ull), make_op(OpKind::fetch, 0, ~0ull),
                phase(0), make_op(OpKind::fetch, 0, 1)},
               1, 2);
    const auto fast = listed(
        {phase(1), make_op(OpKind::fetch, 0, 1), phase(0), make_op(OpKind::fetch, 0, 1)}, 1, 2);
    const auto cut_short = listed({phase(1)}, 1, 2);
    const auto job = job_of({process_of(slow), process_of(fast), process_of(cut_short)}, 3, 2);
    std::vector<std::pair<OpKind, unsigned>> found;
    for (const Op& op : ops_of(*job)) found.emplace_back(op.kind(), unsigned{op.thread});
    const std::vector<std::pair<OpKind, unsigned>> expected{
        {OpKind::phase, 0}, {OpKind::fetch, 0}, {OpKind::fetch, 1}, {OpKind::fetch, 0},
        {OpKind::phase, 0}, {OpKind::fetch, 0}, {OpKind::fetch, 1}};
    CHECK(found == expected);
    // As one phase they do not meet.
    auto apart = std::vector{process_of(slow), process_of(fast)};
    for (Process& process : apart) process.phases = {0, 0};
    CHECK(ops_of(*job_of(std::move(apart), 3, 1)).size() == 5);
}

TEST_CASE("processes meet where as many meet as the job says") {
    const auto meet = [](std::uint64_t processes) { return make_op(OpKind::meet, 0, processes); };
    const auto slow = listed({make_op(OpKind::fetch, 0, ~0ull), make_op(OpKind::fetch, 0, ~0ull),
                              meet(2), make_op(OpKind::fetch, 0, 1)},
                             1);
    const auto fast = listed({meet(2), make_op(OpKind::fetch, 0, 1)}, 1);
    const auto threads = [&](std::uint64_t meeting) {
        std::vector<unsigned> found;
        const auto job = job_of({process_of(slow), process_of(fast)}, 3, 1, meeting);
        for (const Op& op : ops_of(*job)) {
            CHECK(op.kind() == OpKind::fetch);
            found.push_back(op.thread);
        }
        return found;
    };
    CHECK(threads(2) == std::vector<unsigned>{0, 0, 0, 1});
    CHECK(threads(0) == std::vector<unsigned>{0, 1, 0, 0});
    CHECK(threads(3) == std::vector<unsigned>{0, 1, 0, 0});
}

TEST_CASE("a job has every op of every process, in that process's order") {
    std::mt19937 engine(1);
    for (int round = 0; round < 100; ++round) {
        const unsigned threads = 1 + engine() % 2;
        std::vector<std::shared_ptr<const Program>> programs;
        std::vector<Process> processes;
        for (int i = 0; i < 3; ++i) {
            programs.push_back(drawn(engine, threads));
            processes.push_back(process_of(programs.back()));
            processes.back().objects = {0, 2, 1};
        }
        const auto job = job_of(processes, 3, 1);
        for (unsigned m = 0; m < programs.size(); ++m) {
            std::vector<std::tuple<OpKind, unsigned, std::uint64_t, unsigned>> expected, found;
            for (const Op& op : ops_of(*programs[m]))
                if (op.kind() != OpKind::unmap)
                    expected.emplace_back(op.kind(), op.thread + m * threads, op.lines,
                                          op.object == 0 ? 0 : 3 - op.object);
            for (const Op& op : ops_of(*job))
                if (op.kind() != OpKind::unmap && op.thread / threads == m)
                    found.emplace_back(op.kind(), unsigned{op.thread}, op.lines, op.object);
            CHECK(found == expected);
        }
    }
}

TEST_CASE("threads of a process with one number are one thread of the job") {
    std::vector<Op> ops;
    for (const unsigned thread : {0u, 1u, 2u})
        ops.push_back(make_op(OpKind::fetch, 0, 1, 0, thread));
    auto helped = process_of(listed(ops, 1, 1, 3));
    helped.threads = {1, 0, 1};
    const auto job = job_of({helped, helped}, 3, 1);
    CHECK(job->threads() == 4);
    CHECK(job->instructions().size() == 4);
    std::vector<unsigned> threads;
    for (const Op& op : ops_of(*job)) threads.push_back(op.thread);
    CHECK(threads == std::vector<unsigned>{1, 3, 0, 2, 1, 3});
    helped.threads.pop_back();
    CHECK_THROWS_AS(job_of({helped}, 3, 1), std::invalid_argument);
}

TEST_CASE("a page of a file that is only read is one page of the job") {
    // Page 0 is only read. Page 1 is read and then written. Page 2 is anonymous.
    const std::vector<Op> ops{make_op(OpKind::map_read, 0, 1),  make_op(OpKind::map_read, 1, 2),
                              make_op(OpKind::map_write, 1, 0), make_op(OpKind::map_write, 2, 0),
                              make_op(OpKind::fetch, 0, 1),     make_op(OpKind::unmap, 0, 3)};
    const auto program = listed(ops, 3);
    auto apart = process_of(program);
    apart.files = {7, 8, 9, 10};  // of another file
    const auto job = job_of({process_of(program), process_of(program), apart}, 3, 1);
    CHECK(job->pages().size() == 1 + 1 + 3 * 2);
    std::vector<std::tuple<OpKind, unsigned, std::uint32_t, std::uint64_t>> of_files, unmapped;
    for (const Op& op : ops_of(*job)) {
        const std::tuple found(op.kind(), unsigned{op.thread}, op.page, op.lines);
        if (op.page < 2) of_files.push_back(found);
        if (op.kind() == OpKind::unmap) unmapped.push_back(found);
    }
    using Of = std::tuple<OpKind, unsigned, std::uint32_t, std::uint64_t>;
    CHECK(of_files == std::vector<Of>{{OpKind::map_read, 0, 0, 1},
                                      {OpKind::map_read, 1, 0, 1},
                                      {OpKind::map_read, 2, 1, 8},
                                      {OpKind::fetch, 0, 0, 1},
                                      {OpKind::fetch, 1, 0, 1},
                                      {OpKind::fetch, 2, 1, 1}});
    CHECK(unmapped == std::vector<Of>{{OpKind::unmap, 0, 2, 2},
                                      {OpKind::unmap, 1, 4, 2},
                                      {OpKind::unmap, 2, 6, 2}});
}

TEST_CASE("what processes write through a shared mapping is one page of the job") {
    const auto writer = listed({make_op(OpKind::map_write, 0, 1), make_op(OpKind::fetch, 0, 1)}, 1);
    const auto reader = listed({make_op(OpKind::map_read, 0, 1), make_op(OpKind::fetch, 0, 1),
                                make_op(OpKind::map_write, 0, 1)},
                               1);
    const auto job = job_of({process_of(writer), process_of(reader)}, 3, 1);
    CHECK(job->pages().size() == 1);
    for (const Op& op : ops_of(*job)) CHECK(op.kind() != OpKind::map_write);
    // One of them is written privately, too.
    const auto both =
        listed({make_op(OpKind::map_write, 0, 1), make_op(OpKind::map_write, 0, 0)}, 1);
    CHECK(job_of({process_of(writer), process_of(both)}, 3, 1)->pages().size() == 2);
}

TEST_CASE("what cannot be a job is refused") {
    const auto program = listed({}, 1);
    CHECK_THROWS_WITH(job_of({}, 3, 1), "processes: at least one");
    CHECK_THROWS_WITH(job_of({process_of(program)}, 2, 1),
                      "objects, phases: a number is not below the job's count");
    const auto many = listed({}, 1, 1, 3000);
    CHECK_THROWS_WITH(job_of({process_of(many), process_of(many)}, 3, 1),
                      "processes: more than 4096 threads in all; leave some out");
    std::vector<VirtualPage> far{VirtualPage(std::uint64_t{1} << space_shift)};
    const auto beyond = std::make_shared<reference::ListedProgram>(std::vector<Op>{}, far, 3, 1, 1);
    CHECK_THROWS_WITH(job_of({process_of(beyond)}, 3, 1),
                      "a virtual address has more than 48 bits");
}
