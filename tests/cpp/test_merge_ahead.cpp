// Decoding ahead gives what decoding in step does, to the end, to any earlier one, and with faults.
#include <doctest/doctest.h>

#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/accesses/merge_ahead.hpp"
#include "core/accesses/trace_writer.hpp"
#include "tests/cpp/temporary_file.hpp"

using namespace pagelens;

namespace {

// Threads that wait for each other now and then, often at once, so that some batches are empty.
void write(const std::string& path, unsigned threads, std::size_t events) {
    std::mt19937_64 random(threads);
    TraceWriter writer(path, {});
    std::uint64_t number = 0;
    std::vector<std::uint64_t> counts(threads);
    for (std::size_t i = 0; i < events; ++i) {
        const auto thread = static_cast<std::uint32_t>(random() % threads);
        counts[thread] += random() % 4 * stamp_grain;
        writer.thread(thread).stamp(counts[thread]);
        if (random() % 100 == 0)
            writer.thread(thread).put({EventKind::sync, 0, counts[thread], ++number});
        else
            writer.thread(thread).put({EventKind::read, random() % 10'000, 0, 0});
    }
    writer.finish({});
}

void check_same(const MergedTrace::Batch& found, const MergedTrace::Batch& wanted) {
    CHECK(found.thread == wanted.thread);
    CHECK(found.instructions == wanted.instructions);
    CHECK(found.until == wanted.until);
    CHECK(std::equal(found.events.begin(), found.events.end(), wanted.events.begin(),
                     wanted.events.end()));
}

}  // namespace

TEST_CASE("merge ahead: gives the batches of the merged trace") {
    for (const unsigned threads : {0u, 1u, 3u, 40u}) {
        CAPTURE(threads);
        const TemporaryFile file;
        write(file.path, threads, threads == 0 ? 0 : 120'000);  // some blocks
        const TraceReader reader(file.path);
        MergedTrace merged(reader);
        MergedAhead ahead(reader);
        std::size_t batches = 0, events = 0;
        while (const auto wanted = merged.next()) {
            const auto found = ahead.next();
            REQUIRE(found);
            check_same(*found, *wanted);
            ++batches;
            events += wanted->events.size();
        }
        CHECK(!ahead.next());
        CHECK(!ahead.next());
        CHECK(ahead.faults().empty());
        CHECK(events == (threads == 0 ? 0 : 120'000));
        if (threads > 1) CHECK(batches > 1'000);
    }
}

TEST_CASE("merge ahead: who wants no more leaves no thread behind") {
    const TemporaryFile file;
    write(file.path, 2, 200'000);  // more than wait for being read
    const TraceReader reader(file.path);
    for (const std::size_t wanted : {0u, 1u, 30'000u}) {
        MergedAhead ahead(reader);
        for (std::size_t events = 0; events < wanted;) {
            const auto batch = ahead.next();
            REQUIRE(batch);
            events += batch->events.size();
        }
    }
}

TEST_CASE("merge ahead: tells of faults that come to light on the way") {
    const TemporaryFile file;
    write(file.path, 2, 100'000);
    const TraceReader reader(file.path);
    // Damaged after its checksums were found good.
    std::FILE* const damaged = std::fopen(file.path.c_str(), "r+b");
    REQUIRE(damaged != nullptr);
    std::fseek(damaged, static_cast<long>(reader.file_bytes() / 2), SEEK_SET);
    for (int i = 0; i < 64; ++i) std::fputc(0x5a, damaged);
    std::fclose(damaged);
    MergedTrace merged(reader);
    MergedAhead ahead(reader);
    while (const auto wanted = merged.next()) {
        const auto found = ahead.next();
        REQUIRE(found);
        check_same(*found, *wanted);
    }
    CHECK(!ahead.next());
    REQUIRE(merged.faults().size() == 1);
    REQUIRE(ahead.faults().size() == 1);
    CHECK(ahead.faults()[0].position == merged.faults()[0].position);
    CHECK(ahead.faults()[0].what == merged.faults()[0].what);
}
