// The order of threads: by instruction count between syncs, whatever the order in the file.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "core/accesses/merge.hpp"
#include "core/accesses/survey.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

constexpr std::uint64_t k = stamp_grain;

struct Item {
    std::uint32_t thread;
    std::uint64_t count;
    std::uint64_t sync;  // 0: a line, numbered as the items are
};

// The lines of the items in merged order, by their place in `items`.
std::vector<std::size_t> merged(const std::vector<Item>& items) {
    const TemporaryFile file;
    TraceWriter writer(file.path, {});
    for (std::size_t i = 0; i < items.size(); ++i) {
        ThreadEncoder& encoder = writer.thread(items[i].thread);
        encoder.stamp(items[i].count);
        if (items[i].sync == 0)
            encoder.put({EventKind::read, i, 0, 0});
        else
            encoder.put({EventKind::sync, 0, items[i].count, items[i].sync});
    }
    writer.finish({});
    const TraceReader reader(file.path);
    MergedTrace trace(reader);
    std::vector<std::size_t> order;
    while (const auto batch = trace.next())
        for (const Event& event : batch->events)
            if (event.kind == EventKind::read) order.push_back(event.address);
    return order;
}

using Order = std::vector<std::size_t>;

}  // namespace

TEST_CASE("merge: threads without syncs go by instruction count, the first one first") {
    CHECK(merged({{0, 1 * k, 0}, {0, 4 * k, 0}, {1, 1 * k, 0}, {1, 2 * k, 0}, {1, 5 * k, 0}}) ==
          Order{0, 2, 3, 1, 4});
}

TEST_CASE("merge: what follows a sync comes after the syncs before it") {
    // Thread 1 waits at its 2k for what thread 0 does up to its 9k, and goes on from there.
    CHECK(merged({{0, 8 * k, 0},
                  {0, 9 * k, 1},
                  {0, 11 * k, 0},
                  {0, 13 * k, 0},
                  {1, 1 * k, 0},
                  {1, 2 * k, 2},
                  {1, 5 * k, 0}}) == Order{4, 0, 2, 6, 3});
}

TEST_CASE("merge: a thread that never syncs holds nobody up, nor does a missing number") {
    CHECK(merged({{0, 1 * k, 0}, {0, 2 * k, 1}, {0, 3 * k, 0}, {1, 1 * k, 0}, {1, 9 * k, 0}}) ==
          Order{0, 3, 2, 4});
    CHECK(merged({{0, 2 * k, 7}, {0, 3 * k, 0}, {1, 4 * k, 5}, {1, 5 * k, 0}}) == Order{3, 1});
}

TEST_CASE("merge: a thread that has the id of one that ended goes on from its first sync") {
    const TemporaryFile file;
    TraceWriter writer(file.path, {});
    const auto put = [&](std::uint64_t line, std::uint64_t count, std::uint64_t sync) {
        writer.thread(1).stamp(count);
        writer.thread(1).put(sync == 0 ? Event{EventKind::read, line, 0, 0}
                                       : Event{EventKind::sync, 0, count, sync});
    };
    writer.thread(0).put({EventKind::sync, 0, 0, 1});
    put(0, 50 * k, 0);
    put(0, 90 * k, 2);
    writer.end_thread(1);
    put(0, 0, 3);
    put(1, 10 * k, 0);
    put(1, 30 * k, 4);
    writer.finish({});
    const TraceReader reader(file.path);
    CHECK(reader.threads().size() == 2);
    std::vector<std::uint64_t> order;
    MergedTrace trace(reader);
    while (const auto batch = trace.next())
        for (const Event& event : batch->events)
            if (event.kind == EventKind::read) order.push_back(event.address);
    CHECK(order == std::vector<std::uint64_t>{0, 1});
    CHECK(survey(reader).instructions[0] == 120 * k);
}

TEST_CASE("survey: it says which share of the instructions it has behind it") {
    constexpr std::uint64_t stamps = 10000;
    const auto shares = [](std::uint64_t instructions) {
        const TemporaryFile file;
        TraceWriter writer(file.path, {});
        for (std::uint64_t i = 1; i <= stamps; ++i) {
            writer.thread(0).stamp(i * k);
            writer.thread(0).put({EventKind::read, i, 0, 0});
        }
        TraceSummary summary;
        summary.instructions = instructions;
        writer.finish(summary);
        std::vector<float> found;
        survey(TraceReader(file.path), [&](float share) { found.push_back(share); });
        return found;
    };
    const std::vector<float> found = shares(stamps * k);
    REQUIRE(found.size() == 3);  // after every 4096 batches
    CHECK(found[0] == 0);
    CHECK(found[1] == doctest::Approx(4096.0 / stamps).epsilon(0.01));
    CHECK(found[2] == doctest::Approx(8192.0 / stamps).epsilon(0.01));
    CHECK(shares(0) == std::vector<float>(3));  // nobody knows how long the run was
}
